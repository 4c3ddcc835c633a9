package conformance_test

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/seed81422ce9/jobs/broker"
)

var wakeMutants = []mutant{
	{"an enqueue wakes nobody", "Wake/ByEnqueue", deafTo("enqueue")},
	{"a release wakes nobody", "Wake/ByRelease", deafTo("release")},
	{"a retry wakes nobody", "Wake/ByRetryAtOnce", deafTo("retry")},
	{"a retirement wakes nobody", "Wake/ByRetire", deafTo("retire")},
	{"a resume wakes nobody", "Wake/ByResume", deafTo("resume")},
	{"a resume wakes nobody for what became due", "Wake/ByResumeWhenDue", deafTo("resume")},
	{"a redrive wakes nobody", "Wake/ByRedrive", deafTo("redrive")},
	{"a reschedule wakes nobody", "Wake/ByReschedule", deafTo("reschedule")},
	{"an unhold wakes nobody", "Wake/ByUnhold", deafTo("unhold")},
	{"a restored job wakes nobody", "Wake/ByRestore", deafTo("enqueue")},
	{"what is due sooner wakes nobody", "Wake/ByWhatIsDueSooner", deafTo("retry")},
	{"a claim waits on its first queue", "Wake/InAnyOfItsQueues", always(func(p *patched) {
		next := p.claim
		p.claim = func(ctx context.Context, r broker.ClaimRequest) (broker.Claimed, error) {
			first := r
			first.Wait = 0
			got, err := next(ctx, first)
			if len(got.Jobs) > 0 || err != nil || r.Wait == 0 {
				return got, err
			}
			r.Queues = r.Queues[:1]
			return next(ctx, r)
		}
	})},
	{"a job that falls due wakes nobody", "Wake/WhenDue", watchingDue(0)},
	{"a full worker keeps the watch for due jobs", "Wake/WhenDueBesideAFullWorker", watchingDue(1)},
	{"a wait in vain is an error", "Wake/EndsByItself", always(func(p *patched) {
		next := p.claim
		p.claim = func(ctx context.Context, r broker.ClaimRequest) (broker.Claimed, error) {
			got, err := next(ctx, r)
			if err == nil && r.Wait > 0 && len(got.Jobs) == 0 {
				err = context.DeadlineExceeded
			}
			return got, err
		}
	})},
	{"a wait outlives its context", "Wake/EndsWithItsContext", always(func(p *patched) {
		next := p.claim
		p.claim = func(ctx context.Context, r broker.ClaimRequest) (broker.Claimed, error) {
			return next(context.WithoutCancel(ctx), r)
		}
	})},
	{"what an unhold makes due sooner wakes nobody", "Wake/ByWhatIsDueSooner", deafTo("unhold")},
	{"what a debounce makes due sooner wakes nobody", "Wake/ByWhatIsDueSooner", deafTo("debounce")},
	{"a batch wakes one claim", "Wake/BatchWakesAsManyAsItHasJobsFor", inLine("enqueue", false)},
	{"a retire of many jobs wakes one claim", "Wake/BatchWakesAsManyAsItHasJobsFor", inLine("retire", false)},
	{"a resume wakes one claim", "Wake/BatchWakesAsManyAsItHasJobsFor", inLine("resume", false)},
	{"a redrive of many jobs wakes one claim", "Wake/BatchWakesAsManyAsItHasJobsFor", inLine("redrive", false)},
	{"a claim that ends takes the others' wake-up along", "Wake/WhoLeavesTakesNoOtherAlong", inLine("", true)},
	{"a waiter's jobs are lost on their way", "Wake/ManyWaitersShare", func() func(*patched) {
		var n atomic.Int64
		return func(p *patched) {
			change(&p.claim, nil, func(r *broker.ClaimRequest, a *broker.Claimed) {
				if len(a.Jobs) > 0 && n.Add(1) == 5 {
					a.Jobs = nil
				}
			})
		}
	}},
}

