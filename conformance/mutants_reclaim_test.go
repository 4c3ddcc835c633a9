package conformance_test

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/seed81422ce9/jobs/broker"
)

var reclaimMutants = []mutant{
	{"a renewal knows of its own worker alone", "Reclaim/RenewSaysWhen", always(func(p *patched) {
		change(&p.renew, nil, func(r *broker.RenewRequest, a *broker.Renewed) { a.NextLapse = r.Now.Add(r.Lease) })
	})},
	{"a reclaim charges the crash itself", "Reclaim/TakesOverWhatRanOut", always(func(p *patched) {
		change(&p.reclaim, nil, func(_ *broker.ReclaimRequest, a *broker.Claimed) {
			for i := range a.Jobs {
				a.Jobs[i].Crashes++
			}
		})
	})},
	{"a reclaimed job is given with its old epoch", "Reclaim/TakesOverWhatRanOut Settle/EpochsRiseByOne", always(func(p *patched) {
		change(&p.reclaim, nil, func(_ *broker.ReclaimRequest, a *broker.Claimed) {
			for i := range a.Jobs {
				a.Jobs[i].Epoch--
			}
		})
		change(&p.find, nil, func(_ *broker.Query, a *broker.Page) {
			for i := range a.Jobs {
				a.Jobs[i].Epoch = max(0, a.Jobs[i].Epoch-1)
			}
		})
	})},
	{"a reclaim ends everybody but its caller", "Reclaim/LeavesTheLivingAlone", always(func(p *patched) {
		change(&p.reclaim, func(r *broker.ReclaimRequest) {
			queues, names := p.known(r.Now)
			for _, q := range queues {
				for _, w := range q.Workers {
					if w.ID != r.Worker {
						_, _ = p.Broker.Retire(background, broker.RetireRequest{Now: r.Now, Worker: w.ID, Queues: names})
					}
				}
			}
		}, nil)
	})},
	{"a worker is still alive at the end of its leases", "Lease/AliveUntilItsTime Lease/HoldsUntilItsTime", always(func(p *patched) {
		change(&p.reclaim, func(r *broker.ReclaimRequest) { r.Now = r.Now.Add(-time.Microsecond) }, nil)
	})},
	{"a worker at the end of its leases keeps its queue", "Lease/AliveUntilItsTime", always(func(p *patched) {
		p.operating(broker.OpRemoveQueue, func(o *broker.Operation) { o.Now = o.Now.Add(-time.Microsecond) })
	})},
	{"a worker is dead just before the end of its leases", "Lease/AliveUntilItsTime", always(func(p *patched) {
		p.operating(broker.OpRemoveQueue, func(o *broker.Operation) { o.Now = o.Now.Add(time.Microsecond) })
	})},
	{"a reclaim's Max is ignored", "Reclaim/GoesOverSeveralCalls", always(func(p *patched) {
		change(&p.reclaim, func(r *broker.ReclaimRequest) { r.Max = broker.MaxClaim }, nil)
	})},
	{"a reclaim never says More", "Reclaim/GoesOverSeveralCalls", always(func(p *patched) {
		change(&p.reclaim, nil, func(_ *broker.ReclaimRequest, a *broker.Claimed) { a.More = false })
	})},
	{"a reclaim registers its caller", "Reclaim/CallerMustBeRegistered Reclaim/CallerMustNotHaveRunOut", always(func(p *patched) {
		change(&p.reclaim, func(r *broker.ReclaimRequest) { p.register(r.Now, r.Worker, r.Queues...) }, nil)
	})},
	{"reclaimed leases never run out", "Reclaim/HealsItsOwnCrash Fault/LostReclaimHeals", sharing(func(p *patched, m *sync.Map) {
		change(&p.reclaim, func(r *broker.ReclaimRequest) {
			m.Range(func(worker, _ any) bool {
				_, _ = p.Broker.Renew(background, broker.RenewRequest{Now: r.Now, Worker: worker.(string), Queues: r.Queues, Lease: time.Minute})
				return true
			})
		}, func(r *broker.ReclaimRequest, a *broker.Claimed) {
			if len(a.Jobs) > 0 {
				m.Store(r.Worker, true)
			}
		})
	})},
	{"a reclaim looks into every queue", "Reclaim/OnlyInTheQueuesNamed", always(func(p *patched) {
		change(&p.reclaim, func(r *broker.ReclaimRequest) { _, r.Queues = p.known(r.Now) }, nil)
	})},
	{"a reclaim looks into the first queue", "Fault/DeadProcessStrandsNothing", always(func(p *patched) {
		change(&p.reclaim, func(r *broker.ReclaimRequest) { r.Queues = r.Queues[:1] }, nil)
	})},
	{"a reclaim gives nothing", "Fault/LostClaimOfADeadWorkerIsReclaimed Reclaim/TakesOverWhatRanOut", always(func(p *patched) {
		p.reclaim = func(_ context.Context, r broker.ReclaimRequest) (broker.Claimed, error) {
			return broker.Claimed{Now: r.Now}, nil
		}
	})},
	{"a reclaimed job goes back to its queue", "Reclaim/IsNotInTheQueue Reclaim/CountsForTheCaller", always(func(p *patched) {
		change(&p.reclaim, nil, func(r *broker.ReclaimRequest, a *broker.Claimed) {
			for i := range a.Jobs {
				p.settleAs(r.Now, r.Worker, &a.Jobs[i], broker.Release())
			}
		})
	})},
	{"a reclaim forgets the wish to cancel", "Reclaim/KeepsTheWishToCancel", always(func(p *patched) {
		change(&p.reclaim, nil, func(_ *broker.ReclaimRequest, a *broker.Claimed) {
			for i := range a.Jobs {
				a.Jobs[i].CancelRequested = false
			}
		})
	})},
	{"the store buries what crashed twice", "Reclaim/CrashesAreOnlyCharged", always(func(p *patched) {
		p.outcomes(func(_ string, s *broker.Settlement) {
			if s.Outcome.Kind() == broker.OutcomeCrash && s.Job.Crashes > 1 {
				s.Outcome = broker.Die(broker.ReasonCrashes, *s.Outcome.Failure())
			}
		})
	})},
	{"anybody's lease can be settled", "Reclaim/VoidsTheOldLease Settle/AnotherWorkersLeaseIsVoid Race/SettleOrReclaim",
		always(func(p *patched) {
			change(&p.reclaim, func(*broker.ReclaimRequest) { time.Sleep(time.Millisecond) }, nil) // so that they overlap
			next := p.settle
			p.settle = func(ctx context.Context, r broker.SettleRequest) ([]broker.Verdict, error) {
				time.Sleep(time.Millisecond)
				verdicts, err := next(ctx, r)
				for i := range verdicts {
					j := r.Items[i].Job
					if now := p.look(r.Now, j.Queue, j.ID); now != nil && now.State == broker.StateActive &&
						errors.Is(verdicts[i].Err, broker.ErrLeaseLost) {
						p.settleAs(r.Now, now.Worker, now, r.Items[i].Outcome)
						verdicts[i].State, verdicts[i].Err = r.Items[i].Outcome.State(), nil
					}
				}
				return verdicts, err
			}
		})},
}
