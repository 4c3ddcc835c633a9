package conformance_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/seed81422ce9/jobs/broker"
)

// met changes every job that may replace another one, before it is enqueued.
func (p *patched) met(f func(*broker.NewJob)) {
	p.newJobs(func(j *broker.NewJob) {
		if j.Meets() {
			f(j)
		}
	})
}

// becomes replaces one conflict mode by another.
func becomes(from, to broker.UniqueConflict) func() func(*patched) {
	return always(func(p *patched) {
		p.met(func(j *broker.NewJob) {
			if u := &j.Body.Unique; u.Conflict == from {
				if u.Conflict = to; to != broker.ConflictDebounce {
					u.Latest = 0
				}
			}
		})
	})
}

// inAll calls f with the jobs that match a query.
func (p *patched) inAll(o broker.Query, f func(*broker.Job)) {
	page, _ := p.Broker.Find(background, o)
	for i := range page.Jobs {
		f(&page.Jobs[i])
	}
}

var meetMutants = []mutant{
	{"every job is refused by a held key", "Meet/ReplacesWhatHasNotStarted Meet/KeepsThePlace Meet/WithinARequest Meet/NeedsNoRoom " +
		"Meet/ARepeatChangesNothing Race/KeepLastAgainstTheEnd", always(func(p *patched) {
		p.met(func(j *broker.NewJob) { j.Body.Unique.Conflict, j.Body.Unique.Latest = broker.ConflictRefuse, 0 })
	})},
	{"a job that may run after another is of no key", "Follow/TakesTurnsOfItsKey", always(func(p *patched) {
		p.met(func(j *broker.NewJob) { j.Body.Key = "" })
	})},
	{"an ordered queue admits all that may replace another", "Follow/TakesTurnsOfItsKey", always(func(p *patched) {
		change(&p.enqueue, nil, func(r *broker.EnqueueRequest, a *[]broker.Receipt) {
			for i, j := range r.Jobs {
				if errors.Is((*a)[i].Err, broker.ErrInvalid) && j.Meets() {
					(*a)[i].Err = nil
				}
			}
		})
	})},
	{"replacing leaves the headers", "Meet/ReplacesWhatHasNotStarted", always(func(p *patched) {
		p.met(func(j *broker.NewJob) {
			if j.Body.TypeVersion != 0 {
				j.Body.Headers = nil
			}
		})
	})},
	{"a job that cannot be read is a duplicate", "Broken/IsNotReplaced", always(func(p *patched) {
		change(&p.enqueue, nil, func(_ *broker.EnqueueRequest, a *[]broker.Receipt) {
			for i := range *a {
				if r := &(*a)[i]; errors.Is(r.Err, broker.ErrMalformed) {
					r.Err = broker.ErrDuplicate
				}
			}
		})
	})},
	{"replacing leaves the payload's reference", "Meet/ReplacesWhatHasNotStarted", always(func(p *patched) {
		p.met(func(j *broker.NewJob) { j.Body.PayloadRef = "" })
	})},
	{"a job that was replaced goes to the back", "Meet/KeepsThePlace", always(func(p *patched) {
		change(&p.enqueue, nil, func(r *broker.EnqueueRequest, a *[]broker.Receipt) {
			for _, got := range *a {
				if got.Replaced {
					p.act(r.Now, broker.OpReschedule, got.Queue, got.ID)
				}
			}
		})
	})},
	{"who would replace an active job waits behind it", "Meet/RefusedOnceStarted", becomes(broker.ConflictReplace, broker.ConflictKeepLast)},
	{"a job of another type is replaced", "Meet/RefusedOnceStarted", always(func(p *patched) {
		p.met(func(j *broker.NewJob) { j.Body.Type = "work" })
	})},
	{"whatever has the holder's ID is the holder", "Meet/ALaterJobWithTheHoldersID", always(func(p *patched) {
		change(&p.enqueue, nil, func(r *broker.EnqueueRequest, a *[]broker.Receipt) {
			for i := range *a {
				if got := &(*a)[i]; r.Jobs[i].Meets() && got.Holder != "" && errors.Is(got.Err, broker.ErrDuplicate) {
					p.inAll(broker.Query{Now: r.Now, Queue: got.Queue, State: broker.StatePending, Limit: 10}, func(j *broker.Job) {
						if j.ID == got.Holder && j.Unique.Key != r.Jobs[i].Body.Unique.Key {
							got.Err, got.Replaced = nil, true
						}
					})
				}
			}
		})
	})},
	{"a job that was elsewhere replaces", "Meet/RestoredJobsReplaceNothing", always(func(p *patched) {
		p.newJobs(func(j *broker.NewJob) {
			if j.Body.Unique.Conflict != broker.ConflictRefuse {
				j.Restore = nil
			}
		})
	})},
	{"a repeat replaces again", "Meet/ARepeatChangesNothing", sharing(func(p *patched, m *sync.Map) {
		p.met(func(j *broker.NewJob) {
			if _, again := m.LoadOrStore(j.ID, true); again {
				j.ID += " again"
			}
		})
	})},
	{"an ID that was refused is refused to the rest of the request", "Meet/ARepeatBesideAnother", always(func(p *patched) {
		change(&p.enqueue, nil, func(r *broker.EnqueueRequest, a *[]broker.Receipt) {
			refused := map[string]bool{}
			for i, j := range r.Jobs {
				got := &(*a)[i]
				if refused[j.ID] {
					*got = broker.Receipt{Queue: j.Queue, ID: j.ID, Holder: j.ID, Err: broker.Duplicate(j.ID, j.ID)}
				}
				refused[j.ID] = refused[j.ID] || errors.Is(got.Err, broker.ErrDuplicate) && got.Holder == j.ID
			}
		})
	})},
	{"the jobs of a request come in any order", "Meet/WithinARequest", always(func(p *patched) {
		next := p.enqueue
		p.enqueue = func(ctx context.Context, r broker.EnqueueRequest) ([]broker.Receipt, error) {
			r.Jobs = slices.Clone(r.Jobs)
			slices.Reverse(r.Jobs)
			got, err := next(ctx, r)
			slices.Reverse(got)
			return got, err
		}
	})},
	{"a full queue takes no job at all", "Meet/NeedsNoRoom", always(func(p *patched) {
		next := p.enqueue
		p.enqueue = func(ctx context.Context, r broker.EnqueueRequest) ([]broker.Receipt, error) {
			queues, _ := p.known(r.Now)
			for _, q := range queues {
				depth := q.Counts[broker.StatePending] + q.Counts[broker.StateScheduled] + q.Counts[broker.StateWaiting]
				if len(r.Jobs) == 1 && q.Policy.MaxDepth > 0 && depth >= q.Policy.MaxDepth {
					return []broker.Receipt{{Queue: r.Jobs[0].Queue, ID: r.Jobs[0].ID, Err: broker.ErrQueueFull}}, nil
				}
			}
			return next(ctx, r)
		}
	})},
	{"a debounce only replaces", "Meet/DebouncePushesTheTime Meet/DebounceOfAPendingJob Meet/DebounceEarlier",
		becomes(broker.ConflictDebounce, broker.ConflictReplace)},
	{"a debounce has no latest time", "Meet/DebouncePushesTheTime Meet/DebounceOfAPendingJob", always(func(p *patched) {
		p.met(func(j *broker.NewJob) { j.Body.Unique.Latest *= 1000 })
	})},
	{"a debounced job that is due goes to the back", "Meet/DebounceOfADueJob", always(func(p *patched) {
		change(&p.enqueue, nil, func(r *broker.EnqueueRequest, a *[]broker.Receipt) {
			for i, got := range *a {
				if got.Replaced && r.Jobs[i].Delay == 0 {
					p.act(r.Now, broker.OpReschedule, got.Queue, got.ID)
				}
			}
		})
	})},
	{"a debounce only replaces what is due", "Meet/DebounceOfADueJob", always(func(p *patched) {
		change(&p.enqueue, func(r *broker.EnqueueRequest) {
			r.Jobs = slices.Clone(r.Jobs)
			for i := range r.Jobs {
				u := &r.Jobs[i].Body.Unique
				for _, state := range []broker.State{broker.StatePending, broker.StateScheduled} {
					p.inAll(broker.Query{Now: r.Now, Queue: r.Jobs[i].Queue, State: state}, func(j *broker.Job) {
						if j.Unique.Key == u.Key && !j.RunAt.After(r.Now) && u.Conflict == broker.ConflictDebounce {
							u.Conflict, u.Latest = broker.ConflictReplace, 0
						}
					})
				}
			}
		}, nil)
	})},
	{"a debounce only pushes out", "Meet/DebounceEarlier", sharing(func(p *patched, m *sync.Map) {
		p.met(func(j *broker.NewJob) {
			if last, ok := m.Load(j.Body.Unique.Key); ok && j.Delay < last.(*broker.NewJob).Delay {
				j.Delay = last.(*broker.NewJob).Delay
			}
			copied := *j
			m.Store(j.Body.Unique.Key, &copied)
		})
	})},
	{"a debounced job in retry waits for its time", "Meet/DebounceOfAPendingJob", always(func(p *patched) {
		change(&p.enqueue, nil, func(r *broker.EnqueueRequest, a *[]broker.Receipt) {
			for i, got := range *a {
				if got.Replaced && got.State == broker.StateRetry && r.Jobs[i].Delay > 0 {
					p.behind(broker.Operation{Now: r.Now, Kind: broker.OpReschedule, Delay: r.Jobs[i].Delay,
						Refs: []broker.Ref{{Queue: got.Queue, ID: got.ID, Epoch: broker.AnyEpoch}}})
				}
			}
		})
	})},
}

