package conformance_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/seed81422ce9/jobs/broker"
)

var settleMutants = []mutant{
	{"verdicts are out of order", "Settle/VerdictsStandInOrder", always(func(p *patched) {
		change(&p.settle, nil, func(_ *broker.SettleRequest, a *[]broker.Verdict) { slices.Reverse(*a) })
	})},
	{"no lease is fenced by its epoch", "Settle/LeaseOfAnEarlierEpochIsVoid", always(func(p *patched) {
		p.outcomes(func(worker string, s *broker.Settlement) {
			if s.Job == nil {
				return
			}
			j := *s.Job
			for j.Epoch = 0; j.Epoch < 5; j.Epoch++ {
				if held := p.held(time.Unix(1, 0), j.Queue, worker); slices.ContainsFunc(held,
					func(h broker.Job) bool { return h.ID == j.ID && h.Epoch == j.Epoch }) {
					break
				}
			}
			s.Job = &j
		})
	})},
	{"a lost lease is settled with success", "Settle/EndedLeaseIsVoid Settle/TwiceInOneRequest Race/OneSettleOfALease",
		always(func(p *patched) {
			p.verdicts(func(v *broker.Verdict) { v.Err = nil })
		})},
	{"one lost lease fails its request", "Settle/LostItemHarmsNoOther", always(func(p *patched) {
		change(&p.settle, nil, func(_ *broker.SettleRequest, a *[]broker.Verdict) {
			if slices.ContainsFunc(*a, func(v broker.Verdict) bool { return v.Err != nil }) {
				for i := range *a {
					(*a)[i].Err = broker.ErrLeaseLost
				}
			}
		})
	})},
	{"of two items the last applies", "Settle/TwiceInOneRequest", always(func(p *patched) {
		change(&p.settle, func(r *broker.SettleRequest) {
			r.Items = slices.Clone(r.Items)
			slices.Reverse(r.Items)
		}, func(_ *broker.SettleRequest, a *[]broker.Verdict) { slices.Reverse(*a) })
	})},
	{"a repeated settle is looked at again", "Settle/RepeatIsAnsweredAsBefore Settle/RepeatAfterTheJobWentOn " +
		"Fault/RepeatedSettleChargesOnce Fault/TimedOutSettleChargesOnce Fault/HalfAnAnswerLosesNothing", func() func(*patched) {
		var n atomic.Int64
		return func(p *patched) {
			change(&p.settle, func(r *broker.SettleRequest) {
				if r.Number > 0 {
					r.Number = n.Add(1)
				}
			}, nil)
		}
	}},
	{"an older settle is applied", "Settle/OlderNumberChangesNothing", sharing(func(p *patched, m *sync.Map) {
		change(&p.settle, func(r *broker.SettleRequest) {
			if last, ok := m.Load(r.Worker); ok && r.Number < last.(int64) {
				r.Number = last.(int64) + 1
			}
			m.Store(r.Worker, r.Number)
		}, nil)
	})},
	{"numbers are of a worker in all its queues", "Settle/NumbersAreOfAWorkerAndAQueue", sharing(func(p *patched, m *sync.Map) {
		change(&p.settle, func(r *broker.SettleRequest) {
			if last, ok := m.Load(r.Worker); ok && r.Number < last.(int64) {
				r.Worker = "nobody"
				return
			}
			m.Store(r.Worker, r.Number)
		}, nil)
	})},
	{"an asked cancel overrides completion", "Settle/CancelRequestedEndsWhatWouldLive", always(func(p *patched) {
		p.outcomes(func(_ string, s *broker.Settlement) {
			if j := p.look(time.Unix(1, 0), s.Job.Queue, s.Job.ID); j != nil && j.CancelRequested {
				s.Outcome = broker.Cancel(broker.Failure{})
			}
		})
	})},
	{"items without an outcome are passed over", "Settle/RefusesWhatIsInvalid", always(func(p *patched) {
		change(&p.settle, func(r *broker.SettleRequest) {
			r.Items = slices.DeleteFunc(slices.Clone(r.Items),
				func(s broker.Settlement) bool { return s.Job == nil || s.Outcome.Kind() == broker.OutcomeNone })
		}, nil)
	})},

	{"every job has a retention", "Outcome/CompleteLeavesNothing", always(func(p *patched) {
		p.newJobs(func(j *broker.NewJob) { j.Body.Retention = max(j.Body.Retention, time.Hour) })
	})},
	{"a snooze is charged", "Outcome/StoresWhatApplySays Outcome/AddsToWhatWasCharged", always(func(p *patched) {
		p.outcomes(func(_ string, s *broker.Settlement) {
			if s.Outcome.Kind() == broker.OutcomeSnooze {
				s.Outcome = broker.Retry(s.Outcome.Delay(), broker.Failure{Message: "snoozed"})
			}
		})
	})},
	{"retries come early", "Outcome/RetryIsDueAfterItsDelay", always(func(p *patched) {
		p.outcomes(func(_ string, s *broker.Settlement) {
			if o := s.Outcome; o.Kind() == broker.OutcomeRetry {
				s.Outcome = broker.Retry(o.Delay()-time.Microsecond, *o.Failure())
			}
		})
	})},
	{"results are dropped", "Outcome/ResultIsKept", always(func(p *patched) {
		p.outcomes(func(_ string, s *broker.Settlement) {
			if s.Outcome.Kind() == broker.OutcomeComplete {
				s.Outcome = broker.Complete(nil)
			}
		})
	})},
	{"dead jobs are all out of retries", "Outcome/DeadSaysWhy", always(func(p *patched) {
		p.outcomes(func(_ string, s *broker.Settlement) {
			if o := s.Outcome; o.Kind() == broker.OutcomeDie {
				s.Outcome = broker.Die(broker.ReasonRetries, *o.Failure())
			}
		})
	})},
	{"dead jobs are dropped", "Outcome/DeadSaysWhy Retention/DeadStayByDefault", always(func(p *patched) {
		p.outcomes(func(_ string, s *broker.Settlement) {
			if o := s.Outcome; o.Kind() == broker.OutcomeDie {
				s.Outcome = broker.Cancel(*o.Failure())
			}
		})
	})},
	{"the history has no cap", "Outcome/HistoryIsCapped Outcome/HistoryHasADefault", always(func(p *patched) {
		change(&p.settle, func(r *broker.SettleRequest) { r.History = 1000 }, nil)
	})},
	{"dropped errors are not counted", "Outcome/HistoryIsCapped Outcome/HistoryHasADefault", always(func(p *patched) {
		p.jobsIn(func(j *broker.Job) { j.Errors.Dropped = 0 })
	})},
}

