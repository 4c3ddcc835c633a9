package jobs

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"time"

	"github.com/seed81422ce9/jobs/broker"
)

// limit sets when time ends the run: after its timeout, or at its deadline,
// whichever is sooner. The deadline is the store's time, as store is.
func (r *run) limit(timeout time.Duration, store time.Time) {
	j := r.view.record
	if j.Timeout > 0 {
		timeout = j.Timeout
	}
	if timeout < broker.NoTimeout {
		r.end, r.endCause = r.started.Add(timeout), ErrTimeout
	}
	if !j.Deadline.IsZero() {
		if left := j.Deadline.Sub(store); r.end.IsZero() || left < timeout {
			r.end, r.endCause = r.started.Add(left), ErrDeadline
		}
	}
}

var errGoexit = errors.New("the handler ended its goroutine with runtime.Goexit")

// perform runs a job's handler, unless it cannot run or must not any more, and
// says how the lease ends.
func (s *Server) perform(r *run) broker.Outcome {
	j := r.view.record
	if j.Broken != nil {
		return s.unreadable(r)
	}
	if cause, _ := r.over(r.started); cause != nil {
		return s.decide(r, cause)
	}
	if s.careful(j) && !s.limits.NoMark {
		fence, ok := s.begun(r)
		if !ok {
			r.finish(context.Canceled, r.started)
			return broker.Snooze(jitter(s.shortly(), 0.5), broker.Failure{})
		}
		defer s.unmark(j, fence)
	}
	err := s.invoke(r)
	if err == nil && r.view.inTx {
		return s.uncommitted(r)
	}
	if err == nil {
		result := r.view.result
		if len(result) <= broker.MaxResult {
			r.finish(context.Canceled, r.started)
			return broker.Complete(result)
		}
		err = fmt.Errorf("%w: the result has %d bytes, the limit is %d; store it elsewhere", ErrTooLarge, len(result), broker.MaxResult)
	}
	return s.decide(r, err)
}

// invoke calls the handler; a panic is an error.
func (s *Server) invoke(r *run) (err error) {
	returned := false
	defer func() {
		if returned {
			return
		}
		// Without a value it is runtime.Goexit, which the slot sees to.
		if value := recover(); value != nil {
			err = &PanicError{Value: value, Stack: string(debug.Stack())}
		}
	}()
	err = s.handler.ProcessJob(r, &r.view)
	returned = true
	return err
}
