package dashboard

import (
	"cmp"
	"net/http"
	"slices"
	"time"

	"github.com/seed81422ce9/jobs/broker"
	"github.com/seed81422ce9/jobs/inspect"
)

type workersPage struct {
	Now     time.Time
	Workers []workerRow
	All     int
	One     string // the worker whose jobs are shown
	Held    []heldJob
	More    bool // there are more jobs than shown
	Next    string
}

type workerRow struct {
	inspect.WorkerInfo
	Taken  int     // how many of its slots are taken
	Full   float64 // taken slots, in percent
	Ahead  int     // jobs that it holds beyond its slots
	Silent bool    // its leases ran out: it probably crashed, and no other worker has reclaimed its jobs yet
	To     string
}

func workerRowOf(w inspect.WorkerInfo, now time.Time) workerRow {
	n := taken(w)
	return workerRow{w, n, 100 * float64(n) / float64(max(1, w.Concurrency)), w.Held - n, !w.Alive(now), link("workers", "worker", w.ID)}
}

// heldJob is a job that a worker holds. Since is zero unless the worker reports the job
// among those that it has run for longest.
type heldJob struct {
	broker.Job
	Since time.Time
}

// heldBy returns the jobs found, those that have run for longest first.
func heldBy(w inspect.WorkerInfo, found []broker.Job) []heldJob {
	turn := func(j heldJob) int {
		n := slices.IndexFunc(w.Longest, func(r broker.Running) bool { return r.Queue == j.Queue && r.ID == j.ID })
		if n < 0 {
			return len(w.Longest)
		}
		return n
	}
	held := make([]heldJob, len(found))
	for i, j := range found {
		held[i] = heldJob{Job: j}
		if n := turn(held[i]); n < len(w.Longest) {
			held[i].Since = w.Longest[n].Since
		}
	}
	slices.SortStableFunc(held, func(a, b heldJob) int { return cmp.Compare(turn(a), turn(b)) })
	return held
}

// servedBy returns the snapshot with only the queues that a live worker serves: a search
// does not reach all queues of a large store. The queues of a dead worker are not known.
func (s *snapshot) servedBy(worker string) *snapshot {
	part := *s
	part.survey.Queues = slices.DeleteFunc(slices.Clone(s.survey.Queues), func(q inspect.QueueInfo) bool {
		return !slices.ContainsFunc(q.Workers, func(w inspect.WorkerInfo) bool { return w.ID == worker })
	})
	if len(part.survey.Queues) == 0 {
		return s
	}
	return &part
}

const workersPerPage = 200

func (h *Handler) workers(w http.ResponseWriter, r *http.Request, s *snapshot) error {
	v := h.view(r, "workers", "Workers")
	p := workersPage{One: r.URL.Query().Get("worker"), All: len(s.survey.Workers), Now: s.survey.now()}
	after := r.URL.Query().Get("after")
	for _, one := range s.survey.Workers {
		if p.One != "" && one.ID != p.One || one.ID <= after {
			continue
		}
		if len(p.Workers) == workersPerPage {
			p.Next = link("workers", "after", p.Workers[len(p.Workers)-1].ID)
			break
		}
		p.Workers = append(p.Workers, workerRowOf(one, p.Now))
	}
	if p.One != "" {
		v.Heading = "Worker " + text(p.One)
		f := filter{Worker: p.One, State: broker.StateActive.String()}
		l, err := h.shared.get(v.URL, s.seq, refreshes(r), func() (listing, error) {
			return h.search(r.Context(), s.servedBy(p.One), f, inspect.Query{Worker: p.One, State: broker.StateActive, NoPayload: true})
		})
		if err != nil {
			return err
		}
		p.More = l.at != ""
		var named inspect.WorkerInfo
		if len(p.Workers) > 0 {
			named = p.Workers[0].WorkerInfo
		}
		p.Held = heldBy(named, l.Jobs)
	}
	return v.show(w, r, "workers", p)
}
