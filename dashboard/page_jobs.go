package dashboard

import (
	"cmp"
	"context"
	"net/http"
	"slices"
	"time"

	"github.com/seed81422ce9/jobs/broker"
	"github.com/seed81422ce9/jobs/inspect"
)

// jobsPage is the result of a search.
type jobsPage struct {
	Filter  filter
	States  []stateTab
	Reasons []string
	Queues  []string // to choose from
	Problem string   // what is wrong with the filter
	listing
	Next string // URL of the next page
	Turn string // URL of the search in the opposite order; empty if there is only one order
	Down bool   // the list begins with the newest
	Most int64  // jobs that match, by the counters; -1 if the counters cannot say
	Sort []sortHead
	Bulk []verb // possible for all jobs that the filter selects
	Rows []verb // possible for the checked rows
	When string // the meaning of the time in the table
}

// stateTab links to the jobs in a state.
type stateTab struct {
	State  broker.State
	Count  int64
	To     string
	Active bool
}

// listing is one page of jobs, and how much was examined for it.
type listing struct {
	Now      time.Time // of the store
	Jobs     []broker.Job
	Evidence inspect.Evidence // of the job, if the page shows one
	Examined int              // at most
	Looked   int              // queues examined
	Others   []string         // if the page merges several queues: those with more jobs
	at       string
	cursor   string // continues in the queue at; both are empty at the end
}

// A page shows about pageRows jobs. To find them it examines at most pageFinds times
// pageRecords records.
const (
	pageRows    = 50
	pageRecords = 100
	pageFinds   = 10
	maxChoices  = 500 // queues in a list to choose from
)

func (h *Handler) jobs(w http.ResponseWriter, r *http.Request, s *snapshot) error {
	f := readFilter(r.URL.Query())
	if f.State == "" {
		f.State = broker.StatePending.String()
		if f.Worker != "" {
			f.State = broker.StateActive.String()
		}
	}
	v := h.view(r, "jobs", "Jobs")
	p := jobsPage{Filter: f, Reasons: reasons(), When: whenOf(f.State)}
	for _, q := range s.survey.Queues {
		p.Queues = append(p.Queues, q.Name)
	}
	p.Queues = choices(p.Queues, f.Queue)
	counts := func(state broker.State) (n int64) {
		for _, q := range s.survey.of(f.Queue) {
			if n += q.Listed(state); state == broker.StateDead && f.Suppressed {
				n += q.Suppressed
			}
		}
		return n
	}
	for _, state := range shownStates(counts) {
		p.States = append(p.States, stateTab{State: state, Count: counts(state), To: f.In(state.String()),
			Active: f.State == state.String()})
	}
	query, err := f.query(s.survey.now())
	if p.Down = f.newest(query); p.Down {
		p.Turn = f.Ordered("oldest")
	} else if query.State.Final() && f.Order == "oldest" {
		p.Turn = f.Ordered("")
	}
	if err == nil {
		p.listing, err = h.shared.get(v.URL, s.seq, refreshes(r), func() (listing, error) { return h.search(r.Context(), s, f, query) })
	}
	if status, text := describe(err); err != nil && status == http.StatusBadRequest && !refreshes(r) {
		p.Problem = text
		v.Live, v.Data = false, p
		return render(w, r, "jobs", v, http.StatusBadRequest)
	}
	if err != nil {
		return err
	}
	if f.ID != "" && len(p.Jobs) == 1 && p.at == "" && !refreshes(r) {
		redirect(w, jobLink(&p.Jobs[0]), "")
		return nil
	}
	if p.at != "" {
		next := f
		next.At, next.Cursor = p.at, p.cursor
		p.Next = next.To("jobs")
	}
	if p.Rows = verbsFor(v, query.State, true, f.Suppressed || f.ID != ""); f.ID == "" {
		p.Bulk = p.Rows
	}
	if p.Most = -1; !f.Narrow() {
		p.Most = counts(query.State)
	}
	columns := p.jobColumns()
	p.Jobs = sorted(p.Jobs, columns, f.Sort)
	p.Sort = headsOf(columns, f.Sort, true, func(by string) string {
		to := f
		to.Sort = by
		return to.To("jobs")
	})
	v.Live = f.ID == "" // the beginning of an ID takes many calls
	return v.show(w, r, "jobs", p)
}

