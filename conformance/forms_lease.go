package conformance

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/seed81422ce9/jobs/broker"
)

// What a form does to the calls of workers.

// wider returns the queues of a call together with the form's own.
func (s *formState) wider(queues []string) []string {
	if !s.queues || len(queues) == 0 {
		return queues
	}
	return slices.Concat([]string{beside + " empty"}, queues, []string{beside + " paused"})
}

func (b *formedBroker) Renew(ctx context.Context, req broker.RenewRequest) (broker.Renewed, error) {
	req.Queues = b.s.wider(req.Queues)
	got, err := b.next().Renew(ctx, req)
	for q, n := range got.Held {
		if strings.HasPrefix(q, beside) {
			if n != 0 && err == nil {
				err = fmt.Errorf("%d leases are counted in %s, where there is nothing to claim", n, q)
			}
			delete(got.Held, q)
		}
	}
	return got, err
}

func (b *formedBroker) Retire(ctx context.Context, req broker.RetireRequest) (broker.Retired, error) {
	req.Queues = b.s.wider(req.Queues)
	return b.next().Retire(ctx, req)
}

func (b *formedBroker) Reclaim(ctx context.Context, req broker.ReclaimRequest) (broker.Claimed, error) {
	req.Queues = b.s.wider(req.Queues)
	got, err := b.next().Reclaim(ctx, req)
	if failed := b.s.undress(got.Jobs, got.Now); failed != nil {
		err = failed
	}
	return got, err
}

func (b *formedBroker) Claim(ctx context.Context, req broker.ClaimRequest) (broker.Claimed, error) {
	if b.s.queues && len(req.Queues) > 0 {
		req.Queues = slices.Concat([]broker.Share{{Queue: beside + " empty", Max: broker.MaxClaim}}, req.Queues,
			[]broker.Share{{Queue: beside + " paused", Max: broker.MaxClaim}})
	}
	with := &companions{}
	if len(req.Settle.Items) > 0 && req.Check() == nil {
		var err error
		if with, err = b.s.accompany(ctx, b.Broker, &req.Settle, req.Now); err != nil {
			return broker.Claimed{}, err
		}
	}
	got, err := b.next().Claim(ctx, req)
	if failed := b.s.undress(got.Jobs, got.Now); failed != nil {
		return got, failed
	}
	if got.SettleErr == nil {
		got.Verdicts, got.SettleErr = b.s.leave(ctx, b.Broker, with, req.Settle, got.Verdicts)
	}
	return got, err
}

func (b *formedBroker) Settle(ctx context.Context, req broker.SettleRequest) ([]broker.Verdict, error) {
	with, err := b.s.accompany(ctx, b.Broker, &req, req.Now)
	if err != nil {
		return nil, err
	}
	verdicts, err := b.next().Settle(ctx, req)
	if err != nil {
		return verdicts, err
	}
	return b.s.leave(ctx, b.Broker, with, req, verdicts)
}

// accompany adds two jobs to the rule's settle, one before the rule's own and one
// after them, in the queue of the first. It enqueues and claims them itself; a
// repeat of the request carries the same ones.
func (s *formState) accompany(ctx context.Context, b broker.Broker, req *broker.SettleRequest, now time.Time) (*companions, error) {
	none := &companions{}
	req.Items = s.redress(req.Items)
	if len(s.settles) == 0 || len(req.Items) == 0 || req.Check() != nil {
		return none, nil
	}
	queue := req.Items[0].Job.Queue
	name := nameOf(queue, req.Worker)
	s.mu.Lock()
	last := s.settled[name]
	if last == nil {
		last = none
	}
	s.n++
	ids := []string{fmt.Sprint("companion ", s.n, " before"), fmt.Sprint("companion ", s.n, " after")}
	s.mu.Unlock()
	with := &companions{number: req.Number}
	switch {
	case req.Number == last.number:
		with = last
	case req.Number > last.number:
		jobs, err := s.lend(ctx, b, queue, req.Worker, now, ids)
		if err != nil {
			return nil, err
		}
		if len(jobs) == 2 {
			with.first = []broker.Settlement{{Job: &jobs[0], Outcome: s.settles[0]}}
			with.after = []broker.Settlement{{Job: &jobs[1], Outcome: s.settles[1]}}
		}
		s.mu.Lock()
		s.settled[name] = with
		s.mu.Unlock()
	default:
		with = none
	}
	req.Items = slices.Concat(with.first, req.Items, with.after)
	return with, nil
}

