package conformance_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/seed81422ce9/jobs/broker"
)

var enqueueMutants = []mutant{
	{"receipts are out of order", "Enqueue/ReceiptsStandInOrder", always(func(p *patched) {
		change(&p.enqueue, nil, func(_ *broker.EnqueueRequest, a *[]broker.Receipt) { slices.Reverse(*a) })
	})},
	{"a time that has passed is waited for", "Enqueue/PendingAtOnce", always(func(p *patched) {
		p.newJobs(func(j *broker.NewJob) {
			if !j.RunAt.IsZero() {
				j.RunAt, j.Delay = time.Time{}, time.Microsecond
			}
		})
	})},
	{"delays are cut to minutes", "Enqueue/ScheduledSaysWhen", always(func(p *patched) {
		p.newJobs(func(j *broker.NewJob) { j.Delay = j.Delay.Truncate(time.Minute) })
	})},
	{"one bad job fails its batch", "Enqueue/BadItemFailsAlone", always(func(p *patched) {
		change(&p.enqueue, nil, func(_ *broker.EnqueueRequest, a *[]broker.Receipt) {
			if i := slices.IndexFunc(*a, func(r broker.Receipt) bool { return errors.Is(r.Err, broker.ErrInvalid) }); i >= 0 {
				for k := range *a {
					(*a)[k].Err = (*a)[i].Err
				}
			}
		})
	})},
	{"a job replaces the one with its ID", "Enqueue/DuplicateIDIsRefused Fault/RepeatedEnqueueMakesOneJob", always(func(p *patched) {
		change(&p.enqueue, func(r *broker.EnqueueRequest) {
			for _, j := range r.Jobs {
				p.act(r.Now, broker.OpDelete, j.Queue, j.ID)
			}
		}, nil)
	})},
	{"a job that is said to be fresh replaces the one with its ID", "Fault/LateEnqueueChangesNothing", always(func(p *patched) {
		change(&p.enqueue, func(r *broker.EnqueueRequest) {
			for _, j := range r.Jobs {
				if j.FirstSend {
					p.act(r.Now, broker.OpDelete, j.Queue, j.ID)
				}
			}
		}, nil)
	})},
	{"items of a request do not see each other", "Enqueue/DuplicateInOneRequest Unique/HoldsWithinARequest", always(func(p *patched) {
		change(&p.enqueue, nil, func(r *broker.EnqueueRequest, a *[]broker.Receipt) {
			for i := range *a {
				if errors.Is((*a)[i].Err, broker.ErrDuplicate) {
					(*a)[i] = broker.Receipt{Queue: r.Jobs[i].Queue, ID: r.Jobs[i].ID, State: broker.StatePending}
				}
			}
		})
	})},
	{"IDs are of the whole store", "Enqueue/IDsAreOfAQueue", sharing(func(p *patched, m *sync.Map) {
		p.refused(func(j *broker.NewJob) string {
			if queue, _ := m.LoadOrStore(j.ID, j.Queue); queue != j.Queue {
				return j.ID
			}
			return ""
		})
	})},
	{"a given ID is not remembered", "Enqueue/GivenIDIsRemembered Retention/PruneKeepsWhatIsRemembered", always(func(p *patched) {
		p.newJobs(func(j *broker.NewJob) { j.Body.GivenID = false })
	})},
	{"the policy's duplicate span is ignored", "Enqueue/GivenIDsFollowThePolicy", always(func(p *patched) {
		change(&p.policy, func(r *broker.PolicyRequest) { r.DuplicateSpan = nil }, nil)
	})},
	{"a generated ID is remembered", "Enqueue/GeneratedIDIsForgotten", always(func(p *patched) {
		p.newJobs(func(j *broker.NewJob) { j.Body.GivenID = true })
	})},
	{"depth is checked before the ID", "Enqueue/ChecksInOrder", always(func(p *patched) {
		change(&p.enqueue, nil, func(r *broker.EnqueueRequest, a *[]broker.Receipt) {
			for i := range *a {
				if errors.Is((*a)[i].Err, broker.ErrDuplicate) {
					if policy, _ := p.Broker.Policy(background, broker.PolicyRequest{Queue: r.Jobs[i].Queue}); policy.MaxDepth > 0 {
						(*a)[i].Err = broker.ErrQueueFull
					}
				}
			}
		})
	})},
	{"an empty queue is not listed", "Enqueue/RegistersItsQueue", always(func(p *patched) {
		change(&p.queues, nil, func(_ *broker.QueuesRequest, a *broker.QueuesReply) {
			a.Queues = slices.DeleteFunc(a.Queues, func(q broker.QueueInfo) bool { return q.Counts[broker.StatePending] == 0 })
		})
	})},
	{"creation is kept in milliseconds", "Enqueue/CreatedAtIsNow", always(func(p *patched) {
		p.jobsIn(func(j *broker.Job) { j.CreatedAt = j.CreatedAt.Truncate(time.Millisecond) })
	})},
	{"an empty request is refused", "Enqueue/NothingIsNothing", always(func(p *patched) {
		next := p.enqueue
		p.enqueue = func(ctx context.Context, r broker.EnqueueRequest) ([]broker.Receipt, error) {
			if len(r.Jobs) == 0 {
				return nil, broker.ErrInvalid
			}
			return next(ctx, r)
		}
	})},
	{"a request over the limit is cut", "Enqueue/TooManyAreRefused", always(func(p *patched) {
		change(&p.enqueue, func(r *broker.EnqueueRequest) { r.Jobs = r.Jobs[:min(len(r.Jobs), broker.MaxBatch)] }, nil)
	})},
}

