package conformance_test

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/seed81422ce9/jobs/broker"
)

// register registers a worker, unseen by the rule.
func (p *patched) register(now time.Time, worker string, queues ...string) {
	_, _ = p.Broker.Renew(background, broker.RenewRequest{Now: now, Worker: worker, Queues: queues, Lease: 30 * time.Second, Register: true})
}

// ends stores in m when each worker's leases end.
func (p *patched) ends(m *sync.Map) {
	change(&p.renew, nil, func(r *broker.RenewRequest, a *broker.Renewed) {
		if !a.Lost {
			m.Store(r.Worker, r.Now.Add(r.Lease))
		}
	})
}

func ranOut(m *sync.Map, worker string, now time.Time) bool {
	until, ok := m.Load(worker)
	return ok && !now.Before(until.(time.Time))
}

var leaseMutants = []mutant{
	{"every renewal registers", "Lease/RenewNeedsRegistration", always(func(p *patched) {
		change(&p.renew, func(r *broker.RenewRequest) { r.Register = true }, nil)
	})},
	{"registering again is refused", "Lease/RegisteringAgainRenews Fault/RepeatedRegistrationIsHarmless",
		sharing(func(p *patched, m *sync.Map) {
			change(&p.renew, nil, func(r *broker.RenewRequest, a *broker.Renewed) {
				if _, seen := m.LoadOrStore(r.Worker, true); seen && r.Register {
					a.Lost = true
				}
			})
		})},
	{"a retired worker lives on", "Lease/RetiredIsDeadForGood Lease/LateClaimLeasesNothing Race/ClaimOrRetire", always(func(p *patched) {
		p.retire = func(_ context.Context, r broker.RetireRequest) (broker.Retired, error) {
			var got broker.Retired
			for _, q := range r.Queues {
				for _, j := range p.held(r.Now, q, r.Worker) {
					p.settleAs(r.Now, r.Worker, &j, broker.Release())
					got.Released = append(got.Released, j.Ref())
				}
			}
			return got, nil
		}
		claim := p.claim
		p.claim = func(ctx context.Context, r broker.ClaimRequest) (broker.Claimed, error) {
			time.Sleep(time.Millisecond) // it executes late
			return claim(ctx, r)
		}
	})},
	{"a reclaim finds only workers with jobs", "Lease/FoundIsDeadForGood Reclaim/EndsOnlyWhoRanOut", always(func(p *patched) {
		change(&p.reclaim, func(r *broker.ReclaimRequest) {
			queues, _ := p.known(r.Now)
			for _, q := range queues {
				for _, w := range q.Workers {
					if w.Held == 0 {
						p.register(r.Now, w.ID, q.Name)
					}
				}
			}
		}, nil)
	})},
	{"leases end too early", "Lease/HoldsUntilItsTime", always(func(p *patched) {
		change(&p.renew, func(r *broker.RenewRequest) { r.Lease -= time.Microsecond }, nil)
	})},
	{"leases end too late", "Lease/HoldsUntilItsTime", always(func(p *patched) {
		change(&p.renew, func(r *broker.RenewRequest) { r.Lease += time.Microsecond }, nil)
	})},
	{"a renewal is for one queue", "Lease/OneRenewalHoldsAll", always(func(p *patched) {
		change(&p.renew, func(r *broker.RenewRequest) {
			if !r.Register {
				r.Queues = r.Queues[:1]
			}
		}, nil)
	})},
	{"who ran out cannot renew", "Lease/RunOutMayRenew", sharing(func(p *patched, m *sync.Map) {
		change(&p.renew, nil, func(r *broker.RenewRequest, a *broker.Renewed) { a.Lost = a.Lost || ranOut(m, r.Worker, r.Now) })
		p.ends(m)
	})},
	{"who ran out cannot settle", "Lease/RunOutMaySettle Settle/EndedWorkerSettlesWhatIsLeft", sharing(func(p *patched, m *sync.Map) {
		p.ends(m)
		change(&p.settle, func(r *broker.SettleRequest) {
			if ranOut(m, r.Worker, r.Now) {
				r.Worker = "nobody"
			}
		}, nil)
	})},
	{"who ran out cannot claim", "Lease/RunOutMayClaim", sharing(func(p *patched, m *sync.Map) {
		p.ends(m)
		change(&p.claim, func(r *broker.ClaimRequest) {
			if ranOut(m, r.Worker, r.Now) {
				r.Worker = "nobody"
			}
		}, nil)
	})},
	{"Held counts everybody's", "Lease/RenewCountsWhatIsHeld", always(func(p *patched) {
		change(&p.renew, nil, func(r *broker.RenewRequest, a *broker.Renewed) {
			queues, _ := p.known(r.Now)
			for _, q := range queues {
				a.Held[q.Name] = int(q.Counts[broker.StateActive])
			}
		})
	})},
	{"Held counts nothing", "Fault/LostClaimIsFoundByItsWorker Reclaim/CountsForTheCaller Lease/RunOutMayRenew", always(func(p *patched) {
		change(&p.renew, nil, func(_ *broker.RenewRequest, a *broker.Renewed) { clear(a.Held) })
	})},
	{"a request to cancel is shown once", "Lease/CancelShowsInRenew", sharing(func(p *patched, m *sync.Map) {
		change(&p.renew, nil, func(_ *broker.RenewRequest, a *broker.Renewed) {
			a.Cancel = slices.DeleteFunc(a.Cancel, func(ref broker.Ref) bool {
				_, seen := m.LoadOrStore(ref, true)
				return seen
			})
		})
	})},
	{"lost is who is lost in every queue", "Lease/LostInOneQueueIsLost", always(func(p *patched) {
		next := p.renew
		p.renew = func(ctx context.Context, r broker.RenewRequest) (broker.Renewed, error) {
			got, err := next(ctx, r)
			for _, q := range r.Queues {
				one := r
				one.Queues = []string{q}
				if renewed, _ := p.Broker.Renew(ctx, one); !renewed.Lost {
					got.Lost = false
				}
			}
			return got, err
		}
	})},
	{"retiring charges a crash", "Lease/RetireGivesEverythingBack", always(func(p *patched) {
		change(&p.retire, func(r *broker.RetireRequest) {
			for _, q := range r.Queues {
				for _, j := range p.held(r.Now, q, r.Worker) {
					p.settleAs(r.Now, r.Worker, &j, broker.Crash(0, broker.Failure{Message: "retired"}))
				}
			}
		}, nil)
	})},
	{"retiring again releases again", "Fault/RepeatedRetireIsHarmless", sharing(func(p *patched, m *sync.Map) {
		change(&p.retire, nil, func(r *broker.RetireRequest, a *broker.Retired) {
			released, _ := m.LoadOrStore(r.Worker, a.Released)
			a.Released = released.([]broker.Ref)
		})
	})},
	{"retiring ends the others too", "Lease/RetireLeavesOthersAlone", always(func(p *patched) {
		change(&p.retire, nil, func(r *broker.RetireRequest, _ *broker.Retired) {
			queues, names := p.known(r.Now)
			for _, q := range queues {
				for _, w := range q.Workers {
					_, _ = p.Broker.Retire(background, broker.RetireRequest{Now: r.Now, Worker: w.ID, Queues: names})
				}
			}
		})
	})},
	{"what a worker says of itself is not kept", "Lease/WorkersAreDescribed Lease/WorkersDescribeThemselvesAnew", always(func(p *patched) {
		change(&p.renew, func(r *broker.RenewRequest) { r.Info = broker.WorkerInfo{} }, nil)
	})},
	{"a worker describes itself once", "Lease/WorkersDescribeThemselvesAnew", always(func(p *patched) {
		change(&p.renew, func(r *broker.RenewRequest) { r.Describe = false }, nil)
	})},
	{"each renewal describes the worker", "Lease/WorkersDescribeThemselvesAnew", always(func(p *patched) {
		change(&p.renew, func(r *broker.RenewRequest) { r.Describe = !r.Register }, nil)
	})},
}
