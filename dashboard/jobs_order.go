package dashboard

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	"github.com/seed81422ce9/jobs/broker"
	"github.com/seed81422ce9/jobs/inspect"
)

// maxMerged bounds the queues whose newest jobs a list merges: each queue takes a call.
const maxMerged = pageFinds

// holding returns the queues that have jobs in a state, including suppressed ones.
func holding(s *snapshot, state broker.State) (names []string) {
	for _, q := range s.survey.Queues {
		if q.Counts[state] > 0 {
			names = append(names, q.Name)
		}
	}
	return names
}

// newestOf returns the newest jobs of several queues as one list. It has no next page:
// a store's cursor is for one queue.
func (h *Handler) newestOf(ctx context.Context, s *snapshot, f filter, q inspect.Query, queues []string) (l listing, err error) {
	l.Now, q.Limit, q.Cursor = s.survey.now(), pageRecords, ""
	more := make(map[string]bool)
	for _, queue := range queues {
		q.Queue = queue
		page, err := h.inspector.List(ctx, q)
		if err != nil {
			return l, err
		}
		l.Now = page.Now
		l.Looked++
		more[queue] = page.Cursor != ""
		l.Examined += len(page.Jobs)
		if more[queue] {
			l.Examined += pageRecords - len(page.Jobs)
		}
		l.Jobs = append(l.Jobs, kept(page.Jobs, f)...)
	}
	slices.SortStableFunc(l.Jobs, func(a, b broker.Job) int { return b.FinishedAt.Compare(a.FinishedAt) })
	if len(l.Jobs) > pageRows {
		for _, j := range l.Jobs[pageRows:] {
			more[j.Queue] = true
		}
		l.Jobs = l.Jobs[:pageRows]
	}
	for _, queue := range queues {
		if more[queue] {
			l.Others = append(l.Others, queue)
		}
	}
	return l, nil
}

// kept returns the jobs that pass the filters that stores do not have.
func kept(found []broker.Job, f filter) []broker.Job {
	return slices.DeleteFunc(found, func(j broker.Job) bool { return !f.keeps(&j) })
}

// sortHead is the head of a sortable column.
type sortHead struct {
	Label, To, Aria string
	Number          bool
}

var sortColumns = []struct{ name, label string }{{"id", "Job"}, {"type", "Type"}, {"queue", "Queue"}, {"state", "State"},
	{"failures", "Failures"}, {"time", ""}, {"key", "Key"}, {"error", "Last error"}}

func sortHeads(f filter) (heads []sortHead) {
	for _, c := range sortColumns {
		head := sortHead{Label: c.label, Aria: "none", Number: c.name == "failures" || c.name == "time"}
		if c.name == "time" {
			head.Label = whenOf(f.State)
		}
		to := f
		switch to.Sort = c.name; f.Sort {
		case c.name:
			head.Aria, to.Sort = "ascending", "-"+c.name
		case "-" + c.name:
			head.Aria, to.Sort = "descending", ""
		}
		head.To = to.link("jobs")
		heads = append(heads, head)
	}
	return heads
}

// sorted returns the rows of a page sorted by a column, or in the given order if by is empty. Pages
// share rows, so it does not change them.
func sorted(rows []broker.Job, by string, timeOf func(*broker.Job) time.Time) []broker.Job {
	column, down := strings.CutPrefix(by, "-")
	compare := map[string]func(a, b *broker.Job) int{
		"id":       func(a, b *broker.Job) int { return cmp.Compare(a.ID, b.ID) },
		"type":     func(a, b *broker.Job) int { return cmp.Compare(a.Type, b.Type) },
		"queue":    func(a, b *broker.Job) int { return cmp.Compare(a.Queue, b.Queue) },
		"state":    func(a, b *broker.Job) int { return cmp.Compare(a.State, b.State) },
		"failures": func(a, b *broker.Job) int { return cmp.Compare(a.Failures, b.Failures) },
		"time":     func(a, b *broker.Job) int { return timeOf(a).Compare(timeOf(b)) },
		"key":      func(a, b *broker.Job) int { return cmp.Compare(a.Key, b.Key) },
		"error":    func(a, b *broker.Job) int { return cmp.Compare(a.Errors.Last().Message, b.Errors.Last().Message) },
	}[column]
	if compare == nil {
		return rows
	}
	rows = slices.Clone(rows)
	slices.SortStableFunc(rows, func(a, b broker.Job) int {
		if down {
			return compare(&b, &a)
		}
		return compare(&a, &b)
	})
	return rows
}
