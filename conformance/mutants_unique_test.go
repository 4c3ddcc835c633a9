package conformance_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/seed81422ce9/jobs/broker"
)

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
	{"a claim of a due job frees no key", "Unique/FreedWhenStarted", always(func(p *patched) {
		p.newJobs(func(j *broker.NewJob) {
			if j.Delay > 0 {
				setMode(j, broker.UniqueUntilStarted, broker.UniqueUntilDone)
			}
		})
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
