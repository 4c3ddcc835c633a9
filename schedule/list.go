package schedule

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"github.com/seed81422ce9/jobs/broker"
	"github.com/seed81422ce9/jobs/internal/reserved"
)

// Info describes a schedule.
type Info struct {
	ID      string
	Owner   string
	Spec    string // the cron line, or @every
	Zone    string
	Start   time.Time
	End     time.Time
	Jitter  time.Duration
	Expiry  time.Duration
	Misfire Misfire
	Overlap Overlap
	Queue   string // of the jobs that it enqueues
	Type    string
	Payload []byte
	Created time.Time

	Now     time.Time // the store's, when this was read
	Status  Status
	State   broker.State // of the schedule's own job
	Next    time.Time    // when the next tick is due; zero if there is none
	Due     time.Time    // the oldest tick that should be enqueued and is not; if there is none, Next
	Last    time.Time    // the last tick that was run
	LastJob string       // the ID of its job
	// LastQueue is the queue of that job. It differs from Queue if middleware of the client moved the job.
	LastQueue string
	Buffered  time.Time // a tick that waits until the last one's job has ended
	Paused    *Pause
	Counts    Counts
	// Error says why the schedule cannot run, or why its last tick was not
	// enqueued.
	Error string
}

// Get describes one schedule. The error is ErrNotFound if there is none.
func (s *Schedules) Get(ctx context.Context, id string) (Info, error) {
	var now time.Time
	var info Info
	job, err := s.job(ctx, id)
	if err == nil {
		now, err = s.broker.Ping(ctx)
	}
	if err == nil {
		info, err = s.info(ctx, job, now)
	}
	return info, about(err, "get schedule", id)
}

// List describes all schedules of the store, of every owner, sorted by ID. It makes a call to the store
// for each schedule, several at once. If there are very many schedules, use Page.
func (s *Schedules) List(ctx context.Context) (all []Info, err error) {
	for cursor, first := "", true; first || cursor != ""; first = false {
		var some []Info
		if some, cursor, err = s.Page(ctx, cursor); err != nil {
			return nil, err
		}
		all = append(all, some...)
	}
	sortByID(all)
	return slices.CompactFunc(all, func(a, b Info) bool { return a.ID == b.ID }), nil
}

func sortByID(all []Info) {
	slices.SortFunc(all, func(a, b Info) int { return cmp.Compare(a.ID, b.ID) })
}

// Page describes up to 500 schedules, of every owner, and returns the cursor of
// the next page, which is empty at the end. Start with an empty cursor. A page is
// sorted by ID; the pages come in the store's order.
func (s *Schedules) Page(ctx context.Context, cursor string) (some []Info, next string, err error) {
	some, next, err = s.page(ctx, cursor)
	return some, next, about(err, "list schedules", "")
}

const pageSize = 500

func (s *Schedules) page(ctx context.Context, cursor string) (some []Info, next string, err error) {
	if err := s.check(ctx); err != nil {
		return nil, "", err
	}
	now, err := s.broker.Ping(ctx)
	if err != nil {
		return nil, "", err
	}
	page, err := s.broker.Find(ctx, broker.Query{Queue: Queue, Key: jobKey, Suppressed: true, Limit: pageSize, Cursor: cursor})
	if err != nil {
		return nil, "", err
	}
	some = make([]Info, len(page.Jobs))
	err = reserved.All(len(some), func(i int) (err error) {
		some[i], err = s.info(ctx, &page.Jobs[i], now)
		return err
	})
	if err != nil {
		return nil, "", err
	}
	sortByID(some)
	return some, page.Cursor, nil
}

// info describes a schedule by its job and its state.
func (s *Schedules) info(ctx context.Context, job *broker.Job, now time.Time) (Info, error) {
	info := Info{ID: job.ID, Now: now, Status: StatusUnreadable, State: job.State}
	r, err := decode(job.Payload)
	if err == nil {
		info.Owner, info.Spec, info.Zone, info.Start, info.End = r.Owner, r.Spec, r.Zone, r.Start, r.End
		info.Jitter, info.Expiry, info.Misfire, info.Overlap = time.Duration(r.Jitter), time.Duration(r.Expiry), r.Misfire, r.Overlap
		info.Created = r.Born
		info.Queue, info.Type, info.Payload = r.Job.Queue, r.Job.Type, r.Job.payload()
	}
	if why := stopped(job); why != "" {
		info.Status, info.Error = StatusStopped, why
	}
	var p *plan
	if err == nil {
		p, err = r.plan(job.ID)
	}
	if err != nil {
		info.Error = err.Error()
		return info, nil
	}
	var read state
	there, err := s.states().Peek(ctx, job.ID, &read)
	if err != nil && !errors.Is(err, broker.ErrMalformed) && !errors.Is(err, broker.ErrNewerForm) {
		return info, err
	}
	st := state{Through: r.Since, Paused: r.paused()}
	if job.Deliveries > 0 {
		st.Through = now // in case the store has lost the schedule's state
	}
	if there && !errors.Is(err, broker.ErrMalformed) && read.Born.Equal(r.Born) {
		st = read
	}
	info.Paused, info.Counts, info.Buffered = st.Paused, st.Counts, st.Buffered
	if info.Error == "" {
		info.Error = st.Error
	}
	if st.Last != nil {
		info.Last, info.LastJob, info.LastQueue = st.Last.At, st.Last.ID, st.Last.Queue
	}
	from := r.from(st.Through)
	ahead := isAhead(from, now)
	if ahead {
		from = reserved.When(now)
	}
	if next, ok := p.after(from); ok {
		following, _ := p.after(next)
		info.Next = p.dueAt(next, following)
	}
	info.Due = info.Next
	if len(st.Pending) > 0 {
		info.Due = st.Pending[0].At
	}
	if info.Status != StatusStopped {
		info.Status = info.status(&st, ahead, job.RunAt)
	}
	return info, nil
}

func (j *job) payload() []byte {
	if len(j.Bytes) > 0 {
		return j.Bytes
	}
	return []byte(j.Payload)
}
