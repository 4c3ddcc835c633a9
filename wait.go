package jobs

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/seed81422ce9/jobs/broker"
)

// JobRecord is a stored job with all its data.
type JobRecord = broker.Job

// Errors of waiting for a job; test with errors.Is.
var (
	// ErrDead: the job is in the dead-letter queue.
	ErrDead = errors.New("the job is dead")
	// ErrExpired: the job is dead because its deadline passed. It is ErrDead, too.
	ErrExpired = fmt.Errorf("%w: its deadline passed", ErrDead)
	// ErrResult: the job was completed, and its result cannot be decoded.
	ErrResult = errors.New("the result cannot be decoded")
	// ErrGone: there is no record of the job. It is ErrNotFound, too.
	ErrGone = fmt.Errorf("%w: the job left no record", broker.ErrNotFound)
)

var errNoResult = errors.New("the handler set none")

// How often Wait looks, at most, at a job that it hears of and at one that it
// does not.
const (
	lookSeldom = 2 * time.Second
	lookOften  = 250 * time.Millisecond
)

// Wait waits until a job has ended and returns its record, with the result
// that its handler set. The error is nil if the job was completed, ErrDead
// (with the reason and the last error in its message; ErrExpired if its deadline
// passed) or ErrCancelled. The record is returned in all these cases. Await
// returns the result alone, decoded.
//
// A completed job leaves a record only if it has a retention: enqueue it with
// WithRetention. Without a record Wait returns ErrGone: the job ended, was
// deleted, or was never in this queue; nobody can tell which. A job that is
// enqueued in a transaction exists when that has committed.
//
// While the store cannot be reached, Wait keeps trying. It waits as long as
// ctx lasts, so give ctx a deadline; then the error is that of ctx. Closing
// the client ends Wait with ErrClosed.
func (c *Client) Wait(ctx context.Context, queue, id string) (*JobRecord, error) {
	record, err := c.wait(ctx, queue, id)
	return record, broker.About(err, "wait", queue, id)
}

func (c *Client) wait(ctx context.Context, queue, id string) (*JobRecord, error) {
	if err := c.enter(ctx); err != nil {
		return nil, err
	}
	defer c.gate.leave()
	if c.broker == nil {
		return nil, errNoBroker
	}
	if err := broker.CheckName("id", id); err != nil {
		return nil, err
	}
	// Listening comes before the first look, so that no end falls between the
	// two. Without events (the backend has none, or they broke off) the looks
	// come more often.
	var events <-chan broker.Event
	if !c.broker.Limits().NoWatch {
		watching, giveUp := context.WithCancel(ctx)
		defer giveUp()
		late := time.AfterFunc(c.timeout, giveUp)
		events, _ = c.broker.Watch(watching, broker.WatchRequest{Queues: []string{queue}, Kinds: []broker.EventKind{broker.EventSettled}})
		late.Stop()
	}
	var trouble error
	for {
		record, err := c.look(ctx, queue, id)
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
		if events, err = listen(ctx, events, id, c.gate.closing); err != nil {
			if trouble != nil {
				err = fmt.Errorf("%w; the last look failed: %w", err, trouble)
			}
			return nil, err
		}
	}
}

// look finds the job, in a call bounded in time.
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

// listen waits for news of the job, or until it is time to look anyway. It
// returns nil for events that have broken off.
func listen(ctx context.Context, events <-chan broker.Event, id string, closing <-chan struct{}) (<-chan broker.Event, error) {
	interval := lookOften
	if events != nil {
		interval = lookSeldom
	}
	timer := time.NewTimer(interval/2 + rand.N(interval/2))
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-closing:
			return nil, errClientClosed
		case <-timer.C:
			return events, nil
		case e, ok := <-events:
			switch {
			case !ok:
				return nil, nil
			case e.Kind == broker.EventMissed || e.ID == id:
				return events, nil
			}
		}
	}
}

// verdict is the error of a job that ended.
func verdict(record *JobRecord) error {
	switch record.State {
	case StateDead:
		err := ErrDead
		if record.Reason == broker.ReasonExpired {
			err = ErrExpired
		}
		return &broker.Error{Err: err, Hint: fmt.Sprintf("%v: %s", record.Reason, record.Errors.Last().Message)}
	case StateCancelled:
		return ErrCancelled
	}
	return nil
}