var keepLastMutants = []mutant{
	{"a job that keeps the last is refused by an active holder", "Follow/RunsOnceAfterTheHolder Follow/NoTTLCounts Race/KeepLastAgainstTheEnd",
		becomes(broker.ConflictKeepLast, broker.ConflictReplace)},
	{"a job that keeps the last runs beside its holder", "Follow/RunsOnceAfterTheHolder", always(func(p *patched) {
		p.met(func(j *broker.NewJob) {
			if j.ID == "b" {
				j.Body.Unique = broker.Unique{}
			}
		})
	})},
	{"a request is carried out twice", "Follow/WithinARequest", always(func(p *patched) {
		next := p.enqueue
		p.enqueue = func(ctx context.Context, r broker.EnqueueRequest) ([]broker.Receipt, error) {
			got, err := next(ctx, r)
			if len(r.Jobs) > 1 {
				_, _ = next(ctx, r)
			}
			return got, err
		}
	})},
	{"a job that followed goes to the front", "Follow/GoesToTheBack", always(func(p *patched) {
		change(&p.settle, nil, func(r *broker.SettleRequest, _ *[]broker.Verdict) {
			queue := r.Items[0].Job.Queue
			p.inAll(broker.Query{Now: r.Now, Queue: queue, State: broker.StatePending}, func(j *broker.Job) {
				if j.Epoch == 1 && j.Deliveries == 0 && j.Unique.Conflict == broker.ConflictKeepLast {
					ref := []broker.Ref{j.Ref()}
					p.behind(broker.Operation{Now: r.Now, Kind: broker.OpHold, Holder: "front", Refs: ref})
					p.behind(broker.Operation{Now: r.Now, Kind: broker.OpUnhold, Refs: []broker.Ref{{Queue: queue, ID: j.ID, Epoch: broker.AnyEpoch}}})
				}
			})
		})
	})},
	{"a job behind one that an operator ends waits for ever", "Follow/FollowsEveryEnd", always(func(p *patched) {
		change(&p.operate, nil, func(o *broker.Operation, _ *[]broker.OperationResult) {
			if o.Kind != broker.OpDelete && o.Kind != broker.OpCancel {
				return
			}
			p.inAll(broker.Query{Now: o.Now, Queue: o.Refs[0].Queue, State: broker.StatePending}, func(j *broker.Job) {
				if j.Epoch == 1 && j.Deliveries == 0 {
					p.behind(broker.Operation{Now: o.Now, Kind: broker.OpHold, Holder: "for ever", Refs: []broker.Ref{j.Ref()}})
				}
			})
		})
	})},
	{"a retry lets the job behind go", "Follow/WaitsAsLongAsTheHolderLives", always(func(p *patched) {
		change(&p.settle, nil, func(r *broker.SettleRequest, _ *[]broker.Verdict) {
			if r.Items[0].Outcome.Kind() != broker.OutcomeRetry {
				return
			}
			p.inAll(broker.Query{Now: r.Now, Queue: r.Items[0].Job.Queue, State: broker.StateWaiting}, func(j *broker.Job) {
				p.act(r.Now, broker.OpDelete, j.Queue, j.ID)
				n := broker.NewJob{Queue: j.Queue, ID: j.ID, Body: j.Body}
				n.Body.Unique = broker.Unique{}
				_, _ = p.Broker.Enqueue(background, broker.EnqueueRequest{Now: r.Now, Jobs: []broker.NewJob{n}})
			})
		})
	})},
	{"a key with a job behind runs out", "Follow/NoTTLCounts", sharing(func(p *patched, m *sync.Map) {
		next := p.enqueue
		p.enqueue = func(ctx context.Context, r broker.EnqueueRequest) ([]broker.Receipt, error) {
			r.Jobs = slices.Clone(r.Jobs)
			for i := range r.Jobs {
				u := &r.Jobs[i].Body.Unique
				if u.TTL > 0 {
					m.Store(u.Key, r.Now.Add(u.TTL))
				} else if end, ok := m.Load(u.Key); ok && !r.Now.Before(end.(time.Time)) {
					*u = broker.Unique{}
				}
			}
			return next(ctx, r)
		}
	})},
	{"operations are carried out from the last to the first", "Follow/OperationsAreInOrder", always(func(p *patched) {
		change(&p.operate, func(o *broker.Operation) {
			o.Refs = slices.Clone(o.Refs)
			slices.Reverse(o.Refs)
		}, func(_ *broker.Operation, a *[]broker.OperationResult) { slices.Reverse(*a) })
	})},
	{"an operator lets the job behind go", "Follow/OperatorsEndIt", always(func(p *patched) {
		p.results(func(o broker.Operation, r *broker.OperationResult) {
			if _, behind := broker.IsBehind(r.Holder); behind && o.Kind == broker.OpUnhold {
				r.Err, r.Holder = nil, ""
			}
		})
	})},
	{"a deleted job is still behind", "Follow/OperatorsEndIt", sharing(func(p *patched, m *sync.Map) {
		change(&p.operate, nil, func(o *broker.Operation, a *[]broker.OperationResult) {
			if o.Kind == broker.OpDelete && (*a)[0].Err == nil {
				m.Store("key", (*a)[0].Ref.ID)
			}
		})
		p.leaked(m)
	})},
	{"a debounce behind keeps its first time", "Follow/DebounceWaitsBehind", becomes(broker.ConflictDebounce, broker.ConflictKeepLast)},
	{"a window is a hold until done", "Follow/StartedHoldersFollowNobody", always(func(p *patched) {
		p.newJobs(func(j *broker.NewJob) { setMode(j, broker.UniqueWindow, broker.UniqueUntilDone) })
	})},
	{"the end of the job before wakes nobody", "Wake/ByTheJobBefore", deafTo("complete")},
}
