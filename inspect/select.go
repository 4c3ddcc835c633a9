package inspect

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"time"

	"github.com/seed81422ce9/jobs/broker"
)

// Selection is a set of jobs, to be listed or operated on as a whole. It is a
// value: methods that refine it return another one.
type Selection struct {
	inspector *Inspector
	query     Query
	limit     int
	perSecond int
	progress  func(Report)
	looked    func(int)
	where     func(*broker.Job) bool
}

// Select selects jobs of one queue: those of q.IDs, or else by q.State, q.Worker or
// q.Key and the other filters of q. It ignores Limit and Cursor of q.
func (i *Inspector) Select(q Query) Selection { return Selection{inspector: i, query: q} }

// Limit limits the selection to n jobs. Zero or less means all.
func (s Selection) Limit(n int) Selection {
	s.limit = n
	return s
}

// PerSecond limits decisions to n jobs per second, for example to redrive jobs
// of a service that has just recovered. Zero or less means no limit.
func (s Selection) PerSecond(n int) Selection {
	s.perSecond = n
	return s
}

// OnProgress returns the selection with a function that a decision calls after
// each step of some hundred jobs, with its report so far.
func (s Selection) OnProgress(f func(Report)) Selection {
	s.progress = f
	return s
}

// OnLook returns the selection with a function that is called after each page, with the
// greatest number of records that can have been examined so far. It shows the progress
// of a search, whose pages may have no job that matches.
func (s Selection) OnLook(f func(int)) Selection {
	s.looked = f
	return s
}

// Where keeps only the jobs for which keep returns true, for conditions that a query
// cannot express. keep gets jobs without payload and result.
func (s Selection) Where(keep func(*broker.Job) bool) Selection {
	s.where = keep
	return s
}

// keeps reports whether a job of the query belongs to the selection.
func (s *Selection) keeps(job *broker.Job) bool { return s.where == nil || s.where(job) }

// Jobs lists the selected jobs, page by page. A job that stays in the selection is
// listed at least once, or twice if it moves meanwhile. On Redis a pending job may also be
// listed twice if it moved before: if it was rescheduled, or held by a move that was undone.
// An error comes with a nil job and ends the listing.
func (s Selection) Jobs(ctx context.Context) iter.Seq2[*broker.Job, error] {
	return func(yield func(*broker.Job, error) bool) {
		shown := 0
		size, sparse := s.listSizes()
		for page, err := range s.pages(ctx, size, sparse) {
			if err != nil {
				yield(nil, err)
				return
			}
			for j := range page.Jobs {
				if !s.keeps(&page.Jobs[j]) {
					continue
				}
				if !yield(&page.Jobs[j], nil) {
					return
				}
				if shown++; shown == s.limit {
					return
				}
			}
		}
	}
}

// listSizes returns how many records a call of a listing examines: the first call, and a
// call after one that matched few jobs.
func (s *Selection) listSizes() (first, sparse int) {
	needles := s.query.Needles()
	switch {
	case s.query.NoPayload && needles.Some():
		return barePage, sparsePage
	case s.query.NoPayload && s.limit <= 0:
		return barePage, barePage
	}
	return defaultPage, defaultPage
}

// Count counts the selected jobs by listing them without payloads. For all jobs of a
// state, Queues is faster.
func (s Selection) Count(ctx context.Context) (int, error) {
	s.query.NoPayload = true
	n := 0
	for _, err := range s.Jobs(ctx) {
		if err != nil {
			return n, err
		}
		n++
	}
	return n, nil
}

// Redrive sends dead jobs back to their queue with fresh counters. A job is
// refused with ErrDuplicate if another job holds its unique key.
func (s Selection) Redrive(ctx context.Context) (Report, error) {
	return s.decide(ctx, decision{op: broker.Operation{Kind: broker.OpRedrive}})
}

// Cancel cancels jobs that have not ended. The contexts of running jobs end
// with cause ErrCancelled, and what their handlers return decides the outcome.
func (s Selection) Cancel(ctx context.Context) (Report, error) {
	return s.decide(ctx, decision{op: broker.Operation{Kind: broker.OpCancel}})
}

// Delete removes jobs and their records, in any state but active: running jobs
// are refused with ErrWrongState, and must be cancelled first.
func (s Selection) Delete(ctx context.Context) (Report, error) {
	return s.decide(ctx, decision{op: broker.Operation{Kind: broker.OpDelete}})
}

// Reschedule makes scheduled, retry and pending jobs due at t. The zero time,
// or one in the past, means at once.
func (s Selection) Reschedule(ctx context.Context, t time.Time) (Report, error) {
	return s.decide(ctx, decision{op: broker.Operation{Kind: broker.OpReschedule, RunAt: t}})
}

// RescheduleIn makes scheduled, retry and pending jobs due after delay, counted from
// the start of the call by the store's clock. The limit is 100 years.
func (s Selection) RescheduleIn(ctx context.Context, delay time.Duration) (Report, error) {
	if err := broker.CheckDuration("delay", delay); err != nil {
		return Report{}, broker.About(err, broker.OpReschedule.String(), s.query.Queue, "")
	}
	return s.decide(ctx, decision{op: broker.Operation{Kind: broker.OpReschedule}, delay: delay})
}

// Suppress leaves dead jobs out of default lists and alerts. QueueInfo and metrics
// count them separately.
func (s Selection) Suppress(ctx context.Context) (Report, error) {
	return s.decide(ctx, decision{op: broker.Operation{Kind: broker.OpSuppress}})
}

// Unsuppress undoes Suppress.
func (s Selection) Unsuppress(ctx context.Context) (Report, error) {
	s.query.Suppressed = true
	return s.decide(ctx, decision{op: broker.Operation{Kind: broker.OpUnsuppress}})
}

