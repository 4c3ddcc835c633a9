package inspect

import (
	"context"
	"slices"
	"time"

	"github.com/seed81422ce9/jobs/broker"
	"github.com/seed81422ce9/jobs/internal/sleep"
)

// decision is the operation to carry out for every job of a selection.
type decision struct {
	op    broker.Operation
	delay time.Duration // of a reschedule, counted from begun
	begun time.Time     // when the decision started, by the store's clock
	moved int           // jobs that a reschedule has changed, and not found again at their new time
}

// decide carries out a decision. It passes each job's epoch, so that jobs that have
// changed since they were found are left alone. The report is valid even with an error.
func (s Selection) decide(ctx context.Context, d decision) (report Report, err error) {
	s.query.NoPayload = true
	missing := newNames(s.query.IDs)
	err = s.inSteps(ctx, barePage, &d, &report, func(page *Page, chosen []*broker.Job) error {
		missing.seen(page.Jobs)
		if err := ctx.Err(); err != nil || len(chosen) == 0 {
			return err
		}
		op := d.op
		op.Refs = refsOf(chosen)
		// A write is never interrupted, so that the report of an interrupted decision
		// is exact.
		results, err := s.inspector.operate(context.WithoutCancel(ctx), op)
		before := report.Done
		report.add(d.op.Kind, results)
		d.moved += report.Done - before
		return err
	})
	if err != nil || len(s.query.IDs) == 0 {
		return report, err
	}
	for _, id := range s.query.IDs {
		if missing[id] {
			report.refuse(Refusal{Queue: s.query.Queue, ID: id, Err: broker.ErrNotFound})
		}
	}
	return report, report.namedError(d.op.Kind)
}

// inSteps works through the selection in pages of at most size jobs. step gets a page,
// and the jobs of the page to which the decision applies. Only jobs that were in the
// selection at the start count, so inSteps ends even if jobs keep arriving. It holds one
// page in memory.
func (s Selection) inSteps(ctx context.Context, size int, d *decision, report *Report, step func(*Page, []*broker.Job) error) error {
	size = s.pageSize(size)
	for page, err := range s.pages(ctx, size, size) {
		if err != nil {
			return err
		}
		d.begin(page.Now)
		chosen := d.choose(&page, report, &s)
		if err := step(&page, chosen); err != nil {
			return err
		}
		if s.progress != nil {
			s.progress(*report)
		}
		if s.full(report.Done + report.Refused) {
			return nil
		}
		if page.Cursor != "" || len(s.query.IDs) > 0 {
			if err := s.pause(ctx, len(chosen)); err != nil {
				return err
			}
		}
	}
	return nil
}

func refsOf(jobs []*broker.Job) []broker.Ref {
	refs := make([]broker.Ref, len(jobs))
	for i, j := range jobs {
		refs[i] = j.Ref()
	}
	return refs
}

// pageSize returns how many jobs a page has: most, or PerSecond if that is lower, so that
// no pause is longer than a second.
func (s *Selection) pageSize(most int) int {
	if s.perSecond > 0 {
		return min(most, s.perSecond)
	}
	return most
}

// full reports whether n jobs reach the limit of the selection.
func (s *Selection) full(n int) bool { return s.limit > 0 && n >= s.limit }

// pause waits for as long as n jobs take at the rate of PerSecond.
func (s *Selection) pause(ctx context.Context, n int) error {
	if s.perSecond <= 0 || n == 0 {
		return nil
	}
	return sleep.For(ctx, time.Duration(n)*time.Second/time.Duration(s.perSecond))
}

// begin sets the start of the decision at its first page.
func (d *decision) begin(now time.Time) {
	if !d.begun.IsZero() {
		return
	}
	d.begun = now
	if d.delay > 0 {
		d.op.RunAt = now.Add(d.delay)
	}
}

