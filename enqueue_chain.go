package jobs

import (
	"context"
	"slices"
)

// EnqueueFunc stores jobs and sets Info and Err of each.
type EnqueueFunc func(ctx context.Context, batch []*Outgoing)

// EnqueueMiddleware wraps enqueueing: to add headers, encode payloads,
// validate or trace. It is called once per client, or once per definition; see
// Definition.EnqueueWith. The function that it returns is called for every
// Enqueue, with one job, and for every EnqueueMany, with all its jobs, from any
// number of goroutines at once. It calls next at most once, with the batch or a
// part of it, and sets Err of the other jobs itself. Repetitions after a failure
// of the store happen inside of all middleware.
type EnqueueMiddleware func(next EnqueueFunc) EnqueueFunc

func chainEnqueue(chain []EnqueueMiddleware, last EnqueueFunc) EnqueueFunc {
	for i := len(chain) - 1; i >= 0; i-- {
		if chain[i] != nil {
			last = chain[i](last)
		}
	}
	return last
}

// taskChain is the enqueue middleware of a definition.
type taskChain struct {
	all []EnqueueMiddleware
	run EnqueueFunc // all of them, and then Outgoing.inner
}

// with returns a chain with further middleware inside of this one's. c may be nil.
func (c *taskChain) with(inner []EnqueueMiddleware) *taskChain {
	all := inner
	if c != nil {
		all = slices.Concat(c.all, inner)
	}
	return &taskChain{all: all, run: chainEnqueue(all, goInside)}
}

// goInside is the end of the chain of a definition.
func goInside(ctx context.Context, batch []*Outgoing) {
	if len(batch) > 0 && batch[0].inner != nil {
		batch[0].inner(ctx, batch)
	}
}

// storeEach is the end of a client's chain: all jobs of a batch are of one client.
func storeEach(ctx context.Context, batch []*Outgoing) {
	if len(batch) == 0 || batch[0].client == nil {
		return
	}
	if !slices.ContainsFunc(batch, func(o *Outgoing) bool { return o.chain != nil }) {
		batch[0].client.store(ctx, batch)
		return
	}
	for i, o := range batch {
		o.position = i
	}
	storeNested(ctx, batch)
}

// storeNested calls the middleware of the definitions of a batch, that of one inside
// of the other's, so that all jobs are stored in one call, and in their order.
func storeNested(ctx context.Context, batch []*Outgoing) {
	i := slices.IndexFunc(batch, func(o *Outgoing) bool { return o.chain != nil })
	if i < 0 {
		slices.SortFunc(batch, func(a, b *Outgoing) int { return a.position - b.position })
		batch[0].client.store(ctx, batch)
		return
	}
	chain := batch[i].chain
	var same, others []*Outgoing
	for _, o := range batch {
		if o.chain == chain {
			same = append(same, o)
		} else {
			others = append(others, o)
		}
	}
	for _, o := range same {
		o.chain, o.inner = nil, func(ctx context.Context, passed []*Outgoing) {
			all := slices.Concat(passed, others)
			others = nil
			storeNested(ctx, all)
		}
	}
	chain.run(ctx, same)
	if len(others) > 0 { // it passed none of its own on
		storeNested(ctx, others)
	}
}
