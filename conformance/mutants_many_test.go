package conformance_test

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/seed81422ce9/jobs/broker"
)

var manyMutants = []mutant{
	{"claims of many queues do not hear of new jobs", "Many/FindsWhatBecameClaimable", asleepTo("enqueue")},
	{"claims of many queues do not hear of a time that came", "Many/FindsWhatBecameClaimable Many/FindsWhatALimitKeptBack", asleepTo("time")},
	{"claims of many queues do not hear of a policy", "Many/FindsWhatBecameClaimable Many/FindsWhatALimitKeptBack", asleepTo("policy")},
	{"claims of many queues do not hear of a retry", "Many/FindsWhatBecameClaimable", asleepTo("retry")},
	{"claims of many queues do not hear of a release", "Many/FindsWhatBecameClaimable", asleepTo("release")},
	{"claims of many queues do not hear of a redrive", "Many/FindsWhatBecameClaimable", asleepTo("redrive")},
	{"claims of many queues do not hear of a reschedule", "Many/FindsWhatBecameClaimable", asleepTo("reschedule")},
	{"claims of many queues do not hear of a worker that retired", "Many/FindsWhatBecameClaimable", asleepTo("retire")},
	{"claims of many queues do not hear of a reclaimed job", "Many/FindsWhatBecameClaimable", asleepTo("snooze")},
	{"claims of many queues do not hear of a holder", "Many/FindsWhatWasHeld", asleepTo("unhold")},
	{"claims of many queues do not hear of an end", "Many/FindsWhatALimitKeptBack", asleepTo("complete")},
	{"claims of one queue do not hear of a job that is due sooner", "Many/FindsWhatBecameClaimable", waitsDespite("schedule")},
	{"claims of one queue do not hear of a retry that is due sooner", "Many/FindsWhatBecameClaimable", waitsDespite("retry")},
	{"claims of one queue do not hear of a time that was moved forward", "Many/FindsWhatBecameClaimable", waitsDespite("reschedule")},
	{"claims of one queue do not hear of a restored job", "Many/FindsWhatWasHeld", waitsDespite("restore")},
	{"claims of one queue do not hear of a debounce", "Many/FindsWhatMetAKey", waitsDespite("replace")},
	{"claims of one queue do not hear of a job that waited behind", "Many/FindsWhatMetAKey", waitsDespite("complete")},
	{"claims of many queues forget when the next job is due", "Many/SaysWhenTheNextIsDue", asleepTo("")},
	{"the last of many queues goes first", "Many/ServesSharesInOrder", ofMany(func(r *broker.ClaimRequest) {
		slices.Reverse(r.Queues)
	})},
	{"the last of many queues is left out", "Many/ServesSharesInOrder", ofMany(func(r *broker.ClaimRequest) {
		r.Queues = r.Queues[:len(r.Queues)-1]
	})},
}

// ofMany changes claims of many queues.
func ofMany(f func(*broker.ClaimRequest)) func() func(*patched) {
	return always(func(p *patched) {
		change(&p.claim, func(r *broker.ClaimRequest) {
			if len(r.Queues) > 50 {
				r.Queues = slices.Clone(r.Queues)
				f(r)
			}
		}, nil)
	})
}

// asleepTo makes claims of many queues leave out those that were empty, until any
// cause but one makes a job claimable.
func asleepTo(cause string) func() func(*patched) {
	return sharing(func(p *patched, empty *sync.Map) {
		wake := func(by string) {
			if by != cause {
				empty.Clear()
			}
		}
		claim, due := p.claim, time.Time{}
		p.claim = func(ctx context.Context, r broker.ClaimRequest) (broker.Claimed, error) {
			if len(r.Queues) < 50 {
				return claim(ctx, r)
			}
			if !due.IsZero() && !r.Now.Before(due) {
				due = time.Time{}
				wake("time")
			}
			all := r.Queues
			r.Queues = slices.DeleteFunc(slices.Clone(all), func(s broker.Share) bool {
				_, left := empty.Load(s.Queue)
				return left
			})
			if len(r.Queues) == 0 {
				r.Queues = all[:1]
			}
			got, err := claim(ctx, r)
			if !got.NextDue.IsZero() {
				due = got.NextDue
			}
			if err == nil && !got.More && len(got.Jobs) < r.Max {
				for _, s := range r.Queues {
					empty.Store(s.Queue, true)
				}
			}
			return got, err
		}
		change(&p.enqueue, nil, func(*broker.EnqueueRequest, *[]broker.Receipt) { wake("enqueue") })
		change(&p.retire, nil, func(*broker.RetireRequest, *broker.Retired) { wake("retire") })
		change(&p.policy, nil, func(*broker.PolicyRequest, *broker.Policy) { wake("policy") })
		change(&p.operate, nil, func(o *broker.Operation, _ *[]broker.OperationResult) { wake(o.Kind.String()) })
		change(&p.settle, nil, func(r *broker.SettleRequest, _ *[]broker.Verdict) { wake(r.Items[0].Outcome.Kind().String()) })
	})
}

// waitsDespite makes claims of one queue that found nothing find nothing until the time that they then
// knew, or until a call other than those of a cause.
func waitsDespite(cause string) func() func(*patched) {
	return sharing(func(p *patched, until *sync.Map) {
		by := func(call string) {
			if call != cause {
				until.Clear()
			}
		}
		claim := p.claim
		p.claim = func(ctx context.Context, r broker.ClaimRequest) (broker.Claimed, error) {
			if due, known := until.Load(r.Queues[0].Queue); known && len(r.Queues) == 1 && (due.(time.Time).IsZero() ||
				r.Now.Before(due.(time.Time))) {
				return broker.Claimed{Now: r.Now, NextDue: due.(time.Time)}, nil
			}
			got, err := claim(ctx, r)
			if err == nil && len(got.Jobs) == 0 && !got.More && len(r.Queues) == 1 {
				until.Store(r.Queues[0].Queue, got.NextDue)
			}
			return got, err
		}
		change(&p.enqueue, nil, func(r *broker.EnqueueRequest, a *[]broker.Receipt) {
			for i, j := range r.Jobs {
				switch {
				case (*a)[i].Replaced:
					by("replace")
				case j.Restore != nil:
					by("restore")
				case j.Delay > 0:
					by("schedule")
				default:
					by("enqueue")
				}
			}
		})
		change(&p.operate, nil, func(o *broker.Operation, _ *[]broker.OperationResult) { by(o.Kind.String()) })
		change(&p.settle, nil, func(r *broker.SettleRequest, _ *[]broker.Verdict) { by(r.Items[0].Outcome.Kind().String()) })
	})
}
