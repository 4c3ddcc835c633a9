package conformance_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/seed81422ce9/jobs/broker"
)

var exactMutants = []mutant{
	{"long results are cut", "Data/LargestValuesComeBack", always(func(p *patched) {
		p.jobsIn(func(j *broker.Job) { j.Result = j.Result[:min(len(j.Result), 100_000)] })
	})},
	{"long messages are cut", "Data/LargestValuesComeBack", always(func(p *patched) {
		p.jobsIn(func(j *broker.Job) {
			for i := range j.Errors.Entries {
				j.Errors.Entries[i].Message = cutTo(j.Errors.Entries[i].Message, 1000)
			}
		})
	})},
	{"long headers are cut", "Data/LargestValuesComeBack", always(func(p *patched) {
		p.jobsIn(func(j *broker.Job) {
			for k, v := range j.Headers {
				j.Headers[k] = cutTo(v, 1000)
			}
		})
	})},
	{"references have the length of a name", "Data/LargestValuesComeBack", always(func(p *patched) {
		p.jobsIn(func(j *broker.Job) { j.PayloadRef = cutTo(j.PayloadRef, broker.MaxNameLen) })
	})},
	{"it is forgotten when a job was to run first", "Data/BodiesComeBackWhole Data/TimesRoundUpToMicroseconds", always(func(p *patched) {
		p.jobsIn(func(j *broker.Job) { j.DueAfter = 0 })
	})},
	{"found errors are the stored ones", "Data/RequestsAreNotKept", sharing(func(p *patched, m *sync.Map) {
		p.jobsIn(func(j *broker.Job) {
			if len(j.Errors.Entries) > 0 {
				stored, _ := m.LoadOrStore(fmt.Sprint(j.ID, j.Epoch), j.Errors.Entries)
				j.Errors.Entries = stored.([]broker.Failure)
			}
		})
	})},
	{"types are cut", "Data/LargestValuesComeBack", always(func(p *patched) {
		p.jobsIn(func(j *broker.Job) { j.Type = cutTo(j.Type, 100) })
	})},
	{"the ends of long unique keys are ignored", "Unique/KeysAreBytes", always(func(p *patched) {
		p.newJobs(func(j *broker.NewJob) { j.Body.Unique.Key = cutTo(j.Body.Unique.Key, 100) })
	})},
	{"long values of marks are cut", "Mark/ValuesAreBytes", always(func(p *patched) {
		change(&p.mark, nil, func(_ *broker.MarkRequest, a *broker.Marked) { a.Value = a.Value[:min(len(a.Value), 1000)] })
	})},
	{"of a worker's types only some are kept", "Lease/WorkersAreDescribed", always(func(p *patched) {
		change(&p.renew, func(r *broker.RenewRequest) { r.Info.Types = r.Info.Types[:min(len(r.Info.Types), 100)] }, nil)
	})},

	{"delays of outcomes round down", "Schedule/SpansRoundUp", always(func(p *patched) {
		p.outcomes(func(_ string, s *broker.Settlement) {
			if o := s.Outcome; o.Kind() == broker.OutcomeCrash {
				s.Outcome = broker.Crash(o.Delay().Truncate(time.Microsecond), *o.Failure())
			}
		})
	})},
	{"a reschedule rounds down", "Schedule/SpansRoundUp", always(func(p *patched) {
		change(&p.operate, func(o *broker.Operation) {
			o.Delay, o.RunAt = o.Delay.Truncate(time.Microsecond), o.RunAt.Truncate(time.Microsecond)
		}, nil)
	})},
	{"leases round down", "Schedule/SpansRoundUp", always(func(p *patched) {
		change(&p.renew, func(r *broker.RenewRequest) { r.Lease = r.Lease.Truncate(time.Microsecond) }, nil)
	})},
	{"marks round down", "Mark/LapsesAtItsTime", always(func(p *patched) {
		change(&p.mark, func(r *broker.MarkRequest) { r.TTL = r.TTL.Truncate(time.Microsecond) }, nil)
	})},
	{"rates are of milliseconds", "Limit/RateBounds", always(func(p *patched) {
		p.rates(func(r *broker.Rate) { r.Per = r.Per.Truncate(time.Millisecond) })
	})},

	{"a number is forgotten at a renewal with a description", "Settle/NumbersOutliveRenewals", forgetsNumbers(
		func(r *broker.RenewRequest) bool { return r.Describe })},
	{"a number is forgotten when a worker registers again", "Settle/NumbersOutliveRenewals", forgetsNumbers(
		func(r *broker.RenewRequest) bool { return r.Register })},
	{"only one watcher sees events", "Watch/EveryWatcherSeesEachEvent", sharing(func(p *patched, m *sync.Map) {
		next := p.watch
		p.watch = func(ctx context.Context, r broker.WatchRequest) (<-chan broker.Event, error) {
			if _, other := m.LoadOrStore(r.Queues[0], true); !other {
				return next(ctx, r)
			}
			silent := make(chan broker.Event)
			context.AfterFunc(ctx, func() { close(silent) })
			return silent, nil
		}
	})},

	{"a scheduled job uses the rate of retries", "Limit/RetryRateIsOfRetriesAlone", always(func(p *patched) {
		change(&p.claim, nil, func(r *broker.ClaimRequest, a *broker.Claimed) {
			for _, j := range a.Jobs {
				if rate := p.set(broker.PolicyRequest{Queue: j.Queue}).RetryRate; rate.Jobs > 0 && j.Deliveries == 0 {
					p.postponeRetries(r.Now, j.Queue, rate.Per)
				}
			}
		})
	})},
	{"a rate that is set again begins anew", "Limit/SettingARateAgainGivesNoStarts", always(func(p *patched) {
		p.policies(func(r *broker.PolicyRequest) {
			none := &broker.Rate{Jobs: broker.NoLimit}
			switch {
			case r.RetryRate != nil:
				p.set(broker.PolicyRequest{Queue: r.Queue, RetryRate: none})
			case r.Rate != nil:
				p.set(broker.PolicyRequest{Queue: r.Queue, Key: r.Key, Rate: none})
			}
		})
	})},
	{"any change of a policy begins the rates of keys anew", "Limit/SettingARateAgainGivesNoStarts", always(func(p *patched) {
		p.policies(func(r *broker.PolicyRequest) {
			if *r != (broker.PolicyRequest{Queue: r.Queue, Key: r.Key}) {
				p.forgetStarts(r.Queue)
			}
		})
	})},
	{"a prune forgets the starts of keys", "Key/RateBounds", always(func(p *patched) {
		change(&p.prune, func(r *broker.PruneRequest) {
			for _, queue := range r.Queues {
				p.forgetStarts(queue)
			}
		}, nil)
	})},
	{"the bytes of a job leak when it is held", "Limit/BytesFollowEachStep", func() func(*patched) {
		var leaked atomic.Int64
		return func(p *patched) {
			p.results(func(o broker.Operation, r *broker.OperationResult) {
				if o.Kind == broker.OpHold && r.Err == nil {
					leaked.Add(100)
				}
			})
			p.bytes(&leaked)
		}
	}},
	{"content that replaces has no bytes", "Limit/BytesFollowEachStep", func() func(*patched) {
		var missing atomic.Int64
		return func(p *patched) {
			change(&p.enqueue, nil, func(r *broker.EnqueueRequest, a *[]broker.Receipt) {
				for i, got := range *a {
					if got.Replaced {
						missing.Add(-int64(len(r.Jobs[i].Body.Payload)))
					}
				}
			})
			p.bytes(&missing)
		}
	}},
	{"the oldest of jobs that are kept back is not told", "Limit/OldestOfWhatIsKeptBack", always(func(p *patched) {
		change(&p.queues, nil, func(r *broker.QueuesRequest, a *broker.QueuesReply) {
			for i := range a.Queues {
				if a.Queues[i].Policy.Paused {
					a.Queues[i].OldestPending = nil
				}
			}
		})
	})},
	{"a prune removes all dead jobs that are over the age", "Retention/PruneIsBounded", always(func(p *patched) {
		change(&p.prune, func(r *broker.PruneRequest) {
			if p.counts(r.Now, r.Queues[0])[broker.StateDead] > 0 {
				r.Max = broker.MaxBatch
			}
		}, nil)
	})},
	{"a prune removes all that is over the count", "Retention/PruneByCountIsBounded", always(func(p *patched) {
		change(&p.prune, func(r *broker.PruneRequest) {
			if p.set(broker.PolicyRequest{Queue: r.Queues[0]}).RetainCompleted.Count > 0 {
				r.Max = broker.MaxBatch
			}
		}, nil)
	})},
	{"a waiting job stays scheduled if it is debounced to run at once", "Follow/DebounceWaitsBehind", always(func(p *patched) {
		p.newJobs(func(j *broker.NewJob) {
			if j.Body.Unique.Conflict == broker.ConflictDebounce && j.Delay == 0 {
				j.Delay = time.Minute
			}
		})
	})},
	{"a duplicate span is not changed while there are jobs", "Enqueue/GivenIDsFollowThePolicy", always(func(p *patched) {
		p.policies(func(r *broker.PolicyRequest) {
			for _, n := range p.counts(time.Unix(1, 0), r.Queue) {
				if n > 0 {
					r.DuplicateSpan = nil
				}
			}
		})
	})},

	{"a cursor of a listing is of one handle", "Find/PagesShowEveryJob", ofOneHandle(func(p *patched, own, from func(*string)) {
		change(&p.find, func(q *broker.Query) { from(&q.Cursor) }, func(_ *broker.Query, a *broker.Page) { own(&a.Cursor) })
	})},
	{"a cursor of keys is of one handle", "Key/AreListedByTheirBytes", ofOneHandle(func(p *patched, own, from func(*string)) {
		change(&p.keys, func(r *broker.KeysRequest) { from(&r.Cursor) }, func(_ *broker.KeysRequest, a *broker.KeysReply) { own(&a.Cursor) })
	})},
	{"jobs in retry are listed whenever they are due", "Find/FiltersByDueAndCreation", always(func(p *patched) {
		p.query(func(q *broker.Query) {
			if q.State == broker.StateRetry {
				q.After, q.Before = time.Time{}, time.Time{}
			}
		})
	})},
	{"only dead jobs are searched for a text", "Find/FiltersByDueAndCreation", always(func(p *patched) {
		p.query(func(q *broker.Query) {
			if q.State != broker.StateDead {
				q.ErrorText = ""
			}
		})
	})},
	{"a listing by worker has no other filter", "Find/SelectsByAllThatIsSet", always(func(p *patched) {
		p.query(func(q *broker.Query) {
			if q.Worker != "" {
				q.Type, q.After, q.Before = "", time.Time{}, time.Time{}
			}
		})
	})},
	{"a listing by key ignores errors", "Find/SelectsByAllThatIsSet", always(func(p *patched) {
		p.query(func(q *broker.Query) {
			if q.Key != "" {
				q.ErrorText, q.Reason = "", broker.ReasonNone
			}
		})
	})},
	{"a listing by key shows suppressed jobs", "Find/SelectsByAllThatIsSet", always(func(p *patched) {
		p.query(func(q *broker.Query) { q.Suppressed = q.Suppressed || q.Key != "" })
	})},
	{"the newest of the dead include the suppressed", "Operate/SuppressHidesTheDead", always(func(p *patched) {
		p.query(func(q *broker.Query) { q.Suppressed = q.Suppressed || q.Newest })
	})},
}

