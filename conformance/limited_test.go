package conformance_test

import (
	"context"
	"time"

	"github.com/seed81422ce9/jobs/broker"
)

// limitTo makes p a backend that declares these limits and keeps to them.
func limitTo(p *patched, l broker.Limits) {
	step := max(l.TimeStep, time.Microsecond)
	up := func(t time.Time) time.Time {
		if down := t.Truncate(step); down.Before(t) {
			return down.Add(step)
		}
		return t
	}
	span := func(d time.Duration) time.Duration { return (d + step - 1) / step * step }
	p.limits = func() broker.Limits { return l }
	enqueue, mark, watch := p.enqueue, p.mark, p.watch
	p.enqueue = func(ctx context.Context, r broker.EnqueueRequest) ([]broker.Receipt, error) {
		if ctx.Err() != nil || r.Check() != nil {
			return enqueue(ctx, r)
		}
		receipts := make([]broker.Receipt, len(r.Jobs))
		for i, j := range r.Jobs {
			receipts[i] = broker.Receipt{Queue: j.Queue, ID: j.ID, Err: j.Check(l)}
			if receipts[i].Err != nil {
				continue
			}
			if j.Delay > 0 && !r.Now.IsZero() {
				j.Delay, j.RunAt = 0, r.Now.Add(j.Delay)
			}
			j.RunAt = up(j.RunAt)
			got, err := enqueue(ctx, broker.EnqueueRequest{Now: r.Now, Jobs: []broker.NewJob{j}})
			if err != nil { // the jobs before it are stored
				receipts[i].Err = err
				continue
			}
			receipts[i] = got[0]
		}
		return receipts, nil
	}
	change(&p.settle, func(r *broker.SettleRequest) { r.Now = up(r.Now) }, nil)
	p.outcomes(func(_ string, s *broker.Settlement) {
		switch o := s.Outcome; {
		case o.Delay()%step == 0:
		case o.Kind() == broker.OutcomeRetry:
			s.Outcome = broker.Retry(span(o.Delay()), *o.Failure())
		case o.Kind() == broker.OutcomeCrash:
			s.Outcome = broker.Crash(span(o.Delay()), *o.Failure())
		case o.Kind() == broker.OutcomeSnooze:
			s.Outcome = broker.Snooze(span(o.Delay()), broker.Failure{})
		}
	})
	change(&p.renew, func(r *broker.RenewRequest) { r.Lease = span(r.Lease) }, nil)
	operate := p.operate
	p.operate = func(ctx context.Context, o broker.Operation) ([]broker.OperationResult, error) {
		if err := o.Check(l); err != nil && ctx.Err() == nil {
			return nil, err
		}
		o.Now, o.RunAt, o.Delay = up(o.Now), up(o.RunAt), span(o.Delay)
		return operate(ctx, o)
	}
	change(&p.claim, func(r *broker.ClaimRequest) {
		if l.NoWait && r.Check() == nil {
			r.Wait = 0
		}
	}, nil)
	p.mark = func(ctx context.Context, r broker.MarkRequest) (broker.Marked, error) {
		if l.NoMark {
			return broker.Marked{}, broker.ErrUnsupported
		}
		return mark(ctx, r)
	}
	policy := p.policy
	p.policy = func(ctx context.Context, r broker.PolicyRequest) (broker.Policy, error) {
		if err := r.Check(l); err != nil && ctx.Err() == nil {
			return broker.Policy{}, err
		}
		return policy(ctx, r)
	}
	keys := p.keys
	p.keys = func(ctx context.Context, r broker.KeysRequest) (broker.KeysReply, error) {
		if l.NoFlow {
			return broker.KeysReply{}, broker.ErrUnsupported
		}
		return keys(ctx, r)
	}
	examine := p.examine
	p.examine = func(ctx context.Context, r broker.ExamineRequest) (broker.Examined, error) {
		if l.NoExamine {
			return broker.Examined{}, broker.ErrUnsupported
		}
		return examine(ctx, r)
	}
	p.watch = func(ctx context.Context, r broker.WatchRequest) (<-chan broker.Event, error) {
		if l.NoWatch {
			return nil, broker.ErrUnsupported
		}
		return watch(ctx, r)
	}
}
