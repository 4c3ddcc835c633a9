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

// reading returns a mark as it is stored.
func (p *patched) reading(r *broker.MarkRequest) broker.Marked {
	m, _ := p.Broker.Mark(background, broker.MarkRequest{Now: r.Now, Action: broker.MarkRead, Name: r.Name})
	return m
}

func (p *patched) drop(r *broker.MarkRequest, m broker.Marked) {
	_, _ = p.Broker.Mark(background, broker.MarkRequest{Now: r.Now, Action: broker.MarkDrop, Name: r.Name, Owner: m.Owner, Fence: m.Fence})
}

func (p *patched) marking(f func(*broker.MarkRequest)) { change(&p.mark, f, nil) }

var markMutants = []mutant{
	{"a mark is stolen", "Mark/OneOwnerAtATime Race/OneOwnerOfAMark", always(func(p *patched) {
		p.marking(func(r *broker.MarkRequest) {
			if m := p.reading(r); r.Action == broker.MarkTake && m.Held && m.Owner != r.Owner {
				p.drop(r, m)
			}
		})
	})},
	{"names of marks are trimmed", "Mark/NamesAreApart",
		always(func(p *patched) { p.marking(func(r *broker.MarkRequest) { r.Name = trim(r.Name) }) })},
	{"taking again makes a new holder", "Mark/TakingAgainRenews Fault/RepeatedTakeHoldsTheMark", always(func(p *patched) {
		p.marking(func(r *broker.MarkRequest) {
			if m := p.reading(r); r.Action == broker.MarkTake && m.Held && m.Owner == r.Owner {
				p.drop(r, m)
			}
		})
	})},
	{"taking again keeps the fence", "Mark/TakingAgainEndsTheEarlierTake Fault/RepeatedTakeHoldsTheMark", always(func(p *patched) {
		p.marking(func(r *broker.MarkRequest) {
			if m := p.reading(r); r.Action == broker.MarkTake && m.Held && m.Owner == r.Owner {
				r.Action, r.Fence = broker.MarkKeep, m.Fence
			}
		})
	})},
	{"marks never lapse", "Mark/LapsesAtItsTime", always(func(p *patched) {
		p.marking(func(r *broker.MarkRequest) { r.TTL *= 1000 })
	})},
	{"fences do not rise", "Mark/FencesRise", sharing(func(p *patched, m *sync.Map) {
		change(&p.mark, func(r *broker.MarkRequest) {
			if fence, ok := m.Load(r.Name); ok && r.Fence == 1 {
				r.Fence = fence.(int64)
			}
		}, func(r *broker.MarkRequest, a *broker.Marked) {
			m.Store(r.Name, a.Fence)
			a.Fence = min(a.Fence, 1)
		})
	})},
	{"a mark needs no fence", "Mark/KeepNeedsOwnerAndFence", always(func(p *patched) {
		p.marking(func(r *broker.MarkRequest) { r.Fence = p.reading(r).Fence })
	})},
	{"a mark needs no owner", "Mark/KeepNeedsOwnerAndFence", always(func(p *patched) {
		p.marking(func(r *broker.MarkRequest) {
			if r.Action != broker.MarkTake && r.Action != broker.MarkRead {
				r.Owner = p.reading(r).Owner
			}
		})
	})},
	{"keeping a mark does not extend it", "Mark/KeepExtends", always(func(p *patched) {
		p.marking(func(r *broker.MarkRequest) {
			if r.Action == broker.MarkKeep {
				r.Action = broker.MarkRead
			}
		})
	})},
	{"values of marks become valid UTF-8", "Mark/ValuesAreBytes", always(func(p *patched) {
		p.marking(func(r *broker.MarkRequest) { r.Value = []byte(utf8(string(r.Value))) })
	})},
	{"an invalid mark is bent", "Mark/RefusesWhatIsInvalid", always(func(p *patched) {
		p.marking(func(r *broker.MarkRequest) { r.TTL = max(r.TTL, time.Minute) })
	})},
}

