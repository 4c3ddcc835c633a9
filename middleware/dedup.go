package middleware

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/seed81422ce9/jobs"
	"github.com/seed81422ce9/jobs/broker"
	"github.com/seed81422ce9/jobs/internal/field"
	"github.com/seed81422ce9/jobs/internal/guard"
	"github.com/seed81422ce9/jobs/internal/putoff"
)

// ErrBusy: another job with the same key is running. The job was put off
// without a charge.
var ErrBusy = errors.New("another job with the same key is running")

// Marks keeps the markers of Dedup. Every broker.Broker is one: in memory, in
// Redis and in Postgres. It need not be the broker that holds the jobs.
type Marks interface {
	Mark(ctx context.Context, req broker.MarkRequest) (broker.Marked, error)
}

// DedupConfig configures Dedup. Marks is required, the rest has defaults.
type DedupConfig struct {
	Marks Marks

	// Key names the effect of a job: two jobs of one type and key have one
	// effect between them. A job with key "" is processed without a marker. Nil
	// means (*jobs.Job).IdempotencyKey. It is stored as a SHA-256 without a
	// secret, which makes it short and hides nothing that can be guessed: do not
	// make it from what payloads are encrypted for, or hash it with a secret.
	Key func(*jobs.Job) string

	// Keep is how long a finished effect is remembered, from its end or from the
	// last redelivery of the job that had it. Choose it
	// longer than the longest time between two jobs for the same effect, and
	// than any job can wait for its retry. Zero means one day.
	Keep time.Duration

	// Hold is how long a run that never reports its end, because its process
	// died, keeps other jobs with its key away; its own redelivery it never
	// keeps away. It must be longer than any run takes. Zero means until the
	// run's time is up (see jobs.WithTimeout) and a minute more, or one day for
	// a run without a limit.
	Hold time.Duration

	// Wait is about how long a job is put off that finds another one with its
	// key running, the first time. Each time it is put off half as long again,
	// up to 5 minutes, or Wait if that is longer, and a tenth more or less at
	// random. Zero means 5 seconds.
	Wait time.Duration

	// OnDuplicate, when not nil, is called for each delivery that was answered
	// from its marker, before it is completed: for metrics and logs. It is
	// called from several goroutines.
	OnDuplicate func(ctx context.Context, job *jobs.Job)

	// Logger tells of markers that could not be written. Nil means
	// slog.Default().
	Logger *slog.Logger
}

// Defaults of DedupConfig.
const (
	defaultKeep  = 24 * time.Hour
	defaultHold  = 24 * time.Hour
	holdGrace    = time.Minute
	defaultWait  = 5 * time.Second
	longestWait  = 5 * time.Minute
	markTimeout  = 5 * time.Second // of one call to the store of markers
	markAttempts = 3               // at recording an effect that has happened
)

// Dedup returns middleware that makes processing idempotent: under each
// business key the handler succeeds once, and every further delivery of the
// same job, or of another job with the same type and key, is completed with
// the result of that success and does not reach the handler.
//
// A marker is stored before the handler runs and says "running"; its owner is
// the job. When the handler has returned nil it says "done" and holds the
// result; when the handler failed, or panicked, it is freed, and the next
// delivery runs. A job that finds another job's marker running is put off
// without a charge (ErrBusy).
//
// The effect of the handler and the marker are in two systems, so windows
// remain. What happens when the process dies:
//
//   - Before the marker is stored, or while it is: the job is delivered again,
//     and runs. It owns the marker, whether that was stored or not.
//   - After that and before the effect: the same. The job resumes under its
//     own marker at once, and a run of it that is left over can no longer free
//     it; other jobs with the key wait, for at most Hold.
//   - Between the effect and "done", or while "done" is written: if "done" was
//     stored, the redelivery is a no-op. If not, the handler runs again and
//     finds its own effect. This is the window in which an effect can happen
//     twice, a round trip long. Close it where the effect is: by passing the
//     key on (a payment provider's idempotency key, a unique column), or, on
//     Postgres, by pgbroker.CompleteTx, which needs no Dedup.
//   - After "done", before the job is settled: the redelivery is a no-op that
//     returns the stored result.
//
// When the store of markers cannot be reached before the run, the delivery
// fails like any other and is retried by policy. When "done" cannot be stored,
// after three attempts, the job is completed all the same, since its effect has
// happened, and that is logged: until Hold is over others with the key wait,
// and after it they run. A lost answer does no harm: every write can be
// repeated.
//
// Two at once: of two jobs with one key the store lets one in. Two runs of the
// same job overlap only where its lease does (a process that was paused for
// longer than its lease; see jobs.Job.Fence): the marker is the later one's, but
// both run, and whichever succeeds records it. Time is the marker store's: a clock of that store that jumps ahead ends
// Hold and Keep early, workers' own clocks matter only in that a wrong rate
// makes Hold shorter or longer.
//
// A result over 1 MiB less a byte is not kept; duplicates are completed
// without one.
func Dedup(cfg DedupConfig) jobs.Middleware {
	if cfg.Marks == nil {
		field.Refuse("DedupConfig.Marks", "is nil; any broker will do")
	}
	if cfg.Hold < 0 || cfg.Hold > broker.MaxDelay {
		field.Refuse("DedupConfig.Hold", "is %v; use more than zero and at most %v, or 0 for as long as the run may take", cfg.Hold,
			time.Duration(broker.MaxDelay))
	}
	field.DurationOr("DedupConfig.Keep", &cfg.Keep, defaultKeep)
	field.DurationOr("DedupConfig.Wait", &cfg.Wait, defaultWait)
	if cfg.Key == nil {
		cfg.Key = (*jobs.Job).IdempotencyKey
	}
	cfg.Logger = guard.Logger(cfg.Logger)
	told := &guard.Callbacks{Log: cfg.Logger}
	return func(next jobs.Handler) jobs.Handler { return &dedup{DedupConfig: cfg, next: next, told: told} }
}

