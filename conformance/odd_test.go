package conformance_test

import (
	"context"
	"maps"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed81422ce9/jobs/broker"
	"github.com/seed81422ce9/jobs/conformance"
)

// odd does whatever the contract leaves open in the least expected way: short batches,
// More without need, claims that end early, empty pages, stale counts, and a shuffled
// order where none is promised.
func odd() func(*patched) {
	var mu sync.Mutex
	r := rand.New(rand.NewPCG(1, 2))
	chance := func(percent int) bool {
		mu.Lock()
		defer mu.Unlock()
		return r.IntN(100) < percent
	}
	stale := make(map[string]broker.QueueInfo)
	return func(p *patched) {
		claim, reclaim, find, prune, queues := p.claim, p.reclaim, p.find, p.prune, p.queues
		p.claim = func(ctx context.Context, req broker.ClaimRequest) (broker.Claimed, error) {
			if req.Wait > 0 && chance(40) {
				req.Wait = time.Millisecond // as if woken without a job
			}
			if req.Max > 1 && req.Check() == nil {
				req.Max = (req.Max + 1) / 2
			}
			got, err := claim(ctx, req)
			if len(got.Jobs) == req.Max || len(got.Jobs) > 0 && chance(50) {
				got.More = true
			}
			return got, err
		}
		p.reclaim = func(ctx context.Context, req broker.ReclaimRequest) (broker.Claimed, error) {
			if req.Max > 1 && req.Check() == nil {
				req.Max = (req.Max + 1) / 2
			}
			got, err := reclaim(ctx, req)
			got.More = got.More || len(got.Jobs) > 0
			return got, err
		}
		p.prune = func(ctx context.Context, req broker.PruneRequest) (broker.Pruned, error) {
			mu.Lock()
			for _, q := range req.Queues {
				delete(stale, q) // it folds the counts
			}
			mu.Unlock()
			req.Max = (req.Max + 1) / 2
			got, err := prune(ctx, req)
			got.More = got.More || got.Completed+got.Cancelled+got.Dead > 0
			return got, err
		}
		p.find = func(ctx context.Context, q broker.Query) (broker.Page, error) {
			cursor, gap := strings.CutPrefix(q.Cursor, "gap:")
			q.Cursor = cursor
			if !gap && len(q.IDs) == 0 && chance(30) && (q.State != broker.StateNone || q.Key != "") {
				if err := q.Check(); err == nil && ctx.Err() == nil {
					return broker.Page{Now: q.Now, Cursor: "gap:" + cursor}, nil
				}
			}
			if q.Limit > 1 && q.Limit <= 1000 {
				q.Limit = (q.Limit + 1) / 2
			}
			page, err := find(ctx, q)
			if q.State == broker.StatePending || q.State == broker.StateActive || q.State == broker.StateWaiting || q.Worker != "" ||
				len(q.IDs) > 0 {
				mu.Lock()
				r.Shuffle(len(page.Jobs), func(i, j int) { page.Jobs[i], page.Jobs[j] = page.Jobs[j], page.Jobs[i] })
				mu.Unlock()
			}
			return page, err
		}
		p.queues = func(ctx context.Context, req broker.QueuesRequest) (broker.QueuesReply, error) {
			got, err := queues(ctx, req)
			mu.Lock()
			defer mu.Unlock()
			for i := range got.Queues {
				q := &got.Queues[i]
				if old, ok := stale[q.Name]; ok && old.AsOf.Before(q.AsOf) {
					q.Counts, q.AsOf = maps.Clone(old.Counts), old.AsOf
				} else {
					stale[q.Name] = broker.QueueInfo{Counts: maps.Clone(q.Counts), AsOf: q.AsOf.Add(-time.Microsecond)}
				}
			}
			return got, err
		}
		change(&p.renew, nil, func(_ *broker.RenewRequest, a *broker.Renewed) {
			mu.Lock()
			r.Shuffle(len(a.Cancel), func(i, j int) { a.Cancel[i], a.Cancel[j] = a.Cancel[j], a.Cancel[i] })
			mu.Unlock()
		})
		change(&p.retire, nil, func(_ *broker.RetireRequest, a *broker.Retired) {
			mu.Lock()
			r.Shuffle(len(a.Released), func(i, j int) { a.Released[i], a.Released[j] = a.Released[j], a.Released[i] })
			mu.Unlock()
		})
	}
}

// On a busy machine a job can fall due before the first claim looks: there is no NextDue then, and nothing
// is wrong.
func TestSuite_ASlowStoreHasADueTime(t *testing.T) {
	t.Parallel()
	slow := memory(always(func(p *patched) {
		find := p.find
		p.find = func(ctx context.Context, q broker.Query) (broker.Page, error) {
			time.Sleep(time.Second)
			return find(ctx, q)
		}
	}))
	synctest.Test(t, func(t *testing.T) {
		for _, v := range conformance.Judge(slow, "Wake/WhenDue") {
			if v.Result != conformance.Passed {
				t.Errorf("%s: %s\n%s", v.Rule, v.Result, v.Failure)
			}
		}
	})
}
