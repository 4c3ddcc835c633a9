package jobs

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"time"

	"github.com/seed81422ce9/jobs/broker"
	"github.com/seed81422ce9/jobs/internal/engine"
	"github.com/seed81422ce9/jobs/internal/guard"
	"github.com/seed81422ce9/jobs/internal/sleep"
)

// policy decides for the engine what becomes of jobs.
type policy struct {
	*Server
	given   Handler // the argument of Run or Start
	handler Handler // the same, inside Config.Middleware
}

var errGoexit = errors.New("the handler ended its goroutine with runtime.Goexit")

// Perform runs a job's handler, unless the job cannot be read or its time is over,
// and returns how the lease ends.
func (p policy) Perform(r *engine.Run) broker.Outcome {
	job := &Job{record: r.Job}
	job.run.Store(r)
	r.View = job
	return p.perform(r, job)
}

// Exited returns how the lease ends after a handler called runtime.Goexit.
func (p policy) Exited(r *engine.Run) broker.Outcome {
	return p.decide(r, r.View.(*Job), errGoexit)
}

func (p policy) perform(r *engine.Run, job *Job) broker.Outcome {
	if r.Job.Broken != nil {
		return p.unreadable(r, job)
	}
	if cause, _ := r.Over(r.Started()); cause != nil {
		return p.decide(r, job, cause)
	}
	err := p.invoke(r, job)
	if err == nil && r.InTx {
		return p.uncommitted(r, job)
	}
	large := len(job.result) > broker.MaxResult
	if err == nil && !large {
		r.Finish(context.Canceled, r.Started())
		return broker.Complete(job.result)
	}
	if large && (err == nil || errors.Is(err, ErrTooLarge)) { // which CompleteTx of Postgres has answered
		err = fmt.Errorf("%w: %w: the result has %d bytes, the limit is %d; store it elsewhere and set a reference as the result", SkipRetry,
			ErrTooLarge, len(job.result), broker.MaxResult)
	}
	return p.decide(r, job, err)
}

// invoke calls the handler; a panic is an error.
func (p policy) invoke(r *engine.Run, job *Job) (err error) {
	returned := false
	defer func() {
		if returned {
			return
		}
		// Without a value, the handler called runtime.Goexit, which the slot handles.
		if value := recover(); value != nil {
			err = &PanicError{Value: value, Stack: string(debug.Stack())}
		}
	}()
	err = p.handler.ProcessJob(r, job)
	returned = true
	return err
}

var errUncommitted = errors.New("the handler returned nil, but the transaction that was to complete the job did not commit")

// uncommitted returns how the lease ends if the handler said that its transaction
// completes the job. The store applies this outcome only if the job still exists,
// which means that the transaction did not commit and had no effect.
func (s *Server) uncommitted(r *engine.Run, job *Job) broker.Outcome {
	r.Committed = true
	r.Finish(context.Canceled, time.Now())
	f := s.failure(r, job, errUncommitted, Classification{Class: ClassUncommitted})
	if spent(job, 0) {
		return broker.Die(broker.ReasonRetries, f)
	}
	return broker.Retry(defaultRetry(job.Attempt(), errUncommitted, job), f)
}

// crashDelayMax is long enough that a job that kills its workers leaves them time for others, and short
// beside the time that it takes people to notice.
const crashDelayMax = 10 * time.Minute

// Crashed returns the outcome for a job whose worker died. From the second crash on
// the job waits for a random time, which grows: so a job that kills its server harms
// the other jobs of the server less and less often.
func (p policy) Crashed(j *broker.Job, worker string) broker.Outcome {
	f := p.crash(j, worker)
	if j.Crashes >= p.engine.Budget(j) {
		p.cfg.Logger.Warn("jobs: a job is dead", "reason", broker.ReasonCrashes.String(),
			"queue", j.Queue, "id", j.ID, "type", j.Type, "crashes", j.Crashes+1)
		return broker.Die(broker.ReasonCrashes, f)
	}
	if j.Crashes == 0 {
		return broker.Crash(0, f)
	}
	return broker.Crash(sleep.Jitter(sleep.Doubled(p.engine.Shortly(), j.Crashes-1, crashDelayMax), 0.9), f)
}

// crash returns the entry of the error history for the death of a worker.
func (p policy) crash(j *broker.Job, worker string) broker.Failure {
	return broker.Failure{At: p.engine.StoreNow(), Attempt: j.Failures, Class: ClassCrash, Worker: worker, Version: p.cfg.Program,
		Message: "the server that ran the job died or lost its lease"}
}

// Refused replaces an outcome that the store refuses with a charged failure.
func (p policy) Refused(j *broker.Job, worker string, now time.Time, err error) broker.Outcome {
	f := broker.Failure{At: now, Attempt: j.Failures, Class: ClassRetryable, Worker: worker, Version: p.cfg.Program,
		Message: "the store refused the outcome: " + err.Error()}
	if j.Failures >= j.MaxRetries {
		return broker.Die(broker.ReasonRetries, f)
	}
	return broker.Retry(p.engine.Shortly(), f)
}

// Types returns the patterns of the handler, if it has a method Patterns.
func (p policy) Types() (types []string) {
	h, ok := p.given.(interface{ Patterns() []string })
	if !ok {
		return nil
	}
	if failed := guard.Call(func() { types = h.Patterns() }); failed != nil {
		p.cfg.Logger.Error("jobs: the handler's Patterns panicked, the worker is registered without types",
			"error", failed, "stack", failed.Stack)
		return nil
	}
	return types
}