var watchMutants = []mutant{
	{"deaths are not seen", "Watch/SettledIsSeen", always(func(p *patched) {
		p.events(func(e broker.Event) bool { return e.State != broker.StateDead })
	})},
	{"a repeated settle is told again", "Watch/RepeatIsNotSeen", sharing(func(p *patched, m *sync.Map) {
		settle, watch := p.settle, p.watch
		p.settle = func(ctx context.Context, r broker.SettleRequest) ([]broker.Verdict, error) {
			verdicts, err := settle(ctx, r)
			if last, _ := m.Swap(r.Worker, r.Number); last == r.Number && len(verdicts) > 0 {
				m.Store("again", broker.Event{Kind: broker.EventSettled, Queue: verdicts[0].Queue, ID: verdicts[0].ID, State: verdicts[0].State})
			}
			return verdicts, err
		}
		p.watch = func(ctx context.Context, r broker.WatchRequest) (<-chan broker.Event, error) {
			from, err := watch(ctx, r)
			to := make(chan broker.Event, 100)
			go func() {
				defer close(to)
				for e := range from {
					if again, ok := m.LoadAndDelete("again"); ok {
						to <- again.(broker.Event)
					}
					to <- e
				}
			}()
			return to, err
		}
	})},
	{"nothing is seen after another watcher's end", "Watch/EndsWithItsContext", sharing(func(p *patched, m *sync.Map) {
		watch := p.watch
		p.watch = func(ctx context.Context, r broker.WatchRequest) (<-chan broker.Event, error) {
			m.Store(ctx, true)
			return watch(ctx, r)
		}
		p.events(func(broker.Event) bool {
			ended := false
			m.Range(func(ctx, _ any) bool {
				ended = ended || ctx.(context.Context).Err() != nil
				return true
			})
			return !ended
		})
	})},
	{"a watch outlives its context", "Watch/EndsWithItsContext", always(func(p *patched) {
		next := p.watch
		p.watch = func(ctx context.Context, r broker.WatchRequest) (<-chan broker.Event, error) {
			return next(context.WithoutCancel(ctx), r)
		}
	})},
	{"a watch sees every kind", "Watch/ShowsWhatWasAskedFor", always(func(p *patched) {
		change(&p.watch, func(r *broker.WatchRequest) { r.Kinds = nil }, nil)
	})},
	{"a watch sees every queue", "Watch/ShowsWhatWasAskedFor", always(func(p *patched) {
		change(&p.watch, func(r *broker.WatchRequest) { r.Queues = append(slices.Clone(r.Queues), "other") }, nil)
	})},
	{"missed events are not counted", "Watch/CountsWhatASlowOneMissed", always(func(p *patched) {
		p.events(func(e broker.Event) bool { return e.Kind != broker.EventMissed && !strings.HasSuffix(e.ID, "99") })
	})},
	{"closing a broker closes nothing", "Watch/EndsWithItsBroker Wake/EndsWithItsBroker Fault/ClosedBrokerSaysSo", always(func(p *patched) {
		p.closing = func() error { return nil }
	})},
}