var orderMutants = []mutant{
	{"a claim turns its jobs around", "Order/FirstInFirstOut Race/OneConsumerSeesTheOrder Model/OneQueue", always(func(p *patched) {
		change(&p.claim, nil, func(_ *broker.ClaimRequest, a *broker.Claimed) { slices.Reverse(a.Jobs) })
	})},
	{"an enqueue turns its batch around", "Order/BatchesKeepTheirOrder", always(func(p *patched) {
		change(&p.enqueue, func(r *broker.EnqueueRequest) {
			r.Jobs = slices.Clone(r.Jobs)
			slices.Reverse(r.Jobs)
		}, func(_ *broker.EnqueueRequest, a *[]broker.Receipt) { slices.Reverse(*a) })
	})},
	{"priorities are ignored", "Order/LowerPriorityNumbersFirst Order/FrontIsOfAPriority", always(func(p *patched) {
		p.newJobs(func(j *broker.NewJob) { j.Body.Priority = broker.PriorityNormal })
	})},
	{"priorities know no rounds", "Order/RoundsReachEachPriority", always(func(p *patched) {
		change(&p.policy, func(r *broker.PolicyRequest) {
			if r.PriorityRound != nil && *r.PriorityRound != 0 {
				r.MaxDepth, r.PriorityRound = new(int64(0)), nil
			}
		}, nil)
	})},
	{"a round is one job longer", "Order/RoundsReachEachPriority", always(func(p *patched) {
		change(&p.policy, func(r *broker.PolicyRequest) {
			if r.PriorityRound != nil && *r.PriorityRound != 0 {
				r.PriorityRound = new(*r.PriorityRound + 1)
			}
		}, nil)
	})},
	{"rounds turn around jobs of one priority", "Order/RoundsWasteNoTurn", always(func(p *patched) {
		change(&p.claim, nil, func(_ *broker.ClaimRequest, a *broker.Claimed) { slices.Reverse(a.Jobs) })
	})},
	{"released jobs go to the back", "Order/ReleasedGoToTheFront Order/StaysBehindAReturnedJob", always(func(p *patched) {
		p.outcomes(func(_ string, s *broker.Settlement) {
			if s.Outcome.Kind() == broker.OutcomeRelease {
				s.Outcome = broker.Snooze(0, broker.Failure{})
			}
		})
	})},
	{"crashed jobs go to the back", "Order/CrashedWithoutDelayGoToTheFront", always(func(p *patched) {
		p.outcomes(func(_ string, s *broker.Settlement) {
			if o := s.Outcome; o.Kind() == broker.OutcomeCrash && o.Delay() == 0 {
				s.Outcome = broker.Retry(0, *o.Failure())
			}
		})
	})},
	{"a crashed job's delay is ignored", "Order/CrashedWithoutDelayGoToTheFront Outcome/RetryIsDueAfterItsDelay", always(func(p *patched) {
		p.outcomes(func(_ string, s *broker.Settlement) {
			if o := s.Outcome; o.Kind() == broker.OutcomeCrash {
				s.Outcome = broker.Crash(0, *o.Failure())
			}
		})
	})},
	{"retried jobs go to the front", "Order/RetriedAtOnceGoToTheBack", always(func(p *patched) {
		p.outcomes(func(_ string, s *broker.Settlement) {
			if o := s.Outcome; o.Kind() == broker.OutcomeRetry && o.Delay() == 0 {
				s.Outcome = broker.Crash(0, *o.Failure())
			}
		})
	})},
	{"due jobs overtake pending ones", "Order/DueGoToTheBack Model/SeveralQueues", always(func(p *patched) {
		p.newJobs(func(j *broker.NewJob) {
			if j.Delay > 0 {
				j.Body.Priority = broker.PriorityUrgent
			}
		})
	})},
	{"jobs fall due by the minute", "Order/DueGoByDueTime", always(func(p *patched) {
		p.newJobs(func(j *broker.NewJob) { j.Delay = (j.Delay + time.Minute - 1).Truncate(time.Minute) })
	})},
	{"due jobs lose their priority", "Order/DueKeepTheirPriority", always(func(p *patched) {
		p.newJobs(func(j *broker.NewJob) {
			if j.Delay > 0 {
				j.Body.Priority = broker.PriorityNormal
			}
		})
	})},
	{"redriven jobs go to the front", "Order/RedrivenGoToTheBack", always(func(p *patched) {
		p.results(func(o broker.Operation, r *broker.OperationResult) {
			if o.Kind == broker.OpRedrive && r.Err == nil {
				p.toFront(o.Now, r.Ref)
			}
		})
	})},
	{"rescheduled jobs keep their place", "Order/RescheduledGoToTheBack Operate/RescheduleAtOnce", always(func(p *patched) {
		p.oneByOne(func(next func() broker.OperationResult, o broker.Operation, ref broker.Ref) broker.OperationResult {
			if o.Kind == broker.OpReschedule && o.Delay == 0 && o.RunAt.IsZero() {
				return broker.OperationResult{Ref: ref, State: broker.StatePending}
			}
			return next()
		})
	})},
	{"retired jobs go to the back", "Order/RetiredGoToTheFront", always(func(p *patched) {
		change(&p.retire, nil, func(r *broker.RetireRequest, a *broker.Retired) {
			for _, ref := range a.Released {
				p.act(r.Now, broker.OpReschedule, ref.Queue, ref.ID)
			}
		})
	})},
}

