package dashboard

import (
	"cmp"
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/seed81422ce9/jobs/broker"
	"github.com/seed81422ce9/jobs/inspect"
)

// overviewPage is the store at a glance.
type overviewPage struct {
	Tiles   []tile
	Pace    pace
	Charts  charts
	Alerts  []alert
	Queues  queueTable // the queues with the largest backlog
	More    int        // number of queues not shown
	Workers int
	Slots   int
	Taken   int
}

// tile is a number over all queues.
type tile struct {
	State      broker.State
	Count      int64
	Suppressed int64 // suppressed dead jobs, not in Count
	Oldest     string
	To         string
}

func tileOf(state broker.State, queues []inspect.QueueInfo, to string) tile {
	t := tile{State: state, To: to}
	var oldest time.Duration
	for _, q := range queues {
		if t.Count += q.Listed(state); state == broker.StateDead {
			t.Suppressed += q.Suppressed
		}
		oldest = max(oldest, q.Age(state))
	}
	if oldest > 0 {
		t.Oldest = span(oldest)
	}
	return t
}

const (
	overviewQueues = 15
	longWait       = 5 * time.Minute // a pending job that waited longer is an alert
)

func (h *Handler) overview(w http.ResponseWriter, r *http.Request, s *snapshot) error {
	p := overviewPage{Pace: s.total, Charts: chartsOf(r, "")}
	for _, state := range []broker.State{broker.StatePending, broker.StateActive, broker.StateScheduled, broker.StateRetry,
		broker.StateDead} {
		p.Tiles = append(p.Tiles, tileOf(state, s.survey.Queues, link("jobs", "state", state.String())))
	}
	p.Workers, p.Slots, p.Taken = alive(s.survey.Workers, s.survey.now())
	p.Alerts = alerts(s)
	rows := rowsOf(s)
	slices.SortStableFunc(rows, func(a, b queueRow) int { return cmp.Compare(b.Backlog, a.Backlog) })
	p.More = max(0, len(rows)-overviewQueues)
	p.Queues = queueTable{queueHeads("", ""), rows[:len(rows)-p.More]}
	v := h.view(r, "overview", "Overview")
	v.Charts = true
	return v.show(w, r, "overview", p)
}

// looking returns a page of what the last look at the store found.
func (h *Handler) looking(page func(http.ResponseWriter, *http.Request, *snapshot) error) handlerFunc {
	return func(w http.ResponseWriter, r *http.Request) error {
		s, err := h.poller.current(r.Context())
		if err == nil && s.err != nil && s.survey.Queues == nil {
			err = s.err
		}
		if err != nil {
			return err
		}
		return page(w, r, s)
	}
}

// live answers with the first points of the live charts.
func (h *Handler) live(w http.ResponseWriter, _ *http.Request) error {
	w.Header().Set("Content-Type", "application/json")
	return json.NewEncoder(w).Encode(h.poller.past())
}

type queueRow struct {
	Name    string
	Counts  map[broker.State]int64 // as default lists count them
	Backlog int64
	Bars    []bar
	Oldest  string // pending
	Age     time.Duration
	Slow    bool // the oldest pending job has waited long
	Paused  bool
	Workers int
	Slots   int
	Taken   int
	Pace    pace
}

// bar is a part of a queue's depth, in percent of the deepest queue's.
type bar struct {
	State    broker.State
	At, Wide float64
}

// cell is a number that links to the jobs it counts.
type cell struct {
	Label string
	Count int64
	To    string
}

// Cells returns the queue's depths.
func (q queueRow) Cells() (cells []cell) {
	for _, state := range [...]broker.State{broker.StatePending, broker.StateActive, broker.StateScheduled, broker.StateRetry,
		broker.StateDead} {
		name := state.String()
		cells = append(cells, cell{strings.ToUpper(name[:1]) + name[1:], q.Counts[state], link("jobs", "queue", q.Name, "state", name)})
	}
	return cells
}

// backlog returns how many jobs of a queue have not ended successfully.
func backlog(q *inspect.QueueInfo) (n int64) {
	for _, state := range depthStates {
		n += q.Listed(state)
	}
	return n
}

func rowsOf(s *snapshot) []queueRow {
	rows := make([]queueRow, 0, len(s.survey.Queues))
	var deepest int64 = 1
	for _, q := range s.survey.Queues {
		row := queueRow{Name: q.Name, Counts: make(map[broker.State]int64), Paused: q.Policy.Paused, Backlog: backlog(&q),
			Pace: s.paces[q.Name], Slow: q.Age(broker.StatePending) > longWait}
		for state := range q.Counts {
			row.Counts[state] = q.Listed(state)
		}
		if age := q.Age(broker.StatePending); age > 0 {
			row.Oldest, row.Age = span(age), age
		}
		row.Workers, row.Slots, row.Taken = alive(q.Workers, q.Now)
		deepest = max(deepest, row.Backlog)
		rows = append(rows, row)
	}
	for i := range rows {
		at := 0.0
		for _, state := range depthStates {
			if n := rows[i].Counts[state]; n > 0 {
				wide := 100 * float64(n) / float64(deepest)
				rows[i].Bars = append(rows[i].Bars, bar{state, at, wide})
				at += wide
			}
		}
	}
	return rows
}

// taken returns how many slots of a worker are taken. It may hold more jobs: prefetched
// ones, and ones that are being settled.
func taken(w inspect.WorkerInfo) int { return min(w.Held, w.Concurrency) }

// alive counts the workers whose leases have not run out, their slots, and the taken
// slots, even by jobs of other queues.
func alive(all []inspect.WorkerInfo, now time.Time) (workers, slots, full int) {
	for _, w := range all {
		full += taken(w)
		if w.Alive(now) {
			workers++
			slots += w.Concurrency
		}
	}
	return workers, slots, full
}

// shownStates returns the states for lists of jobs, in the order of a job's life. It
// leaves out waiting if no job is in it.
func shownStates(counts func(broker.State) int64) (all []broker.State) {
	for _, s := range broker.States() {
		if s != broker.StateWaiting || counts(s) > 0 {
			all = append(all, s)
		}
	}
	return all
}