var storeMutants = []mutant{
	{"a newer layout is not noticed", "Layout/NewerIsRefused", always(func(p *patched) {
		change(&p.enqueue, nil, func(_ *broker.EnqueueRequest, a *[]broker.Receipt) {
			for i := range *a {
				(*a)[i].Err = nil
			}
		})
	})},
	{"a settle stops at a queue of a newer layout", "Layout/SettlesApart", always(func(p *patched) {
		change(&p.settle, nil, func(_ *broker.SettleRequest, a *[]broker.Verdict) {
			if i := slices.IndexFunc(*a, func(v broker.Verdict) bool { return errors.Is(v.Err, broker.ErrNewerForm) }); i >= 0 {
				for k := i; k < len(*a); k++ {
					(*a)[k].Err = (*a)[i].Err
				}
			}
		})
	})},
	{"a job that cannot be read is passed over", "Broken/HarmsNoOther Broken/CanBeSettled", always(func(p *patched) {
		change(&p.claim, nil, func(_ *broker.ClaimRequest, a *broker.Claimed) {
			a.Jobs = slices.DeleteFunc(a.Jobs, func(j broker.Job) bool { return j.Broken != nil })
		})
	})},
	{"the epoch of a job that cannot be read is not told", "Broken/CanBeSettled", always(func(p *patched) {
		p.jobsIn(func(j *broker.Job) {
			if j.Broken != nil {
				j.Head = broker.Head{}
			}
		})
	})},
	{"a job that cannot be read leaks its key", "Broken/FreesItsKey", sharing(func(p *patched, m *sync.Map) {
		p.leaked(m)
		p.outcomes(func(_ string, s *broker.Settlement) {
			if key := s.Job.Unique.Key; key != "" && s.Job.Broken != nil {
				m.Store(key, s.Job.ID)
			}
		})
	})},
	{"a job that cannot be read stays dead", "Broken/CanBeSettled", always(func(p *patched) {
		p.oneByOne(func(next func() broker.OperationResult, o broker.Operation, ref broker.Ref) broker.OperationResult {
			if j := p.look(o.Now, ref.Queue, ref.ID); j != nil && j.Broken != nil && o.Kind == broker.OpRedrive {
				return broker.OperationResult{Ref: ref, State: broker.StateDead, Err: j.Broken}
			}
			return next()
		})
	})},
	{"a store that was away has lost its workers", "Bounce/NothingAcceptedIsLost", func() func(*patched) {
		away := new(atomic.Bool)
		return func(p *patched) {
			p.noticing(away)
			change(&p.renew, nil, func(_ *broker.RenewRequest, a *broker.Renewed) { a.Lost = a.Lost || away.Load() })
		}
	}},
	{"a call that failed is repeated, and its failure told", "Bounce/UnavailableMeansNotApplied", always(func(p *patched) {
		next := p.enqueue
		p.enqueue = func(ctx context.Context, r broker.EnqueueRequest) ([]broker.Receipt, error) {
			time.Sleep(time.Microsecond) // so that the store is unavailable during some call
			got, err := next(ctx, r)
			for again := err; errors.Is(again, broker.ErrUnavailable); {
				_, again = next(ctx, r)
			}
			return got, err
		}
	})},
	{"who waited while the store was away waits for ever", "Bounce/WaitingGoesOn", func() func(*patched) {
		away := new(atomic.Bool)
		return func(p *patched) {
			p.noticing(away)
			claim := p.claim
			p.claim = func(ctx context.Context, r broker.ClaimRequest) (broker.Claimed, error) {
				got, err := claim(ctx, r)
				if away.Load() { // before the claim or while it waited
					<-ctx.Done()
				}
				return got, err
			}
		}
	}},
	{"who watched while the store was away sees nothing", "Bounce/WatchingGoesOnOrEnds", func() func(*patched) {
		away := new(atomic.Bool)
		return func(p *patched) {
			p.noticing(away)
			p.events(func(broker.Event) bool { return !away.Load() })
		}
	}},
	{"an ended context is not looked at", "Fault/EndedContextEndsTheCall", always(func(p *patched) {
		next := p.enqueue
		p.enqueue = func(ctx context.Context, r broker.EnqueueRequest) ([]broker.Receipt, error) {
			return next(context.WithoutCancel(ctx), r)
		}
	})},
}

// noticing sets away once a call finds the store unavailable.
func (p *patched) noticing(away *atomic.Bool) {
	ping, enqueue := p.ping, p.enqueue
	notice := func(err error) error {
		if errors.Is(err, broker.ErrUnavailable) {
			away.Store(true)
		}
		return err
	}
	p.ping = func(ctx context.Context) (time.Time, error) {
		now, err := ping(ctx)
		return now, notice(err)
	}
	p.enqueue = func(ctx context.Context, r broker.EnqueueRequest) ([]broker.Receipt, error) {
		got, err := enqueue(ctx, r)
		return got, notice(err)
	}
}

var raceMutants = []mutant{
	{"an ID is looked up before its job is stored", "Race/OneJobOfAnID", sharing(func(p *patched, m *sync.Map) {
		next := p.enqueue
		p.enqueue = func(ctx context.Context, r broker.EnqueueRequest) ([]broker.Receipt, error) {
			_, known := m.Load(r.Jobs[0].ID)
			time.Sleep(time.Millisecond)
			m.Store(r.Jobs[0].ID, true)
			got, err := next(ctx, r)
			if err == nil && !known {
				got[0].Err = nil
			}
			return got, err
		}
	})},
	{"a key is looked up before its job is stored", "Race/OneHolderOfAKey", sharing(func(p *patched, m *sync.Map) {
		next := p.enqueue
		p.enqueue = func(ctx context.Context, r broker.EnqueueRequest) ([]broker.Receipt, error) {
			key := r.Jobs[0].Body.Unique.Key
			if holder, held := m.Load(key); held {
				return []broker.Receipt{{Queue: r.Jobs[0].Queue, ID: r.Jobs[0].ID, Holder: holder.(string), Err: broker.ErrDuplicate}}, nil
			}
			time.Sleep(time.Millisecond)
			m.Store(key, r.Jobs[0].ID)
			r.Jobs = slices.Clone(r.Jobs)
			r.Jobs[0].Body.Unique = broker.Unique{}
			return next(ctx, r)
		}
	})},
	{"a reclaimed job is reclaimed again", "Race/ReclaimsGiveEachJobOnce Reclaim/IsNotInTheQueue", sharing(func(p *patched, m *sync.Map) {
		change(&p.reclaim, nil, func(r *broker.ReclaimRequest, a *broker.Claimed) {
			if len(a.Jobs) > 0 {
				m.Store("last", a.Jobs[0])
			} else if last, ok := m.Load("last"); ok && len(a.Jobs) < r.Max {
				again := last.(broker.Job)
				again.Worker = r.Worker
				a.Jobs = append(a.Jobs, again)
			}
		})
	})},
	{"of the jobs that one settle completes some lose their records", "Race/Stress Race/StressOnABadNetwork", always(func(p *patched) {
		change(&p.settle, nil, func(r *broker.SettleRequest, a *[]broker.Verdict) {
			for i, v := range *a {
				if i > 0 && v.Err == nil && v.State == broker.StateCompleted {
					p.act(r.Now, broker.OpDelete, r.Items[i].Job.Queue, v.ID)
				}
			}
		})
	})},
	// One lost answer in the rule's forty sends is enough; one in four is lost.
	{"an enqueue that is repeated removes its job", "Race/StressOnABadNetwork", always(func(p *patched) {
		change(&p.enqueue, nil, func(r *broker.EnqueueRequest, a *[]broker.Receipt) {
			for _, got := range *a {
				if errors.Is(got.Err, broker.ErrDuplicate) && got.Holder == got.ID {
					p.act(r.Now, broker.OpDelete, got.Queue, got.ID)
				}
			}
		})
	})},
}