// choose returns the jobs of a page that the decision applies to.
func (d *decision) choose(page *Page, report *Report, s *Selection) []*broker.Job {
	chosen := make([]*broker.Job, 0, len(page.Jobs))
	for i := range page.Jobs {
		job := &page.Jobs[i]
		if s.full(report.Done + report.Refused + len(chosen)) {
			break
		}
		if !s.keeps(job) {
			continue
		}
		atItsTime := d.op.Kind == broker.OpReschedule && !d.op.RunAt.IsZero() && broker.Micros(job.RunAt) == broker.Micros(d.op.RunAt)
		if atItsTime && d.moved > 0 {
			d.moved-- // the decision moved it to where the listing finds it again
			continue
		}
		report.Matched++
		switch {
		case d.newer(job):
			report.Newer++
		case atItsTime:
			report.Done++ // nothing is to do
		case d.op.Kind == broker.OpUnsuppress && !job.Suppressed:
			report.Matched--
		case d.op.Kind == broker.OpReschedule && job.State == broker.StatePending && !d.op.RunAt.After(d.begun):
			report.Done++ // already due; rescheduling would move it to the end of its queue, where it would be found again
		default:
			chosen = append(chosen, job)
		}
	}
	return chosen
}

// newer reports whether the job came into the selection after the start of the
// decision, perhaps through the decision itself.
func (d *decision) newer(job *broker.Job) bool {
	return job.CreatedAt.After(d.begun) ||
		job.State.Final() && job.FinishedAt.After(d.begun) ||
		job.State == broker.StateRetry && job.Errors.Last().At.After(d.begun)
}

// add counts the results of one step.
func (r *Report) add(kind broker.OperationKind, results []broker.OperationResult) {
	for _, result := range results {
		if result.Err != nil {
			r.refuse(Refusal{Queue: result.Ref.Queue, ID: result.Ref.ID, Holder: result.Holder, Err: result.Err})
			continue
		}
		r.Done++
		if kind == broker.OpCancel && result.State == broker.StateActive {
			r.Requested++
		}
	}
}

type names map[string]bool

func newNames(ids []string) names {
	n := make(names, len(ids))
	for _, id := range ids {
		n[id] = true
	}
	return n
}

func (n names) seen(found []broker.Job) {
	for i := range found {
		delete(n, found[i].ID)
	}
}

// Verb is an operation on jobs with the name that the command, the dashboard and logs
// use.
type Verb struct {
	Name  string         // "redrive"
	Done  string         // the participle: "redriven"
	Grave bool           // it cannot be undone, so tools ask for confirmation
	From  []broker.State // states in which it is possible
	// Do carries it out. Reschedule makes the jobs due at once; to set a time, use the
	// methods of Selection.
	Do func(Selection, context.Context) (Report, error)
}

// Verbs returns the operations that need only a selection, the harmless ones first.
func Verbs() []Verb { return slices.Clone(verbs) }

// VerbNamed returns the verb with a name, if there is one.
func VerbNamed(name string) (Verb, bool) {
	i := slices.IndexFunc(verbs, func(v Verb) bool { return v.Name == name })
	if i < 0 {
		return Verb{}, false
	}
	return verbs[i], true
}

// Possible reports whether the operation is possible for jobs in a state.
func (v *Verb) Possible(state broker.State) bool { return slices.Contains(v.From, state) }

var (
	dead    = []broker.State{broker.StateDead}
	waiting = []broker.State{broker.StatePending, broker.StateScheduled, broker.StateRetry}
	ended   = []broker.State{broker.StateDead, broker.StateCompleted, broker.StateCancelled}
	running = []broker.State{broker.StateActive}

	verbs = []Verb{
		{Name: "redrive", Done: "redriven", From: dead, Do: Selection.Redrive},
		{Name: "reschedule", Done: "rescheduled", From: waiting, Do: func(s Selection, ctx context.Context) (Report, error) {
			return s.Reschedule(ctx, time.Time{})
		}},
		{Name: "suppress", Done: "suppressed", From: dead, Do: Selection.Suppress},
		{Name: "unsuppress", Done: "listed again", From: dead, Do: Selection.Unsuppress},
		{Name: "cancel", Done: "cancelled", Grave: true, From: slices.Concat(running, waiting), Do: Selection.Cancel},
		{Name: "delete", Done: "deleted", Grave: true, From: slices.Concat(ended, waiting), Do: Selection.Delete},
	}
)
