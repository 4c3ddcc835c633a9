package membroker

import (
	"cmp"
	"context"
	"slices"

	"github.com/seed81422ce9/jobs/broker"
)

// Retire releases what a worker holds, to the front and in the order in which
// it was claimed, and makes its ID dead, also where it never registered: its
// registration may still be under way. §12.
func (b *Broker) Retire(ctx context.Context, req broker.RetireRequest) (broker.Retired, error) {
	now, err := b.begin(ctx, "retire", req.Now, req.Check())
	if err != nil {
		return broker.Retired{}, err
	}
	defer b.end()
	var got broker.Retired
	for _, name := range req.Queues {
		if q := b.store.queues[name]; q != nil {
			got.Released = append(got.Released, q.retire(req.Worker, now)...)
		}
	}
	return got, nil
}

func (q *queue) retire(id string, now instant) []broker.Ref {
	w := q.holderOf(id)
	if w == nil {
		w = &worker{id: id, held: bag{kind: byHolder}}
	}
	held := w.held.all()
	slices.SortFunc(held, func(a, b *job) int { return cmp.Compare(a.seq, b.seq) })
	var refs []broker.Ref
	var released []*job
	for _, j := range held {
		if q.end(j, broker.OnRetire, broker.Release(), j.read(), 0, now) == broker.StatePending {
			released = append(released, j)
			refs = append(refs, j.ref(q.name))
		}
	}
	q.toFront(released)
	if !w.ended {
		q.endWorker(w, now)
	}
	return refs
}