// Backends that declare a limit and do not refuse as they must.
var limitMutants = []mutant{
	{"priorities are declined and taken", "Order/LowerPriorityNumbersFirst",
		always(func(p *patched) { p.limits = func() broker.Limits { return broker.Limits{NoPriority: true} } })},
	{"unique keys are declined and taken", "Unique/SecondIsRefused",
		always(func(p *patched) { p.limits = func() broker.Limits { return broker.Limits{NoUnique: true} } })},
	{"waiting is declined and done", "Wake/ByEnqueue",
		always(func(p *patched) { p.limits = func() broker.Limits { return broker.Limits{NoWait: true} } })},
	{"watching is declined and done", "Watch/SettledIsSeen",
		always(func(p *patched) { p.limits = func() broker.Limits { return broker.Limits{NoWatch: true} } })},
	{"marks are declined and taken", "Mark/OneOwnerAtATime",
		always(func(p *patched) { p.limits = func() broker.Limits { return broker.Limits{NoMark: true} } })},
	{"moving is declined and done", "Hold/TakesOutOfTheQueue Edit/ReplacesThePayload Restore/KeepsTheWholePast",
		always(func(p *patched) { p.limits = func() broker.Limits { return broker.Limits{NoMove: true} } })},
	{"moving is declined, and new jobs with a past are taken", "Restore/KeepsTheWholePast", always(func(p *patched) {
		enqueue := p.enqueue
		limitTo(p, broker.Limits{NoMove: true})
		p.enqueue = enqueue
	})},
	{"moving is declined, and a delete with a holder is done", "Hold/TakesOutOfTheQueue", always(func(p *patched) {
		all := p.operate
		limitTo(p, broker.Limits{NoMove: true})
		declined := p.operate
		p.operate = func(ctx context.Context, o broker.Operation) ([]broker.OperationResult, error) {
			if o.Kind == broker.OpDelete {
				return all(ctx, o)
			}
			return declined(ctx, o)
		}
	})},
	{"an edit is declined and done", "Edit/ReplacesThePayload", always(func(p *patched) {
		limitTo(p, broker.Limits{NoMove: true})
		operate := p.operate
		p.operate = func(ctx context.Context, o broker.Operation) ([]broker.OperationResult, error) {
			if o.Kind == broker.OpEdit && ctx.Err() == nil && o.Check(broker.Limits{}) == nil {
				_, _ = p.Broker.Operate(ctx, o)
			}
			return operate(ctx, o)
		}
	})},
	{"a refused copy is stored", "Restore/KeepsTheWholePast", always(func(p *patched) {
		limitTo(p, broker.Limits{NoMove: true})
		enqueue := p.enqueue
		p.enqueue = func(ctx context.Context, r broker.EnqueueRequest) ([]broker.Receipt, error) {
			for _, j := range r.Jobs {
				if j.Restore != nil && ctx.Err() == nil {
					_, _ = p.Broker.Enqueue(ctx, broker.EnqueueRequest{Now: r.Now, Jobs: []broker.NewJob{j}})
				}
			}
			return enqueue(ctx, r)
		}
	})},
}
