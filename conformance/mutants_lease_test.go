package conformance_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/seed81422ce9/jobs/broker"
)

func utf8(s string) string { return strings.ToValidUTF8(s, "?") }
func trim(s string) string { return strings.TrimSpace(s) }

var claimMutants = []mutant{
	{"a lease does not say whose it is", "Claim/LeasesToItsWorker", always(func(p *patched) {
		p.jobsIn(func(j *broker.Job) { j.Worker = "" })
	})},
	{"a claimed job stays in line", "Claim/GivesAJobOnce Race/ClaimsGiveEachJobOnce", sharing(func(p *patched, m *sync.Map) {
		change(&p.claim, nil, func(r *broker.ClaimRequest, a *broker.Claimed) {
			if last, ok := m.Load("last"); ok && len(a.Jobs) < r.Max {
				again := last.(broker.Job)
				again.Worker = r.Worker
				a.Jobs = append(a.Jobs, again)
			} else if len(a.Jobs) > 0 {
				m.Store("last", a.Jobs[0])
			}
		})
	})},
	{"a claim's Max is ignored", "Claim/GivesAtMostMax", always(func(p *patched) {
		change(&p.claim, func(r *broker.ClaimRequest) { r.Max = broker.MaxClaim }, nil)
	})},
	{"a share's Max is ignored", "Claim/GivesAtMostMax", always(func(p *patched) {
		change(&p.claim, func(r *broker.ClaimRequest) {
			r.Queues = slices.Clone(r.Queues)
			for i := range r.Queues {
				r.Queues[i].Max = r.Max
			}
		}, nil)
	})},
	{"shares are served by name", "Claim/ServesSharesInOrder", always(func(p *patched) {
		change(&p.claim, func(r *broker.ClaimRequest) {
			r.Queues = slices.Clone(r.Queues)
			slices.SortFunc(r.Queues, func(a, b broker.Share) int { return -strings.Compare(a.Queue, b.Queue) })
		}, nil)
	})},
	{"a claim's Bytes are ignored", "Claim/EndsWithItsBytes Claim/EndsWithItsBytesOfDueJobs", always(func(p *patched) {
		change(&p.claim, func(r *broker.ClaimRequest) { r.Bytes *= 1000 }, nil)
	})},
	{"a claim that its Bytes ended is silent about more", "Claim/EndsWithItsBytes Claim/EndsWithItsBytesOfDueJobs", always(func(p *patched) {
		change(&p.claim, nil, func(r *broker.ClaimRequest, a *broker.Claimed) { a.More = a.More && r.Bytes == 0 })
	})},
	{"a claim gives only jobs that fit into its Bytes", "Claim/EndsWithItsBytes", always(func(p *patched) {
		change(&p.claim, func(r *broker.ClaimRequest) {
			if r.Bytes > 0 && r.Bytes < 900 {
				r.Max = 0
			}
		}, nil)
	})},
	{"a reclaim's Bytes are ignored", "Reclaim/EndsWithItsBytes", always(func(p *patched) {
		change(&p.reclaim, func(r *broker.ReclaimRequest) { r.Bytes = 0 }, nil)
	})},
	{"an empty claim is an error", "Claim/EmptyIsEmpty", always(func(p *patched) {
		next := p.claim
		p.claim = func(ctx context.Context, r broker.ClaimRequest) (broker.Claimed, error) {
			got, err := next(ctx, r)
			if err == nil && len(got.Jobs) == 0 {
				err = broker.ErrNotFound
			}
			return got, err
		}
	})},
	{"a claim never says More", "Claim/SaysWhatIsLeft", always(func(p *patched) {
		change(&p.claim, nil, func(_ *broker.ClaimRequest, a *broker.Claimed) { a.More = false })
	})},
	{"a claim never says when the next is due", "Claim/SaysWhenTheNextIsDue Wake/WhenDue", always(func(p *patched) {
		change(&p.claim, nil, func(_ *broker.ClaimRequest, a *broker.Claimed) { a.NextDue = time.Time{} })
	})},
	{"a claim settles after it claims", "Claim/SettlesFirst", always(func(p *patched) {
		next := p.claim
		p.claim = func(ctx context.Context, r broker.ClaimRequest) (broker.Claimed, error) {
			settle := r.Settle
			r.Settle = broker.SettleRequest{}
			got, err := next(ctx, r)
			if len(settle.Items) > 0 {
				got.Verdicts, got.SettleErr = p.Broker.Settle(ctx, settle)
			}
			return got, err
		}
	})},
	{"a claim settles under a number of its own", "Claim/RepeatedSettleIsNotRepeated Fault/RepeatedTurnSettlesOnce", func() func(*patched) {
		var n atomic.Int64
		return func(p *patched) {
			change(&p.claim, func(r *broker.ClaimRequest) { r.Settle.Number += 1000 * n.Add(1) }, nil)
		}
	}},
	{"a claim registers its worker", "Claim/UnknownWorkerGetsNothing Lease/RenewNeedsRegistration", always(func(p *patched) {
		change(&p.claim, func(r *broker.ClaimRequest) { p.register(r.Now, r.Worker, r.Queues[0].Queue) }, nil)
	})},
	{"an error takes the jobs along", "Claim/FailingQueueWithholdsNothing Layout/OtherQueuesGoOn", always(func(p *patched) {
		next := p.claim
		p.claim = func(ctx context.Context, r broker.ClaimRequest) (broker.Claimed, error) {
			got, err := next(ctx, r)
			if err != nil {
				got.Jobs = nil
			}
			return got, err
		}
	})},
	{"a refused claim settles nothing", "Claim/SettleSurvivesAFailingClaim", always(func(p *patched) {
		next := p.claim
		p.claim = func(ctx context.Context, r broker.ClaimRequest) (broker.Claimed, error) {
			settle := r.Settle
			r.Settle = broker.SettleRequest{}
			got, err := next(ctx, r)
			if err == nil && len(settle.Items) > 0 {
				got.Verdicts, got.SettleErr = p.Broker.Settle(ctx, settle)
			}
			return got, err
		}
	})},
	{"a claim's limits are bent", "Claim/RefusesWhatIsInvalid", always(func(p *patched) {
		change(&p.claim, func(r *broker.ClaimRequest) { r.Max = min(max(r.Max, 0), broker.MaxClaim) }, nil)
	})},
	{"a claim in virtual time waits", "Claim/VirtualTimeNeverWaits", always(func(p *patched) {
		next := p.claim
		p.claim = func(ctx context.Context, r broker.ClaimRequest) (broker.Claimed, error) {
			if r.Wait > 0 {
				r.Now = time.Time{}
			}
			return next(ctx, r)
		}
	})},
	{"a claim gives up among void entries", "Claim/DiscardsManyVoidEntries", func() func(*patched) {
		var void atomic.Int64
		return func(p *patched) {
			p.results(func(broker.Operation, *broker.OperationResult) { void.Add(1) })
			change(&p.claim, func(r *broker.ClaimRequest) {
				if void.Load() > 500 {
					r.Max = 0
				}
			}, func(_ *broker.ClaimRequest, a *broker.Claimed) { a.More = false })
		}
	}},
}

