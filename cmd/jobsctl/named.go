package main

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/spf13/pflag"

	"github.com/seed81422ce9/jobs/broker"
	"github.com/seed81422ce9/jobs/inspect"
)

// byID says which jobs a user gave by their IDs.
type byID struct {
	queue string // empty: look in all
	ids   []string
	only  broker.State // jobs in other states are refused; StateNone: the user gave no state
	dry   bool
}

// namedJobs returns the jobs that the user gave by their IDs. It refuses flags that do
// nothing beside IDs, since the user relies on them.
func namedJobs(flags *pflag.FlagSet, f *filter, ids []string, dry bool) (n byID, err error) {
	if len(ids) == 0 {
		return n, nil
	}
	for _, name := range slices.Concat(narrowing, []string{"suppressed", "all", "rate"}) {
		if name != "queue" && flags.Changed(name) {
			return n, misuse("--%s is for jobs that flags select; give IDs or filters, not both", name)
		}
	}
	n = byID{queue: f.queue, ids: ids, dry: dry}
	if flags.Changed("state") { // its default is for jobs that flags select
		n.only, err = f.jobState()
	}
	return n, err
}

// refuses returns why a decision is not for a job, or nil.
func (n *byID) refuses(d *decision, j *broker.Job) error {
	_, err := (&broker.Operation{Kind: d.kind}).Decide(j.Ref(), j.State, j.Epoch, j.Holder)
	if n.only != broker.StateNone && j.State != n.only {
		err = &broker.Error{Err: broker.ErrWrongState, Hint: fmt.Sprintf("its state is %v, not %v", j.State, n.only)}
	}
	return broker.About(err, d.kind.String(), j.Queue, j.ID)
}

// decideNamed carries out a decision for jobs given by ID. Jobs that it is not for are
// refused before the question, so that the question has the number of the others.
func (a *app) decideNamed(ctx context.Context, i *inspect.Inspector, d *decision, n byID) error {
	var total inspect.Report
	permitted := func(j *broker.Job) bool {
		err := n.refuses(d, j)
		if err != nil {
			total.Add(inspect.Report{Matched: 1, Refused: 1,
				Refusals: []inspect.Refusal{{Queue: j.Queue, ID: j.ID, Holder: j.Holder, Err: err}}})
		}
		return err == nil
	}
	seen, byQueue := make(map[[2]string]bool), make(map[string][]string)
	var order []string
	count := 0
	for _, id := range n.ids {
		j, err := a.locate(ctx, i, n.queue, id)
		if err != nil {
			return err
		}
		job := [2]string{j.Queue, j.ID}
		twice := seen[job]
		seen[job] = true
		listed := d.kind == broker.OpUnsuppress && !j.Suppressed // nothing is to do
		if twice || listed || !permitted(j) {
			continue
		}
		if byQueue[j.Queue] == nil {
			order = append(order, j.Queue)
		}
		byQueue[j.Queue] = append(byQueue[j.Queue], j.ID)
		count++
	}
	if n.dry {
		total.Matched += count
		return a.report(d, total, true)
	}
	if err := a.confirm(ctx, count > 0 && d.Grave || count > largeDecision, "%s %s", d.Name, plural(count, "job")); err != nil {
		return err
	}
	for _, queue := range order {
		s := i.Select(inspect.Query{Queue: queue, IDs: byQueue[queue], Suppressed: true})
		r, err := d.Do(s.Where(permitted), ctx) // they may have changed since the question
		total.Add(r)
		if err := notRefused(err); err != nil {
			if total.Done+total.Refused > 0 {
				a.interrupted(d, total, len(seen))
			}
			return err
		}
	}
	return a.report(d, total, false)
}

// notRefused returns what is no refusal in the error of a decision. Its report has the
// refusals.
func notRefused(err error) error {
	parts := []error{err}
	if several, ok := err.(interface{ Unwrap() []error }); ok {
		parts = several.Unwrap()
	}
	kept := slices.DeleteFunc(slices.Clone(parts), func(err error) bool {
		var about *broker.Error
		return errors.As(err, &about) && about.ID != "" && !broker.StoreFailed(err)
	})
	if len(kept) == len(parts) {
		return err
	}
	return errors.Join(kept...)
}
