package dashboard

import (
	"cmp"
	"slices"
	"strings"

	"github.com/seed81422ce9/jobs/broker"
)

// sortColumn is a column of a table that can sort it.
type sortColumn[T any] struct {
	name, label string
	compare     func(a, b *T) int
	number      bool
	down        bool // at first the greatest values come first
}

// sortHead is the head of a sortable column.
type sortHead struct {
	Label, To, Aria string
	Number          bool
}

// sorted returns rows sorted by a column; with "-" before its name, the greatest first. With an unknown column they stay
// in their order. It does not change rows: pages share them.
func sorted[T any](rows []T, columns []sortColumn[T], by string) []T {
	name, down := strings.CutPrefix(by, "-")
	at := slices.IndexFunc(columns, func(c sortColumn[T]) bool { return c.name == name })
	if at < 0 {
		return rows
	}
	compare := columns[at].compare
	rows = slices.Clone(rows)
	slices.SortStableFunc(rows, func(a, b T) int {
		if down {
			return compare(&b, &a)
		}
		return compare(&a, &b)
	})
	return rows
}

// headsOf returns the heads of a table that is sorted by a column. Each links to the next order by its column, and after
// both, if the table ends so, to the unsorted table; to returns the URL of an order.
func headsOf[T any](columns []sortColumn[T], by string, ends bool, to func(by string) string) (heads []sortHead) {
	for _, c := range columns {
		orders := []string{c.name, "-" + c.name}
		if c.down {
			slices.Reverse(orders)
		}
		if ends {
			orders = append(orders, "")
		}
		head := sortHead{Label: c.label, Number: c.number, Aria: "none", To: to(orders[(slices.Index(orders, by)+1)%len(orders)])}
		switch by {
		case c.name:
			head.Aria = "ascending"
		case "-" + c.name:
			head.Aria = "descending"
		}
		heads = append(heads, head)
	}
	return heads
}

// queueTable is a table of queues, with its heads.
type queueTable struct {
	Heads []sortHead
	Rows  []queueRow
}

// queueColumns are the columns of a table of queues, whose rows are in the order of their names.
var queueColumns = []sortColumn[queueRow]{
	{name: "name", label: "Queue", compare: func(a, b *queueRow) int { return strings.Compare(a.Name, b.Name) }},
	{name: "depth", label: "Depth", compare: by(func(q *queueRow) int64 { return q.Backlog }), down: true},
	queueNumber("pending", "Pending", countOf(broker.StatePending)),
	queueNumber("active", "Active", countOf(broker.StateActive)),
	queueNumber("scheduled", "Scheduled", countOf(broker.StateScheduled)),
	queueNumber("retry", "Retry", countOf(broker.StateRetry)),
	queueNumber("dead", "Dead", countOf(broker.StateDead)),
	queueNumber("oldest", "Oldest", func(q *queueRow) float64 { return q.Age.Seconds() }),
	queueNumber("in", "In / s", func(q *queueRow) float64 { return q.Pace.Enqueued }),
	queueNumber("done", "Done / s", func(q *queueRow) float64 { return q.Pace.Completed }),
	queueNumber("wait", "Wait p95", func(q *queueRow) float64 { return q.Pace.Lately.Latency.WaitTimes.Quantile(0.95).Seconds() }),
	queueNumber("gone", "Gone in", func(q *queueRow) float64 { return q.Pace.Gone.Seconds() }),
	queueNumber("slots", "Slots", func(q *queueRow) float64 { return float64(q.Taken) }),
}

func queueNumber(name, label string, key func(*queueRow) float64) sortColumn[queueRow] {
	return sortColumn[queueRow]{name: name, label: label, compare: by(key), number: true, down: true}
}

func countOf(state broker.State) func(*queueRow) float64 {
	return func(q *queueRow) float64 { return float64(q.Counts[state]) }
}

// by compares rows by a key.
func by[T any, K cmp.Ordered](key func(*T) K) func(a, b *T) int {
	return func(a, b *T) int { return cmp.Compare(key(a), key(b)) }
}

func queueHeads(search, by string) []sortHead {
	return headsOf(queueColumns, by, false, func(by string) string { return link("queues", "search", search, "sort", by) })
}

// jobColumns are the columns of the page's table of jobs.
func (p *jobsPage) jobColumns() []sortColumn[broker.Job] {
	return []sortColumn[broker.Job]{
		{name: "id", label: "Job", compare: by(func(j *broker.Job) string { return j.ID })},
		{name: "type", label: "Type", compare: by(func(j *broker.Job) string { return j.Type })},
		{name: "queue", label: "Queue", compare: by(func(j *broker.Job) string { return j.Queue })},
		{name: "state", label: "State", compare: by(func(j *broker.Job) broker.State { return j.State })},
		{name: "failures", label: "Failures", compare: by(func(j *broker.Job) int { return j.Failures }), number: true},
		{name: "time", label: p.When, compare: func(a, b *broker.Job) int { return p.TimeOf(a).Compare(p.TimeOf(b)) }, number: true},
		{name: "key", label: "Key", compare: by(func(j *broker.Job) string { return j.Key })},
		{name: "error", label: "Last error", compare: by(func(j *broker.Job) string { return j.Errors.Last().Message })},
	}
}