// register makes a worker live, behind everybody's back.
func (p *patched) register(now time.Time, worker string, queues ...string) {
	_, _ = p.Broker.Renew(background, broker.RenewRequest{Now: now, Worker: worker, Queues: queues, Lease: 30 * time.Second, Register: true})
}

// ends keeps in m until when each worker's leases hold.
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
	{"registering again is refused", "Lease/RegisteringAgainRenews Fault/RepeatedRegistrationIsHarmless", sharing(func(p *patched, m *sync.Map) {
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
	{"anybody's lease can be settled", "Reclaim/VoidsTheOldLease Settle/AnotherWorkersLeaseIsVoid Race/SettleOrReclaim", always(func(p *patched) {
		change(&p.reclaim, func(*broker.ReclaimRequest) { time.Sleep(time.Millisecond) }, nil) // so that they meet
		next := p.settle
		p.settle = func(ctx context.Context, r broker.SettleRequest) ([]broker.Verdict, error) {
			time.Sleep(time.Millisecond)
			verdicts, err := next(ctx, r)
			for i := range verdicts {
				j := r.Items[i].Job
				if now := p.look(r.Now, j.Queue, j.ID); now != nil && now.State == broker.StateActive && errors.Is(verdicts[i].Err, broker.ErrLeaseLost) {
					p.settleAs(r.Now, now.Worker, now, r.Items[i].Outcome)
					verdicts[i].State, verdicts[i].Err = r.Items[i].Outcome.State(), nil
				}
			}
			return verdicts, err
		}
	})},
}
