package jobs

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/seed81422ce9/jobs/broker"
)

// JobRecord is a stored job with all its data; package broker documents its
// fields:
//
//	Queue, ID string
//
//	// What the producer decided.
//	Type           string
//	TypeVersion    int
//	Payload        []byte
//	Headers        map[string]string
//	Priority       Priority
//	MaxRetries     int
//	CrashBudget    int
//	Timeout        time.Duration
//	Deadline       time.Time
//	Retention      time.Duration
//	Backoff        Backoff
//	DueAfter       time.Duration // from its acceptance until it was first due
//	Unique         broker.Unique
//	Key            string // of WithPartitionKey
//	GivenID        bool   // of WithID
//	CorrelationID  string
//	IdempotencyKey string
//	PayloadRef     string
//	Source         string
//
//	// What happened since.
//	Epoch      int64 // raised by every transition but claim and due
//	Deliveries int   // leases that ended
//	Failures   int   // errors of its handler that were charged
//	Crashes    int   // workers that died holding it
//	Snoozes    int
//	Reason     broker.DeadReason // why it is dead
//	Suppressed bool
//	FinishedAt time.Time // when it reached a final state
//	Result     []byte
//	Errors     broker.ErrorLog
//	Kept       *broker.Kept   // checkpoint, steps and progress
//	PutOffs    []broker.PutOff // snoozes by their causes
//
//	// Its state.
//	State           State
//	CreatedAt       time.Time // by the store's clock
//	RunAt           time.Time // scheduled and retry: when it is due
//	Worker          string    // active: the worker with the lease
//	Holder          string    // waiting: what it waits for
//	HeldFrom        State     // waiting: its state before
//	CancelRequested bool      // an operator cancelled it while it was active
//	Broken          error     // why the other fields could not be read, or nil
type JobRecord = broker.Job

// Errors of waiting for a job; test with errors.Is.
var (
	// ErrDead: the job is in the dead-letter queue.
	ErrDead = errors.New("the job is dead")
	// ErrExpired: the job is dead because its deadline passed. It is also ErrDead.
	ErrExpired = fmt.Errorf("%w: its deadline passed", ErrDead)
	// ErrResult: the job was completed, and its result cannot be decoded.
	ErrResult = errors.New("the result cannot be decoded")
	// ErrGone: there is no record of the job. It is also ErrNotFound.
	ErrGone = fmt.Errorf("%w: the job left no record", broker.ErrNotFound)
)

var errNoResult = errors.New("the handler set none")

// The longest time for which Wait waits before it reads the job again.
const (
	pollWithEvents    = 2 * time.Second        // an event can be lost
	pollProgress      = time.Second            // servers store progress as often; there is no event for it
	pollWithoutEvents = 250 * time.Millisecond // hardly noticed by people, and four reads a second
)

// WaitOption changes a call of Wait or Await.
type WaitOption interface{ apply(*waiting) }

// waiting is one call of Wait.
type waiting struct {
	queue, id string
	progress  func(Progress)
	reported  Progress            // the last argument of progress
	events    <-chan broker.Event // nil if the store sends none
}

type onProgress func(Progress)

func (f onProgress) apply(w *waiting) { w.progress = f }

// OnProgress makes Wait call f when the job's progress has changed: about once a
// second at most, and before Wait returns. Changes in between are skipped. Wait calls
// f in its own goroutine, so f must return quickly.
func OnProgress(f func(Progress)) WaitOption { return onProgress(f) }

// Wait waits until a job has ended and returns its record, with the result
// that its handler set. The error is nil if the job was completed, ErrDead
// (with the reason and the last error in its message; ErrExpired if its deadline
// passed) or ErrCancelled (with the handler's reason). The record is returned in all
// these cases. Await returns the decoded result alone.
//
// A completed job leaves a record only if it has a retention: enqueue it with
// WithRetention. Without a record Wait returns ErrGone: the job ended, was
// deleted, or was never in this queue. Wait for a job that was enqueued in a
// transaction only after the commit.
//
// While the store cannot be reached, Wait keeps trying. It waits until ctx ends and
// then returns the error of ctx, so give ctx a deadline. Closing the client ends
// Wait with ErrClosed. A handler that waits keeps its slot, so that the job may have
// none: use a workflow.
func (c *Client) Wait(ctx context.Context, queue, id string, opts ...WaitOption) (*JobRecord, error) {
	w := &waiting{queue: queue, id: id}
	for _, o := range opts {
		if o != nil {
			o.apply(w)
		}
	}
	record, err := c.wait(ctx, w)
	return record, broker.About(err, "wait", queue, id)
}

