package conformance_test

import (
	"sync"

	"github.com/seed81422ce9/jobs/broker"
)

var totalsMutants = append([]mutant{
	{"completed counts the records", "Totals/OutliveTheirJobs Totals/EachStepRaisesItsNumber", totalsMutant(func(q *broker.QueueInfo) {
		q.Totals.Completed = q.Counts[broker.StateCompleted]
	})},
	{"enqueued counts the records", "Totals/OutliveTheirJobs Model/OneQueue", totalsMutant(func(q *broker.QueueInfo) {
		q.Totals.Enqueued = 0
		for _, n := range q.Counts {
			q.Totals.Enqueued += n
		}
	})},
	{"totals of all queues are added up", "Totals/AreOfOneQueue Model/SeveralQueues", always(func(p *patched) {
		queues := p.queues
		change(&p.queues, nil, func(r *broker.QueuesRequest, a *broker.QueuesReply) {
			all, _ := queues(background, broker.QueuesRequest{Now: r.Now})
			for i := range a.Queues {
				for _, q := range all.Queues {
					if q.Name != a.Queues[i].Name {
						a.Queues[i].Totals = a.Queues[i].Totals.Plus(q.Totals)
					}
				}
			}
		})
	})},
	{"a settle that is repeated counts again", "Totals/RefusedAndRepeatedCountNothing", extra(func(p *patched, add adder) {
		var mu sync.Mutex
		last := make(map[string]int64)
		change(&p.settle, nil, func(r *broker.SettleRequest, a *[]broker.Verdict) {
			mu.Lock()
			defer mu.Unlock()
			for i, v := range *a {
				if last[r.Worker] == r.Number && v.Err == nil && v.State == broker.StateCompleted {
					add(v.Queue, broker.Totals{Completed: 1, Runs: 1, RanMicros: r.Items[i].Ran.Microseconds()})
				}
			}
			last[r.Worker] = r.Number
		})
	})},
	{"a lost lease counts its run", "Totals/RefusedAndRepeatedCountNothing Totals/WaitsAndRunsAreSummed", extra(func(p *patched, add adder) {
		change(&p.settle, nil, func(r *broker.SettleRequest, a *[]broker.Verdict) {
			for i, v := range *a {
				if s := &r.Items[i]; v.Err != nil && s.Ran > 0 {
					add(v.Queue, broker.Totals{Runs: 1, RanMicros: s.Ran.Microseconds()})
				}
			}
		})
	})},
	{"a keep counts a run", "Totals/WaitsAndRunsAreSummed", extra(func(p *patched, add adder) {
		change(&p.settle, nil, func(r *broker.SettleRequest, a *[]broker.Verdict) {
			for _, v := range *a {
				if v.State == broker.StateActive {
					add(v.Queue, broker.Totals{Runs: 1})
				}
			}
		})
	})},
	{"a reclaim counts as a claim", "Totals/CrashCountsOnce", extra(func(p *patched, add adder) {
		change(&p.reclaim, nil, func(_ *broker.ReclaimRequest, a *broker.Claimed) {
			for _, j := range a.Jobs {
				add(j.Queue, broker.Totals{Claimed: 1})
			}
		})
	})},
	{"a reclaim counts the crash, too", "Totals/CrashCountsOnce", extra(func(p *patched, add adder) {
		change(&p.reclaim, nil, func(_ *broker.ReclaimRequest, a *broker.Claimed) {
			for _, j := range a.Jobs {
				add(j.Queue, broker.Totals{Crashed: 1})
			}
		})
	})},
	{"a job that is refused counts", "Totals/RefusedAndRepeatedCountNothing", extra(func(p *patched, add adder) {
		change(&p.enqueue, nil, func(_ *broker.EnqueueRequest, a *[]broker.Receipt) {
			for _, r := range *a {
				if r.Err != nil {
					add(r.Queue, broker.Totals{Enqueued: 1})
				}
			}
		})
	})},
	{"a restored job counts as new", "Totals/OutliveTheirJobs", extra(func(p *patched, add adder) {
		change(&p.enqueue, nil, func(r *broker.EnqueueRequest, a *[]broker.Receipt) {
			for i, got := range *a {
				if got.Err == nil && r.Jobs[i].Restore != nil {
					add(got.Queue, broker.Totals{Enqueued: 1})
				}
			}
		})
	})},
	{"an active job that is asked to cancel counts", "Totals/EachStepRaisesItsNumber", extra(func(p *patched, add adder) {
		p.results(func(o broker.Operation, r *broker.OperationResult) {
			if o.Kind == broker.OpCancel && r.State == broker.StateActive {
				add(r.Ref.Queue, broker.Totals{Cancelled: 1})
			}
		})
	})},
}, forgottenTotals()...)

// forgottenTotals returns stores that each fail to count one thing.
func forgottenTotals() (all []mutant) {
	for name, f := range map[string]func(*broker.Totals){
		"enqueued":  func(t *broker.Totals) { t.Enqueued = 0 },
		"claimed":   func(t *broker.Totals) { t.Claimed = 0 },
		"completed": func(t *broker.Totals) { t.Completed = 0 },
		"failed":    func(t *broker.Totals) { t.Failed = 0 },
		"retried":   func(t *broker.Totals) { t.Retried = 0 },
		"dead":      func(t *broker.Totals) { t.Dead = 0 },
		"crashed":   func(t *broker.Totals) { t.Crashed = 0 },
		"cancelled": func(t *broker.Totals) { t.Cancelled = 0 },
		"expired":   func(t *broker.Totals) { t.Expired = 0 },
		"waits":     func(t *broker.Totals) { t.Waits, t.WaitedMicros = 0, 0 },
		"runs":      func(t *broker.Totals) { t.Runs, t.RanMicros = 0, 0 },
	} {
		kills := "Totals/EachStepRaisesItsNumber"
		if name == "waits" || name == "runs" {
			kills = "Totals/WaitsAndRunsAreSummed"
		}
		all = append(all, mutant{name + " does not count", kills, totalsMutant(func(q *broker.QueueInfo) { f(&q.Totals) })})
	}
	return all
}

// totalsMutant returns a mutation that changes the reported totals with f.
func totalsMutant(f func(*broker.QueueInfo)) func() func(*patched) {
	return always(func(p *patched) {
		change(&p.queues, nil, func(_ *broker.QueuesRequest, a *broker.QueuesReply) {
			for i := range a.Queues {
				f(&a.Queues[i])
			}
		})
	})
}

// adder adds to the totals of a queue what did not happen.
type adder func(queue string, more broker.Totals)

// extra returns a mutation whose handles all count more than happens.
func extra(f func(*patched, adder)) func() func(*patched) {
	return func() func(*patched) {
		var mu sync.Mutex
		more := make(map[string]broker.Totals)
		return func(p *patched) {
			f(p, func(queue string, t broker.Totals) {
				mu.Lock()
				defer mu.Unlock()
				more[queue] = more[queue].Plus(t)
			})
			change(&p.queues, nil, func(_ *broker.QueuesRequest, a *broker.QueuesReply) {
				mu.Lock()
				defer mu.Unlock()
				for i := range a.Queues {
					a.Queues[i].Totals = a.Queues[i].Totals.Plus(more[a.Queues[i].Name])
				}
			})
		}
	}
}
