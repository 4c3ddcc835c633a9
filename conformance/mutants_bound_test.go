package conformance_test

import (
	"context"
	"slices"
	"sync"

	"github.com/seed81422ce9/jobs/broker"
)

// dueRetries returns the number of due retries in a claim's queues.
func (p *patched) dueRetries(r *broker.ClaimRequest) (n int) {
	for _, share := range r.Queues {
		page, _ := p.Broker.Find(background, broker.Query{Now: r.Now, Queue: share.Queue, State: broker.StateRetry, Limit: 1000})
		for _, j := range page.Jobs {
			if !j.RunAt.After(r.Now) {
				n++
			}
		}
	}
	return n
}

var leftMutants = []mutant{
	{"a claim is silent about due retries that it left", "Claim/SaysMoreOfDueJobs", always(func(p *patched) {
		next := p.claim
		p.claim = func(ctx context.Context, r broker.ClaimRequest) (broker.Claimed, error) {
			due := 0
			if r.Check() == nil {
				due = p.dueRetries(&r)
			}
			got, err := next(ctx, r)
			got.More = got.More && due == 0
			return got, err
		}
	})},
	{"a claim is silent about queues that it did not reach", "Claim/SaysMoreOfEveryQueue", always(func(p *patched) {
		change(&p.claim, nil, func(r *broker.ClaimRequest, a *broker.Claimed) {
			n := len(a.Jobs)
			if n == 0 || n < r.Max || r.Bytes > 0 {
				return
			}
			left, _ := p.Broker.Queues(background, broker.QueuesRequest{Now: r.Now, Names: []string{a.Jobs[n-1].Queue}})
			a.More = left.Queues[0].Counts[broker.StatePending] > 0
		})
	})},
	{"a reclaim of several queues is silent about what it left", "Reclaim/SaysMoreOfEveryQueue", always(func(p *patched) {
		change(&p.reclaim, nil, func(r *broker.ReclaimRequest, a *broker.Claimed) { a.More = a.More && len(r.Queues) == 1 })
	})},
}

var boundMutants = []mutant{
	{"a retire lists a thousand jobs at most", "Bound/RetireReleasesThousands", always(func(p *patched) {
		change(&p.retire, nil, func(_ *broker.RetireRequest, a *broker.Retired) { a.Released = a.Released[:min(len(a.Released), 1000)] })
	})},
	{"a worker's leases are counted up to a thousand", "Bound/RetireReleasesThousands", always(func(p *patched) {
		change(&p.renew, nil, func(_ *broker.RenewRequest, a *broker.Renewed) {
			for q, n := range a.Held {
				a.Held[q] = min(n, 1000)
			}
		})
	})},
	{"reclaims end after a thousand jobs", "Bound/ReclaimTakesThousands", always(func(p *patched) {
		change(&p.reclaim, nil, func(_ *broker.ReclaimRequest, a *broker.Claimed) { a.More = a.More && len(a.Jobs) < broker.MaxClaim })
	})},
	{"a settle looks at a thousand items", "Bound/SettleTakesThousands", always(func(p *patched) {
		next := p.settle
		p.settle = func(ctx context.Context, r broker.SettleRequest) ([]broker.Verdict, error) {
			rest := r.Items[min(len(r.Items), 1000):]
			r.Items = r.Items[:len(r.Items)-len(rest)]
			got, err := next(ctx, r)
			for _, item := range rest {
				got = append(got, broker.Verdict{Queue: item.Job.Queue, ID: item.Job.ID, Err: broker.ErrLeaseLost})
			}
			return got, err
		}
	})},
	{"the second part of a large batch is stored first", "Bound/EnqueueTakesTheLargestBatch", always(func(p *patched) {
		next := p.enqueue
		p.enqueue = func(ctx context.Context, r broker.EnqueueRequest) ([]broker.Receipt, error) {
			const part = 5000
			if len(r.Jobs) <= part || r.Check() != nil {
				return next(ctx, r)
			}
			last, err := next(ctx, broker.EnqueueRequest{Now: r.Now, Jobs: r.Jobs[part:]})
			if err != nil {
				return nil, err
			}
			first, err := next(ctx, broker.EnqueueRequest{Now: r.Now, Jobs: r.Jobs[:part]})
			return append(first, last...), err
		}
	})},
	{"a prune ends at a queue that does not exist", "Bound/PruneTakesEachQueue", always(func(p *patched) {
		change(&p.prune, func(r *broker.PruneRequest) {
			_, names := p.known(r.Now)
			if i := slices.IndexFunc(r.Queues, func(q string) bool { return !slices.Contains(names, q) }); i >= 0 {
				r.Queues = r.Queues[:i]
			}
		}, nil)
	})},
	{"a prune says More of its first queue alone", "Bound/PruneTakesEachQueue", always(func(p *patched) {
		change(&p.prune, nil, func(r *broker.PruneRequest, a *broker.Pruned) { a.More = a.More && len(r.Queues) == 1 })
	})},
	{"a page begins behind the time of a job that is gone", "Bound/PagesGoOnFromAJobThatIsGone", sharing(func(p *patched, m *sync.Map) {
		next := p.find
		p.find = func(ctx context.Context, q broker.Query) (broker.Page, error) {
			last, paged := m.Load(q.Cursor)
			page, err := next(ctx, q)
			if n := len(page.Jobs); n > 0 && page.Cursor != "" {
				m.Store(page.Cursor, page.Jobs[n-1])
			}
			if j, ok := last.(broker.Job); paged && ok && p.look(q.Now, q.Queue, j.ID) == nil {
				page.Jobs = slices.DeleteFunc(page.Jobs, func(o broker.Job) bool { return o.State.Final() && o.FinishedAt.Equal(j.FinishedAt) })
			}
			return page, err
		}
	})},
}