// toFront puts a pending job before the others of its queue.
func (p *patched) toFront(now time.Time, ref broker.Ref) {
	helper := "helper of " + ref.ID
	_, _ = p.Broker.Renew(background, broker.RenewRequest{Now: now, Worker: helper, Queues: []string{ref.Queue}, Lease: time.Minute,
		Register: true})
	got, _ := p.Broker.Claim(background, broker.ClaimRequest{Now: now, Worker: helper, Max: 1000,
		Queues: []broker.Share{{Queue: ref.Queue, Max: 1000}}})
	for last := range 2 {
		for i := range got.Jobs {
			if j := &got.Jobs[len(got.Jobs)-1-i]; (j.ID == ref.ID) == (last == 1) {
				p.settleAs(now, helper, j, broker.Release())
			}
		}
	}
	_, _ = p.Broker.Retire(background, broker.RetireRequest{Now: now, Worker: helper, Queues: []string{ref.Queue}})
}

var dataMutants = []mutant{
	{"payloads are cut at a zero byte", "Data/PayloadsComeBackUnchanged", always(func(p *patched) {
		p.newJobs(func(j *broker.NewJob) {
			if i := slices.Index(j.Body.Payload, 0); i >= 0 {
				j.Body.Payload = j.Body.Payload[:i]
			}
		})
	})},
	{"a batch's payloads are mixed up", "Data/PayloadsComeBackUnchanged", always(func(p *patched) {
		change(&p.claim, nil, func(_ *broker.ClaimRequest, a *broker.Claimed) {
			for i := 1; i < len(a.Jobs); i++ {
				a.Jobs[i].Payload, a.Jobs[i-1].Payload = a.Jobs[i-1].Payload, a.Jobs[i].Payload
			}
		})
	})},
	{"headers become valid UTF-8", "Data/HeadersComeBackUnchanged", always(func(p *patched) {
		p.newJobs(func(j *broker.NewJob) {
			headers := make(map[string]string)
			for k, v := range j.Body.Headers {
				headers[utf8(k)] = utf8(v)
			}
			j.Body.Headers = headers
		})
	})},
	{"the source is not kept", "Data/BodiesComeBackWhole", always(func(p *patched) {
		p.newJobs(func(j *broker.NewJob) { j.Body.Source = "" })
	})},
	{"results become valid UTF-8", "Data/ResultsComeBackUnchanged", always(func(p *patched) {
		p.jobsIn(func(j *broker.Job) { j.Result = []byte(utf8(string(j.Result))) })
	})},
	{"error messages become valid UTF-8", "Data/ErrorsComeBackUnchanged", always(func(p *patched) {
		p.jobsIn(func(j *broker.Job) {
			for i := range j.Errors.Entries {
				j.Errors.Entries[i].Message = utf8(j.Errors.Entries[i].Message)
			}
		})
	})},
	{"IDs are trimmed", "Data/NamesAreBytes", always(func(p *patched) {
		p.jobsIn(func(j *broker.Job) { j.ID = trim(j.ID) })
	})},
	{"durations round down", "Data/TimesRoundUpToMicroseconds", always(func(p *patched) {
		p.newJobs(func(j *broker.NewJob) { j.Body.Timeout = j.Body.Timeout.Truncate(time.Microsecond) })
	})},
	{"a payload of the limit is too large", "Data/LargestPayload", always(func(p *patched) {
		change(&p.enqueue, nil, func(r *broker.EnqueueRequest, a *[]broker.Receipt) {
			for i, j := range r.Jobs {
				if len(j.Body.Payload) == broker.DefaultMaxPayload {
					(*a)[i].Err = broker.ErrTooLarge
				}
			}
		})
	})},
	{"large payloads are cut", "Data/ManyLargeJobs", always(func(p *patched) {
		p.newJobs(func(j *broker.NewJob) { j.Body.Payload = j.Body.Payload[:min(len(j.Body.Payload), 100<<10)] })
	})},
	{"a job that was looked at is shared with who looked", "Data/RequestsAreNotKept", sharing(func(p *patched, m *sync.Map) {
		change(&p.find, nil, func(_ *broker.Query, a *broker.Page) {
			for i := range a.Jobs {
				body, _ := m.LoadOrStore(a.Jobs[i].ID, a.Jobs[i].Body)
				a.Jobs[i].Body = body.(broker.Body)
			}
		})
	})},
}
