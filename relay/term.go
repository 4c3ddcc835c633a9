package relay

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/oklog/ulid/v2"

	"github.com/seed81422ce9/jobs/broker"
	"github.com/seed81422ce9/jobs/internal/sleep"
)

// term is a period in which a relay moves jobs under one worker ID. It ends after
// any call that the source may or may not have applied. A later term, of this or
// another relay, then takes over the held jobs, so that there is one way to recover.
// Except for the heartbeat, a term belongs to one goroutine.
type term struct {
	*Relay
	worker string
	fence  int64 // of the mark

	alive context.Context // ends when the term is lost
	lose  context.CancelCauseFunc

	number  int64               // of the last settle
	batch   []item              // held jobs, in the order in which to send them
	done    []broker.Settlement // decided, to be settled
	idle    bool                // the last claim found nothing
	nextDue time.Duration       // time until a job is due, if idle; zero if none is known
	offset  time.Duration       // how far the source's clock is ahead
	target  *trouble
	refused int   // how many jobs the last call refused
	refusal []any // log attributes of the first of them

	cancels sync.Map // IDs of held jobs whose cancellation was requested
}

// item is a held job.
type item struct {
	job *broker.Job
	// fresh says that no relay can have sent it before. Then a job with its ID at the
	// target is another job.
	fresh bool
}

var (
	errLost  = errors.New("another relay has taken over, or the source has given up this one")
	errOther = errors.New("other workers serve the relay's source queue; only the relay may claim from it")
)

// callTimeout bounds each call. An enqueue of a batch takes about 20 ms.
const callTimeout = 10 * time.Second

// lead waits until no other relay moves the jobs, ends the series of failures, and moves the jobs. It
// returns nil when ctx has ended or, with StopWhenEmpty, no job is left.
func (r *Relay) lead(ctx context.Context, trouble *trouble) error {
	if err := r.apart(ctx); err != nil {
		return err
	}
	t := &term{Relay: r, worker: ulid.Make().String(), target: r.trouble("jobs: the relay keeps its jobs, the target does not take them")}
	if err := t.elect(ctx); err != nil {
		return err
	}
	t.alive, t.lose = context.WithCancelCause(context.WithoutCancel(ctx))
	both, cancel := context.WithCancel(t.alive) // ends with ctx or the term
	defer cancel()
	defer context.AfterFunc(ctx, cancel)()

	var upkeep sync.WaitGroup
	err := t.register()
	if err == nil {
		upkeep.Go(t.heartbeat)
		upkeep.Go(t.prune)
		err = t.inherit(both)
	}
	if err == nil {
		trouble.over()
		t.active(true)
		t.holding()
		r.cfg.Logger.Info("jobs: the relay moves jobs", "queue", r.cfg.FromQueue, "target", r.cfg.ToQueue, "worker", t.worker,
			"inherited", len(t.batch))
		err = t.carry(ctx, both)
		t.active(false)
	}
	if cause := context.Cause(t.alive); cause != nil {
		err = cause
	}
	t.lose(errLost)
	upkeep.Wait()
	t.end()
	return err
}

func (r *Relay) active(is bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.stats.Active, r.stats.Held, r.since, r.stats.Err = is, 0, time.Time{}, nil
}

