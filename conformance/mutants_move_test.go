package conformance_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/seed81422ce9/jobs/broker"
)

// operating changes operations of one kind before they are applied.
func (p *patched) operating(kind broker.OperationKind, f func(*broker.Operation)) {
	change(&p.operate, func(o *broker.Operation) {
		if o.Kind == kind {
			f(o)
		}
	}, nil)
}

// shown changes every returned job that is in a state.
func (p *patched) shown(state broker.State, f func(*broker.Job)) {
	p.jobsIn(func(j *broker.Job) {
		if j.State == state {
			f(j)
		}
	})
}

// behind makes an operation unseen by the rule, one job at a time.
func (p *patched) behind(op broker.Operation) {
	for _, ref := range op.Refs {
		one := op
		one.Refs = []broker.Ref{ref}
		_, _ = p.Broker.Operate(background, one)
	}
}

// unfenced makes operations of one kind ignore epochs.
func unfenced(kind broker.OperationKind) func() func(*patched) {
	return always(func(p *patched) {
		p.operating(kind, func(o *broker.Operation) {
			o.Refs = slices.Clone(o.Refs)
			for i := range o.Refs {
				o.Refs[i].Epoch = broker.AnyEpoch
			}
		})
	})
}

var holdMutants = []mutant{
	{"a held job does not tell what it was", "Hold/TakesOutOfTheQueue Hold/UnholdMakesItWhatItWas Restore/OfAHeldJob",
		always(func(p *patched) {
			p.operating(broker.OpHold, func(o *broker.Operation) {
				reschedule := *o
				reschedule.Kind, reschedule.Holder = broker.OpReschedule, ""
				p.behind(reschedule)
			})
		})},
	{"a held job has no holder", "Hold/TakesOutOfTheQueue", always(func(p *patched) {
		p.shown(broker.StateWaiting, func(j *broker.Job) { j.Holder = "" })
	})},
	{"a hold is a note", "Hold/IsNeverClaimed Race/ClaimOrHold", sharing(func(p *patched, m *sync.Map) {
		p.inStep()
		p.oneByOne(func(next func() broker.OperationResult, o broker.Operation, ref broker.Ref) broker.OperationResult {
			if j := p.look(o.Now, ref.Queue, ref.ID); o.Kind == broker.OpHold && j != nil && broker.Allows(j.State, broker.OnHold) {
				m.Store(ref.ID, true)
				return broker.OperationResult{Ref: ref, State: broker.StateWaiting}
			}
			return next()
		})
		change(&p.find, nil, func(_ *broker.Query, a *broker.Page) {
			for i := range a.Jobs {
				if _, held := m.Load(a.Jobs[i].ID); held {
					a.Jobs[i].State = broker.StateWaiting
				}
			}
		})
	})},
	{"what is held is awaited", "Hold/IsNeverClaimed", always(func(p *patched) {
		change(&p.claim, nil, func(r *broker.ClaimRequest, a *broker.Claimed) {
			for _, s := range r.Queues {
				page, _ := p.Broker.Find(background, broker.Query{Now: r.Now, Queue: s.Queue, State: broker.StateWaiting})
				for _, j := range page.Jobs {
					if !j.RunAt.IsZero() {
						a.NextDue = j.RunAt
					}
				}
			}
		})
	})},
	{"a page of waiting jobs begins too late", "Hold/InPages", always(func(p *patched) {
		p.page(func(q *broker.Query, a *broker.Page) {
			if q.State == broker.StateWaiting && q.Cursor != "" && len(a.Jobs) > 0 {
				a.Jobs = a.Jobs[1:]
			}
		})
	})},
	{"what was held is pending", "Hold/UnholdMakesItWhatItWas", always(func(p *patched) {
		change(&p.operate, nil, func(o *broker.Operation, _ *[]broker.OperationResult) {
			if o.Kind == broker.OpUnhold {
				p.behind(broker.Operation{Now: o.Now, Kind: broker.OpReschedule, Refs: o.Refs})
			}
		})
	})},
	{"what was held goes to the back", "Hold/UnholdPutsInFront", always(func(p *patched) {
		change(&p.operate, nil, func(o *broker.Operation, _ *[]broker.OperationResult) {
			if o.Kind == broker.OpUnhold {
				p.behind(broker.Operation{Now: o.Now, Kind: broker.OpReschedule, Refs: o.Refs})
			}
		})
	})},
	{"a time that passed is given anew", "Hold/UnholdAfterItsTime", always(func(p *patched) {
		change(&p.operate, nil, func(o *broker.Operation, _ *[]broker.OperationResult) {
			for _, ref := range o.Refs {
				if j := p.look(o.Now, ref.Queue, ref.ID); o.Kind == broker.OpUnhold && j != nil && !j.RunAt.IsZero() && j.RunAt.Before(o.Now) {
					p.behind(broker.Operation{Now: o.Now, Kind: broker.OpReschedule, Delay: time.Hour, Refs: []broker.Ref{ref}})
				}
			}
		})
	})},
	{"a hold takes over", "Hold/AgainIsDone", always(func(p *patched) {
		p.operating(broker.OpHold, func(o *broker.Operation) { p.behind(broker.Operation{Now: o.Now, Kind: broker.OpUnhold, Refs: o.Refs}) })
	})},
	{"a repeated hold is refused", "Hold/AgainIsDone", always(func(p *patched) {
		p.oneByOne(func(next func() broker.OperationResult, o broker.Operation, ref broker.Ref) broker.OperationResult {
			if j := p.look(o.Now, ref.Queue, ref.ID); o.Kind == broker.OpHold && j != nil && ref.Epoch != broker.AnyEpoch && ref.Epoch != j.Epoch {
				return broker.OperationResult{Ref: ref, State: j.State, Holder: j.Holder, Err: broker.ErrWrongState}
			}
			return next()
		})
	})},
	{"a holder is not asked for", "Hold/HolderDecides", always(func(p *patched) {
		p.operating(broker.OpUnhold, func(o *broker.Operation) { o.Holder = "" })
	})},
	{"a deletion does not ask for the holder", "Hold/HolderDecides", always(func(p *patched) {
		p.operating(broker.OpDelete, func(o *broker.Operation) { o.Holder = "" })
	})},
	{"who holds a job is not told", "Hold/HolderDecides Hold/ObeysTheTable Restore/RefusesWhatIsHeld", always(func(p *patched) {
		p.results(func(_ broker.Operation, r *broker.OperationResult) {
			if errors.Is(r.Err, broker.ErrWrongState) {
				r.Holder = ""
			}
		})
		change(&p.enqueue, nil, func(_ *broker.EnqueueRequest, a *[]broker.Receipt) {
			for i := range *a {
				if errors.Is((*a)[i].Err, broker.ErrWrongState) {
					(*a)[i].Holder = ""
				}
			}
		})
	})},
	{"dead jobs are held", "Hold/ObeysTheTable", always(func(p *patched) {
		p.operating(broker.OpHold, func(o *broker.Operation) {
			p.behind(broker.Operation{Now: o.Now, Kind: broker.OpRedrive, Refs: o.Refs})
		})
	})},
	{"the epoch of a hold is ignored", "Hold/StaleRefIsRefused", unfenced(broker.OpHold)},
	{"the epoch of an unhold is ignored", "Hold/StaleRefIsRefused", unfenced(broker.OpUnhold)},
	{"a cancelled job stays held", "Hold/EndsWithTheJob", always(func(p *patched) {
		p.shown(broker.StateCancelled, func(j *broker.Job) { j.Holder = "move:elsewhere/q" })
	})},
	{"a held job leaves its key", "Hold/KeepsItsKey", sharing(func(p *patched, m *sync.Map) {
		change(&p.operate, func(o *broker.Operation) {
			for _, ref := range o.Refs {
				if j := p.look(o.Now, ref.Queue, ref.ID); j != nil && o.Kind == broker.OpHold {
					m.Store(j.Unique.Key, true)
				}
			}
		}, nil)
		p.aliased(m)
	})},
	{"depth is of what can be claimed", "Hold/CountsForDepth", always(func(p *patched) {
		change(&p.policy, func(r *broker.PolicyRequest) {
			for _, q := range first(p.known(time.Time{})) {
				if q.Name == r.Queue && r.MaxDepth != nil {
					depth := *r.MaxDepth + q.Counts[broker.StateWaiting]
					r.MaxDepth = &depth
				}
			}
		}, nil)
	})},
	{"a queue is removed with what is held", "Hold/KeepsItsQueue", always(func(p *patched) {
		p.operating(broker.OpRemoveQueue, func(o *broker.Operation) { p.act(o.Now, broker.OpDelete, o.Refs[0].Queue, "a") })
	})},
	{"a hold needs no holder", "Hold/RefusesWhatIsInvalid", always(func(p *patched) {
		p.operating(broker.OpHold, func(o *broker.Operation) {
			if o.Holder == "" {
				o.Holder = "somebody"
			}
		})
	})},
}

