package redisbroker

import (
	"strconv"
	"time"

	"github.com/seed81422ce9/jobs/broker"
)

// completed is the outcome of most jobs: complete at the first delivery, without a result and
// without a retention of their own.
const completed = "0;cn0;1;0,0,0;0,0,0"

// addOutcome returns an outcome, with the counts of the head to which it leads, in the form
// that settle.lua reads. The script itself adds epoch, state and end. The text is valid until
// the next call. each reports whether addOutcome added two pieces with what is rarely the same
// for two items: the delay of a retry, and the tail.
func (a *arena) addOutcome(item *broker.Settlement, history int) (outcome []byte, each bool) {
	o, old := item.Outcome, &item.Job.Head
	p := a.scratch[:0]
	defer func() { a.scratch = p }()
	if o.Kind() == broker.OutcomeComplete && len(o.Result()) == 0 && o.Kept() == nil && item.Job.Retention == 0 && fresh(old) {
		p = append(p, completed...)
		return p, false
	}
	head := o.Apply(*old, time.Time{}, history)
	asked := o.IfCancelRequested().Charge(*old)
	p = numbers(p, old.Epoch)
	p = append(p, kindOf(o), chargeOf(o))
	p = numbers(p, broker.DurationMicros(item.Job.Retention))
	p = numbers(p, int64(head.Deliveries))
	p = numbers(p, int64(head.Failures), int64(head.Crashes), int64(head.Snoozes))
	p = numbers(p, int64(asked.Failures), int64(asked.Crashes), int64(asked.Snoozes))
	p = p[:len(p)-1]

	before, delay := len(a.buf), broker.DurationMicros(o.Delay())
	a.buf = strconv.AppendInt(a.buf, delay, 10)
	from := len(a.buf)
	a.buf = appendTail(a.buf, &head) // the same for both heads, which differ only in counts
	if len(a.buf) == from && delay == 0 {
		a.buf = a.buf[:before]
		return p, false
	}
	a.ends = append(a.ends, from)
	a.cut()
	return p, true
}

// fresh reports whether a job has no history and its handler has kept nothing.
func fresh(h *broker.Head) bool {
	return h.Epoch == 0 && h.Deliveries == 0 && len(h.Errors.Entries) == 0 && h.Kept == nil
}

// kindOf returns the letter of the state to which an outcome leads.
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
	case broker.StateActive:
		return 'k'
	}
	if o.Front() {
		return 'f'
	}
	return 'p'
}

// chargeOf returns the letter of what an outcome adds to the totals, besides its state.
func chargeOf(o broker.Outcome) byte {
	var t broker.Totals
	switch t.Ended(&broker.Settlement{}, o); {
	case t.Retried > 0:
		return 'r'
	case t.Failed > 0:
		return 'f'
	case t.Crashed > 0:
		return 'k'
	case t.Expired > 0:
		return 'e'
	}
	return 'n'
}

// numbers appends numbers, separated by commas, and a semicolon at the end.
func numbers(p []byte, all ...int64) []byte {
	for i, n := range all {
		if i > 0 {
			p = append(p, ',')
		}
		p = strconv.AppendInt(p, n, 10)
	}
	return append(p, ';')
}
