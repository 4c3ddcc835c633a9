package main

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/seed81422ce9/jobs/broker"
	"github.com/seed81422ce9/jobs/inspect"
)

// decision is a verb that changes jobs: those named, or those that a filter selects.
type decision struct {
	inspect.Verb
	kind        broker.OperationKind
	short, long string
	state       broker.State // default of the filter; StateNone: the user must give one
}

// verb returns the decision of package inspect that has the name of an operation.
func verb(kind broker.OperationKind, short, long string, state broker.State) *decision {
	v, _ := inspect.VerbNamed(kind.String()) // a test runs each verb, so the name exists
	return &decision{Verb: v, kind: kind, short: short, long: long, state: state}
}

func (a *app) cancel() *cobra.Command {
	return a.decide(verb(broker.OpCancel, "Cancel jobs that have not ended",
		"Cancel jobs that have not ended. If a job is running, its context ends, and what\nthe handler returns decides how the job ends.",
		broker.StatePending))
}

func (a *app) deleteJobs() *cobra.Command {
	return a.decide(verb(broker.OpDelete, "Delete jobs and their records",
		"Delete jobs and their records. Running jobs are refused: cancel them first.", broker.StateNone))
}

func (a *app) redrive() *cobra.Command {
	return a.decide(verb(broker.OpRedrive, "Send dead jobs back to their queue, with fresh retries",
		"Send dead jobs back to their queue, with fresh retries. A job is refused if\nanother job holds its unique key.", broker.StateDead))
}

func (a *app) reschedule() *cobra.Command {
	var in time.Duration
	var when string
	var due time.Time
	d := verb(broker.OpReschedule, "Change when scheduled, retry and pending jobs are due",
		"Change when scheduled, retry and pending jobs are due. Without --in and --at they\nare due at once.", broker.StateScheduled)
	d.Do = func(s inspect.Selection, ctx context.Context) (inspect.Report, error) {
		if in != 0 {
			return s.RescheduleIn(ctx, in)
		}
		return s.Reschedule(ctx, due)
	}
	cmd := a.decide(d)
	spanFlag(cmd.Flags(), &in, "in", 0, "due after this time, such as 2h")
	cmd.Flags().StringVar(&when, "at", "", "due at this time, such as 2026-01-02T15:04:05Z")
	cmd.PreRunE = func(*cobra.Command, []string) (err error) {
		if when == "" {
			return nil
		}
		if in != 0 {
			return misuse("give --in or --at, not both")
		}
		if due, err = time.Parse(time.RFC3339, when); err != nil {
			return misuse("--at %q is not a time like 2026-01-02T15:04:05Z", when)
		}
		return nil
	}
	return cmd
}

// asksBefore returns what the help says after "The command asks before it".
func asksBefore(d *decision) string {
	if d.Grave {
		return "changes anything"
	}
	return fmt.Sprintf("changes more than %d jobs, or all", largeDecision)
}

func (a *app) decide(d *decision) *cobra.Command {
	var f filter
	var dry, all bool
	cmd := &cobra.Command{
		Use:   d.Name + " [ID…]",
		Short: d.short,
		Long: d.long + "\n\nWithout IDs, the flags select the jobs. Give at least one of them, or --all.\n" +
			"With IDs, only --queue and --state count: jobs in another state are refused.\n" +
			"--dry-run only counts the jobs. The command asks before it " + asksBefore(d) + ".",
		RunE: func(cmd *cobra.Command, args []string) error {
			n, err := namedJobs(cmd.Flags(), &f, args, dry)
			if err != nil {
				return err
			}
			i, err := a.inspector(cmd.Context())
			if err != nil {
				return err
			}
			if len(n.ids) > 0 {
				return a.decideNamed(cmd.Context(), i, d, n)
			}
			if !all && !selects(cmd.Flags()) {
				return misuse("give the IDs of the jobs to %s, select jobs by flags, or give --all", d.Name)
			}
			if f.state == "" {
				return misuse("give --state")
			}
			if state, err := f.jobState(); err != nil {
				return err
			} else if !d.kind.Allowed(state) { // otherwise --dry-run would count jobs that are refused
				return misuse("jobs in state %s cannot be %s", state, d.Done)
			}
			return a.decideSelected(cmd.Context(), i, d, &f, dry, !selects(cmd.Flags()))
		},
	}
	state := ""
	if d.state != broker.StateNone {
		state = d.state.String()
	}
	f.flags(cmd.Flags(), state)
	if d.Possible(broker.StateDead) {
		f.deadFlags(cmd.Flags())
	}
	cmd.Flags().BoolVar(&dry, "dry-run", false, "only count the jobs")
	cmd.Flags().BoolVar(&all, "all", false, "all jobs in the state")
	f.rateFlag(cmd.Flags())
	return cmd
}

var narrowing = []string{"queue", "type", "key", "worker", "error", "reason", "group", "older-than", "newer-than", "limit"}

// selects reports whether any flag narrows the selection. A limit of 0 means all jobs.
func selects(flags *pflag.FlagSet) bool {
	return slices.ContainsFunc(narrowing, func(name string) bool {
		f := flags.Lookup(name)
		return f != nil && f.Changed && (name != "limit" || f.Value.String() != "0")
	})
}

// largeDecision is the number of jobs above which even a decision that can be undone
// asks for confirmation: more than a person would check one by one.
const largeDecision = 100

