package conformance_test

import (
	"context"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/seed81422ce9/jobs/broker"
)

var endedMutants = []mutant{
	{"an ended worker's ID is forgotten after an hour", "Lease/EndedIDIsRememberedForADay", sharing(func(p *patched, m *sync.Map) {
		change(&p.renew, nil, func(r *broker.RenewRequest, a *broker.Renewed) {
			if first, seen := m.LoadOrStore(r.Worker, r.Now); a.Lost && seen && r.Register {
				a.Lost = r.Now.Sub(first.(time.Time)) < time.Hour
			}
		})
	})},
	{"an ended worker's ID is never forgotten", "Lease/EndedIDIsRememberedForADay", sharing(func(p *patched, m *sync.Map) {
		change(&p.renew, nil, func(r *broker.RenewRequest, a *broker.Renewed) {
			if _, ended := m.Load(r.Worker); ended {
				a.Lost = true
			} else if a.Lost && r.Register {
				m.Store(r.Worker, true)
			}
		})
	})},
	{"a worker that never registered cannot retire", "Lease/UnknownWorkerRetires", sharing(func(p *patched, m *sync.Map) {
		change(&p.renew, func(r *broker.RenewRequest) { m.Store(r.Worker, true) }, nil)
		change(&p.retire, func(r *broker.RetireRequest) {
			if _, seen := m.Load(r.Worker); !seen {
				r.Worker += " that nobody knows"
			}
		}, nil)
	})},
	{"a retire lists jobs by the epochs of their leases", "Lease/RetireListsWhatItReleased", always(func(p *patched) {
		change(&p.retire, nil, func(_ *broker.RetireRequest, a *broker.Retired) {
			for i := range a.Released {
				a.Released[i].Epoch--
			}
		})
	})},
	{"reading a policy makes a queue", "Lease/RegistersItsQueue", always(func(p *patched) {
		change(&p.policy, func(r *broker.PolicyRequest) {
			if r.MaxDepth == nil && r.Paused == nil && r.RetainCompleted == nil && r.RetainDead == nil && r.DuplicateSpan == nil {
				r.Paused = new(bool)
				if policy, _ := p.Broker.Policy(background, broker.PolicyRequest{Queue: r.Queue}); policy.Paused {
					*r.Paused = true
				}
			}
		}, nil)
	})},
	{"a refused reclaim gives nothing", "Reclaim/FailingQueueWithholdsNothing", always(func(p *patched) {
		next := p.reclaim
		p.reclaim = func(ctx context.Context, r broker.ReclaimRequest) (broker.Claimed, error) {
			got, err := next(ctx, r)
			if err != nil {
				got.Jobs = nil
			}
			return got, err
		}
	})},
	{"nothing but records is pruned", "Retention/PruneForgetsWhatLapsed", always(func(p *patched) {
		change(&p.prune, nil, func(_ *broker.PruneRequest, a *broker.Pruned) { a.Other = 0 })
	})},
	{"a prune counts the rates that it forgot", "Retention/OtherCountsNothingElse", sharing(func(p *patched, m *sync.Map) {
		change(&p.prune, nil, func(r *broker.PruneRequest, a *broker.Pruned) {
			if _, again := m.LoadOrStore(r.Queues[0], true); !again && p.set(broker.PolicyRequest{Queue: r.Queues[0]}).KeyRate.Jobs > 0 {
				a.Other++
			}
		})
	})},
	{"a key's index keeps what is gone", "Find/ByKeyForgetsWhatIsGone", always(func(p *patched) {
		next := p.find
		p.find = func(ctx context.Context, q broker.Query) (broker.Page, error) {
			stale := strings.HasPrefix(q.Cursor, "stale")
			if q.Key != "" && stale && len(q.Cursor) < 50 {
				return broker.Page{Now: q.Now, Cursor: q.Cursor + "."}, nil
			}
			if stale {
				q.Cursor = ""
			}
			page, err := next(ctx, q)
			if q.Key != "" && !stale && q.State == broker.StateNone && q.Worker == "" && len(page.Jobs) == 0 && err == nil && q.Cursor == "" {
				page.Cursor = "stale"
			}
			return page, err
		}
	})},
	{"a held job that is cancelled leaks its key", "Unique/FreedByEveryRarerEnd", sharing(func(p *patched, m *sync.Map) {
		p.leaked(m)
		p.oneByOne(func(next func() broker.OperationResult, o broker.Operation, ref broker.Ref) broker.OperationResult {
			j := p.look(o.Now, ref.Queue, ref.ID)
			r := next()
			if r.Err == nil && o.Kind == broker.OpCancel && j.State == broker.StateWaiting && j.Unique.Key != "" {
				m.Store(j.Unique.Key, j.ID)
			}
			return r
		})
	})},
}