// deafTo wakes waiting claims for every cause but one.
func deafTo(cause string) func() func(*patched) {
	return func() func(*patched) {
		var mu sync.Mutex
		woken := make(chan struct{})
		wake := func(by string) {
			if by != cause {
				mu.Lock()
				defer mu.Unlock()
				close(woken)
				woken = make(chan struct{})
			}
		}
		return func(p *patched) {
			claim := p.claim
			p.claim = func(ctx context.Context, r broker.ClaimRequest) (broker.Claimed, error) {
				timeout := time.NewTimer(r.Wait)
				defer timeout.Stop()
				for r.Wait = 0; ; {
					mu.Lock()
					signal := woken
					mu.Unlock()
					got, err := claim(ctx, r)
					if err != nil || len(got.Jobs) > 0 {
						return got, err
					}
					var due <-chan time.Time
					if !got.NextDue.IsZero() {
						due = time.After(max(got.NextDue.Sub(got.Now), time.Microsecond))
					}
					select {
					case <-signal:
					case <-due:
					case <-timeout.C:
						return got, nil
					case <-ctx.Done():
						return got, ctx.Err()
					}
				}
			}
			p.causes(wake)
		}
	}
}

// causes calls wake after each call that may make a job claimable.
func (p *patched) causes(wake func(cause string)) {
	change(&p.enqueue, nil, func(_ *broker.EnqueueRequest, a *[]broker.Receipt) {
		if slices.ContainsFunc(*a, func(r broker.Receipt) bool { return r.Replaced }) {
			wake("debounce")
		} else {
			wake("enqueue")
		}
	})
	change(&p.retire, nil, func(*broker.RetireRequest, *broker.Retired) { wake("retire") })
	change(&p.policy, nil, func(*broker.PolicyRequest, *broker.Policy) { wake("resume") })
	change(&p.operate, nil, func(o *broker.Operation, _ *[]broker.OperationResult) { wake(o.Kind.String()) })
	change(&p.settle, nil, func(r *broker.SettleRequest, _ *[]broker.Verdict) { wake(r.Items[0].Outcome.Kind().String()) })
}

// inLine keeps waiting claims in a list, and wakes one of them for one cause, and all for the others. With
// rude, a claim that ends without a job clears the whole list.
func inLine(one string, rude bool) func() func(*patched) {
	return func() func(*patched) {
		var mu sync.Mutex
		var line []chan struct{}
		return func(p *patched) {
			claim := p.claim
			p.claim = func(ctx context.Context, r broker.ClaimRequest) (broker.Claimed, error) {
				timeout := time.NewTimer(r.Wait)
				defer timeout.Stop()
				for r.Wait = 0; ; {
					signal := make(chan struct{})
					mu.Lock()
					line = append(line, signal)
					mu.Unlock()
					got, err := claim(ctx, r)
					if err != nil || len(got.Jobs) > 0 {
						return got, err
					}
					select {
					case <-signal:
						continue
					case <-timeout.C:
					case <-ctx.Done():
						err = ctx.Err()
					}
					mu.Lock()
					defer mu.Unlock()
					line = slices.DeleteFunc(line, func(other chan struct{}) bool { return rude || other == signal })
					return got, err
				}
			}
			p.causes(func(cause string) {
				mu.Lock()
				defer mu.Unlock()
				n := len(line)
				if cause == one {
					n = min(n, 1)
				}
				for _, signal := range line[:n] {
					close(signal)
				}
				line = line[n:]
			})
		}
	}
}

// watchingDue has only the first few claims that wait look when a job falls due, however many
// claims follow them.
func watchingDue(claims int64) func() func(*patched) {
	return func() func(*patched) {
		var watching atomic.Int64
		return func(p *patched) {
			claim := p.claim
			p.claim = func(ctx context.Context, r broker.ClaimRequest) (broker.Claimed, error) {
				if r.Wait == 0 || watching.Add(1) <= claims {
					return claim(ctx, r)
				}
				timeout := time.NewTimer(r.Wait)
				defer timeout.Stop()
				r.Wait = 0
				select {
				case <-timeout.C:
				case <-ctx.Done():
					return broker.Claimed{}, ctx.Err()
				}
				return claim(ctx, r)
			}
		}
	}
}