// decideSelected carries out a decision for the jobs that the filter selects.
func (a *app) decideSelected(ctx context.Context, i *inspect.Inspector, d *decision, f *filter, dry, unfiltered bool) error {
	err := f.find(ctx, i)
	if err != nil {
		return err
	}
	n := 0
	if dry || !a.yes || f.byStateAlone() { // otherwise nobody would see the count, and counting can take long
		if n, err = a.count(ctx, i, d, f); err != nil {
			return err
		}
	}
	switch {
	case dry:
		return a.report(d, inspect.Report{Matched: n}, true)
	case n == 0 && !a.yes:
		return a.report(d, inspect.Report{}, false)
	}
	what := "about " + plural(n, "job")
	if f.group != nil {
		what = fmt.Sprintf("%s of the group %s (%s: %s)", plural(n, "job"), f.group.ID(), plain(f.group.Type), plain(f.group.Fingerprint))
	}
	if err := a.confirm(ctx, d.Grave || unfiltered || f.group != nil || n > largeDecision, "%s %s", d.Name, what); err != nil {
		return err
	}
	return a.carryOut(ctx, i, d, f, n)
}

// count returns about how many jobs a decision would affect.
func (a *app) count(ctx context.Context, i *inspect.Inspector, d *decision, f *filter) (n int, err error) {
	if f.byStateAlone() {
		for _, q := range f.infos {
			switch {
			case d.kind == broker.OpUnsuppress:
				n += int(q.Suppressed)
			case f.suppressed:
				n += int(q.Counts[f.queries[0].State])
			default:
				n += int(q.Listed(f.queries[0].State))
			}
		}
		return min(n, cmp.Or(f.limit, n)), nil
	}
	look := a.search("counting", f)
	defer look.end()
	for queue, q := range f.queries {
		q.Newest = newestFirst(&q)
		q.Suppressed = q.Suppressed || d.kind == broker.OpUnsuppress
		s := f.of(i, q).OnLook(look.of(queue))
		if d.kind == broker.OpUnsuppress {
			s = s.Where(func(j *broker.Job) bool { return j.Suppressed && (f.group == nil || f.group.Has(j)) })
		}
		for _, err := range s.Limit(rest(f.limit, n)).Jobs(ctx) {
			if err != nil {
				return n, err
			}
			n++
		}
		if f.limit > 0 && n >= f.limit {
			break
		}
	}
	return n, nil
}

// carryOut carries out a decision for the jobs of a filter. count is their number,
// for the progress bar, or 0 if it is unknown.
func (a *app) carryOut(ctx context.Context, i *inspect.Inspector, d *decision, f *filter, count int) error {
	limit := f.limit
	var total inspect.Report
	shown := a.progress(d.Done, count)
	for _, q := range f.queries {
		if limit > 0 && total.Matched >= limit {
			break
		}
		before := total.Done
		s := f.of(i, q).Limit(rest(limit, total.Matched)).PerSecond(f.rate).OnProgress(func(r inspect.Report) { shown.at(before + r.Done) })
		r, err := d.Do(s, ctx)
		total.Add(r)
		if err != nil {
			shown.end()
			a.interrupted(d, total, count)
			return err
		}
	}
	shown.end()
	return a.report(d, total, false)
}

// rest returns what is left of a limit; 0 means no limit.
func rest(limit, used int) int {
	if limit == 0 {
		return 0
	}
	return limit - used
}

// interrupted reports what a decision did before it was interrupted; about is the
// number of jobs that it was to change, or 0 if unknown.
func (a *app) interrupted(d *decision, r inspect.Report, about int) {
	if about > 0 && !a.structured() {
		a.say("%s of about %s %s.", number(r.Done), plural(about, "job"), d.Done)
		a.sayMore(r)
		return
	}
	r.Matched = max(r.Matched, about)
	_ = a.report(d, r, false) // the caller returns the error that ended it
}

// report reports what a decision did. It returns an error if jobs were refused.
func (a *app) report(d *decision, r inspect.Report, dry bool) error {
	refused := make([]map[string]string, 0, len(r.Refusals))
	for _, f := range r.Refusals {
		refused = append(refused, map[string]string{"queue": f.Queue, "id": f.ID, "error": f.Err.Error(), "holder": f.Holder})
	}
	object := map[string]any{"verb": d.Name, "dry_run": dry, "matched": r.Matched, "done": r.Done,
		"requested": r.Requested, "newer": r.Newer, "refused": r.Refused, "refusals": refused}
	if r.Repeated > 0 {
		object["repeated"] = r.Repeated
	}
	if err := a.object(object); err != nil {
		return err
	}
	switch {
	case dry:
		a.say("%s would be %s; nothing was changed.", plural(r.Matched-r.Refused, "job"), d.Done)
	case r.Requested > 0:
		a.say("%s of %s %s; %s asked to end.", number(r.Done-r.Requested), plural(r.Matched, "job"), d.Done,
			plural(r.Requested, "running job"))
	default:
		a.say("%s of %s %s.", number(r.Done), plural(r.Matched, "job"), d.Done)
	}
	a.sayMore(r)
	if r.Refused > 0 {
		return errRefused
	}
	return nil
}

// sayMore reports the jobs that were not changed, and why.
func (a *app) sayMore(r inspect.Report) {
	if r.Repeated > 0 {
		a.say("%s of them existed there already.", number(r.Repeated))
	}
	if r.Newer > 0 {
		a.say("Not changed, because they were enqueued or claimed meanwhile: %s.", plural(r.Newer, "job"))
	}
	for _, f := range r.Refusals {
		a.say("  %s in %s: %s", plain(f.ID), plain(f.Queue), text(f.Err))
	}
	if more := r.Refused - len(r.Refusals); more > 0 {
		a.say("  and %s more", number(more))
	}
}
