package inspect

import (
	"context"
	"iter"
	"slices"

	"github.com/seed81422ce9/jobs/broker"
)

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