var answerMutants = []mutant{
	{"settle numbers outlive their queue", "Operate/RemovedQueueIsForgotten", sharing(func(p *patched, m *sync.Map) {
		change(&p.settle, nil, func(r *broker.SettleRequest, a *[]broker.Verdict) {
			if last, seen := m.Swap(r.Worker, r.Number); seen && last.(int64) >= r.Number {
				(*a)[0] = broker.Verdict{Queue: (*a)[0].Queue, ID: (*a)[0].ID, Err: broker.ErrLeaseLost}
			}
		})
	})},
	{"a release is not seen", "Watch/SettledIsOfEndedLeasesAndCancels", always(func(p *patched) {
		p.events(func(e broker.Event) bool { return e.State != broker.StatePending })
	})},
	{"a cancel is not seen", "Watch/SettledIsOfEndedLeasesAndCancels", always(func(p *patched) {
		p.events(func(e broker.Event) bool { return e.State != broker.StateCancelled })
	})},
	{"a restored key lapses by the job's creation", "Restore/TakesItsKeyForItsWholeTTL", always(func(p *patched) {
		change(&p.enqueue, func(r *broker.EnqueueRequest) {
			r.Jobs = slices.Clone(r.Jobs)
			for i := range r.Jobs {
				if j := &r.Jobs[i]; j.Restore != nil && !j.Restore.CreatedAt.IsZero() && j.Body.Unique.TTL > 0 {
					j.Body.Unique.TTL = max(time.Microsecond, j.Body.Unique.TTL-r.Now.Sub(j.Restore.CreatedAt))
				}
			}
		}, nil)
	})},
	{"a restored pending job loses its delay", "Restore/TimeDecides", always(func(p *patched) {
		p.newJobs(func(j *broker.NewJob) {
			if j.Restore != nil && j.Restore.State == broker.StatePending {
				j.Delay = 0
			}
		})
	})},
	{"a paused queue's due time is told although it has passed", "Policy/PausedQueueIsNotAwaited", sharing(func(p *patched, m *sync.Map) {
		change(&p.claim, nil, func(r *broker.ClaimRequest, a *broker.Claimed) {
			if len(r.Queues) == 0 {
				return
			}
			policy, _ := p.Broker.Policy(background, broker.PolicyRequest{Queue: r.Queues[0].Queue})
			if due, ok := m.Load("due"); ok && policy.Paused && a.NextDue.IsZero() {
				a.NextDue = due.(time.Time)
			} else if policy.Paused && !a.NextDue.IsZero() {
				m.Store("due", a.NextDue)
			}
		})
	})},
	{"a removed queue remembers its IDs", "Operate/RemovedQueueIsForgotten", sharing(func(p *patched, m *sync.Map) {
		change(&p.enqueue, nil, func(r *broker.EnqueueRequest, a *[]broker.Receipt) {
			for i, j := range r.Jobs {
				if _, removed := m.Load("removed " + j.Queue); removed && j.Body.GivenID {
					if _, seen := m.Load(j.ID); seen {
						(*a)[i].Err, (*a)[i].Holder = broker.ErrDuplicate, j.ID
					}
				}
				m.Store(j.ID, true)
			}
		})
		p.results(func(o broker.Operation, r *broker.OperationResult) {
			if o.Kind == broker.OpRemoveQueue && r.Err == nil {
				m.Store("removed "+r.Ref.Queue, true)
			}
		})
	})},
	{"a query with a worker ignores its key", "Find/SelectsByAllThatIsSet", always(func(p *patched) {
		change(&p.find, func(q *broker.Query) {
			if q.Worker != "" {
				q.Key = ""
			}
		}, nil)
	})},
	{"a dropped mark still says its fence", "Mark/NobodysIsEmpty", always(func(p *patched) {
		change(&p.mark, nil, func(r *broker.MarkRequest, a *broker.Marked) {
			if r.Action == broker.MarkDrop && a.Held {
				a.Fence = r.Fence
			}
		})
	})},
}
