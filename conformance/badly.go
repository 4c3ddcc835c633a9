package conformance

import (
	"context"
	"errors"
	"math/rand/v2"

	"github.com/seed81422ce9/jobs/broker"
	"github.com/seed81422ce9/jobs/conformance/faulty"
)

// insistent is a client on a bad network, where calls do not arrive, and answers
// are lost or cut. It does what clients do in that case: it repeats what may be repeated until it knows
// the result, and continues with the jobs that it received. Only one goroutine may use it.
type insistent struct {
	*faulty.Broker
	r *rand.Rand
}

func onABadNetwork(b broker.Broker, seed uint64) *insistent {
	return &insistent{Broker: faulty.Wrap(b, nil), r: rand.New(rand.NewPCG(seed, 1))}
}

// errUnsure is the verdict on a lease whose worker ended before its settle could
// be repeated: the first send may have ended the lease.
var errUnsure = errors.New("the lease was over when the settle was repeated")

// next chooses the fault of the next call, mostly none.
func (b *insistent) next() {
	n := b.r.IntN(8)
	faults := []faulty.Fault{faulty.ReplyLost, faulty.ReplyCut, faulty.Unavailable}
	if n >= len(faults) {
		b.Set(nil)
		return
	}
	b.Set(faulty.Plan{{Fault: faults[n]}})
}

func unclear(err error) bool {
	return errors.Is(err, faulty.ErrReplyLost) || errors.Is(err, broker.ErrUnavailable)
}

func (b *insistent) Enqueue(ctx context.Context, req broker.EnqueueRequest) ([]broker.Receipt, error) {
	all := make([]broker.Receipt, len(req.Jobs))
	left := make([]int, len(req.Jobs)) // indexes of the jobs without a known result
	for i := range left {
		left[i] = i
	}
	for first := true; len(left) > 0; first = false {
		part := req
		part.Jobs = nil
		for _, i := range left {
			part.Jobs = append(part.Jobs, req.Jobs[i])
		}
		b.next()
		got, err := b.Broker.Enqueue(ctx, part)
		if err != nil && !unclear(err) {
			return nil, err
		}
		var again []int
		for k, i := range left {
			switch {
			case err != nil || unclear(got[k].Err):
				again = append(again, i)
				continue
			case !first && errors.Is(got[k].Err, broker.ErrDuplicate) && got[k].Holder == got[k].ID:
				got[k].Err = nil // an earlier send was accepted
			}
			all[i] = got[k]
		}
		left = again
	}
	return all, nil
}

func (b *insistent) Settle(ctx context.Context, req broker.SettleRequest) ([]broker.Verdict, error) {
	for first := true; ; first = false {
		b.next()
		verdicts, err := b.Broker.Settle(ctx, req)
		again := unclear(err)
		for i := range verdicts {
			again = again || unclear(verdicts[i].Err)
			if !first && errors.Is(verdicts[i].Err, broker.ErrLeaseLost) {
				verdicts[i].Err = errUnsure
			}
		}
		if !again {
			return verdicts, err
		}
	}
}

func (b *insistent) Claim(ctx context.Context, req broker.ClaimRequest) (broker.Claimed, error) {
	b.next()
	got, err := b.Broker.Claim(ctx, req)
	return heard(got, err)
}

func (b *insistent) Reclaim(ctx context.Context, req broker.ReclaimRequest) (broker.Claimed, error) {
	b.next()
	got, err := b.Broker.Reclaim(ctx, req)
	return heard(got, err)
}

// heard returns what a worker received. Jobs in the lost part of an answer are
// reclaimed when the worker's leases run out.
func heard(got broker.Claimed, err error) (broker.Claimed, error) {
	if unclear(err) {
		err = nil
	}
	return got, err
}

func (b *insistent) Renew(ctx context.Context, req broker.RenewRequest) (broker.Renewed, error) {
	b.Set(nil)
	return b.Broker.Renew(ctx, req)
}

func (b *insistent) Operate(ctx context.Context, op broker.Operation) ([]broker.OperationResult, error) {
	b.Set(nil) // the ledger cannot account for an operation that may have been applied
	return b.Broker.Operate(ctx, op)
}