var scheduleMutants = []mutant{
	{"jobs run early", "Schedule/NothingRunsEarly", always(func(p *patched) {
		p.newJobs(func(j *broker.NewJob) {
			if j.Delay > time.Microsecond {
				j.Delay -= time.Microsecond
			}
		})
	})},
	{"jobs fall due late", "Schedule/NothingRunsEarly", always(func(p *patched) {
		p.newJobs(func(j *broker.NewJob) {
			if !j.RunAt.IsZero() {
				j.RunAt = j.RunAt.Add(time.Microsecond)
			}
		})
	})},
	{"due times round down", "Schedule/DueTimesRoundUp", always(func(p *patched) {
		p.newJobs(func(j *broker.NewJob) {
			j.Delay, j.RunAt = j.Delay.Truncate(time.Microsecond), j.RunAt.Truncate(time.Microsecond)
		})
	})},
	{"only so many jobs fall due at an instant", "Schedule/ManyFallDueAtOnce", func() func(*patched) {
		var given atomic.Int64
		return func(p *patched) {
			change(&p.claim, func(r *broker.ClaimRequest) {
				if given.Load() >= 2000 {
					r.Max = 0
				}
			}, func(_ *broker.ClaimRequest, a *broker.Claimed) {
				a.More = a.More && given.Add(int64(len(a.Jobs))) < 2000
			})
		}
	}},
	{"times are kept in milliseconds", "Schedule/NoTimeIsTooFar", always(func(p *patched) {
		p.newJobs(func(j *broker.NewJob) { j.RunAt = j.RunAt.Truncate(time.Millisecond) })
	})},
	{"leases are kept by a clock of the store's own", "Schedule/VirtualTimeMayBeLongAgo Schedule/VirtualTimeMayBeFarAhead",
		always(func(p *patched) {
			change(&p.renew, func(r *broker.RenewRequest) {
				if y := r.Now.Year(); y < 1980 || y > 2190 {
					r.Lease = time.Millisecond
				}
			}, nil)
		})},
	{"Ping tells no time", "Schedule/OwnClockWithoutNow", always(func(p *patched) {
		ping := p.ping
		p.ping = func(ctx context.Context) (time.Time, error) {
			_, err := ping(ctx)
			return time.Time{}, err
		}
	})},
	{"without a Now time stands still", "Schedule/OwnClockWithoutNow", always(func(p *patched) {
		change(&p.enqueue, func(r *broker.EnqueueRequest) {
			if r.Now.IsZero() {
				r.Now = time.Unix(1, 0)
			}
		}, nil)
	})},
	{"answers do not tell their Now", "Schedule/AnswersTellTheNowTheyWereGiven", always(func(p *patched) {
		change(&p.reclaim, nil, func(_ *broker.ReclaimRequest, a *broker.Claimed) { a.Now = time.Time{} })
	})},
	{"expired jobs are passed over", "Schedule/DeadlinesAreTheFrameworks", always(func(p *patched) {
		change(&p.claim, nil, func(r *broker.ClaimRequest, a *broker.Claimed) {
			a.Jobs = slices.DeleteFunc(a.Jobs, func(j broker.Job) bool { return !j.Deadline.IsZero() && j.Deadline.Before(r.Now) })
		})
	})},
	{"time never goes back", "Schedule/DelayIsFromTheStoresNow", sharing(func(p *patched, m *sync.Map) {
		change(&p.enqueue, func(r *broker.EnqueueRequest) {
			if last, ok := m.Load("now"); ok && last.(time.Time).After(r.Now) {
				r.Now = last.(time.Time)
			}
			m.Store("now", r.Now)
		}, nil)
	})},
}