func first(queues []broker.QueueInfo, _ []string) []broker.QueueInfo { return queues }

var editMutants = []mutant{
	{"an edit appends", "Edit/ReplacesThePayload Edit/ReachesItsRun", always(func(p *patched) {
		p.operating(broker.OpEdit, func(o *broker.Operation) {
			if j := p.look(o.Now, o.Refs[0].Queue, o.Refs[0].ID); j != nil {
				o.Payload = append(slices.Clone(j.Payload), o.Payload...)
			}
		})
	})},
	{"an edit makes the job pending", "Edit/ReplacesThePayload", always(func(p *patched) {
		change(&p.operate, nil, func(o *broker.Operation, _ *[]broker.OperationResult) {
			if o.Kind == broker.OpEdit {
				p.behind(broker.Operation{Now: o.Now, Kind: broker.OpReschedule, Refs: o.Refs})
			}
		})
	})},
	{"an edit goes to the back", "Edit/KeepsThePlace", always(func(p *patched) {
		change(&p.operate, nil, func(o *broker.Operation, _ *[]broker.OperationResult) {
			if o.Kind == broker.OpEdit {
				p.behind(broker.Operation{Now: o.Now, Kind: broker.OpReschedule, Refs: o.Refs})
			}
		})
	})},
	{"the epoch of a dead job is ignored", "Edit/MakesCopiesOfTheDeadStale", always(func(p *patched) {
		change(&p.operate, func(o *broker.Operation) {
			o.Refs = slices.Clone(o.Refs)
			for i := range o.Refs {
				o.Refs[i].Epoch = broker.AnyEpoch
			}
		}, nil)
	})},
	{"any job is edited", "Edit/OtherStatesAreRefused Race/ClaimOrEdit", always(func(p *patched) {
		p.inStep()
		p.results(func(o broker.Operation, r *broker.OperationResult) {
			if o.Kind == broker.OpEdit && errors.Is(r.Err, broker.ErrWrongState) {
				r.Err = nil
			}
		})
	})},
	{"an edit is of the first job it names", "Edit/RefusesWhatIsInvalid", always(func(p *patched) {
		p.operating(broker.OpEdit, func(o *broker.Operation) { o.Refs = o.Refs[:1] })
	})},
	{"an edit strips what it does not know", "Broken/EditKeepsWhatIsNewer", always(func(p *patched) {
		p.jobsIn(func(j *broker.Job) {
			if string(j.Payload) == "edited" {
				j.Body, _ = broker.ParseBody(broker.AppendBody(nil, &j.Body))
			}
		})
	})},
	{"an edit repairs what cannot be read", "Broken/EditRefusesWhatItCannotRead", always(func(p *patched) {
		p.results(func(_ broker.Operation, r *broker.OperationResult) {
			if errors.Is(r.Err, broker.ErrMalformed) {
				r.Err = nil
			}
		})
	})},
}

