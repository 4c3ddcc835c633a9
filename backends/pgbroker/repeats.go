package pgbroker

import (
	"context"
	"errors"

	"github.com/seed81422ce9/jobs/broker"
)

// repeats remembers what a request's earlier jobs mean for later ones of the
// same queue, ID or unique key.
type repeats struct {
	ids     map[string]bool   // that exist by now
	holders map[string]string // of unique keys
}

// cut takes a first run of at most limit jobs off f: all that share neither ID
// nor unique key with one before them. How the others fare depends on those.
func (f *flush) cut(limit int) *flush {
	seen := make(map[string]bool, min(limit, len(f.jobs)))
	keys := make(map[string]bool)
	run, rest := f.part(nil, nil), f.part(nil, nil)
	for i, j := range f.jobs {
		to, unique := run, j.Body.Unique.Key
		if len(run.jobs) == limit || seen[j.ID] || unique != "" && keys[unique] {
			to = rest
		}
		to.jobs, to.receipts = append(to.jobs, j), append(to.receipts, f.receipts[i])
		seen[j.ID] = true
		if unique != "" {
			keys[unique] = true
		}
	}
	f.jobs, f.receipts = rest.jobs, rest.receipts
	return run.part(run.jobs, run.receipts)
}

// note remembers how the jobs of a run fared.
func (r *repeats) note(run *flush) {
	if r.ids == nil {
		r.ids, r.holders = make(map[string]bool), make(map[string]string)
	}
	for i, j := range run.jobs {
		receipt := run.receipts[i]
		switch unique := j.Body.Unique.Key; {
		case receipt.Err == nil && receipt.State == broker.StateNone: // undecided
		case receipt.Err == nil || receipt.Holder == j.ID:
			r.ids[j.ID] = true
			if receipt.Err == nil && unique != "" {
				r.holders[unique] = j.ID
			}
		case errors.Is(receipt.Err, broker.ErrDuplicate) && unique != "":
			r.holders[unique] = receipt.Holder
		}
	}
}

// refuse refuses those of rest that repeat what exists by now, all of them in
// at most one round trip.
func (r *repeats) refuse(ctx context.Context, to port, rest *flush) error {
	left, held := rest.part(nil, nil), rest.part(nil, nil)
	for i, j := range rest.jobs {
		into := left
		// Whether a full queue has room for it comes before its unique key.
		if _, taken := r.holders[j.Body.Unique.Key]; taken && !rest.pastLimit {
			into = held
		}
		if r.ids[j.ID] {
			rest.receipts[i].Holder = j.ID
			rest.receipts[i].Err = broker.About(broker.ErrDuplicate, "enqueue", j.Queue, j.ID)
			continue
		}
		into.jobs, into.receipts = append(into.jobs, j), append(into.receipts, rest.receipts[i])
	}
	if len(held.jobs) > 0 {
		known, err := rest.b.known(ctx, to, held)
		if err != nil {
			return err
		}
		for i, j := range held.jobs {
			receipt := held.receipts[i]
			if receipt.Holder = r.holders[j.Body.Unique.Key]; known[j.ID] {
				receipt.Holder = j.ID
			}
			receipt.Err = broker.About(broker.ErrDuplicate, "enqueue", j.Queue, j.ID)
		}
	}
	rest.jobs, rest.receipts = left.jobs, left.receipts
	return nil
}

// known says which IDs of a flush have a record somewhere.
func (b *Broker) known(ctx context.Context, to port, f *flush) (map[string]bool, error) {
	known := make(map[string]bool)
	var id string
	err := to.run(ctx, b.step("enqueue_known", each(func(r rows) error {
		err := r.Scan(&id)
		known[id] = true
		return err
	}), f.now.micros, f.queue, f.column(jobID)))
	return known, err
}