var policyMutants = []mutant{
	{"a pause is ignored", "Policy/PausedGivesNothing", always(func(p *patched) {
		change(&p.policy, func(r *broker.PolicyRequest) { r.Paused = nil }, nil)
	})},
	{"a paused queue refuses jobs", "Policy/PausedTakesAndSettles", always(func(p *patched) {
		change(&p.enqueue, nil, func(r *broker.EnqueueRequest, a *[]broker.Receipt) {
			for i := range *a {
				if policy, _ := p.Broker.Policy(background, broker.PolicyRequest{Queue: r.Jobs[i].Queue}); policy.Paused {
					(*a)[i].Err = broker.ErrQueueFull
				}
			}
		})
	})},
	{"a paused queue stops its claim", "Policy/PausedWithholdsNothingElse", always(func(p *patched) {
		change(&p.claim, func(r *broker.ClaimRequest) {
			for _, s := range r.Queues {
				if policy, _ := p.Broker.Policy(background, broker.PolicyRequest{Queue: s.Queue}); policy.Paused {
					r.Max = 0
				}
			}
		}, nil)
	})},
	{"what a policy request does not set is reset", "Policy/ChangesOnlyWhatIsSet", always(func(p *patched) {
		change(&p.policy, func(r *broker.PolicyRequest) {
			if r.MaxDepth == nil {
				r.MaxDepth = new(int64(broker.NoLimit))
			}
		}, nil)
	})},
	{"a policy is of every queue", "Policy/IsOfOneQueue", always(func(p *patched) {
		change(&p.policy, func(r *broker.PolicyRequest) {
			_, names := p.known(time.Unix(1, 0))
			for _, q := range names {
				other := *r
				other.Queue = q
				_, _ = p.Broker.Policy(background, other)
			}
		}, nil)
	})},
	{"a queue without jobs has no policy", "Policy/MayComeBeforeTheFirstJob", always(func(p *patched) {
		next := p.policy
		p.policy = func(ctx context.Context, r broker.PolicyRequest) (broker.Policy, error) {
			if _, names := p.known(time.Unix(1, 0)); !slices.Contains(names, r.Queue) {
				return broker.Policy{}, broker.ErrNotFound
			}
			return next(ctx, r)
		}
	})},
	{"an invalid policy is bent", "Policy/RefusesWhatIsInvalid", always(func(p *patched) {
		change(&p.policy, func(r *broker.PolicyRequest) {
			if r.MaxDepth != nil && *r.MaxDepth < 1 {
				r.MaxDepth = new(int64(broker.NoLimit))
			}
		}, nil)
	})},
	{"a depth is ignored", "Policy/FullQueueRefuses Policy/DepthHoldsOverHandles", always(func(p *patched) {
		change(&p.policy, func(r *broker.PolicyRequest) { r.MaxDepth = nil }, nil)
	})},
	{"scheduled jobs do not count towards the depth", "Policy/FullQueueRefuses", always(func(p *patched) {
		change(&p.policy, func(r *broker.PolicyRequest) {
			if r.MaxDepth != nil && *r.MaxDepth > 0 {
				queues, _ := p.known(time.Unix(1, 0))
				for _, q := range queues {
					depth := *r.MaxDepth + q.Counts[broker.StateScheduled]
					r.MaxDepth = &depth
				}
			}
		}, nil)
	})},
	{"a full queue turns retries away", "Policy/FullQueueRefusesNoRetry", always(func(p *patched) {
		p.outcomes(func(_ string, s *broker.Settlement) {
			if policy, _ := p.Broker.Policy(background, broker.PolicyRequest{Queue: s.Job.Queue}); policy.MaxDepth > 0 &&
				!s.Outcome.State().Final() {
				s.Outcome = broker.Die(broker.ReasonRetries, broker.Failure{Message: "queue full"})
			}
		})
	})},
	{"retries count towards the depth", "Policy/FullQueueRefusesNoRetry", always(func(p *patched) {
		p.refused(func(j *broker.NewJob) string {
			queues, _ := p.known(time.Unix(1, 0))
			for _, q := range queues {
				if d := q.Policy.MaxDepth; d > 0 && q.Counts[broker.StateRetry]+q.Counts[broker.StatePending] >= d {
					return "the depth"
				}
			}
			return ""
		})
	})},
}