type dedup struct {
	DedupConfig
	next jobs.Handler
	told *guard.Callbacks
}

// What a marker says: its first byte. The result stands behind markDone.
const (
	markRunning = 'r'
	markDone    = 'd'
)

func (d *dedup) ProcessJob(ctx context.Context, job *jobs.Job) (err error) {
	key := d.Key(job)
	if key == "" {
		return d.next.ProcessJob(ctx, job)
	}
	m := &marker{d: d, job: job, name: "dedup:" + digest(job.Type(), key), owner: digest(job.Queue(), job.ID())}
	marked, err := m.take(ctx, d.hold(ctx), []byte{markRunning})
	switch {
	case err != nil:
		return fmt.Errorf("the marker of the job's key could not be taken: %w", err)
	case len(marked.Value) > 0 && marked.Value[0] == markDone:
		if marked.Held { // the job's own: taking it set its end to that of a run
			m.fence = marked.Fence
			if _, err := m.call(ctx, broker.MarkRequest{Action: broker.MarkKeep, TTL: d.Keep}); err != nil {
				return fmt.Errorf("the marker of the job's key could not be kept: %w", err)
			}
		}
		if d.OnDuplicate != nil {
			d.told.Call("DedupConfig.OnDuplicate", func() { d.OnDuplicate(ctx, job) })
		}
		if result := marked.Value[1:]; len(result) > 0 {
			job.SetResult(result)
		}
		return nil
	case !marked.Held:
		return fmt.Errorf("%w: %w", ErrBusy, jobs.Snooze(putoff.Growing(d.Wait, max(d.Wait, longestWait), job.Record().Snoozes)))
	}
	m.fence = marked.Fence
	done := false
	defer func() {
		if !done { // it failed, panicked, or ended its goroutine
			m.abandon(ctx)
		}
	}()
	if err := d.next.ProcessJob(ctx, job); err != nil {
		return err
	}
	done = true
	m.finish(ctx)
	return nil
}

// hold is how long the marker of a run that begins now may say "running".
func (d *dedup) hold(ctx context.Context) time.Duration {
	if d.Hold > 0 {
		return d.Hold
	}
	if end, limited := ctx.Deadline(); limited {
		return min(max(time.Until(end), 0)+holdGrace, broker.MaxDelay)
	}
	return defaultHold
}

// marker is the marker of one run.
type marker struct {
	d     *dedup
	job   *jobs.Job
	name  string
	owner string
	fence int64
}

func (m *marker) take(ctx context.Context, ttl time.Duration, value []byte) (broker.Marked, error) {
	return m.call(ctx, broker.MarkRequest{Action: broker.MarkTake, TTL: ttl, Value: value})
}

// call makes one call about the marker. It ends with ctx, or in time by
// itself.
func (m *marker) call(ctx context.Context, req broker.MarkRequest) (broker.Marked, error) {
	ctx, cancel := context.WithTimeout(ctx, markTimeout)
	defer cancel()
	req.Name, req.Owner, req.Fence = m.name, m.owner, m.fence
	return m.d.Marks.Mark(ctx, req)
}

var errOutlived = errors.New("the run took longer than its hold, and another job has taken the key")

// finish records that the effect has happened, also when the run's context has
// ended meanwhile. A marker that lapsed during the run, or that a later delivery
// of the same job has taken, is taken anew: the effect is the same.
func (m *marker) finish(ctx context.Context) {
	ctx = context.WithoutCancel(ctx)
	value := []byte{markDone}
	if result := m.job.Result(); len(result) < broker.MaxResult {
		value = append(value, result...)
	}
	var err error
	for range markAttempts {
		var marked broker.Marked
		marked, err = m.call(ctx, broker.MarkRequest{Action: broker.MarkSet, TTL: m.d.Keep, Value: value})
		if err == nil && !marked.Held {
			marked, err = m.retake(ctx, value)
		}
		if err == nil && !marked.Held {
			err = errOutlived
		}
		if err == nil || err == errOutlived {
			break
		}
	}
	if err != nil {
		m.d.Logger.Warn("jobs: an effect could not be recorded, it can happen twice",
			"queue", m.job.Queue(), "id", m.job.ID(), "type", m.job.Type(), "error", err)
	}
}

// retake takes the marker, which another job must not have, and sets its value,
// which is kept when it was this job's.
func (m *marker) retake(ctx context.Context, value []byte) (broker.Marked, error) {
	marked, err := m.take(ctx, m.d.Keep, value)
	if err != nil || !marked.Held {
		return marked, err
	}
	m.fence = marked.Fence
	return m.call(ctx, broker.MarkRequest{Action: broker.MarkSet, TTL: m.d.Keep, Value: value})
}

// abandon frees the marker, so that others need not wait, unless a later
// delivery of the job has taken it. After the lease was lost that one may be
// about to, and the marker is left to it.
func (m *marker) abandon(ctx context.Context) {
	if errors.Is(context.Cause(ctx), jobs.ErrLeaseLost) {
		return
	}
	if _, err := m.call(context.WithoutCancel(ctx), broker.MarkRequest{Action: broker.MarkDrop}); err != nil {
		m.d.Logger.Warn("jobs: the marker of a failed job could not be freed, others with its key wait for it",
			"queue", m.job.Queue(), "id", m.job.ID(), "type", m.job.Type(), "error", err)
	}
}

// digest names a pair of strings in a fixed length, whatever they hold.
func digest(a, b string) string {
	h := sha256.New()
	fmt.Fprintf(h, "%d:%s%s", len(a), a, b)
	return hex.EncodeToString(h.Sum(nil))
}
