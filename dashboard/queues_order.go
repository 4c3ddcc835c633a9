package dashboard

import (
	"cmp"
	"slices"
	"strings"

	"github.com/seed81422ce9/jobs/broker"
)

// queueTable is a table of queues, with its heads.
type queueTable struct {
	Heads []sortHead
	Rows  []queueRow
}

// queueColumn is a column of a table of queues. Those with a key can sort it.
type queueColumn struct {
	name, label string
	key         func(*queueRow) float64
}

func countKey(state broker.State) func(*queueRow) float64 {
	return func(q *queueRow) float64 { return float64(q.Counts[state]) }
}

var queueColumns = []queueColumn{
	{"name", "Queue", nil},
	{"depth", "Depth", func(q *queueRow) float64 { return float64(q.Backlog) }},
	{"pending", "Pending", countKey(broker.StatePending)},
	{"active", "Active", countKey(broker.StateActive)},
	{"scheduled", "Scheduled", countKey(broker.StateScheduled)},
	{"retry", "Retry", countKey(broker.StateRetry)},
	{"dead", "Dead", countKey(broker.StateDead)},
	{"oldest", "Oldest", func(q *queueRow) float64 { return q.Age.Seconds() }},
	{"in", "In / s", func(q *queueRow) float64 { return q.Pace.Enqueued }},
	{"done", "Done / s", func(q *queueRow) float64 { return q.Pace.Completed }},
	{"wait", "Wait p95", func(q *queueRow) float64 { return q.Pace.Lately.Latency.WaitTimes.Quantile(0.95).Seconds() }},
	{"gone", "Gone in", func(q *queueRow) float64 { return q.Pace.Gone.Seconds() }},
	{"slots", "Slots", func(q *queueRow) float64 { return float64(q.Taken) }},
}

// sortQueues sorts rows by a column; with "-" before its name, the greatest first.
// Equal rows, or with an unknown column all rows, stay in the order of their names.
func sortQueues(rows []queueRow, by string) {
	name, down := strings.CutPrefix(by, "-")
	at := slices.IndexFunc(queueColumns, func(c queueColumn) bool { return c.name == name })
	if at < 0 {
		return
	}
	key := queueColumns[at].key
	slices.SortStableFunc(rows, func(a, b queueRow) int {
		order := strings.Compare(a.Name, b.Name)
		if key != nil {
			order = cmp.Compare(key(&a), key(&b))
		}
		if down {
			return -order
		}
		return order
	})
}

// queueHeads returns the heads of a table of queues, with links that sort it: numbers
// descending, names ascending.
func queueHeads(search, by string) (heads []sortHead) {
	for _, c := range queueColumns {
		to, aria := "-"+c.name, "none"
		if c.key == nil {
			to = c.name
		}
		switch by {
		case c.name:
			to, aria = "-"+c.name, "ascending"
		case "-" + c.name:
			to, aria = c.name, "descending"
		}
		heads = append(heads, sortHead{Label: c.label, To: link("queues", "search", search, "sort", to), Aria: aria,
			Number: c.key != nil && c.name != "depth"})
	}
	return heads
}
