package schedule

import (
	"cmp"
	"context"
	"encoding/json"
	"slices"
	"sync"
	"time"

	"github.com/seed81422ce9/jobs/broker"
)

// Info describes a schedule.
type Info struct {
	ID      string        `json:"id"`
	Owner   string        `json:"owner"`
	Spec    string        `json:"spec"` // the line of cron, or @every
	Zone    string        `json:"zone,omitempty"`
	Start   time.Time     `json:"start,omitzero"`
	End     time.Time     `json:"end,omitzero"`
	Jitter  time.Duration `json:"jitter_ns,omitzero"`
	Misfire Misfire       `json:"misfire"`
	Overlap Overlap       `json:"overlap"`
	Queue   string        `json:"queue"` // of the jobs that it enqueues
	Type    string        `json:"type"`
	Payload []byte        `json:"-"`

	State    broker.State `json:"state"`             // of the schedule's own job
	Next     time.Time    `json:"next,omitzero"`     // when the next tick is due; zero if there is none
	Last     time.Time    `json:"last,omitzero"`     // the last tick that was run
	LastJob  string       `json:"last_job,omitzero"` // the ID of its job
	Buffered time.Time    `json:"buffered,omitzero"` // a tick that waits for the end of the last one's job
	Paused   *Pause       `json:"paused,omitempty"`
	Counts   Counts       `json:"counts"`
	// Error says why the schedule cannot run, or why its last tick was not
	// enqueued.
	Error string `json:"error,omitempty"`
}

// Get describes one schedule. The error is ErrNotFound if there is none.
func (s *Schedules) Get(ctx context.Context, id string) (Info, error) {
	job, err := s.job(ctx, id)
	if err != nil {
		return Info{}, about(err, "get schedule", id)
	}
	info, err := s.info(ctx, job)
	return info, about(err, "get schedule", id)
}

// List describes all schedules of the store, of every owner, sorted by ID.
func (s *Schedules) List(ctx context.Context) ([]Info, error) {
	if err := s.check(ctx); err != nil {
		return nil, about(err, "list schedules", "")
	}
	var all []Info
	err := s.each(ctx, func(page []broker.Job) error {
		infos := make([]Info, len(page))
		errs := make([]error, len(page))
		var reading sync.WaitGroup
		tokens := make(chan struct{}, readers)
		for i := range page {
			tokens <- struct{}{}
			reading.Go(func() {
				infos[i], errs[i] = s.info(ctx, &page[i])
				<-tokens
			})
		}
		reading.Wait()
		all = append(all, infos...)
		return cmp.Or(errs...)
	})
	slices.SortFunc(all, func(a, b Info) int { return cmp.Compare(a.ID, b.ID) })
	return slices.CompactFunc(all, func(a, b Info) bool { return a.ID == b.ID }), about(err, "list schedules", "")
}

// readers is how many states are read at once for a list.
const readers = 16

// each calls f with pages of all schedules.
func (s *Schedules) each(ctx context.Context, f func([]broker.Job) error) error {
	q := broker.Query{Queue: Queue, Key: jobKey, Suppressed: true, Limit: 500}
	for {
		page, err := s.find(ctx, q)
		if err != nil {
			return err
		}
		if err := f(page.Jobs); err != nil {
			return err
		}
		if q.Cursor = page.Cursor; q.Cursor == "" {
			return nil
		}
	}
}

// info describes a schedule by its job and its state.
func (s *Schedules) info(ctx context.Context, job *broker.Job) (Info, error) {
	info := Info{ID: job.ID, State: job.State}
	r, err := decode(job.Payload)
	if err == nil {
		info.Owner, info.Spec, info.Zone, info.Start, info.End = r.Owner, r.Spec, r.Zone, r.Start, r.End
		info.Jitter, info.Misfire, info.Overlap = time.Duration(r.Jitter), r.Misfire, r.Overlap
		info.Queue, info.Type, info.Payload = r.Job.Queue, r.Job.Type, r.Job.payload()
	}
	if job.State == broker.StateDead {
		info.Error = "it is dead: " + job.Reason.String() + ": " + job.Errors.Last().Message
	}
	var p *plan
	if err == nil {
		p, err = r.plan(job.ID)
	}
	if err != nil {
		info.Error = err.Error()
		return info, nil
	}
	m, err := s.mark(ctx, broker.MarkRequest{Action: broker.MarkRead, Name: markPrefix + job.ID})
	if err != nil {
		return info, err
	}
	st := state{Through: r.Since}
	if m.Held {
		var read state
		if err := json.Unmarshal(m.Value, &read); err == nil && read.Born.Equal(r.Born) {
			st = read
		}
	}
	info.Paused, info.Counts, info.Buffered = st.Paused, st.Counts, st.Buffered
	if info.Error == "" {
		info.Error = st.Error
	}
	if st.Last != nil {
		info.Last, info.LastJob = st.Last.At, st.Last.ID
	}
	if next, ok := p.after(later(st.Through, r.Since)); ok {
		following, _ := p.after(next)
		info.Next = p.dueAt(next, following)
	}
	return info, nil
}

func (j *job) payload() []byte {
	if len(j.Bytes) > 0 {
		return j.Bytes
	}
	return []byte(j.Payload)
}