func cutTo(s string, n int) string { return s[:min(len(s), n)] }

// forgetsNumbers makes a store forget the settle numbers of a worker at some renewals.
func forgetsNumbers(at func(*broker.RenewRequest) bool) func() func(*patched) {
	return func() func(*patched) {
		var begun atomic.Int64
		return func(p *patched) {
			change(&p.renew, nil, func(r *broker.RenewRequest, _ *broker.Renewed) {
				if at(r) {
					begun.Add(1000)
				}
			})
			change(&p.settle, func(r *broker.SettleRequest) { r.Number += begun.Load() }, nil)
		}
	}
}

// postponeRetries gives the due retries of a queue a later time, as if the rate were used up.
func (p *patched) postponeRetries(now time.Time, queue string, by time.Duration) {
	page, _ := p.Broker.Find(background, broker.Query{Now: now, Queue: queue, State: broker.StateRetry})
	op := broker.Operation{Now: now, Kind: broker.OpReschedule, Delay: by}
	for _, j := range page.Jobs {
		op.Refs = append(op.Refs, j.Ref())
	}
	_, _ = p.Broker.Operate(background, op)
}

// bytes adds a number to the bytes of every queue.
func (p *patched) bytes(more *atomic.Int64) {
	change(&p.queues, nil, func(_ *broker.QueuesRequest, a *broker.QueuesReply) {
		for i := range a.Queues {
			a.Queues[i].Bytes += more.Load()
		}
	})
}

// forgetStarts begins the rates of a queue's keys anew.
func (p *patched) forgetStarts(queue string) {
	if rate := p.set(broker.PolicyRequest{Queue: queue}).KeyRate; rate.Jobs > 0 {
		p.set(broker.PolicyRequest{Queue: queue, KeyRate: &broker.Rate{Jobs: broker.NoLimit}})
		p.set(broker.PolicyRequest{Queue: queue, KeyRate: &rate})
	}
}

// ofOneHandle gives f two functions that change a cursor: own marks one that a handle gave, and from
// makes a cursor of another handle empty, so that the listing begins again.
func ofOneHandle(f func(p *patched, own, from func(*string))) func() func(*patched) {
	return func() func(*patched) {
		var handles atomic.Int64
		return func(p *patched) {
			me := fmt.Sprint(handles.Add(1), ":")
			f(p, func(cursor *string) {
				if *cursor != "" {
					*cursor = me + *cursor
				}
			}, func(cursor *string) {
				mine, ok := strings.CutPrefix(*cursor, me)
				if *cursor = mine; !ok {
					*cursor = ""
				}
			})
		}
	}
}
