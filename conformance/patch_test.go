package conformance_test

import (
	"context"
	"time"

	"github.com/seed81422ce9/jobs/broker"
)

// patched is a broker with replaced methods, which call those of the embedded broker.
type patched struct {
	broker.Broker
	enqueue func(context.Context, broker.EnqueueRequest) ([]broker.Receipt, error)
	claim   func(context.Context, broker.ClaimRequest) (broker.Claimed, error)
	renew   func(context.Context, broker.RenewRequest) (broker.Renewed, error)
	retire  func(context.Context, broker.RetireRequest) (broker.Retired, error)
	settle  func(context.Context, broker.SettleRequest) ([]broker.Verdict, error)
	reclaim func(context.Context, broker.ReclaimRequest) (broker.Claimed, error)
	prune   func(context.Context, broker.PruneRequest) (broker.Pruned, error)
	find    func(context.Context, broker.Query) (broker.Page, error)
	queues  func(context.Context, broker.QueuesRequest) (broker.QueuesReply, error)
	operate func(context.Context, broker.Operation) ([]broker.OperationResult, error)
	policy  func(context.Context, broker.PolicyRequest) (broker.Policy, error)
	mark    func(context.Context, broker.MarkRequest) (broker.Marked, error)
	watch   func(context.Context, broker.WatchRequest) (<-chan broker.Event, error)
	examine func(context.Context, broker.ExamineRequest) (broker.Examined, error)
	keys    func(context.Context, broker.KeysRequest) (broker.KeysReply, error)
	ping    func(context.Context) (time.Time, error)
	limits  func() broker.Limits
	closing func() error
}

// patch returns a patched broker that still has b's own methods.
func patch(b broker.Broker) *patched {
	return &patched{Broker: b, enqueue: b.Enqueue, claim: b.Claim, renew: b.Renew, retire: b.Retire, settle: b.Settle,
		reclaim: b.Reclaim, prune: b.Prune, find: b.Find, queues: b.Queues, operate: b.Operate, policy: b.Policy,
		mark: b.Mark, watch: b.Watch, examine: b.Examine, keys: b.Keys, ping: b.Ping, limits: b.Limits, closing: b.Close}
}

func (p *patched) Enqueue(ctx context.Context, r broker.EnqueueRequest) ([]broker.Receipt, error) {
	return p.enqueue(ctx, r)
}
func (p *patched) Claim(ctx context.Context, r broker.ClaimRequest) (broker.Claimed, error) {
	return p.claim(ctx, r)
}
func (p *patched) Renew(ctx context.Context, r broker.RenewRequest) (broker.Renewed, error) {
	return p.renew(ctx, r)
}
func (p *patched) Retire(ctx context.Context, r broker.RetireRequest) (broker.Retired, error) {
	return p.retire(ctx, r)
}
func (p *patched) Settle(ctx context.Context, r broker.SettleRequest) ([]broker.Verdict, error) {
	return p.settle(ctx, r)
}
func (p *patched) Reclaim(ctx context.Context, r broker.ReclaimRequest) (broker.Claimed, error) {
	return p.reclaim(ctx, r)
}
func (p *patched) Prune(ctx context.Context, r broker.PruneRequest) (broker.Pruned, error) {
	return p.prune(ctx, r)
}
func (p *patched) Find(ctx context.Context, q broker.Query) (broker.Page, error) {
	return p.find(ctx, q)
}
func (p *patched) Queues(ctx context.Context, r broker.QueuesRequest) (broker.QueuesReply, error) {
	return p.queues(ctx, r)
}
func (p *patched) Operate(ctx context.Context, o broker.Operation) ([]broker.OperationResult, error) {
	return p.operate(ctx, o)
}
func (p *patched) Policy(ctx context.Context, r broker.PolicyRequest) (broker.Policy, error) {
	return p.policy(ctx, r)
}
func (p *patched) Mark(ctx context.Context, r broker.MarkRequest) (broker.Marked, error) {
	return p.mark(ctx, r)
}
func (p *patched) Watch(ctx context.Context, r broker.WatchRequest) (<-chan broker.Event, error) {
	return p.watch(ctx, r)
}
func (p *patched) Ping(ctx context.Context) (time.Time, error) { return p.ping(ctx) }
func (p *patched) Examine(ctx context.Context, r broker.ExamineRequest) (broker.Examined, error) {
	return p.examine(ctx, r)
}
func (p *patched) Keys(ctx context.Context, r broker.KeysRequest) (broker.KeysReply, error) {
	return p.keys(ctx, r)
}
func (p *patched) Limits() broker.Limits { return p.limits() }
func (p *patched) Close() error          { return p.closing() }

// change replaces a method by one that changes the request with before and the answer
// with after; either may be nil.
func change[Q, A any](method *func(context.Context, Q) (A, error), before func(*Q), after func(*Q, *A)) {
	next := *method
	*method = func(ctx context.Context, q Q) (A, error) {
		if before != nil {
			before(&q)
		}
		a, err := next(ctx, q)
		if after != nil {
			after(&q, &a)
		}
		return a, err
	}
}

// jobsIn changes every job that any method returns.
func (p *patched) jobsIn(f func(*broker.Job)) {
	each := func(jobs []broker.Job) {
		for i := range jobs {
			f(&jobs[i])
		}
	}
	change(&p.claim, nil, func(_ *broker.ClaimRequest, a *broker.Claimed) { each(a.Jobs) })
	change(&p.reclaim, nil, func(_ *broker.ReclaimRequest, a *broker.Claimed) { each(a.Jobs) })
	change(&p.find, nil, func(_ *broker.Query, a *broker.Page) { each(a.Jobs) })
}

// newJobs changes every job before it is enqueued.
func (p *patched) newJobs(f func(*broker.NewJob)) {
	change(&p.enqueue, func(r *broker.EnqueueRequest) {
		r.Jobs = append([]broker.NewJob(nil), r.Jobs...)
		for i := range r.Jobs {
			f(&r.Jobs[i])
		}
	}, nil)
}

// outcomes changes every outcome before it is settled, alone or in a claim.
func (p *patched) outcomes(f func(worker string, s *broker.Settlement)) {
	each := func(r *broker.SettleRequest) {
		r.Items = append([]broker.Settlement(nil), r.Items...)
		for i := range r.Items {
			f(r.Worker, &r.Items[i])
		}
	}
	change(&p.settle, each, nil)
	change(&p.claim, func(r *broker.ClaimRequest) { each(&r.Settle) }, nil)
}
