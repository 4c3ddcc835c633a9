package conformance_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/seed81422ce9/jobs/broker"
)

// policies changes every policy request.
func (p *patched) policies(f func(*broker.PolicyRequest)) { change(&p.policy, f, nil) }

// set changes a policy unseen by the rule, and returns it. Without changes it only reads.
func (p *patched) set(r broker.PolicyRequest) broker.Policy {
	now, _ := p.Broker.Policy(background, r)
	return now
}

// widen adds by to a queue's MaxActive and KeyMaxActive; by may be negative.
func (p *patched) widen(queue string, by int) {
	now, r := p.set(broker.PolicyRequest{Queue: queue}), broker.PolicyRequest{Queue: queue}
	if now.MaxActive > 0 {
		r.MaxActive = new(max(1, now.MaxActive+int64(by)))
	}
	if now.KeyMaxActive > 0 {
		r.KeyMaxActive = new(max(1, now.KeyMaxActive+int64(by)))
	}
	p.set(r)
}

// anew resets the count of a queue's rate.
func (p *patched) anew(queue string) {
	if rate := p.set(broker.PolicyRequest{Queue: queue}).Rate; rate.Jobs > 0 {
		p.set(broker.PolicyRequest{Queue: queue, Rate: &broker.Rate{Jobs: broker.NoLimit}})
		p.set(broker.PolicyRequest{Queue: queue, Rate: &rate})
	}
}

// emptyClaims calls f after each claim of one queue that found nothing.
func (p *patched) emptyClaims(f func(now time.Time, queue string)) {
	change(&p.claim, nil, func(r *broker.ClaimRequest, a *broker.Claimed) {
		if len(a.Jobs) == 0 && len(r.Queues) == 1 {
			f(r.Now, r.Queues[0].Queue)
		}
	})
}

func (p *patched) counts(now time.Time, queue string) map[broker.State]int64 {
	reply, _ := p.Broker.Queues(background, broker.QueuesRequest{Now: now, Names: []string{queue}})
	if len(reply.Queues) == 0 {
		return nil
	}
	return reply.Queues[0].Counts
}

// rates changes every rate that is set in a policy, for all jobs or for each key.
func (p *patched) rates(f func(*broker.Rate)) {
	p.policies(func(r *broker.PolicyRequest) {
		for _, field := range []**broker.Rate{&r.Rate, &r.KeyRate} {
			if *field != nil && (*field).Jobs > 0 {
				rate := **field
				f(&rate)
				*field = &rate
			}
		}
	})
}