var uniqueMutants = []mutant{
	{"unique keys are ignored", "Unique/SecondIsRefused Race/OneHolderOfAKey", always(func(p *patched) {
		p.newJobs(func(j *broker.NewJob) { j.Body.Unique = broker.Unique{} })
	})},
	{"unique keys are of the whole store", "Unique/KeysAreOfAQueue", sharing(func(p *patched, m *sync.Map) {
		p.refused(func(j *broker.NewJob) string {
			if queue, _ := m.LoadOrStore(j.Body.Unique.Key, j.Queue); queue != j.Queue {
				return j.ID
			}
			return ""
		})
	})},
	{"a key that was refused in a request is asked no more for the ID", "Unique/TheIDComesFirstWithinARequest", always(func(p *patched) {
		change(&p.enqueue, nil, func(r *broker.EnqueueRequest, a *[]broker.Receipt) {
			holders := map[string]string{}
			for i, j := range r.Jobs {
				if got, key := &(*a)[i], j.Body.Unique.Key; key != "" && errors.Is(got.Err, broker.ErrDuplicate) {
					if holders[key] == "" {
						holders[key] = got.Holder
					}
					got.Holder = holders[key]
				}
			}
		})
	})},
	{"unique keys are trimmed", "Unique/KeysAreBytes", always(func(p *patched) {
		p.newJobs(func(j *broker.NewJob) { j.Body.Unique.Key = trim(j.Body.Unique.Key) })
	})},
	{"every key is freed at the start", "Unique/HeldThroughoutAJobsLife", always(func(p *patched) {
		p.newJobs(func(j *broker.NewJob) { setMode(j, broker.UniqueUntilDone, broker.UniqueUntilStarted) })
	})},
	{"no key is freed at the start", "Unique/FreedWhenStarted", always(func(p *patched) {
		p.newJobs(func(j *broker.NewJob) { setMode(j, broker.UniqueUntilStarted, broker.UniqueUntilDone) })
	})},
	{"a key is freed by time alone", "Unique/FreedByEveryEnd Unique/FreedWhenRetired", always(func(p *patched) {
		p.newJobs(func(j *broker.NewJob) {
			if setMode(j, broker.UniqueUntilDone, broker.UniqueWindow) && j.Body.Unique.TTL == 0 {
				j.Body.Unique.TTL = time.Hour
			}
		})
	})},
	{"a window ends with its job", "Unique/WindowOutlivesItsJob", always(func(p *patched) {
		p.newJobs(func(j *broker.NewJob) { setMode(j, broker.UniqueWindow, broker.UniqueUntilDone) })
	})},
	{"a key has no end", "Unique/TTLBoundsTheHold", always(func(p *patched) {
		p.newJobs(func(j *broker.NewJob) {
			if j.Body.Unique.Mode != broker.UniqueWindow {
				j.Body.Unique.TTL = 0
			}
		})
	})},
	{"a death leaks its key", "Unique/FreedByEveryEnd", sharing(func(p *patched, m *sync.Map) {
		p.leaked(m)
		p.outcomes(func(_ string, s *broker.Settlement) {
			if key := s.Job.Unique.Key; key != "" && s.Outcome.Kind() == broker.OutcomeDie {
				m.Store(key, s.Job.ID)
			}
		})
	})},
	{"a key is freed by who held it once", "Unique/OnlyTheHolderFrees", sharing(func(p *patched, m *sync.Map) {
		p.aliased(m)
		p.outcomes(func(_ string, s *broker.Settlement) {
			if s.Outcome.State().Final() {
				m.Store(s.Job.Unique.Key, true)
			}
		})
	})},
	{"a redrive takes no key", "Unique/RedriveTakesTheKeyAgain", sharing(func(p *patched, m *sync.Map) {
		p.aliased(m)
		p.results(func(o broker.Operation, r *broker.OperationResult) {
			if j := p.look(o.Now, r.Ref.Queue, r.Ref.ID); o.Kind == broker.OpRedrive && r.Err == nil {
				m.Store(j.Unique.Key, true)
			}
		})
	})},
	{"a redrive takes every key", "Unique/RedriveTakesNoOtherKey", sharing(func(p *patched, m *sync.Map) {
		p.leaked(m)
		p.results(func(o broker.Operation, r *broker.OperationResult) {
			if j := p.look(o.Now, r.Ref.Queue, r.Ref.ID); o.Kind == broker.OpRedrive && r.Err == nil {
				m.Store(j.Unique.Key, j.ID)
			}
		})
	})},
	{"a redrive evicts the holder", "Unique/RedriveIsRefusedByAHolder", always(func(p *patched) {
		change(&p.operate, func(o *broker.Operation) {
			if j := p.look(o.Now, o.Refs[0].Queue, o.Refs[0].ID); o.Kind == broker.OpRedrive && j.Unique.Key != "" {
				p.act(o.Now, broker.OpDelete, j.Queue, "b")
			}
		}, nil)
	})},
	{"a refused job keeps its key", "Unique/RefusedLeavesNoKey", sharing(func(p *patched, m *sync.Map) {
		change(&p.enqueue, nil, func(r *broker.EnqueueRequest, a *[]broker.Receipt) {
			for i, j := range r.Jobs {
				if errors.Is((*a)[i].Err, broker.ErrQueueFull) && j.Body.Unique.Key != "" {
					m.Store(j.Body.Unique.Key, j.ID)
				}
			}
		})
		p.leaked(m)
	})},
}

// setMode changes the mode of a unique key, and reports whether it did.
func setMode(j *broker.NewJob, from, to broker.UniqueMode) bool {
	u := &j.Body.Unique
	if u.Key == "" || u.Mode != from {
		return false
	}
	u.Mode = to
	return true
}
