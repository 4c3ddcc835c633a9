package conformance_test

import (
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/seed81422ce9/jobs/broker"
)

var operateMutants = []mutant{
	{"a Ref of a later epoch fits", "Operate/AnEarlierJobWithTheID", always(func(p *patched) {
		change(&p.operate, func(o *broker.Operation) {
			o.Refs = slices.Clone(o.Refs)
			for i, ref := range o.Refs {
				if j := p.look(o.Now, ref.Queue, ref.ID); j != nil && ref.Epoch > j.Epoch {
					o.Refs[i].Epoch = j.Epoch
				}
			}
		}, nil)
	})},
	{"a job takes the place of an earlier one with its ID", "Operate/AnEarlierJobWithTheID", sharing(func(p *patched, m *sync.Map) {
		change(&p.enqueue, nil, func(r *broker.EnqueueRequest, a *[]broker.Receipt) {
			for _, got := range *a {
				if _, again := m.LoadOrStore(got.ID, true); again && got.Err == nil && got.State == broker.StatePending {
					p.toFront(r.Now, broker.Ref{Queue: got.Queue, ID: got.ID})
				}
			}
		})
	})},
	{"records keep no queue", "Operate/KeepsQueuesWithAnyJob", always(func(p *patched) {
		change(&p.operate, func(o *broker.Operation) {
			if o.Kind == broker.OpRemoveQueue {
				p.inAll(broker.Query{Now: o.Now, Queue: o.Refs[0].Queue, State: broker.StateCompleted}, func(j *broker.Job) {
					p.act(o.Now, broker.OpDelete, j.Queue, j.ID)
				})
			}
		}, nil)
	})},
	{"every state allows everything", "Operate/ObeysTheTable Race/OneRedrive Fault/RepeatedOperationsAreHarmless",
		always(func(p *patched) {
			p.results(func(_ broker.Operation, r *broker.OperationResult) {
				if errors.Is(r.Err, broker.ErrWrongState) {
					r.Err = nil
				}
			})
		})},
	{"a cancelled job is claimed", "Operate/CancelledIsNeverClaimed", always(func(p *patched) {
		p.oneByOne(func(next func() broker.OperationResult, o broker.Operation, ref broker.Ref) broker.OperationResult {
			if j := p.look(o.Now, ref.Queue, ref.ID); o.Kind == broker.OpCancel && j != nil && j.State != broker.StateActive {
				return broker.OperationResult{Ref: ref, State: broker.StateCancelled}
			}
			return next()
		})
	})},
	{"the wish to cancel is lost", "Operate/CancelAsksAnActiveJob Lease/CancelShowsInRenew Lease/RetireCancelsWhatWasToBe " +
		"Watch/CancelIsSeen Race/ClaimOrCancel", always(func(p *patched) {
		p.inStep()
		p.oneByOne(func(next func() broker.OperationResult, o broker.Operation, ref broker.Ref) broker.OperationResult {
			if j := p.look(o.Now, ref.Queue, ref.ID); o.Kind == broker.OpCancel && j != nil && j.State == broker.StateActive {
				return broker.OperationResult{Ref: ref, State: broker.StateActive}
			}
			return next()
		})
	})},
	{"a deleted job is claimed", "Operate/DeletedIsNeverClaimed Race/ClaimOrDelete", sharing(func(p *patched, m *sync.Map) {
		p.inStep()
		p.oneByOne(func(next func() broker.OperationResult, o broker.Operation, ref broker.Ref) broker.OperationResult {
			if j := p.look(o.Now, ref.Queue, ref.ID); o.Kind == broker.OpDelete && j != nil && j.State != broker.StateActive {
				m.Store(ref.ID, true)
				return broker.OperationResult{Ref: ref}
			}
			return next()
		})
		change(&p.find, nil, func(_ *broker.Query, a *broker.Page) {
			a.Jobs = slices.DeleteFunc(a.Jobs, func(j broker.Job) bool { _, gone := m.Load(j.ID); return gone })
		})
	})},
	{"a redrive keeps the counts", "Operate/RedriveStartsAfresh", always(func(p *patched) {
		p.jobsIn(func(j *broker.Job) { j.Failures = max(j.Failures, len(j.Errors.Entries)) })
	})},
	{"a reschedule forgets the time", "Operate/RescheduleSetsTheTime", always(func(p *patched) {
		change(&p.operate, func(o *broker.Operation) { o.RunAt = time.Time{} }, nil)
	})},
	{"suppressed jobs are listed", "Operate/SuppressHidesTheDead",
		always(func(p *patched) { p.query(func(q *broker.Query) { q.Suppressed = true }) })},
	{"the epoch of a Ref is ignored", "Operate/StaleRefIsRefused Operate/StaleRefOfADeadJob", always(func(p *patched) {
		change(&p.operate, func(o *broker.Operation) {
			o.Refs = slices.Clone(o.Refs)
			for i := range o.Refs {
				o.Refs[i].Epoch = broker.AnyEpoch
			}
		}, nil)
	})},
	{"one refused decision refuses all", "Operate/EachOnItsOwn", always(func(p *patched) {
		change(&p.operate, nil, func(_ *broker.Operation, a *[]broker.OperationResult) {
			if i := slices.IndexFunc(*a, func(r broker.OperationResult) bool { return r.Err != nil }); i >= 0 {
				for k := range *a {
					(*a)[k].Err = (*a)[i].Err
				}
			}
		})
	})},
	{"decisions of a request do not see each other", "Operate/SeesWhatItDidBefore", always(func(p *patched) {
		change(&p.operate, nil, func(o *broker.Operation, a *[]broker.OperationResult) {
			for i := 1; i < len(*a); i++ {
				if (*a)[i].Ref == (*a)[i-1].Ref {
					(*a)[i] = (*a)[i-1]
				}
			}
		})
	})},
	{"a refusal does not say why", "Operate/SaysWhatStandsAgainstIt", always(func(p *patched) {
		change(&p.operate, nil, func(_ *broker.Operation, a *[]broker.OperationResult) {
			for i := range *a {
				if errors.Is((*a)[i].Err, broker.ErrWrongState) {
					(*a)[i].Err = broker.ErrWrongState
				}
			}
		})
	})},
	{"a refusal does not say where the job is", "Operate/SaysWhatStandsAgainstIt", always(func(p *patched) {
		change(&p.operate, nil, func(_ *broker.Operation, a *[]broker.OperationResult) {
			for i := range *a {
				if (*a)[i].Err != nil {
					(*a)[i].State = broker.StateNone
				}
			}
		})
	})},
	{"an invalid operation is bent", "Operate/RefusesWhatIsInvalid", always(func(p *patched) {
		change(&p.operate, func(o *broker.Operation) { o.Delay = max(o.Delay, 0) }, nil)
	})},
	{"a queue is removed with its dead", "Operate/RemovesEmptyQueues", always(func(p *patched) {
		change(&p.operate, func(o *broker.Operation) {
			if o.Kind == broker.OpRemoveQueue {
				p.act(o.Now, broker.OpDelete, o.Refs[0].Queue, "a")
			}
		}, nil)
	})},
	{"a queue is removed under its workers", "Operate/RemovesEmptyQueues", always(func(p *patched) {
		change(&p.operate, func(o *broker.Operation) {
			if o.Kind == broker.OpRemoveQueue {
				_, _ = p.Broker.Retire(background, broker.RetireRequest{Now: o.Now, Worker: "v", Queues: []string{o.Refs[0].Queue}})
			}
		}, nil)
	})},
}

