package conformance_test

import (
	"context"
	"slices"
	"time"

	"github.com/seed81422ce9/jobs/broker"
)

// headless makes a queue forget its keys' heads.
func (p *patched) headless(queue string) {
	if o := p.set(broker.PolicyRequest{Queue: queue}).Ordered; o != broker.OrderNone {
		p.set(broker.PolicyRequest{Queue: queue, Ordered: new(broker.OrderNone)})
		p.set(broker.PolicyRequest{Queue: queue, Ordered: &o})
	}
}

// headlessAfter makes an operation free the key of a head.
func headlessAfter(kind broker.OperationKind) func() func(*patched) {
	return always(func(p *patched) {
		p.results(func(o broker.Operation, r *broker.OperationResult) {
			if o.Kind == kind {
				p.headless(r.Ref.Queue)
			}
		})
	})
}

var turnMutants = []mutant{
	{"keys have no turns", "Turn/EachKeyHasOneBeforeAnyHasTwo Turn/ManyJobsOfOneKeyDelayAnotherByOne Turn/ANewKeyComesAfterOneOfEach",
		always(func(p *patched) {
			p.newJobs(func(j *broker.NewJob) { j.Body.Key = "" })
		})},
	{"a key that comes late catches up", "Turn/NobodySavesTurnsUp Turn/ANewKeyComesAfterOneOfEach", always(func(p *patched) {
		change(&p.enqueue, func(r *broker.EnqueueRequest) {
			j := &r.Jobs[0]
			if j.Body.Key != "" && p.counts(r.Now, j.Queue)[broker.StateActive] > 30 {
				p.set(broker.PolicyRequest{Queue: j.Queue, Key: j.Body.Key, Weight: new(int64(50))})
			}
		}, nil)
	})},
	{"one key has fifty turns for one of another", "Model/NoKeyStarves", always(func(p *patched) {
		shown := func(policy *broker.Policy) {
			if policy.Weight == 50 {
				policy.Weight = 0
			}
		}
		change(&p.enqueue, func(r *broker.EnqueueRequest) {
			for i := range r.Jobs {
				if j := &r.Jobs[i]; j.Body.Key == "tenant1" {
					p.set(broker.PolicyRequest{Queue: j.Queue, Key: "tenant1", Weight: new(int64(50))})
				}
			}
		}, nil)
		change(&p.policy, nil, func(_ *broker.PolicyRequest, a *broker.Policy) { shown(a) })
		change(&p.keys, nil, func(_ *broker.KeysRequest, a *broker.KeysReply) {
			for i := range a.Keys {
				shown(&a.Keys[i].Policy)
			}
			a.Keys = slices.DeleteFunc(a.Keys, func(k broker.KeyInfo) bool { return k.Depth+k.Active == 0 && k.Policy == broker.Policy{} })
		})
	})},
	{"others have twenty turns for one of a key that was alone", "Turn/NobodyRepaysTurns", always(func(p *patched) {
		change(&p.enqueue, func(r *broker.EnqueueRequest) {
			if j := &r.Jobs[0]; j.Body.Key == "c" && p.counts(r.Now, j.Queue)[broker.StateActive] >= 30 {
				p.set(broker.PolicyRequest{Queue: j.Queue, Key: "c", Weight: new(int64(20))})
			}
		}, nil)
	})},
	{"a key that comes back goes first each time", "Turn/NobodySavesTurnsUp", always(func(p *patched) {
		p.newJobs(func(j *broker.NewJob) {
			if j.Body.Key == "single" {
				j.Body.Priority = broker.PriorityUrgent
			}
		})
	})},
	{"weights are ignored", "Turn/WeightsAreTurns", always(func(p *patched) {
		p.policies(func(r *broker.PolicyRequest) { r.Weight = nil })
	})},
	{"jobs without a key are each a key", "Turn/JobsWithoutAKeyAreOneMore", always(func(p *patched) {
		p.newJobs(func(j *broker.NewJob) {
			if j.Body.Key == "" {
				j.Body.Key = "own " + j.ID
			}
		})
	})},
	{"jobs without a key go first", "Turn/JobsWithoutAKeyAreOneMore", always(func(p *patched) {
		p.newJobs(func(j *broker.NewJob) {
			if j.Body.Key == "" {
				j.Body.Priority = broker.PriorityUrgent
			}
		})
	})},
	{"keys have no priorities", "Turn/PriorityGoesBeforeTurns", always(func(p *patched) {
		p.newJobs(func(j *broker.NewJob) { j.Body.Priority = broker.PriorityNormal })
	})},
	{"keys have no rounds", "Turn/RoundsReachEachPriorityOfKeys Turn/RoundsGoByTheJobsThatTheirQueueGives", always(func(p *patched) {
		p.policies(func(r *broker.PolicyRequest) { r.PriorityRound = nil })
	})},
	{"a round is fifty times as long", "Turn/RoundsReachEachPriorityOfKeys Model/NoKeyStarves", always(func(p *patched) {
		change(&p.policy, func(r *broker.PolicyRequest) {
			if r.PriorityRound != nil {
				r.PriorityRound = new(*r.PriorityRound * 50)
			}
		}, func(_ *broker.PolicyRequest, a *broker.Policy) { a.PriorityRound /= 50 })
	})},
	{"released jobs of a key are its last", "Turn/ReleasedAreFirstOfTheirKey", always(func(p *patched) {
		p.outcomes(func(_ string, s *broker.Settlement) {
			if s.Outcome.Kind() == broker.OutcomeRelease {
				s.Outcome = broker.Snooze(0, broker.Failure{})
			}
		})
	})},
	{"there is no order",
		"Sequence/OneAfterTheOther Sequence/AHeadKeepsItsTurn Sequence/OutlivesItsWorker " +
			"Sequence/ADeadHeadStopsItsKey Sequence/AHeldHeadKeepsItsKey",
		always(func(p *patched) { p.policies(func(r *broker.PolicyRequest) { r.Ordered = nil }) })},
	{"a head that waits for its time lets others go", "Sequence/AHeadKeepsItsTurn Sequence/OutlivesItsWorker", always(func(p *patched) {
		p.verdicts(func(v *broker.Verdict) {
			if v.State == broker.StateRetry {
				p.headless(v.Queue)
			}
		})
	})},
	{"a head that is released is a job like others", "Sequence/OperatorsMayMoveAHead Sequence/AHeadKeepsItsTurn", always(func(p *patched) {
		p.verdicts(func(v *broker.Verdict) {
			if v.State == broker.StatePending {
				p.headless(v.Queue)
			}
		})
	})},
	{"a reclaim takes the head from its key", "Sequence/OutlivesItsWorker", always(func(p *patched) {
		change(&p.reclaim, nil, func(r *broker.ReclaimRequest, _ *broker.Claimed) { p.headless(r.Queues[0]) })
	})},
	{"dead heads are skipped", "Sequence/ADeadHeadStopsItsKey", always(func(p *patched) {
		p.policies(func(r *broker.PolicyRequest) {
			if r.Ordered != nil && *r.Ordered == broker.OrderStop {
				r.Ordered = new(broker.OrderSkip)
			}
		})
	})},
	{"dead heads stop their key", "Sequence/ADeadHeadIsSkipped Sequence/ADeadHeadMayBeSkippedLater", always(func(p *patched) {
		p.policies(func(r *broker.PolicyRequest) {
			if r.Ordered != nil && *r.Ordered == broker.OrderSkip {
				r.Ordered = new(broker.OrderStop)
			}
		})
	})},
	{"a redriven head is a job like others", "Sequence/ADeadHeadStopsItsKey", headlessAfter(broker.OpRedrive)},
	{"a rescheduled head is a job like others", "Sequence/OperatorsMayMoveAHead", headlessAfter(broker.OpReschedule)},
	{"a held head is a job like others", "Sequence/AHeldHeadKeepsItsKey", headlessAfter(broker.OpHold)},
	{"an unheld job goes before the head", "Sequence/AnUnheldJobGoesBehindTheHead", headlessAfter(broker.OpUnhold)},
	{"the order stays when it is removed", "Sequence/WithoutARuleNoHeads", always(func(p *patched) {
		p.policies(func(r *broker.PolicyRequest) {
			if r.Ordered != nil && *r.Ordered == broker.OrderNone {
				r.Ordered = nil
			}
		})
	})},
	{"an ordered queue takes jobs without a key", "Sequence/RefusesWhatHasNoOrder", always(func(p *patched) {
		p.newJobs(func(j *broker.NewJob) {
			if j.Body.Key == "" {
				j.Body.Key = "none"
			}
		})
	})},
	{"an ordered queue gives no jobs without a key", "Sequence/ServesWhatWasThere Sequence/RestoredJobsAreInIt", always(func(p *patched) {
		change(&p.claim, nil, func(_ *broker.ClaimRequest, a *broker.Claimed) {
			a.Jobs = slices.DeleteFunc(a.Jobs, func(j broker.Job) bool { return j.Key == "" })
		})
	})},
	{"a claim that waits looks at its end alone",
		"Room/ByTheEndOfALease Room/ByTheEndOfALeaseAndTime Room/ByAChangeOfAPolicy Room/ByWhatBecomesOfAHead Room/ByTime Room/ByTimeForRetries",
		always(func(p *patched) {
			claim := p.claim
			p.claim = func(ctx context.Context, r broker.ClaimRequest) (broker.Claimed, error) {
				long := r.Wait
				r.Wait = 0
				got, err := claim(ctx, r)
				if err != nil || len(got.Jobs) > 0 || long <= 0 || r.Check() != nil {
					return got, err
				}
				select {
				case <-time.After(long):
				case <-ctx.Done():
				}
				return claim(ctx, r)
			}
		})},
	{"a claim does not wait beside pending jobs", "Room/NotByWhatIsKeptBack", always(func(p *patched) {
		change(&p.claim, func(r *broker.ClaimRequest) {
			if p.counts(r.Now, r.Queues[0].Queue)[broker.StatePending] > 0 {
				r.Wait = 0
			}
		}, nil)
	})},
}
