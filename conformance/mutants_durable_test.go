package conformance_test

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/seed81422ce9/jobs/broker"
)

// Each of these stores keeps one kind of record in memory, and loses it when the first
// handle is closed.
var durableMutants = []mutant{
	forgets("settle numbers", func(p *patched, gone func() bool) {
		change(&p.settle, func(r *broker.SettleRequest) {
			if gone() {
				r.Number += 1 << 20
			}
		}, nil)
	}),
	forgets("remembered IDs", func(p *patched, gone func() bool) {
		p.newJobs(func(j *broker.NewJob) {
			if gone() && j.Body.GivenID {
				j.ID += " alias"
			}
		})
	}),
	forgets("unique keys", func(p *patched, gone func() bool) {
		p.newJobs(func(j *broker.NewJob) {
			if gone() {
				j.Body.Unique = broker.Unique{}
			}
		})
	}),
	forgets("requests to cancel", func(p *patched, gone func() bool) {
		change(&p.renew, nil, func(_ *broker.RenewRequest, a *broker.Renewed) {
			if gone() {
				a.Cancel = nil
			}
		})
	}),
	forgets("the index of keys", func(p *patched, gone func() bool) {
		change(&p.find, nil, func(q *broker.Query, a *broker.Page) {
			if gone() && q.Key != "" {
				a.Jobs = nil
			}
		})
	}),
	forgets("when leases run out", func(p *patched, gone func() bool) {
		change(&p.renew, nil, func(_ *broker.RenewRequest, a *broker.Renewed) {
			if gone() {
				a.NextLapse = time.Time{}
			}
		})
	}),
	forgets("policies", func(p *patched, gone func() bool) {
		change(&p.policy, nil, func(_ *broker.PolicyRequest, a *broker.Policy) {
			if gone() {
				*a = broker.Policy{}
			}
		})
	}),
	forgets("the values of marks", func(p *patched, gone func() bool) {
		change(&p.mark, nil, func(_ *broker.MarkRequest, a *broker.Marked) {
			if gone() {
				a.Value = nil
			}
		})
	}),
	forgets("totals", func(p *patched, gone func() bool) {
		change(&p.queues, nil, func(_ *broker.QueuesRequest, a *broker.QueuesReply) {
			for i := range a.Queues {
				if gone() {
					a.Queues[i].Totals = broker.Totals{}
				}
			}
		})
	}),
	forgets("workers that ended", func(p *patched, gone func() bool) {
		change(&p.renew, nil, func(_ *broker.RenewRequest, a *broker.Renewed) { a.Lost = a.Lost && !gone() })
	}),
	forgets("due times", func(p *patched, gone func() bool) {
		change(&p.find, nil, func(q *broker.Query, a *broker.Page) {
			if gone() && (q.State == broker.StateScheduled || q.State == broker.StateRetry) {
				a.Jobs = nil
			}
		})
	}),
	forgets("who holds jobs", func(p *patched, gone func() bool) {
		p.jobsIn(func(j *broker.Job) {
			if gone() {
				j.Holder = ""
			}
		})
	}),
	forgets("when records are to go", func(p *patched, gone func() bool) {
		next := p.prune
		p.prune = func(ctx context.Context, r broker.PruneRequest) (broker.Pruned, error) {
			if gone() {
				return broker.Pruned{}, nil
			}
			return next(ctx, r)
		}
	}),
}

var durableFlowMutants = []mutant{
	forgetsOf("Durable/LimitsAndHeadsOutliveARestart", "policies of keys", func(p *patched, gone func() bool) {
		change(&p.policy, nil, func(r *broker.PolicyRequest, a *broker.Policy) {
			if r.Key != "" && gone() {
				*a = broker.Policy{}
			}
		})
	}),
	forgetsOf("Durable/LimitsAndHeadsOutliveARestart", "heads", func(p *patched, gone func() bool) {
		change(&p.keys, func(r *broker.KeysRequest) {
			if gone() {
				p.headless(r.Queue)
			}
		}, nil)
	}),
	forgetsOf("Durable/LimitsAndHeadsOutliveARestart", "what rates counted", func(p *patched, gone func() bool) {
		change(&p.claim, func(r *broker.ClaimRequest) {
			if gone() {
				p.anew(r.Queues[0].Queue)
			}
		}, nil)
	}),
	forgetsOf("Durable/LimitsAndHeadsOutliveARestart", "what is active", func(p *patched, gone func() bool) {
		change(&p.claim, func(r *broker.ClaimRequest) {
			if gone() {
				p.widen(r.Queues[0].Queue, 1)
			}
		}, nil)
	}),
}

func forgets(kind string, change func(p *patched, gone func() bool)) mutant {
	return forgetsOf("Durable/EveryKindOfRecordOutlivesARestart", kind, change)
}

func forgetsOf(rule, kind string, change func(p *patched, gone func() bool)) mutant {
	return mutant{"a restart forgets " + kind, rule, func() func(*patched) {
		var closed atomic.Bool
		return func(p *patched) {
			change(p, closed.Load)
			closing := p.closing
			p.closing = func() error {
				closed.Store(true)
				return closing()
			}
		}
	}}
}
