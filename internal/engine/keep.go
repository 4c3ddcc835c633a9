package engine

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/seed81422ce9/jobs/broker"
)

// progressInterval is how far stores of a run's progress are apart at least, unless
// a checkpoint takes it along: as often as a person who looks sees a change.
const progressInterval = time.Second

// keeping is what the handler of a run has kept, and what of it is stored. One keep
// of a run is under way at a time, and the next takes along what changed meanwhile.
// Its lock comes after that of the server.
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
	quiet   bool            // progress is not sent by itself
	changed chan struct{}   // closed when a keep was answered, and when the handler has returned
	next    time.Time       // when progress alone may be stored again
	timer   *time.Timer     // which then does so
	begun   map[string]bool // steps, by name
}

// Detached returns a run outside of a server, for tests of handlers: what is kept
// stays with the run.
func Detached(j *broker.Job) *Run { return Under(context.Background(), j) }

// Under is Detached with a context: the run has its values and ends with it, or when
// the job's timeout or deadline passes.
func Under(ctx context.Context, j *broker.Job) *Run {
	r := &Run{Job: j, started: time.Now()}
	r.parent = ctx
	r.limit(broker.NoTimeout, r.started)
	return r
}

// kept returns what the handler keeps, made when something is kept first.
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

// Kept is what the handler has kept in this run, or else what came with the job.
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

// Keep changes what is kept, and returns once that is stored. Change replaces
// slices, and does not write into them. What is out of bounds is refused, and changes
// nothing. After another error the change stays: the next keep, or the outcome of the
// run, takes it along.
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

// Progress changes the progress. It is stored a moment later, or with what else is
// kept, or with the outcome.
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

// QuietProgress ends the storing of progress by itself, which would have to wait for
// a transaction of the handler that completes the job.
func (r *Run) QuietProgress() {
	k := r.kept()
	k.mu.Lock()
	defer k.mu.Unlock()
	k.quiet = true
}

// BeginStep reports whether it is called for the first time in this run with a name.
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

// keepLaterLocked has what changed stored after a wait, and reports whether it is to
// be stored at once.
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

// storeKept has what a run keeps stored, unless that is under way or there is no need.
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

// keptLocked takes in the answer to a keep.
func (s *Server) keptLocked(item *broker.Settlement, err error, now time.Time) {
	r := s.settler.keeping[item.Job]
	delete(s.settler.keeping, item.Job)
	k := r.kept()
	k.mu.Lock()
	defer k.mu.Unlock()
	k.calling = false
	switch {
	case err == nil:
		k.stored = k.sent
	default:
		k.failed, k.err = k.sent, err
		if errors.Is(err, broker.ErrLeaseLost) && !k.over {
			k.over = true
			s.stop(r, broker.ErrLeaseLost, now)
		}
	}
	k.tell()
	k.next = now.Add(progressInterval)
	if !k.over && !k.quiet && k.version > k.sent {
		r.keepLaterLocked(k, progressInterval)
	}
}

// leave ends what the run keeps, which its outcome takes along.
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
	k.tell() // who waits although the handler has returned
	return o.With(k.now)
}

// tell wakes who waits for an answer.
func (k *keeping) tell() {
	close(k.changed)
	k.changed = make(chan struct{})
}
