package conformance_test

import (
	"context"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/seed81422ce9/jobs/broker"
)

func utf8(s string) string { return strings.ToValidUTF8(s, "?") }
func trim(s string) string { return strings.TrimSpace(s) }

var claimMutants = []mutant{
	{"a lease does not say whose it is", "Claim/LeasesToItsWorker", always(func(p *patched) {
		p.jobsIn(func(j *broker.Job) { j.Worker = "" })
	})},
	{"a claimed job stays in line", "Claim/GivesAJobOnce Race/ClaimsGiveEachJobOnce", sharing(func(p *patched, m *sync.Map) {
		change(&p.claim, nil, func(r *broker.ClaimRequest, a *broker.Claimed) {
			if last, ok := m.Load("last"); ok && len(a.Jobs) < r.Max {
				again := last.(broker.Job)
				again.Worker = r.Worker
				a.Jobs = append(a.Jobs, again)
			} else if len(a.Jobs) > 0 {
				m.Store("last", a.Jobs[0])
			}
		})
	})},
	{"a claim's Max is ignored", "Claim/GivesAtMostMax", always(func(p *patched) {
		change(&p.claim, func(r *broker.ClaimRequest) { r.Max = broker.MaxClaim }, nil)
	})},
	{"a share's Max is ignored", "Claim/GivesAtMostMax", always(func(p *patched) {
		change(&p.claim, func(r *broker.ClaimRequest) {
			r.Queues = slices.Clone(r.Queues)
			for i := range r.Queues {
				r.Queues[i].Max = r.Max
			}
		}, nil)
	})},
	{"shares are served by name", "Claim/ServesSharesInOrder", always(func(p *patched) {
		change(&p.claim, func(r *broker.ClaimRequest) {
			r.Queues = slices.Clone(r.Queues)
			slices.SortFunc(r.Queues, func(a, b broker.Share) int { return -strings.Compare(a.Queue, b.Queue) })
		}, nil)
	})},
	{"a claim's Bytes are ignored", "Claim/EndsWithItsBytes Claim/EndsWithItsBytesOfDueJobs", always(func(p *patched) {
		change(&p.claim, func(r *broker.ClaimRequest) { r.Bytes *= 1000 }, nil)
	})},
	{"a claim that its Bytes ended is silent about more", "Claim/EndsWithItsBytes Claim/EndsWithItsBytesOfDueJobs", always(func(p *patched) {
		change(&p.claim, nil, func(r *broker.ClaimRequest, a *broker.Claimed) { a.More = a.More && r.Bytes == 0 })
	})},
	{"a claim gives only jobs that fit into its Bytes", "Claim/EndsWithItsBytes", always(func(p *patched) {
		change(&p.claim, func(r *broker.ClaimRequest) {
			if r.Bytes > 0 && r.Bytes < 900 {
				r.Max = 0
			}
		}, nil)
	})},
	{"headers have no bytes", "Claim/EndsWithItsBytes Reclaim/EndsWithItsBytes", always(func(p *patched) {
		change(&p.claim, func(r *broker.ClaimRequest) { r.Bytes *= 2 }, nil)
		change(&p.reclaim, func(r *broker.ReclaimRequest) { r.Bytes *= 2 }, nil)
	})},
	{"a reclaim's Bytes are ignored", "Reclaim/EndsWithItsBytes", always(func(p *patched) {
		change(&p.reclaim, func(r *broker.ReclaimRequest) { r.Bytes = 0 }, nil)
	})},
	{"an empty claim is an error", "Claim/EmptyIsEmpty", always(func(p *patched) {
		next := p.claim
		p.claim = func(ctx context.Context, r broker.ClaimRequest) (broker.Claimed, error) {
			got, err := next(ctx, r)
			if err == nil && len(got.Jobs) == 0 {
				err = broker.ErrNotFound
			}
			return got, err
		}
	})},
	{"a claim never says More", "Claim/SaysWhatIsLeft", always(func(p *patched) {
		change(&p.claim, nil, func(_ *broker.ClaimRequest, a *broker.Claimed) { a.More = false })
	})},
	{"a claim never says when the next is due", "Claim/SaysWhenTheNextIsDue Wake/WhenDue", always(func(p *patched) {
		change(&p.claim, nil, func(_ *broker.ClaimRequest, a *broker.Claimed) { a.NextDue = time.Time{} })
	})},
	{"a claim settles after it claims", "Claim/SettlesFirst", always(func(p *patched) {
		next := p.claim
		p.claim = func(ctx context.Context, r broker.ClaimRequest) (broker.Claimed, error) {
			settle := r.Settle
			r.Settle = broker.SettleRequest{}
			got, err := next(ctx, r)
			if len(settle.Items) > 0 {
				got.Verdicts, got.SettleErr = p.Broker.Settle(ctx, settle)
			}
			return got, err
		}
	})},
	{"a claim settles under a number of its own", "Claim/RepeatedSettleIsNotRepeated Fault/RepeatedTurnSettlesOnce", func() func(*patched) {
		var n atomic.Int64
		return func(p *patched) {
			change(&p.claim, func(r *broker.ClaimRequest) { r.Settle.Number += 1000 * n.Add(1) }, nil)
		}
	}},
	{"a claim registers its worker", "Claim/UnknownWorkerGetsNothing Lease/RenewNeedsRegistration", always(func(p *patched) {
		change(&p.claim, func(r *broker.ClaimRequest) { p.register(r.Now, r.Worker, r.Queues[0].Queue) }, nil)
	})},
	{"an error takes the jobs along", "Claim/FailingQueueWithholdsNothing Lease/LateClaimLeasesNothing " +
		"Layout/OtherQueuesGoOn", always(func(p *patched) {
		next := p.claim
		p.claim = func(ctx context.Context, r broker.ClaimRequest) (broker.Claimed, error) {
			got, err := next(ctx, r)
			if err != nil {
				got.Jobs = nil
			}
			return got, err
		}
	})},
	{"a refused claim settles nothing", "Claim/SettleSurvivesAFailingClaim", always(func(p *patched) {
		next := p.claim
		p.claim = func(ctx context.Context, r broker.ClaimRequest) (broker.Claimed, error) {
			settle := r.Settle
			r.Settle = broker.SettleRequest{}
			got, err := next(ctx, r)
			if err == nil && len(settle.Items) > 0 {
				got.Verdicts, got.SettleErr = p.Broker.Settle(ctx, settle)
			}
			return got, err
		}
	})},
	{"a claim's limits are bent", "Claim/RefusesWhatIsInvalid", always(func(p *patched) {
		change(&p.claim, func(r *broker.ClaimRequest) { r.Max = min(max(r.Max, 0), broker.MaxClaim) }, nil)
	})},
	{"a claim in virtual time waits", "Claim/VirtualTimeNeverWaits", always(func(p *patched) {
		next := p.claim
		p.claim = func(ctx context.Context, r broker.ClaimRequest) (broker.Claimed, error) {
			if r.Wait > 0 {
				r.Now = time.Time{}
			}
			return next(ctx, r)
		}
	})},
	{"a claim gives up among void entries", "Claim/DiscardsManyVoidEntries", func() func(*patched) {
		var void atomic.Int64
		return func(p *patched) {
			p.results(func(broker.Operation, *broker.OperationResult) { void.Add(1) })
			change(&p.claim, func(r *broker.ClaimRequest) {
				if void.Load() > 500 {
					r.Max = 0
				}
			}, func(_ *broker.ClaimRequest, a *broker.Claimed) { a.More = false })
		}
	}},
}