var flowMutants = []mutant{
	{"limits are declined and honoured", "Limit/MaxActiveBounds Key/RateBounds Sequence/OneAfterTheOther",
		always(func(p *patched) { p.limits = func() broker.Limits { return broker.Limits{NoFlow: true} } })},
	{"limits are declined, and policies of keys are stored", "Limit/MaxActiveBounds", always(func(p *patched) {
		all := p.policy
		limitTo(p, broker.Limits{NoFlow: true})
		declined := p.policy
		p.policy = func(ctx context.Context, r broker.PolicyRequest) (broker.Policy, error) {
			if r.Key != "" {
				return all(ctx, r)
			}
			return declined(ctx, r)
		}
	})},
	{"any number of jobs may be active", "Limit/MaxActiveBounds Limit/ActiveIsCountedFromLeases Limit/HoldsNoRoomWhileItWaits",
		always(func(p *patched) { p.policies(func(r *broker.PolicyRequest) { r.MaxActive = nil }) })},
	{"a retire leaks its workers' room", "Limit/ActiveIsCountedFromLeases Key/ActiveIsCountedFromLeases", always(func(p *patched) {
		change(&p.retire, nil, func(r *broker.RetireRequest, a *broker.Retired) { p.widen(r.Queues[0], -len(a.Released)) })
	})},
	{"a reclaim makes room", "Limit/ActiveIsCountedFromLeases Key/ActiveIsCountedFromLeases", always(func(p *patched) {
		change(&p.reclaim, nil, func(r *broker.ReclaimRequest, a *broker.Claimed) { p.widen(r.Queues[0], len(a.Jobs)) })
	})},
	{"a settle of a lost lease makes room", "Limit/ActiveIsCountedFromLeases Key/ActiveIsCountedFromLeases", always(func(p *patched) {
		p.verdicts(func(v *broker.Verdict) {
			if errors.Is(v.Err, broker.ErrLeaseLost) {
				p.widen(v.Queue, 1)
			}
		})
	})},
	{"a request to cancel makes room", "Limit/ActiveIsCountedFromLeases Key/ActiveIsCountedFromLeases", always(func(p *patched) {
		p.results(func(o broker.Operation, r *broker.OperationResult) {
			if o.Kind == broker.OpCancel && r.State == broker.StateActive {
				p.widen(r.Ref.Queue, 1)
			}
		})
	})},
	{"the first limit stays", "Limit/ChangesCountAtOnce", sharing(func(p *patched, m *sync.Map) {
		p.policies(func(r *broker.PolicyRequest) {
			if _, set := m.LoadOrStore(r.Queue, true); set {
				r.MaxActive = nil
			}
		})
	})},
	{"a lower limit takes leases back", "Limit/ChangesCountAtOnce", always(func(p *patched) {
		p.policies(func(r *broker.PolicyRequest) {
			if r.MaxActive != nil {
				_, _ = p.Broker.Retire(background, broker.RetireRequest{Now: time.Now(), Worker: "w", Queues: []string{r.Queue}})
			}
		})
	})},
	{"nothing is saved up for a burst", "Limit/RateBounds Key/RateBounds", always(func(p *patched) {
		p.rates(func(r *broker.Rate) { r.Burst = 0 })
	})},
	{"each handle has a rate of its own", "Limit/RateBounds Key/RateBounds", always(func(p *patched) {
		p.rates(func(r *broker.Rate) { r.Jobs *= 2 })
	})},
	{"claims go by the latest time of all claims", "Limit/RatesFollowTheClockBack", sharing(func(p *patched, m *sync.Map) {
		change(&p.claim, func(r *broker.ClaimRequest) {
			if last, ok := m.Load("last"); ok && last.(time.Time).After(r.Now) {
				r.Now = last.(time.Time)
			}
			m.Store("last", r.Now)
		}, nil)
	})},
	{"a rate forgets what was released", "Limit/RateCountsEachLease", always(func(p *patched) {
		p.outcomes(func(_ string, s *broker.Settlement) {
			if s.Outcome.Kind() == broker.OutcomeRelease {
				p.anew(s.Job.Queue)
			}
		})
	})},
	{"a reclaim counts for the rate", "Limit/RateCountsEachLease", always(func(p *patched) {
		change(&p.reclaim, nil, func(r *broker.ReclaimRequest, a *broker.Claimed) {
			if rate := p.set(broker.PolicyRequest{Queue: r.Queues[0]}).Rate; rate.Jobs > 0 && len(a.Jobs) > 0 {
				rate.Per *= 2
				p.set(broker.PolicyRequest{Queue: r.Queues[0], Rate: &rate})
			}
		})
	})},
	{"a claim that finds nothing tells no time",
		"Limit/TellsWhenTimeMakesRoom Key/TellsWhenTimeMakesRoom Limit/RetryRateBounds Model/OneQueue", always(func(p *patched) {
			change(&p.claim, nil, func(_ *broker.ClaimRequest, a *broker.Claimed) {
				if len(a.Jobs) == 0 {
					a.NextDue = time.Time{}
				}
			})
		})},
	{"a claim says More of what is kept back",
		"Limit/MaxActiveBounds Key/MaxActiveBounds Sequence/OneAfterTheOther Key/PauseKeepsItsJobsBack", always(func(p *patched) {
			change(&p.claim, nil, func(r *broker.ClaimRequest, a *broker.Claimed) {
				a.More = a.More || p.counts(r.Now, r.Queues[0].Queue)[broker.StatePending] > 0
			})
		})},
	{"a claim that finds nothing takes of the rate", "Limit/HoldsNoRoomWhileItWaits", always(func(p *patched) {
		p.emptyClaims(func(now time.Time, queue string) {
			if rate := p.set(broker.PolicyRequest{Queue: queue}).Rate; rate.Jobs > 0 {
				rate.Per += time.Hour
				p.set(broker.PolicyRequest{Queue: queue, Rate: &rate})
			}
		})
	})},
	{"a claim sends back what it may not give", "Limit/KeepsJobsAsTheyAre", always(func(p *patched) {
		p.emptyClaims(func(now time.Time, queue string) {
			page, _ := p.Broker.Find(background, broker.Query{Now: now, Queue: queue, State: broker.StatePending})
			for _, j := range page.Jobs {
				p.act(now, broker.OpReschedule, queue, j.ID)
			}
		})
	})},
	{"bytes are not bounded", "Limit/MaxBytesBounds Limit/BytesFollowEdits", always(func(p *patched) {
		p.policies(func(r *broker.PolicyRequest) { r.MaxBytes = nil })
	})},
	{"the bytes of retries are not told", "Limit/MaxBytesBounds", always(func(p *patched) {
		change(&p.queues, nil, func(_ *broker.QueuesRequest, a *broker.QueuesReply) {
			for i := range a.Queues {
				if a.Queues[i].Counts[broker.StatePending] == 0 {
					a.Queues[i].Bytes = 0
				}
			}
		})
	})},
	{"a refusal does not say what is full", "Limit/MaxBytesBounds Key/MaxDepthBounds", always(func(p *patched) {
		change(&p.enqueue, nil, func(_ *broker.EnqueueRequest, a *[]broker.Receipt) {
			for i := range *a {
				if errors.Is((*a)[i].Err, broker.ErrQueueFull) {
					(*a)[i].Err = broker.ErrQueueFull
				}
			}
		})
	})},
	{"retries have no rate", "Limit/RetryRateBounds Limit/RetriesLetOthersGoAhead", always(func(p *patched) {
		p.policies(func(r *broker.PolicyRequest) { r.RetryRate = nil })
	})},
	{"retries that may not go keep others back", "Limit/RetriesLetOthersGoAhead", always(func(p *patched) {
		change(&p.claim, func(r *broker.ClaimRequest) {
			if p.dueRetries(r) > 2 {
				r.Max = 0
			}
		}, nil)
	})},
	{"a weight of 0 is none", "Limit/RefusesWhatIsInvalid", always(func(p *patched) {
		p.policies(func(r *broker.PolicyRequest) {
			if r.Weight != nil && *r.Weight == 0 {
				r.Weight = new(int64(broker.NoLimit))
			}
		})
	})},
	{"a burst without a rate is dropped", "Limit/RefusesWhatIsInvalid", always(func(p *patched) {
		p.policies(func(r *broker.PolicyRequest) {
			if r.Rate != nil && r.Rate.Jobs == 0 {
				r.Rate = nil
			}
		})
	})},
	{"any number of jobs of a key may be active", "Key/MaxActiveBounds Key/ActiveIsCountedFromLeases Key/BlockedOnesHinderNoOther",
		always(func(p *patched) {
			p.policies(func(r *broker.PolicyRequest) { r.KeyMaxActive = nil })
		})},
	{"a key has no pause", "Key/PauseKeepsItsJobsBack", always(func(p *patched) {
		p.policies(func(r *broker.PolicyRequest) {
			if r.Key != "" {
				r.Paused = nil
			}
		})
	})},
	{"the pause of a key pauses its queue", "Key/PauseKeepsItsJobsBack", always(func(p *patched) {
		p.policies(func(r *broker.PolicyRequest) {
			if r.Paused != nil {
				r.Key = ""
			}
		})
	})},
	{"a full queue of bytes is a full key", "Key/DepthComesBeforeUniqueKeys", always(func(p *patched) {
		change(&p.enqueue, nil, func(_ *broker.EnqueueRequest, a *[]broker.Receipt) {
			for i := range *a {
				var full *broker.Error
				if errors.As((*a)[i].Err, &full) && full.Field == "bytes" {
					(*a)[i].Err = &broker.Error{Field: "key", Err: broker.ErrQueueFull}
				}
			}
		})
	})},
	{"the depth of a key is not bounded", "Key/MaxDepthBounds Key/DepthComesBeforeUniqueKeys", always(func(p *patched) {
		p.policies(func(r *broker.PolicyRequest) { r.KeyMaxDepth = nil })
	})},
	{"a key has no limits of its own", "Key/OwnRulesTakeThePlace", always(func(p *patched) {
		next := p.policy
		p.policy = func(ctx context.Context, r broker.PolicyRequest) (broker.Policy, error) {
			of := broker.Policy{}
			if r.Key != "" && r.MaxActive != nil {
				of.MaxActive, r.MaxActive = max(0, *r.MaxActive), nil
			}
			got, err := next(ctx, r)
			got.MaxActive += of.MaxActive
			return got, err
		}
	})},
	{"keys without jobs are not listed", "Key/LivesWithoutJobs", always(func(p *patched) {
		change(&p.keys, nil, func(_ *broker.KeysRequest, a *broker.KeysReply) {
			a.Keys = slices.DeleteFunc(a.Keys, func(k broker.KeyInfo) bool { return k.Depth+k.Active == 0 })
		})
	})},
	{"the policies of keys outlive the queue", "Key/LivesWithoutJobs", always(func(p *patched) {
		p.results(func(o broker.Operation, r *broker.OperationResult) {
			if o.Kind == broker.OpRemoveQueue {
				p.set(broker.PolicyRequest{Queue: r.Ref.Queue, Key: "a", MaxDepth: new(int64(3))})
			}
		})
	})},
	{"jobs without a key are a key", "Key/NoneHasNoLimit", always(func(p *patched) {
		p.newJobs(func(j *broker.NewJob) {
			if j.Body.Key == "" {
				j.Body.Key = "none"
			}
		})
	})},
	{"a claim gives up at many keys", "Key/BlockedOnesHinderNoOther", always(func(p *patched) {
		change(&p.claim, func(r *broker.ClaimRequest) {
			if p.counts(r.Now, r.Queues[0].Queue)[broker.StateActive] >= 300 {
				r.Max = 0
			}
		}, nil)
	})},
	{"Keys tells no times", "Key/KeysTellsAll Key/TellsWhenTimeMakesRoom Sequence/OneAfterTheOther", always(func(p *patched) {
		change(&p.keys, nil, func(_ *broker.KeysRequest, a *broker.KeysReply) {
			for i := range a.Keys {
				a.Keys[i].Oldest, a.Keys[i].Until = time.Time{}, time.Time{}
			}
		})
	})},
	{"Keys counts what ended", "Key/KeysTellsAll", always(func(p *patched) {
		change(&p.keys, nil, func(r *broker.KeysRequest, a *broker.KeysReply) {
			if len(r.Names) == 0 {
				a.Keys = append([]broker.KeyInfo{{Key: "gone"}}, a.Keys...)
			}
		})
	})},
	{"a key's name is a pattern", "Key/AreListedByTheirBytes", always(func(p *patched) {
		change(&p.keys, nil, func(_ *broker.KeysRequest, a *broker.KeysReply) {
			a.Keys = slices.DeleteFunc(a.Keys, func(k broker.KeyInfo) bool { return k.Key == "*" })
		})
	})},
	{"each of two stores has the whole of a limit", "Shard/LimitsOfAQueueHold Limit/MaxActiveBounds", always(func(p *patched) {
		p.policies(func(r *broker.PolicyRequest) {
			if r.MaxActive != nil {
				r.MaxActive = new(2 * *r.MaxActive)
			}
		})
	})},
	{"the jobs of a key are in two stores", "Shard/AKeyIsInOneStore", always(func(p *patched) {
		p.newJobs(func(j *broker.NewJob) {
			if j.Body.Key != "" {
				j.Body.Key += j.ID[len(j.ID)-1:]
			}
		})
	})},
	{"limits are one too high", "Race/NoLimitIsExceeded", always(func(p *patched) {
		p.policies(func(r *broker.PolicyRequest) {
			for _, field := range []**int64{&r.MaxActive, &r.KeyMaxActive} {
				if *field != nil && **field > 1 {
					*field = new(**field + 1)
				}
			}
		})
	})},
	{"a worker that died keeps a slot of each key", "Race/NoLimitIsExceeded", sharing(func(p *patched, died *sync.Map) {
		change(&p.reclaim, nil, func(r *broker.ReclaimRequest, a *broker.Claimed) {
			if len(a.Jobs) > 0 {
				died.Store(r.Queues[0], true)
			}
		})
		p.policies(func(r *broker.PolicyRequest) {
			if _, lost := died.Load(r.Queue); lost && r.KeyMaxActive != nil && *r.KeyMaxActive > 1 {
				r.KeyMaxActive = new(*r.KeyMaxActive - 1)
			}
		})
	})},
	{"rates are one job too high", "Race/NoLimitIsExceeded Limit/RateBounds", always(func(p *patched) {
		p.rates(func(r *broker.Rate) { r.Burst += 3 })
	})},
	{"pages of keys begin with the last one of the page before", "Key/AreListedByTheirBytes", always(func(p *patched) {
		var last []broker.KeyInfo
		change(&p.keys, nil, func(r *broker.KeysRequest, a *broker.KeysReply) {
			if r.Cursor != "" && r.Limit > 1 {
				a.Keys = append(slices.Clone(last), a.Keys[:len(a.Keys)-1]...)
			}
			last = slices.Clone(a.Keys[max(0, len(a.Keys)-1):])
		})
	})},
}
