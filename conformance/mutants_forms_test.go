package conformance_test

import (
	"context"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed81422ce9/jobs/broker"
	"github.com/seed81422ce9/jobs/conformance"
)

// formMutants are wrong on one of several paths. The rules that they name take another
// path as written, and this one in a form.
var formMutants = []mutant{
	{"a job with headers loses its timeout", "Claim/LeasesToItsWorker", always(func(p *patched) {
		p.newJobs(func(j *broker.NewJob) {
			if len(j.Body.Headers) > 0 {
				j.Body.Timeout = 0
			}
		})
	})},
	{"a job keeps its key when it is settled with others", "Outcome/CompleteLeavesNothing", sharing(func(p *patched, m *sync.Map) {
		p.leaked(m)
		change(&p.settle, func(r *broker.SettleRequest) {
			for _, s := range r.Items {
				if key := s.Job.Unique.Key; key != "" && len(r.Items) > 2 {
					m.Store(key, s.Job.ID)
				}
			}
		}, nil)
	})},
	{"a given ID is free when its job is done", "Lease/RunOutMaySettle", always(func(p *patched) {
		p.newJobs(func(j *broker.NewJob) { j.Body.GivenID = false })
		p.jobsIn(func(j *broker.Job) { j.GivenID = true })
	})},
	{"a settle of completions alone keeps no record", "Lease/CancelShowsInRenew", always(func(p *patched) {
		change(&p.settle, nil, func(r *broker.SettleRequest, _ *[]broker.Verdict) {
			if onlyOf(r, broker.StateCompleted) {
				for _, s := range r.Items {
					p.act(r.Now, broker.OpDelete, s.Job.Queue, s.Job.ID)
				}
			}
		})
	})},
	{"a settle of retries alone loses its last", "Settle/RepeatIsAnsweredAsBefore", always(func(p *patched) {
		settle := p.settle
		p.settle = func(ctx context.Context, r broker.SettleRequest) ([]broker.Verdict, error) {
			if !onlyOf(&r, broker.StateRetry) {
				return settle(ctx, r)
			}
			last := r.Items[len(r.Items)-1].Job
			r.Items = r.Items[:len(r.Items)-1]
			verdicts, err := settle(ctx, r)
			return append(verdicts, broker.Verdict{Queue: last.Queue, ID: last.ID, State: broker.StateRetry}), err
		}
	})},
	{"a job that falls due was created when it did", "Enqueue/CreatedAtIsNow", sharing(func(p *patched, m *sync.Map) {
		p.newJobs(func(j *broker.NewJob) {
			if !j.RunAt.IsZero() {
				m.Store(j.ID, j.RunAt)
			}
		})
		p.jobsIn(func(j *broker.Job) {
			if at, due := m.Load(j.ID); due {
				j.CreatedAt = at.(time.Time)
			}
		})
	})},
	{"a claim over several queues asks one", "Claim/GivesAJobOnce", always(func(p *patched) {
		change(&p.claim, func(r *broker.ClaimRequest) { r.Queues = r.Queues[:min(len(r.Queues), 1)] }, nil)
	})},
	{"a handle that knows its queues turns receipts round", "Enqueue/ReceiptsStandInOrder", always(func(p *patched) {
		calls := 0
		change(&p.enqueue, nil, func(_ *broker.EnqueueRequest, a *[]broker.Receipt) {
			if calls++; calls > 1 {
				slices.Reverse(*a)
			}
		})
	})},
	{"a handle settles only what it claimed itself", "Settle/LeaseOfAnEarlierEpochIsVoid", always(func(p *patched) {
		claimed := make(map[string]bool)
		change(&p.claim, nil, func(_ *broker.ClaimRequest, a *broker.Claimed) {
			for _, j := range a.Jobs {
				claimed[j.ID] = true
			}
		})
		change(&p.settle, nil, func(_ *broker.SettleRequest, a *[]broker.Verdict) {
			for i, v := range *a {
				if !claimed[v.ID] {
					(*a)[i] = broker.Verdict{Queue: v.Queue, ID: v.ID, Err: broker.ErrLeaseLost}
				}
			}
		})
	})},
}

// onlyOf reports whether a settle has several jobs, all of which go to one state.
func onlyOf(r *broker.SettleRequest, state broker.State) bool {
	return len(r.Items) > 2 && !slices.ContainsFunc(r.Items, func(s broker.Settlement) bool { return s.Outcome.State() != state })
}

func TestSuite_FormsFindWhatThePlainFormOfARuleDoesNot(t *testing.T) {
	t.Parallel()
	for _, m := range formMutants {
		t.Run(m.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				for _, v := range conformance.Judge(memory(m.mutate), strings.Fields(m.kills)...) {
					if !strings.Contains(v.Failure, "in this form of the rule") {
						t.Errorf("%s: %s, not in one of its forms, although %s:\n%s", v.Rule, v.Result, m.name, v.Failure)
					}
				}
			})
		})
	}
}
