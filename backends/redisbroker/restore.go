package redisbroker

import (
	"strconv"
	"time"

	"github.com/seed81422ce9/jobs/broker"
)

// addRestored writes a job from another store in the form that restore.lua reads.
func (e *enqueueBatch) addRestored(i int, j *broker.NewJob) {
	e.items = append(e.items, i)
	t, past := e.texts, j.Restore
	t.add(j.ID)
	t.buf = broker.AppendBody(t.buf, &j.Body)
	t.cut()
	t.addOptions(j)
	head, suppressed := past.NewHead(time.Time{}), int64(0)
	if head.Suppressed {
		suppressed = 1
	}
	for n, v := range []int64{int64(past.State), past.Head.Epoch, broker.Micros(past.CreatedAt),
		broker.Micros(head.FinishedAt), broker.DurationMicros(j.Body.Retention), suppressed} {
		if n > 0 {
			t.buf = append(t.buf, ',')
		}
		t.buf = strconv.AppendInt(t.buf, v, 10)
	}
	t.cut()
	t.add(restOf(head))
}

// accepted fills in the state of a restored job. now and up are the store's time, rounded down and up.
func accepted(r *broker.Receipt, j *broker.NewJob, now, up int64) {
	r.State, r.RunAt = j.Restore.State, time.Time{}
	if r.State.Final() {
		return
	}
	due := now
	if j.Delay > 0 {
		due = up + broker.DurationMicros(j.Delay)
	} else if !j.RunAt.IsZero() {
		due = broker.Micros(j.RunAt)
	}
	switch {
	case r.State == broker.StateRetry:
	case due > now:
		r.State = broker.StateScheduled
	default:
		r.State = broker.StatePending
		return
	}
	r.RunAt = broker.FromMicros(due)
}