// holding updates Stats with the jobs that the relay holds.
func (t *term) holding() {
	var oldest time.Time
	for _, it := range t.batch {
		if oldest.IsZero() || it.job.CreatedAt.Before(oldest) {
			oldest = it.job.CreatedAt
		}
	}
	if !oldest.IsZero() {
		oldest = oldest.Add(-t.offset)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.stats.Held, t.since = len(t.batch), oldest
}

// elect waits until this relay holds the mark. The mark selects the relay that moves
// jobs; inherit ensures that no other does.
func (t *term) elect(ctx context.Context) error {
	for {
		mark, err := call(ctx, t.cfg.From.Mark, t.marking(broker.MarkTake))
		if err != nil {
			return err
		}
		if mark.Held {
			t.fence = mark.Fence
			return nil
		}
		if err := sleep.For(ctx, sleep.Jitter(t.cfg.Lease/5, 0.5)); err != nil {
			return err
		}
	}
}

// marking returns a request about the mark.
func (t *term) marking(action broker.MarkAction) broker.MarkRequest {
	return broker.MarkRequest{Action: action, Name: t.mark, Owner: t.worker, Fence: t.fence, TTL: t.cfg.Lease}
}

func (t *term) register() error {
	host, _ := os.Hostname()
	queues := []string{t.cfg.FromQueue}
	reply, err := call(t.alive, t.cfg.From.Renew, broker.RenewRequest{Worker: t.worker, Queues: queues, Lease: t.cfg.Lease, Register: true,
		Info: broker.WorkerInfo{ID: t.worker, Host: host, PID: os.Getpid(), Program: "relay to " + t.cfg.ToQueue, Concurrency: t.cfg.Batch,
			Queues: queues, StartedAt: time.Now()}})
	if err == nil && reply.Lost {
		err = errLost
	}
	return err
}

// heartbeat renews the worker and the mark until the term ends or one of them is
// lost.
func (t *term) heartbeat() {
	renewed := time.Now()
	for wait := t.cfg.Lease / 3; sleep.For(t.alive, wait) == nil; {
		sent := time.Now()
		err := t.renew()
		switch {
		case err == nil:
			renewed, wait = sent, t.cfg.Lease/3
		case errors.Is(err, errLost):
			t.lose(err)
		case time.Since(renewed) >= t.cfg.Lease:
			t.lose(fmt.Errorf("it could not be renewed for a whole lease: %w", err))
		default:
			wait = t.cfg.Lease / 10
		}
	}
}

func (t *term) renew() error {
	ctx, cancel := context.WithTimeout(t.alive, t.cfg.Lease/3) // leaves time for another attempt
	defer cancel()
	reply, err := call(ctx, t.cfg.From.Renew, broker.RenewRequest{Worker: t.worker, Queues: []string{t.cfg.FromQueue}, Lease: t.cfg.Lease})
	if err != nil {
		return err
	}
	for _, ref := range reply.Cancel {
		t.cancels.Store(ref.ID, true)
	}
	mark, err := call(ctx, t.cfg.From.Mark, t.marking(broker.MarkKeep))
	if err == nil && (reply.Lost || !mark.Held) {
		err = errLost
	}
	return err
}

// prune removes records at the source whose retention is over, since the queue may have no server that
// prunes it.
func (t *term) prune() {
	const every = time.Minute
	for sleep.For(t.alive, sleep.Jitter(every, 0.5)) == nil {
		for range 100 { // each call takes a few milliseconds
			reply, err := call(t.alive, t.cfg.From.Prune, broker.PruneRequest{Queues: []string{t.cfg.FromQueue}, Max: broker.MaxClaim})
			if err != nil || !reply.More {
				break
			}
		}
	}
}

// inherit waits until no other worker can claim from the queue, and takes over the jobs that other
// workers held. It lists the workers before the reclaim: a worker that is not listed has ended, or its
// leases have run out. After the reclaim it has certainly ended, so even a claim of it that is under way
// gets no job.
func (t *term) inherit(ctx context.Context) error {
	trouble := t.trouble("jobs: the relay waits for other workers of its queue")
	for began := time.Now(); ; {
		reply, err := call(t.alive, t.cfg.From.Queues, broker.QueuesRequest{Names: []string{t.cfg.FromQueue}, Workers: true})
		if err != nil {
			return err
		}
		if err := t.reclaim(ctx); err != nil {
			return err
		}
		var others []broker.WorkerInfo
		for _, q := range reply.Queues {
			others = append(others, slices.DeleteFunc(q.Workers, func(w broker.WorkerInfo) bool { return w.ID == t.worker })...)
		}
		if len(others) == 0 {
			break
		}
		if time.Since(began) > 2*t.cfg.Lease {
			trouble.has(fmt.Errorf("%w: %s", errOther, others[0].ID))
		}
		left := time.Duration(0) // until the leases of all have run out
		for _, w := range others {
			left = max(left, w.Until.Sub(reply.Now))
		}
		if err := sleep.For(ctx, max(min(left, t.cfg.Lease/5, time.Second), 10*time.Millisecond)); err != nil {
			return err
		}
	}
	trouble.over()
	// Reclaim returns jobs in no particular order.
	slices.SortStableFunc(t.batch, func(a, b item) int {
		return cmp.Or(a.job.CreatedAt.Compare(b.job.CreatedAt), cmp.Compare(a.job.ID, b.job.ID))
	})
	return nil
}

// reclaim takes over the jobs of workers whose leases ran out.
func (t *term) reclaim(ctx context.Context) error {
	for more := true; more; {
		reply, err := call(t.alive, t.cfg.From.Reclaim, broker.ReclaimRequest{Worker: t.worker, Queues: []string{t.cfg.FromQueue},
			Max: broker.MaxClaim, Bytes: stepBytes})
		if err != nil {
			return err
		}
		for i := range reply.Jobs {
			t.batch = append(t.batch, item{job: &reply.Jobs[i]})
		}
		t.clock(reply.Now)
		if more = reply.More; more && len(reply.Jobs) == 0 { // another process is reclaiming the rest
			if err := sleep.For(ctx, 10*time.Millisecond); err != nil {
				return err
			}
		}
	}
	return nil
}

// clock remembers how far the source's clock is ahead.
func (t *term) clock(now time.Time) {
	if !now.IsZero() {
		t.offset = time.Until(now)
	}
}

// end retires the worker and drops the mark. If the worker holds jobs, end lets its
// lease run out instead: releasing the jobs would not keep their order.
func (t *term) end() {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.alive), 2*time.Second)
	defer cancel()
	holds, err := t.holds(ctx)
	if err == nil && !holds {
		_, err = t.cfg.From.Retire(ctx, broker.RetireRequest{Worker: t.worker, Queues: []string{t.cfg.FromQueue}})
	}
	if err == nil {
		_, err = t.cfg.From.Mark(ctx, t.marking(broker.MarkDrop))
	}
	if holds || err != nil {
		t.cfg.Logger.Warn("jobs: the relay lets its lease run out; then another relay takes its jobs", "queue", t.cfg.FromQueue,
			"worker", t.worker, "lease", t.cfg.Lease, "error", err)
	}
}

// holds reports whether this worker has leases at the source, including those of a
// claim whose answer was lost.
func (t *term) holds(ctx context.Context) (bool, error) {
	q := broker.Query{Queue: t.cfg.FromQueue, Worker: t.worker, NoPayload: true}
	for {
		page, err := t.cfg.From.Find(ctx, q)
		if err != nil || len(page.Jobs) > 0 || page.Cursor == "" {
			return len(page.Jobs) > 0, err
		}
		q.Cursor = page.Cursor
	}
}

// call makes a call to a store within callTimeout.
func call[Request, Reply any](ctx context.Context, f func(context.Context, Request) (Reply, error), req Request) (Reply, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	return f(ctx, req)
}
