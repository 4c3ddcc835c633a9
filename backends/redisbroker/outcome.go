package redisbroker

import (
	"strconv"
	"time"

	"github.com/seed81422ce9/jobs/broker"
)

// completed is the outcome of most jobs: complete at the first delivery, with
// no result, kept by nobody unless the queue's policy says so.
const completed = "0;c0,0;1;0,0,0;0,0,0"

// addOutcome writes an outcome, and the head it leads to, in the form that
// settle.lua reads; the script itself adds epoch, state and end. It reports
// whether a tail follows, in a piece of its own: outcomes are alike, tails are
// not.
func (a *arena) addOutcome(item *broker.Settlement, history int) (tail bool) {
	o, old := item.Outcome, &item.Job.Head
	if o.Kind() == broker.OutcomeComplete && len(o.Result()) == 0 && item.Job.Retention == 0 && fresh(old) {
		a.add(completed)
		return false
	}
	head := o.Apply(*old, time.Time{}, history)
	asked := o.IfCancelRequested().Charge(*old)
	a.numbers(old.Epoch)
	a.buf = append(a.buf, kindOf(o))
	a.numbers(broker.DurationMicros(item.Job.Retention), broker.DurationMicros(o.Delay()))
	a.numbers(int64(head.Deliveries))
	a.numbers(int64(head.Failures), int64(head.Crashes), int64(head.Snoozes))
	a.numbers(int64(asked.Failures), int64(asked.Crashes), int64(asked.Snoozes))
	a.buf = a.buf[:len(a.buf)-1]
	a.cut()
	before := len(a.buf)
	a.buf = broker.AppendTail(a.buf, &head) // the same for both: they differ in counts
	if len(a.buf) == before {
		return false
	}
	a.cut()
	return true
}

// fresh reports whether a job has no history.
func fresh(h *broker.Head) bool {
	return h.Epoch == 0 && h.Deliveries == 0 && len(h.Errors.Entries) == 0
}

// kindOf is the letter for where an outcome leads.
func kindOf(o broker.Outcome) byte {
	switch o.State() {
	case broker.StateCompleted:
		return 'c'
	case broker.StateCancelled:
		return 'x'
	case broker.StateDead:
		return 'd'
	case broker.StateRetry:
		return 'y'
	}
	if o.Front() {
		return 'f'
	}
	return 'p'
}

// numbers appends numbers with commas between them and a semicolon behind.
func (a *arena) numbers(all ...int64) {
	for i, n := range all {
		if i > 0 {
			a.buf = append(a.buf, ',')
		}
		a.buf = strconv.AppendInt(a.buf, n, 10)
	}
	a.buf = append(a.buf, ';')
}