// Purge deletes every job of a queue that is in the given state when Purge starts,
// including suppressed jobs. It is Select and Delete.
func (i *Inspector) Purge(ctx context.Context, queue string, state broker.State) (Report, error) {
	return i.Select(Query{Queue: queue, State: state, Suppressed: true}).Delete(ctx)
}

// Records in a page: with payloads; without payloads; and without payloads if few of them
// match and the store does not send the others. Then a call examines as many as it may.
const (
	defaultPage = 100
	barePage    = 500
	sparsePage  = 5000
)

// pages lists the selection in pages of at most size records. While fewer than a tenth of
// size match, the pages have at most sparse records. It skips IDs that do not exist.
func (s Selection) pages(ctx context.Context, size, sparse int) iter.Seq2[Page, error] {
	return func(yield func(Page, error) bool) {
		q := s.query
		q.Limit, q.Cursor = size, ""
		ids := q.IDs
		looked := 0
		for {
			if len(s.query.IDs) > 0 {
				q.IDs = ids[:min(size, len(ids))]
				ids = ids[len(q.IDs):]
			}
			for {
				page, err := s.inspector.List(ctx, q)
				if !yield(page, err) || err != nil {
					return
				}
				if looked += q.Limit; s.looked != nil {
					s.looked(looked)
				}
				q.Limit = size
				if 10*len(page.Jobs) < size {
					q.Limit = sparse
				}
				if q.Cursor = page.Cursor; q.Cursor == "" {
					break
				}
			}
			if len(ids) == 0 {
				return
			}
		}
	}
}

// Report says what a decision did.
type Report struct {
	Matched   int // jobs that were selected
	Done      int // jobs that were changed
	Requested int // of Done: running jobs that were asked to cancel
	Repeated  int // of Done: jobs that were already at the destination of a move
	Newer     int // of Matched: left alone because they came after the start, or were claimed before a move held them
	Refused   int // jobs that could not be changed, or changed meanwhile
	// Refusals are the first 100 refusals.
	Refusals []Refusal
}

// Refusal says why a job was refused: ErrWrongState, ErrNotFound, or ErrDuplicate. With
// ErrWrongState, Holder is the job's holder; with ErrDuplicate it is the ID of the job
// that holds its unique key.
type Refusal struct {
	Queue  string
	ID     string
	Holder string
	Err    error
}

// Add adds the report of another decision to r.
func (r *Report) Add(other Report) {
	r.Matched += other.Matched
	r.Done += other.Done
	r.Requested += other.Requested
	r.Repeated += other.Repeated
	r.Newer += other.Newer
	r.Refused += other.Refused
	r.Refusals = slices.Concat(r.Refusals, other.Refusals)
}

const keptRefusals = 100

func (r *Report) refuse(f Refusal) {
	r.Refused++
	if len(r.Refusals) < keptRefusals {
		r.Refusals = append(r.Refusals, f)
	}
}

// namedError returns the refusals as an error, for a caller that named the jobs and
// expects all to be changed.
func (r *Report) namedError(kind broker.OperationKind) error {
	if r.Refused == 0 {
		return nil
	}
	errs := make([]error, len(r.Refusals))
	for n, f := range r.Refusals {
		errs[n] = broker.About(f.Err, kind.String(), f.Queue, f.ID)
	}
	if more := r.Refused - len(errs); more > 0 {
		// Not an error of its own: it would look like one after which the effect is unknown.
		errs[len(errs)-1] = fmt.Errorf("%w (and %d more jobs were refused)", errs[len(errs)-1], more)
	}
	return errors.Join(errs...)
}

// InTurn lists the jobs of several selections, one from each in turn, so that a queue
// with many jobs does not hide the others. It ends after most jobs, or, if most is
// zero, after all. It holds one page of each selection in memory. An error comes with a
// nil job and ends the listing.
func InTurn(ctx context.Context, most int, selections ...Selection) iter.Seq2[*broker.Job, error] {
	return func(yield func(*broker.Job, error) bool) {
		lists := make([]*list, len(selections))
		for n, s := range selections {
			lists[n] = s.list(ctx, most, len(selections))
			defer lists[n].stop()
		}
		shown := 0
		for len(lists) > 0 {
			left := lists[:0]
			for _, l := range lists {
				if len(l.jobs) == 0 && !l.read() {
					continue // no pages are left
				}
				left = append(left, l)
				if l.err != nil {
					yield(nil, l.err)
					return
				}
				if len(l.jobs) == 0 {
					continue // no job of this page is selected
				}
				j := &l.jobs[0]
				l.jobs = l.jobs[1:]
				if !yield(j, nil) {
					return
				}
				if shown++; shown == most {
					return
				}
			}
			lists = left
		}
	}
}

// list reads a selection page by page.
type list struct {
	of   Selection
	jobs []broker.Job // the rest of the last page
	err  error
	next func() (Page, error, bool)
	stop func()
}

// list returns a list of the selection. Its pages are small if the caller reads few jobs
// (most, if not zero) from a number of selections.
func (s Selection) list(ctx context.Context, most, selections int) *list {
	size, sparse := s.listSizes()
	if needles := s.query.Needles(); most > 0 && s.where == nil && !needles.Some() {
		size = min(size, max(leastPage, most/selections+1))
		sparse = size
	}
	l := &list{of: s}
	l.next, l.stop = iter.Pull2(s.pages(ctx, size, sparse))
	return l
}

// leastPage is the smallest page: smaller ones are not faster.
const leastPage = 10

// read reads the next page, and reports whether there was one, or an error.
func (l *list) read() bool {
	page, err, ok := l.next()
	l.jobs, l.err = slices.DeleteFunc(page.Jobs, func(j broker.Job) bool { return !l.of.keeps(&j) }), err
	return ok
}
