package engine

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/seed81422ce9/jobs/broker"
)

// progressInterval is the minimum time between two stores of a run's progress, unless a
// checkpoint is stored: people need it no more often.
const progressInterval = time.Second

// keeping is what the handler of a run has kept, and how much of it is stored. One keep
// of a run is under way at a time; the next one stores all that changed meanwhile. Take
// Server.mu before the lock of a keeping.
type keeping struct {
	mu      sync.Mutex
	now     broker.Kept
	version int // of now
	sent    int // the version in the last keep
	stored  int // the last version that the store has
	failed  int // the last version that the store refused
	err     error
	calling bool            // a keep was not answered yet
	over    bool            // no more is sent: the handler has returned, or the lease is lost
	quiet   bool            // progress alone is not sent
	changed chan struct{}   // closed when a keep was answered, and when the handler has returned
	next    time.Time       // when progress alone may be stored again
	timer   *time.Timer     // stores it then
	begun   map[string]bool // steps that this run has begun, by name
}

// Detached returns a run without a server, for tests of handlers: what the handler keeps
// stays with the run.
func Detached(j *broker.Job) *Run { return Under(context.Background(), j) }

// Under returns a run that has no server, and the values of ctx. It ends with ctx, or
// when the job's timeout or deadline passes.
func Under(ctx context.Context, j *broker.Job) *Run {
	r := &Run{Job: j, started: time.Now()}
	r.parent = ctx
	r.limit(broker.NoTimeout, r.started)
	return r
}

// kept returns what the handler keeps. The first call makes it.
func (r *Run) kept() *keeping {
	if k := r.keeping.Load(); k != nil {
		return k
	}
	k := &keeping{changed: make(chan struct{})}
	if r.Job.Kept != nil {
		k.now = *r.Job.Kept
	}
	r.keeping.CompareAndSwap(nil, k)
	return r.keeping.Load()
}

// Kept returns what the handler has kept in this run, or else what came with the job.
func (r *Run) Kept() broker.Kept {
	if k := r.keeping.Load(); k != nil {
		k.mu.Lock()
		defer k.mu.Unlock()
		return k.now
	}
	if r.Job.Kept != nil {
		return *r.Job.Kept
	}
	return broker.Kept{}
}

// Keep changes what is kept, and returns once that is stored. change must replace slices
// and not write into them. Values outside the limits are refused, and change nothing.
// After any other error the change stays, and is stored by the next keep or with the
// outcome of the run.
func (r *Run) Keep(ctx context.Context, change func(*broker.Kept)) error {
	k := r.kept()
	k.mu.Lock()
	defer k.mu.Unlock()
	to := k.now
	change(&to)
	if err := to.Check(); err != nil {
		return err
	}
	if k.over {
		return broker.ErrLeaseLost
	}
	k.now = to
	k.version++
	if r.server == nil {
		return nil
	}
	for mine := k.version; k.stored < mine; {
		switch {
		case k.failed >= mine:
			return k.err
		case k.over && !k.calling:
			return broker.ErrLeaseLost
		}
		changed := k.changed
		k.mu.Unlock()
		r.server.storeKept(r)
		var err error
		select {
		case <-changed:
		case <-ctx.Done():
			err = context.Cause(ctx)
		case <-r.server.done:
			err = ErrShutdown
		}
		k.mu.Lock()
		if err != nil && k.stored < mine {
			return err
		}
	}
	return nil
}

// Progress changes the progress. It is stored within progressInterval, with the next
// keep, or with the outcome.
func (r *Run) Progress(p broker.Progress) {
	k := r.kept()
	k.mu.Lock()
	if k.over || k.now.Progress == p {
		k.mu.Unlock()
		return
	}
	k.now.Progress = p
	k.version++
	now := false
	if r.server != nil && !k.quiet && !k.calling {
		now = r.keepLaterLocked(k, time.Until(k.next))
	}
	k.mu.Unlock()
	if now {
		r.server.storeKept(r)
	}
}

// QuietProgress stops writes that store only progress: if a transaction of the handler
// completes the job, such a write would have to wait for the transaction.
func (r *Run) QuietProgress() {
	k := r.kept()
	k.mu.Lock()
	defer k.mu.Unlock()
	k.quiet = true
}

// BeginStep reports whether this is the first call with this name in the run.
func (r *Run) BeginStep(name string) bool {
	k := r.kept()
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.begun[name] {
		return false
	}
	if k.begun == nil {
		k.begun = make(map[string]bool)
	}
	k.begun[name] = true
	return true
}

// keepLaterLocked waits in the background, and then stores what has changed. If there is
// no time to wait, it returns true, and the caller has to store at once.
func (r *Run) keepLaterLocked(k *keeping, wait time.Duration) (now bool) {
	if wait <= 0 {
		return true
	}
	if k.timer == nil {
		k.timer = time.AfterFunc(wait, func() {
			k.mu.Lock()
			k.timer = nil
			quiet := k.quiet
			k.mu.Unlock()
			if !quiet {
				r.server.storeKept(r)
			}
		})
	}
	return false
}

// storeKept stores what a run keeps, unless a keep is under way or all of it is stored.
func (s *Server) storeKept(r *Run) {
	s.mu.Lock()
	defer s.mu.Unlock()
	k := r.kept()
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.over || k.calling || k.stored >= k.version {
		return
	}
	k.calling, k.sent = true, k.version
	if s.settler.keeping == nil {
		s.settler.keeping = make(map[*broker.Job]*Run)
	}
	s.settler.keeping[r.Job] = r
	s.settleLocked(r.worker, r.Job, broker.Keep(k.now))
}

// keptLocked handles the answer to a keep.
func (s *Server) keptLocked(item *broker.Settlement, err error, now time.Time) {
	r := s.settler.keeping[item.Job]
	delete(s.settler.keeping, item.Job)
	k := r.kept()
	k.mu.Lock()
	defer k.mu.Unlock()
	k.calling = false
	if err == nil {
		k.stored = k.sent
	} else if k.failed, k.err = k.sent, err; errors.Is(err, broker.ErrLeaseLost) && !k.over {
		k.over = true
		s.stop(r, broker.ErrLeaseLost, now)
	}
	k.wake()
	k.next = now.Add(progressInterval)
	if !k.over && !k.quiet && k.version > k.sent {
		r.keepLaterLocked(k, progressInterval)
	}
}

// leave ends the keeping of a run. It returns the outcome with all that was kept.
func (r *Run) leave(o broker.Outcome) broker.Outcome {
	k := r.keeping.Load()
	if k == nil {
		return o
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.over = true
	if k.timer != nil {
		k.timer.Stop()
	}
	k.wake() // calls of Keep that go on after the handler has returned
	return o.With(k.now)
}

// wake wakes all calls of Keep.
func (k *keeping) wake() {
	close(k.changed)
	k.changed = make(chan struct{})
}