func (c *Client) wait(ctx context.Context, w *waiting) (*JobRecord, error) {
	if err := c.enter(ctx); err != nil {
		return nil, err
	}
	defer c.gate.leave()
	if c.broker == nil {
		return nil, errNoBroker
	}
	if err := broker.CheckName("id", w.id); err != nil {
		return nil, err
	}
	// Watch comes before the first read, so that the job cannot end unnoticed between
	// the two. Without events (the backend has none, or the stream ended) Wait polls
	// more often.
	if !c.broker.Limits().NoWatch {
		watching, giveUp := context.WithCancel(ctx)
		defer giveUp()
		late := time.AfterFunc(c.timeout, giveUp)
		w.events, _ = c.broker.Watch(watching,
			broker.WatchRequest{Queues: []string{w.queue}, Kinds: []broker.EventKind{broker.EventSettled}})
		late.Stop()
	}
	var trouble error
	for {
		record, err := c.look(ctx, w.queue, w.id)
		if err == nil {
			w.report(record)
		}
		switch {
		case err == nil && record.State.Final():
			return record, verdict(record)
		case err == nil:
			trouble = nil
		case ctx.Err() != nil:
		case broker.StoreFailed(err):
			trouble = err
		default:
			return nil, err
		}
		if err = w.listen(ctx, c.gate.closing); err != nil {
			if trouble != nil {
				err = fmt.Errorf("%w; the store could not be read: %w", err, trouble)
			}
			return nil, err
		}
	}
}

// look reads the job, in a call bounded in time.
func (c *Client) look(ctx context.Context, queue, id string) (*JobRecord, error) {
	ctx, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	page, err := c.broker.Find(ctx, broker.Query{Queue: queue, IDs: []string{id}, Suppressed: true})
	if err != nil {
		return nil, err
	}
	if len(page.Jobs) == 0 {
		return nil, &broker.Error{Err: ErrGone,
			Hint: "it ended without a retention (see WithRetention), was deleted, or was never in this queue"}
	}
	return &page.Jobs[0], nil
}

// report calls the function of OnProgress if the progress has changed.
func (w *waiting) report(record *JobRecord) {
	if w.progress == nil || record.Kept == nil || record.Kept.Progress == w.reported {
		return
	}
	w.reported = record.Kept.Progress
	w.progress(w.reported)
}

// listen waits for an event of the job, or until it is time to poll.
func (w *waiting) listen(ctx context.Context, closing <-chan struct{}) error {
	interval := pollWithEvents
	switch {
	case w.events == nil:
		interval = pollWithoutEvents
	case w.progress != nil:
		interval = pollProgress
	}
	timer := time.NewTimer(interval/2 + rand.N(interval/2))
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-closing:
			return errClientClosed
		case <-timer.C:
			return nil
		case e, ok := <-w.events:
			switch {
			case !ok:
				w.events = nil // the store sends no more
				return nil
			case e.Kind == broker.EventMissed || e.ID == w.id:
				return nil
			}
		}
	}
}

// verdict returns the error of a job that ended.
func verdict(record *JobRecord) error {
	switch record.State {
	case StateDead:
		err := ErrDead
		if record.Reason == broker.ReasonExpired {
			err = ErrExpired
		}
		return &broker.Error{Err: err, Hint: fmt.Sprintf("%v: %s", record.Reason, record.Errors.Last().Message)}
	case StateCancelled:
		why := ""
		if last := record.Errors.Last(); last.Class == ClassCancelled { // not a failure before that
			why = last.Message
		}
		return &broker.Error{Err: ErrCancelled, Hint: why}
	}
	return nil
}

// Await waits until a job has ended and returns its result, which the handler
// set with SetResult, as an R. Enqueue the job with WithRetention, or its result is
// not kept. Await returns soon after the job's end: at an event of the store or, if
// the store sends none, at the next poll. See Client.Wait, also about ctx.
//
// If the job was not completed, the error is one of these, for errors.Is:
// ErrDead, with the reason and the last error in its message; ErrExpired, which
// is also ErrDead; ErrCancelled; ErrGone. It is ErrResult if the job was completed
// and its result cannot be decoded as an R, and the error of ctx if ctx ended first.
func Await[R any](ctx context.Context, c *Client, queue, id string, opts ...WaitOption) (result R, err error) {
	record, err := c.Wait(ctx, queue, id, opts...)
	if err != nil {
		return result, err
	}
	result, err = decodeResult[R](record.Result)
	return result, broker.About(err, "await", queue, id)
}

// SetResult sets the job's result, encoded as JSON, for callers of Await; see
// Job.SetResult. Call it last:
//
//	return jobs.SetResult(job, Summary{Orders: 17})
//
// If the result cannot be encoded, the error is SkipRetry, since no retry can help.
func SetResult[R any](job *Job, result R) error {
	p, err := encodeResult(result)
	if err == nil {
		job.SetResult(p)
	}
	return err
}

func encodeResult(result any) (p []byte, err error) {
	defer recoverInto(&err, func(err error) error {
		return fmt.Errorf("%w: the result, a %T, cannot be encoded: %w", SkipRetry, result, err)
	})
	return JSON.Encode(result)
}

func decodeResult[R any](p []byte) (result R, err error) {
	defer recoverInto(&err, func(err error) error { return fmt.Errorf("%w as a %T: %w", ErrResult, result, err) })
	if len(p) == 0 {
		return result, errNoResult
	}
	err = JSON.Decode(p, &result)
	return result, err
}