// lend enqueues jobs that go before all others, and claims them for the worker.
// It returns none if the worker ended, or the queue is full or paused.
func (s *formState) lend(ctx context.Context, b broker.Broker, queue, worker string, now time.Time, ids []string) ([]broker.Job, error) {
	var jobs []broker.NewJob
	var made []broker.Ref
	for _, id := range ids {
		jobs = append(jobs, broker.NewJob{Queue: queue, ID: id, Body: broker.Body{Type: "work", Priority: broker.PriorityUrgent}})
	}
	receipts, err := b.Enqueue(ctx, broker.EnqueueRequest{Now: now, Jobs: jobs})
	if err != nil {
		return nil, fmt.Errorf("enqueue of a form's companions: %w", err)
	}
	for _, r := range receipts {
		if r.Err == nil {
			made = append(made, broker.Ref{Queue: queue, ID: r.ID, Epoch: broker.AnyEpoch})
		}
	}
	var held []broker.Job
	for range 4 {
		if len(made) < len(ids) || len(held) == len(ids) {
			break
		}
		n := len(ids) - len(held)
		got, err := b.Claim(ctx, broker.ClaimRequest{Now: now, Worker: worker, Max: n, Queues: []broker.Share{{Queue: queue, Max: n}}})
		if err != nil {
			break // the rule itself checks such an answer
		}
		held = append(held, got.Jobs...)
	}
	for _, j := range held {
		if !slices.Contains(ids, j.ID) {
			return nil, fmt.Errorf("a claim gave %s/%s (priority %d), while %v were pending with priority %d, which goes first",
				queue, j.ID, j.Priority, ids, broker.PriorityUrgent)
		}
	}
	if len(held) == len(ids) {
		return held, nil
	}
	_, err = b.Operate(ctx, broker.Operation{Now: now, Kind: broker.OpDelete, Refs: made})
	return nil, err
}

// leave checks the companions' verdicts and removes them from the answer. It
// deletes the companions that did not complete.
func (s *formState) leave(ctx context.Context, b broker.Broker, with *companions, req broker.SettleRequest,
	verdicts []broker.Verdict) ([]broker.Verdict, error) {
	if len(verdicts) != len(req.Items) {
		return verdicts, nil // the rule reports it
	}
	own := len(req.Items) - len(with.after)
	var left []broker.Ref
	for _, part := range []struct {
		items    []broker.Settlement
		verdicts []broker.Verdict
	}{{with.first, verdicts[:len(with.first)]}, {with.after, verdicts[own:]}} {
		for i, item := range part.items {
			v, want := part.verdicts[i], broker.Verdict{Queue: item.Job.Queue, ID: item.Job.ID, State: item.Outcome.State()}
			if v != want {
				return nil, fmt.Errorf("the verdict of a job settled in the same request is %+v, want %+v", v, want)
			}
			if v.State != broker.StateCompleted {
				left = append(left, broker.Ref{Queue: v.Queue, ID: v.ID, Epoch: broker.AnyEpoch})
			}
		}
	}
	verdicts = verdicts[len(with.first):own]
	s.mu.Lock()
	for _, v := range verdicts {
		ended := v.Err == nil && (v.State == broker.StateCompleted || v.State == broker.StateCancelled)
		if m := s.jobs[nameOf(v.Queue, v.ID)]; m != nil && ended {
			m.ended, m.endedAt = v.State, req.Now
		}
	}
	s.mu.Unlock()
	if len(left) > 0 {
		results, err := b.Operate(ctx, broker.Operation{Now: req.Now, Kind: broker.OpDelete, Refs: left})
		if err != nil {
			return nil, err
		}
		for _, r := range results {
			if r.Err != nil && !errors.Is(r.Err, broker.ErrNotFound) { // a repeat of the settle finds it deleted
				return nil, fmt.Errorf("deleting %s, which was settled in the same request: %w", r.Ref.ID, r.Err)
			}
		}
	}
	return verdicts, nil
}