// restored changes the history with which jobs are restored.
func (p *patched) restored(f func(*broker.NewJob, *broker.Restored)) {
	p.newJobs(func(j *broker.NewJob) {
		if j.Restore != nil {
			r := *j.Restore
			j.Restore = &r
			f(j, &r)
		}
	})
}

var restoreMutants = []mutant{
	{"a restored job has no errors", "Restore/KeepsTheWholePast Restore/GoesOn", always(func(p *patched) {
		p.restored(func(_ *broker.NewJob, r *broker.Restored) { r.Head.Errors = broker.ErrorLog{} })
	})},
	{"a restored job was created now", "Restore/KeepsTheWholePast", always(func(p *patched) {
		p.restored(func(_ *broker.NewJob, r *broker.Restored) { r.CreatedAt = time.Time{} })
	})},
	{"a restored job is pending", "Restore/KeepsTheWholePast Restore/OfAHeldJob", always(func(p *patched) {
		p.restored(func(j *broker.NewJob, r *broker.Restored) { r.State, j.RunAt = broker.StatePending, time.Time{} })
	})},
	{"a restored time is given anew", "Restore/AfterItsTime", always(func(p *patched) {
		p.restored(func(j *broker.NewJob, _ *broker.Restored) {
			if !j.RunAt.IsZero() {
				j.RunAt, j.Delay = time.Time{}, time.Hour
			}
		})
	})},
	{"a restored job replaces its first copy", "Restore/RepeatIsRefused", always(func(p *patched) {
		change(&p.enqueue, func(r *broker.EnqueueRequest) {
			for _, j := range r.Jobs {
				p.act(r.Now, broker.OpDelete, j.Queue, j.ID)
			}
		}, nil)
	})},
	{"a restored job's ID is not remembered", "Restore/RepeatIsRefused Restore/ComesBack Restore/DeletedStaysDeleted",
		always(func(p *patched) {
			p.newJobs(func(j *broker.NewJob) { j.Body.GivenID = false })
		})},
	{"the held original is a duplicate", "Restore/RefusesWhatIsHeld", always(func(p *patched) {
		change(&p.enqueue, nil, func(_ *broker.EnqueueRequest, a *[]broker.Receipt) {
			for i := range *a {
				if errors.Is((*a)[i].Err, broker.ErrWrongState) {
					(*a)[i].Err = broker.ErrDuplicate
				}
			}
		})
	})},
	{"a job that left stays away", "Restore/ComesBack", always(func(p *patched) {
		p.operating(broker.OpDelete, func(o *broker.Operation) { o.Holder = "" })
	})},
	{"a late copy comes back too", "Restore/ComesBack", always(func(p *patched) {
		p.restored(func(_ *broker.NewJob, r *broker.Restored) { r.Head.Epoch += 100 })
	})},
	{"a deleted job comes back", "Restore/DeletedStaysDeleted", always(func(p *patched) {
		p.operating(broker.OpDelete, func(o *broker.Operation) { o.Holder = "somebody" })
	})},
	{"a restored job has the epoch of the original", "Restore/NoRefFromThereFits", always(func(p *patched) {
		p.restored(func(_ *broker.NewJob, r *broker.Restored) { r.Head.Epoch = max(r.Head.Epoch-1, 0) })
		unfenced(broker.OpDelete)()(p)
	})},
	{"what ended is kept from now on", "Restore/KeptFromItsEnd", always(func(p *patched) {
		p.restored(func(_ *broker.NewJob, r *broker.Restored) { r.Head.FinishedAt = time.Time{} })
	})},
	{"a full queue refuses what is restored", "Restore/DepthRefusesWhatCounts", always(func(p *patched) {
		change(&p.enqueue, nil, func(r *broker.EnqueueRequest, a *[]broker.Receipt) {
			for i := range *a {
				if past := r.Jobs[i].Restore; past != nil && past.State == broker.StateRetry {
					(*a)[i].Err = broker.ErrQueueFull
				}
			}
		})
	})},
	{"a full queue accepts what is restored", "Restore/DepthRefusesWhatCounts", always(func(p *patched) {
		next := p.enqueue
		p.enqueue = func(ctx context.Context, r broker.EnqueueRequest) ([]broker.Receipt, error) {
			got, err := next(ctx, r)
			for i := range got {
				if r.Jobs[i].Restore != nil && errors.Is(got[i].Err, broker.ErrQueueFull) {
					got[i].Err = nil
				}
			}
			return got, err
		}
	})},
	{"a restored job takes its key though it ended", "Restore/TakesItsKey", always(func(p *patched) {
		p.restored(func(_ *broker.NewJob, r *broker.Restored) {
			if r.State == broker.StateDead {
				r.State = broker.StatePending
			}
		})
	})},
	{"a restored job takes no key", "Restore/TakesItsKey", always(func(p *patched) {
		p.restored(func(j *broker.NewJob, _ *broker.Restored) { j.Body.Unique = broker.Unique{} })
	})},
	{"restored jobs go before new ones", "Restore/SeesWhatStandsBefore", always(func(p *patched) {
		next := p.enqueue
		p.enqueue = func(ctx context.Context, r broker.EnqueueRequest) ([]broker.Receipt, error) {
			receipts := make([]broker.Receipt, len(r.Jobs))
			for _, restored := range []bool{true, false} {
				for i, j := range r.Jobs {
					if (j.Restore != nil) != restored {
						continue
					}
					got, err := next(ctx, broker.EnqueueRequest{Now: r.Now, Jobs: []broker.NewJob{j}})
					if err != nil {
						return nil, err
					}
					receipts[i] = got[0]
				}
			}
			return receipts, nil
		}
	})},
	{"restored jobs have one priority", "Restore/KeepsItsPriority", always(func(p *patched) {
		p.restored(func(j *broker.NewJob, _ *broker.Restored) { j.Body.Priority = broker.PriorityNormal })
	})},
	{"an invalid past is bent", "Restore/RefusesWhatIsInvalid", always(func(p *patched) {
		p.restored(func(_ *broker.NewJob, r *broker.Restored) { r.Head.Epoch = max(r.Head.Epoch, 0) })
	})},
	{"unknown times are the first there are", "Restore/UnknownTimesAreNow", always(func(p *patched) {
		p.restored(func(_ *broker.NewJob, r *broker.Restored) {
			if r.CreatedAt.IsZero() {
				r.CreatedAt = time.Unix(1, 0)
			}
		})
	})},
}
