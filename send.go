package jobs

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"runtime/debug"
	"time"

	"github.com/seed81422ce9/jobs/broker"
	"github.com/seed81422ce9/jobs/internal/parked"
	"github.com/seed81422ce9/jobs/internal/plaintime"
	"github.com/seed81422ce9/jobs/internal/sleep"
)

// The bounds of one call to the store. More jobs take several calls: one that holds up the store
// for some milliseconds delays nobody, and larger calls are hardly cheaper for each job.
const (
	maxSendJobs  = 1000
	maxSendBytes = 4 << 20
)

// firstPause is the pause before a failed call is first repeated. Each later pause
// is four times as long. Jitter takes off up to half.
const firstPause = 100 * time.Millisecond

// store refuses jobs outside the limits and sends the others, in order, in as few
// calls as possible. If a call still fails in the store after its repetitions, store
// makes no more calls.
func (c *Client) store(ctx context.Context, batch []*Outgoing) {
	limits := c.to.Limits()
	todo := keep(batch, func(o *Outgoing) bool {
		if o.ID != o.generatedID {
			o.FirstSend = false // middleware set another ID
		}
		if o.Err == nil {
			o.Err = cmp.Or(broker.CheckUnreserved(o.Queue), o.config.complete(&o.NewJob), o.NewJob.Check(limits), checkDeadline(&o.NewJob))
		}
		return o.Err == nil
	})
	for len(todo) > 0 {
		n := portion(todo)
		ok := c.deliver(ctx, todo[:n])
		if todo = todo[n:]; ok {
			continue
		}
		if err := ctx.Err(); err != nil {
			notSent(todo, err)
			break
		}
		for _, o := range todo {
			o.Err = fmt.Errorf("%w: an earlier call of this batch failed", broker.ErrUnavailable)
		}
		break
	}
	for _, o := range batch {
		o.conclude()
	}
}

// checkDeadline refuses a job that is not due before its deadline. A parked job has no time to run yet.
func checkDeadline(j *broker.NewJob) error {
	now, due := time.Now(), j.RunAt
	if due.IsZero() {
		due = now.Add(j.Delay)
	}
	if j.Body.Deadline.IsZero() || !due.After(now) || due.Before(j.Body.Deadline) || due.Equal(parked.Until) {
		return nil
	}
	err := broker.Invalid("deadline", "is %s, and the job is due at %s, so it could never run; make the delay shorter or the deadline later",
		j.Body.Deadline.UTC().Format(time.RFC3339), due.UTC().Format(time.RFC3339))
	return broker.About(err, "enqueue", j.Queue, j.ID)
}

// portion returns how many of the jobs fit into one call: at least one.
func portion(batch []*Outgoing) int {
	n, size := 0, 0
	for n < len(batch) && n < maxSendJobs {
		if size += sizeOf(&batch[n].NewJob); n > 0 && size > maxSendBytes {
			break
		}
		n++
	}
	return n
}

// deliver sends jobs that fit into one call, and sends those that failed in the store
// again. It returns false if some still failed in the last attempt, or ctx ended.
func (c *Client) deliver(ctx context.Context, batch []*Outgoing) bool {
	start := time.Now()
	for attempt := 0; ; attempt++ {
		if err := ctx.Err(); err != nil {
			notSent(batch, err)
			return false
		}
		c.send(ctx, batch, attempt > 0 && attempt == c.retries)
		for _, o := range batch {
			o.FirstSend = false
		}
		if batch = keep(batch, (*Outgoing).repeatable); len(batch) == 0 {
			return true
		}
		pause := firstPause << (2 * attempt)
		pause = pause/2 + rand.N(pause/2)
		if attempt >= c.retries || time.Since(start)+pause >= c.timeout || sleep.For(ctx, pause) != nil {
			return false
		}
	}
}

// keep returns the jobs for which ok returns true. If it does for all, it returns batch
// itself.
func keep(batch []*Outgoing, ok func(*Outgoing) bool) []*Outgoing {
	for i, o := range batch {
		if ok(o) {
			continue
		}
		kept := append([]*Outgoing(nil), batch[:i]...)
		for _, o := range batch[i+1:] {
			if ok(o) {
				kept = append(kept, o)
			}
		}
		return kept
	}
	return batch
}

// repeatable reports whether sending the job again can help.
func (o *Outgoing) repeatable() bool { return broker.StoreFailed(o.Err) }

// notSent sets the error of jobs whose caller's context ended before an attempt.
func notSent(batch []*Outgoing, err error) {
	for _, o := range batch {
		o.Err = fmt.Errorf("not stored, the context ended before the job was sent: %w", err)
	}
}

// send makes one attempt to store jobs that fit into one call. A single job joins
// those of other callers, except in its last attempt: one of the others may be what
// makes the calls fail.
func (c *Client) send(ctx context.Context, batch []*Outgoing, last bool) {
	if len(batch) == 1 && c.group != nil && !last {
		c.group.send(ctx, batch[0])
		return
	}
	jobs := make([]broker.NewJob, len(batch))
	for i, o := range batch {
		jobs[i] = o.NewJob
	}
	receipts := c.call(ctx, jobs)
	for i, o := range batch {
		o.answer(&receipts[i])
	}
}

// sizeOf estimates the bytes that a job takes on the wire.
func sizeOf(job *broker.NewJob) int {
	size := len(job.Body.Payload) + 256
	for k, v := range job.Body.Headers {
		size += len(k) + len(v)
	}
	return size
}

// call makes one call to the store, bounded in time, and returns a receipt for
// each job.
func (c *Client) call(ctx context.Context, jobs []broker.NewJob) []broker.Receipt {
	ctx, cancel := plaintime.WithTimeout(ctx, c.timeout)
	defer cancel()
	receipts, err := enqueue(ctx, c.to, jobs)
	if err == nil && len(receipts) == len(jobs) {
		return receipts
	}
	if err == nil {
		err = fmt.Errorf("the broker gave %d receipts for %d jobs", len(receipts), len(jobs))
	}
	receipts = make([]broker.Receipt, len(jobs))
	for i := range receipts {
		receipts[i].Err = err
	}
	return receipts
}

// enqueue calls the broker and turns its panic into an error, because the call may
// be for several callers.
func enqueue(ctx context.Context, to broker.Producer, jobs []broker.NewJob) (receipts []broker.Receipt, err error) {
	defer func() {
		if v := recover(); v != nil {
			err = fmt.Errorf("the broker failed: %w", &PanicError{Value: v, Stack: string(debug.Stack())})
		}
	}()
	return to.Enqueue(ctx, broker.EnqueueRequest{Jobs: jobs})
}