// choices returns at most maxChoices queues to choose from, and the chosen one: a form
// without it would select all queues.
func choices(queues []string, chosen string) []string {
	queues = queues[:min(len(queues), maxChoices)]
	if chosen != "" && !slices.Contains(queues, chosen) {
		queues = append(queues, chosen)
	}
	return queues
}

// emptyWords are the texts for a state without jobs.
var emptyWords = map[broker.State]string{
	broker.StatePending:   "No job is waiting to run",
	broker.StateScheduled: "No job is scheduled for later",
	broker.StateActive:    "No job is running",
	broker.StateRetry:     "No job waits for a retry",
	broker.StateCompleted: "No completed job is kept",
	broker.StateDead:      "No job is dead",
	broker.StateCancelled: "No cancelled job is kept",
	broker.StateWaiting:   "No job is held",
}

// Empty returns the text for a page without jobs, unless a filter may have excluded
// them.
func (p jobsPage) Empty() string {
	state, _ := broker.ParseState(p.Filter.State) // any state is not in the map
	said := cmp.Or(emptyWords[state], "There are no jobs")
	if p.Filter.Queue != "" {
		said += " in this queue"
	}
	return said + "."
}

// search searches one queue after the other, from the start of the page, until it has
// found enough jobs or examined enough records.
func (h *Handler) search(ctx context.Context, s *snapshot, f filter, q inspect.Query) (l listing, err error) {
	if f.ID != "" {
		return h.lookup(ctx, s, f)
	}
	if q.Newest = f.newest(q); q.Newest && f.Queue == "" && f.At == "" {
		if several := holding(s, q.State); len(several) > 1 && len(several) <= maxMerged {
			return h.newestOf(ctx, s, f, q, several)
		}
	}
	l.Now, q.Limit, q.Cursor = s.survey.now(), pageRecords, f.Cursor
	finds := 0
	for _, info := range s.survey.of(f.Queue) {
		if info.Name < f.At {
			continue
		}
		if q.State != broker.StateNone && info.Counts[q.State] == 0 && f.Queue == "" && info.Name != f.At {
			continue // the counters say that there are none
		}
		if info.Name != f.At {
			q.Cursor = ""
		}
		q.Queue = info.Name
		for before := finds; ; {
			if len(l.Jobs) >= pageRows || finds == pageFinds {
				l.at, l.cursor = q.Queue, q.Cursor
				return l, nil
			}
			page, err := h.inspector.List(ctx, q)
			if err != nil {
				return l, err
			}
			if finds == before {
				l.Looked++
			}
			finds++
			l.Now = page.Now
			l.Jobs = append(l.Jobs, kept(page.Jobs, f)...)
			if q.Cursor = page.Cursor; q.Cursor == "" {
				l.Examined += len(page.Jobs)
				break
			}
			l.Examined += pageRecords
		}
	}
	return l, nil
}

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

// lookup finds a job by its ID, in each queue, or by the beginning of its ID, which means
// reading many jobs.
func (h *Handler) lookup(ctx context.Context, s *snapshot, f filter) (l listing, err error) {
	ctx, cancel := context.WithTimeout(ctx, countTime)
	defer cancel()
	l.Now = s.survey.now()
	var queues []string
	if f.Queue != "" {
		queues = append(queues, f.Queue)
	}
	l.Jobs, err = h.inspector.Lookup(ctx, f.ID, queues...)
	if err != nil && ctx.Err() != nil {
		err = badRequest("Looking for this ID takes too long here: give the whole ID and a queue, or use jobsctl show.")
	}
	return l, err
}

// whenOf returns the meaning of a job's time in a state.
func whenOf(state string) string {
	switch state {
	case "scheduled", "retry":
		return "Due"
	case "completed", "dead", "cancelled":
		return "Ended"
	}
	return "Created"
}

// TimeOf returns the time that matters in a job's state, as the table's head says.
func (p jobsPage) TimeOf(j *broker.Job) time.Time {
	switch p.When {
	case "Due":
		return j.RunAt
	case "Ended":
		return j.FinishedAt
	}
	return j.CreatedAt
}
