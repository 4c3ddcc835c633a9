package dashboard

import (
	"context"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/seed81422ce9/jobs/broker"
	"github.com/seed81422ce9/jobs/inspect"
)

// queuesPage lists queues, one page at a time.
type queuesPage struct {
	Search     string
	Sort       string
	Table      queueTable
	Shown, All int
	Next, Prev string // addresses
}

const queuesPerPage = 100

func (h *Handler) queues(w http.ResponseWriter, r *http.Request, s *snapshot) error {
	p := queuesPage{Search: r.FormValue("search"), Sort: r.FormValue("sort"), All: len(s.survey.Queues)}
	rows := slices.DeleteFunc(rowsOf(s), func(row queueRow) bool {
		return !strings.Contains(strings.ToLower(row.Name), strings.ToLower(p.Search))
	})
	p.Shown = len(rows)
	rows = sorted(rows, queueColumns, p.Sort)
	from, _ := strconv.Atoi(r.FormValue("from")) // anything invalid means the first page
	from = min(max(from, 0), len(rows))
	if from > 0 {
		p.Prev = link("queues", "search", p.Search, "sort", p.Sort, "from", strconv.Itoa(max(0, from-queuesPerPage)))
	}
	if end := from + queuesPerPage; end < len(rows) {
		p.Next = link("queues", "search", p.Search, "sort", p.Sort, "from", strconv.Itoa(end))
		rows = rows[:end]
	}
	p.Table = queueTable{queueHeads(p.Search, p.Sort), rows[from:]}
	return h.view(r, "queues", "Queues").show(w, r, "queues", p)
}

type queuePage struct {
	inspect.QueueInfo
	Row     queueRow
	Charts  charts
	Held    held
	More    *queueMore // nil on refreshes
	Tiles   []tile
	Lines   []line
	Form    []ruleField
	Workers []workerRow
}

// line shows the pending jobs of one priority.
type line struct {
	Priority string
	Age      time.Duration // of the next job
}

// linesOf returns the priorities of a queue that have pending jobs.
func linesOf(q inspect.QueueInfo) []line {
	var lines []line
	for p := broker.PriorityUrgent; p <= broker.PriorityBulk; p++ {
		if !q.OldestPending[p].IsZero() {
			lines = append(lines, line{priorityNames[p], q.AgePending(p)})
		}
	}
	return lines
}

func (h *Handler) queue(w http.ResponseWriter, r *http.Request, s *snapshot) error {
	name := r.FormValue("name")
	at := slices.IndexFunc(s.survey.Queues, func(q inspect.QueueInfo) bool { return q.Name == name })
	if at < 0 {
		return broker.ErrNotFound
	}
	q := s.survey.Queues[at]
	p := queuePage{QueueInfo: q, Row: rowsOf(s)[at], Charts: chartsOf(r, name), Held: heldOf(&q, s.survey.Workers), Lines: linesOf(q),
		Form: formOf(q.Policy, false)}
	for _, state := range shownStates(func(s broker.State) int64 { return q.Counts[s] }) {
		p.Tiles = append(p.Tiles, tileOf(state, []inspect.QueueInfo{q}, link("jobs", "queue", name, "state", state.String())))
	}
	for _, one := range q.Workers {
		p.Workers = append(p.Workers, workerRowOf(one, q.Now))
	}
	if !refreshes(r) && s.err == nil {
		var err error
		if p.More, err = h.queueMore(r.Context(), &q); err != nil {
			return err
		}
	}
	v := h.view(r, "queues", "Queue "+text(name))
	v.Charts = true
	return v.show(w, r, "queue", p)
}

// queueMore is what a queue's page shows only when it is opened, because it takes
// further calls.
type queueMore struct {
	Note   *inspect.PauseNote
	Groups []group // the largest groups of dead jobs
	Looked int     // dead jobs that were grouped
	All    bool    // Groups are all groups
}

const (
	queueDead   = 500 // dead jobs that a queue's page groups
	queueGroups = 5   // groups that it shows
)

func (h *Handler) queueMore(ctx context.Context, q *inspect.QueueInfo) (*queueMore, error) {
	m := new(queueMore)
	note, known, err := h.inspector.PauseNote(ctx, q.Name)
	if err != nil {
		return nil, err
	}
	if known && note.Paused == q.Policy.Paused {
		m.Note = &note
	}
	if q.Listed(broker.StateDead) == 0 {
		return m, nil
	}
	groups, all, err := h.inspector.DeadGroups(ctx, queueDead, q.Name)
	if err != nil {
		return nil, err
	}
	m.Looked, m.All = groups.Looked, all
	for _, g := range groups.List() {
		if len(m.Groups) < queueGroups {
			m.Groups = append(m.Groups, group{Group: g})
		}
	}
	return m, nil
}

// held says how many of the active jobs of a queue run, and how many are prefetched.
// Workers do not report to which queues their prefetched jobs belong: they are divided
// in proportion, so the numbers are approximate.
type held struct {
	Running, Ahead int
	About          bool
}

func heldOf(q *inspect.QueueInfo, all []inspect.WorkerInfo) (h held) {
	whole := make(map[string]inspect.WorkerInfo, len(all))
	for _, w := range all {
		whole[w.ID] = w
	}
	for _, w := range q.Workers {
		total := max(whole[w.ID].Held, w.Held)
		ahead := max(total-w.Concurrency, 0)
		if ahead > 0 && total > w.Held {
			ahead, h.About = ahead*w.Held/total, true
		}
		h.Ahead += ahead
		h.Running += w.Held - ahead
	}
	return h
}
