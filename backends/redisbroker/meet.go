package redisbroker

import (
	"strconv"

	"github.com/seed81422ce9/jobs/broker"
)

// conflicts has the letters of enqueue_meet.lua for the values of Unique.Conflict, in their order.
const conflicts = "xrdk"

// addMeeting writes a job in the form that enqueue_meet.lua reads.
func (e *enqueueBatch) addMeeting(i int, j *broker.NewJob) {
	e.items = append(e.items, i)
	t := e.texts
	t.add(j.ID)
	t.buf = broker.AppendBody(t.buf, &j.Body)
	t.cut()
	t.addOptions(j)
	t.buf = append(t.buf, conflicts[j.Body.Unique.Conflict])
	t.buf = strconv.AppendInt(t.buf, broker.DurationMicros(j.Body.Unique.Latest), 10)
	t.cut()
}
