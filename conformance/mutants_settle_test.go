package conformance_test

import (
	"context"
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

// setMode changes the mode of a unique key, and reports whether it did.
func setMode(j *broker.NewJob, from, to broker.UniqueMode) bool {
	u := &j.Body.Unique
	if u.Key == "" || u.Mode != from {
		return false
	}
	u.Mode = to
	return true
}
