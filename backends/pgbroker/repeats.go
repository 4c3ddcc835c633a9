package pgbroker

import (
	"context"
	"errors"

	"github.com/seed81422ce9/jobs/broker"
)

// repeats remembers what became of the earlier jobs of a request, for later jobs with the
// same ID or unique key.
type repeats struct {
	ids     map[string]bool   // IDs that exist by now
	holders map[string]string // by unique key: the job that holds it
}

// cut removes the first run, of at most limit jobs, from f. The run ends before a job of
// another kind, and before one with the ID or unique key of an earlier job.
func (f *flush) cut(limit int) *flush {
	seen := make(map[string]bool, min(limit, len(f.jobs)))
	keys := make(map[string]bool)
	n := 0
	for ; n < limit && !seen[f.jobs[n].ID] && sameKind(f.jobs[0], f.jobs[n]); n++ {
		if unique := f.jobs[n].Body.Unique.Key; unique != "" {
			if keys[unique] {
				break
			}
			keys[unique] = true
		}
		seen[f.jobs[n].ID] = true
	}
	run := f.part(f.jobs[:n])
	f.jobs = f.jobs[n:]
	return run
}

// cutRepeat returns the items up to the first one whose name came before, and the rest.
func cutRepeat[T any](all []T, name func(T) string) (run, rest []T) {
	seen := make(map[string]bool, len(all))
	for i, item := range all {
		if seen[name(item)] {
			return all[:i], all[i:]
		}
		seen[name(item)] = true
	}
	return all, nil
}

// note remembers what became of the jobs of a run, and returns how many were stored.
func (r *repeats) note(run *flush) (stored int) {
	for _, j := range run.jobs {
		receipt, unique := j.receipt, j.Body.Unique.Key
		switch {
		case receipt.Err == nil && receipt.State == broker.StateNone: // undecided
		case receipt.Err == nil:
			stored++
			r.ids[j.ID] = true
			if j.TakesKey() {
				r.holders[unique] = j.ID
			}
		case receipt.Holder == j.ID:
			r.ids[j.ID] = true
		case errors.Is(receipt.Err, broker.ErrDuplicate) && unique != "":
			r.holders[unique] = receipt.Holder
		}
	}
	return stored
}

// refuse refuses jobs of rest that repeat a job that exists by now, in at most one round trip.
// room is how many jobs the queue still takes. If the queue has limits, it may refuse a job for a
// limit before it checks the unique key, and other jobs may fill it meanwhile. So then refuse
// decides only about the first jobs, and about none with a partition key.
func (r *repeats) refuse(ctx context.Context, to port, rest *flush, room int) error {
	var left, held []entry
	leave := make(map[string]bool) // IDs of jobs in left: they may exist by the time that a later job with the same ID is decided
	for _, j := range rest.jobs {
		_, taken := r.holders[j.Body.Unique.Key]
		switch {
		case j.Restore != nil, j.Meets(): // these depend on more than whether the ID exists or the key is held
		case r.ids[j.ID]:
			j.refuse(j.ID)
			continue
		case taken && !leave[j.ID] && (!rest.pastLimit || room > 0 && len(left) == 0 && j.Body.Key == ""):
			held = append(held, j)
			continue
		}
		left = append(left, j)
		leave[j.ID] = true
	}
	if len(held) > 0 {
		look := rest.part(held)
		if err := to.run(ctx, look.lookKnown(nil)); err != nil {
			return err
		}
		for _, j := range held {
			if look.known[j.ID] {
				j.refuse(j.ID)
			} else {
				j.refuse(r.holders[j.Body.Unique.Key])
			}
		}
	}
	rest.jobs = left
	return nil
}