var retentionMutants = []mutant{
	{"a job's own retention is ignored", "Retention/JobsOwnWins", always(func(p *patched) {
		p.newJobs(func(j *broker.NewJob) { j.Body.Retention = 0 })
	})},
	{"a shorter age is of the records too", "Retention/IsThatOfTheEnd", always(func(p *patched) {
		change(&p.policy, nil, func(r *broker.PolicyRequest, a *broker.Policy) {
			page, _ := p.Broker.Find(background, broker.Query{Queue: r.Queue, State: broker.StateCompleted})
			for _, j := range page.Jobs {
				if a.RetainCompleted.Age < time.Hour {
					p.act(j.FinishedAt, broker.OpDelete, j.Queue, j.ID)
				}
			}
		})
	})},
	{"a cancelled job leaves no record", "Retention/CancelledLikeCompleted", always(func(p *patched) {
		p.results(func(o broker.Operation, r *broker.OperationResult) {
			if o.Kind == broker.OpCancel && r.State == broker.StateCancelled {
				p.act(o.Now, broker.OpDelete, r.Ref.Queue, r.Ref.ID)
			}
		})
	})},
	{"records are not counted", "Retention/CountBoundsRecords", always(func(p *patched) {
		change(&p.policy, func(r *broker.PolicyRequest) {
			if r.RetainCompleted != nil {
				r.RetainCompleted = &broker.Retention{Age: r.RetainCompleted.Age}
			}
		}, nil)
	})},
	{"a count alone keeps records", "Retention/CountAloneKeepsNone", always(func(p *patched) {
		change(&p.policy, func(r *broker.PolicyRequest) {
			if c := r.RetainCompleted; c != nil && c.Count > 0 && c.Age == 0 {
				r.RetainCompleted = &broker.Retention{Age: time.Hour, Count: c.Count}
			}
		}, nil)
	})},
	{"the dead go with the completed", "Retention/DeadStayByDefault", always(func(p *patched) {
		change(&p.policy, func(r *broker.PolicyRequest) {
			if r.RetainDead == nil {
				r.RetainDead = r.RetainCompleted
			}
		}, nil)
	})},
	{"the dead stay for ever", "Retention/DeadByPolicy", always(func(p *patched) {
		change(&p.policy, func(r *broker.PolicyRequest) { r.RetainDead = nil }, nil)
	})},
	{"a prune has no bound", "Retention/PruneIsBounded", always(func(p *patched) {
		change(&p.prune, func(r *broker.PruneRequest) { r.Max = broker.MaxBatch }, nil)
	})},
	{"a prune never ends", "Retention/PruneIsBounded", always(func(p *patched) {
		change(&p.prune, nil, func(_ *broker.PruneRequest, a *broker.Pruned) { a.More = true })
	})},
	{"a prune looks into every queue", "Retention/PruneTouchesNothingElse", always(func(p *patched) {
		change(&p.prune, func(r *broker.PruneRequest) { _, r.Queues = p.known(r.Now) }, nil)
	})},
	{"a prune counts twice", "Race/PrunesRemoveOnce", always(func(p *patched) {
		change(&p.prune, nil, func(_ *broker.PruneRequest, a *broker.Pruned) { a.Completed *= 2 })
	})},
	{"retention is ignored", "Retention/JobsOwnWins Retention/CancelledLikeCompleted", always(func(p *patched) {
		change(&p.prune, func(r *broker.PruneRequest) { r.Now = time.Unix(1, 0) }, nil)
	})},
}
