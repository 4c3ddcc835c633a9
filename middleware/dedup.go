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

// ErrBusy says that another job with the same key is running. The job was snoozed
// without a charge.
var ErrBusy = errors.New("another job with the same key is running")

// Marks stores the markers of Dedup. Every broker.Broker implements it; this can be another broker than
// the one that stores the jobs.
type Marks interface {
	Mark(ctx context.Context, req broker.MarkRequest) (broker.Marked, error)
}

// DedupConfig configures Dedup. Marks is required, the rest has defaults.
type DedupConfig struct {
	// Marks stores the markers: a broker, which need not be the one that stores the jobs. It is required.
	Marks Marks

	// Key returns the name of a job's effect: all jobs of one type and key together
	// have one effect. A job with key "" is processed without a marker. Nil means
	// (*jobs.Job).IdempotencyKey. The store gets the key's SHA-256, made without a secret: anybody who
	// reads it can test guesses of the key. So do not put confidential data into the key, or hash it
	// with a secret first.
	Key func(*jobs.Job) string

	// Keep is how long a finished effect is remembered, from its end or from the last
	// redelivery of its job. Choose it longer than the longest time between two jobs for the same
	// effect, and longer than any job can wait for its retry. Zero means one day.
	Keep time.Duration

	// Hold is how long a run whose process died makes other jobs with its key wait;
	// a redelivery of its own job does not wait. It must be longer than any run takes.
	// Zero means until a minute after the end of the run's context (see
	// jobs.WithTimeout), or one day for a run without a limit.
	Hold time.Duration

	// Wait is about how long a job is snoozed the first time that another one with its
	// key is running. Each further one before it runs is 1.5 times as long, up to the longer of
	// 5 minutes and Wait. Jitter changes each by up to a tenth. Zero means 5 seconds.
	Wait time.Duration

	// OnDuplicate, unless nil, is called for each duplicate delivery before it is
	// completed, for metrics and logs. Several goroutines call it at once. If it
	// panics, that is logged.
	OnDuplicate func(ctx context.Context, job *jobs.Job)

	// Logger gets failures to write markers. Nil means slog.Default().
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
	markAttempts = 3               // to record an effect that has happened
)

// Dedup returns middleware that makes processing idempotent: for each type and key the
// handler succeeds once. Every further delivery of the same job, or of another job with
// the same type and key, is completed with the result of that success, without a call
// of the handler.
//
// Before the handler runs, Dedup stores a marker that says "running"; its owner is the
// job. When the handler returns nil, the marker says "done" and holds the result. When
// the handler fails or panics, the marker is removed, so that the next delivery runs. A
// job that finds the "running" marker of another job is snoozed without a charge
// (ErrBusy).
//
// The effect of the handler and the marker are in two systems, so an effect can still
// happen twice. What happens when the process dies:
//
//   - Before or while the marker is stored: the job is delivered again and runs. It
//     owns the marker, whether that was stored or not.
//   - Between the marker and the effect: the same. The job runs again under its own
//     marker at once, and an earlier run that has not returned can no longer remove it. Other jobs with
//     the key wait, for at most Hold.
//   - Between the effect and "done": if "done" was stored, the redelivery is completed
//     without a run. If not, the handler runs again, and the effect can happen twice.
//     The time between the two is about a round trip. To exclude a second effect, pass the key to the
//     system that has the effect (as a payment provider's idempotency key, or in a unique column) or, on
//     Postgres, use pgbroker.CompleteTx, which needs no Dedup.
//   - Between "done" and the settling of the job: the redelivery is completed with the
//     stored result.
//
// If the store of markers cannot be reached before the run, the delivery fails and is
// retried by policy. If "done" cannot be stored in three attempts, the job is
// completed, since its effect has happened, and that is logged. Other jobs with the key
// then wait until Hold is over, and run. Lost answers do no harm: every write can be
// repeated.
//
// Of two jobs with one key, only one gets the marker. Two runs of the same job overlap
// only if a process was suspended for longer than its lease (see jobs.Job.Fence): both run, the later
// one has the marker, and each of them can record its success. Hold and Keep count by the clock of the
// marker store.
//
// A result of 1 MiB is one byte too long to be kept; duplicates are then completed
// without a result.
func Dedup(cfg DedupConfig) jobs.Middleware {
	if guard.IsNil(cfg.Marks) {
		field.Refuse("DedupConfig.Marks", "is nil; set it to any broker")
	}
	field.Duration("DedupConfig.Hold", cfg.Hold, "as long as the run may take")
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

// The first byte of a marker. The result follows markDone.
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
		return fmt.Errorf("the marker of the job's key could not be stored: %w", err)
	case len(marked.Value) > 0 && marked.Value[0] == markDone:
		if marked.Held { // the job's own marker: taking it set its end to that of a running job's marker
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
		return fmt.Errorf("%w: %w", ErrBusy, putoff.Growing(job.Record(), "busy", d.Wait, max(d.Wait, longestWait)))
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

// hold returns how long the marker of a run that begins now says "running".
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

// call makes one call about the marker, bounded in time.
func (m *marker) call(ctx context.Context, req broker.MarkRequest) (broker.Marked, error) {
	ctx, cancel := context.WithTimeout(ctx, markTimeout)
	defer cancel()
	req.Name, req.Owner, req.Fence = m.name, m.owner, m.fence
	return m.d.Marks.Mark(ctx, req)
}

var errOutlived = errors.New("the run took longer than its hold, and another job has taken the key")

// finish records that the effect has happened, even if the run's context has ended. If
// the marker has lapsed during the run, or a later delivery of the same job has it, it
// is taken again: the effect is the same.
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
		if err == nil || errors.Is(err, errOutlived) {
			break
		}
	}
	if err != nil {
		m.d.Logger.Warn("jobs: an effect could not be recorded, it can happen twice",
			"queue", m.job.Queue(), "id", m.job.ID(), "type", m.job.Type(), "error", err)
	}
}

// retake takes the marker, unless another job has it, and then sets its value, because
// taking a marker of the same job does not.
func (m *marker) retake(ctx context.Context, value []byte) (broker.Marked, error) {
	marked, err := m.take(ctx, m.d.Keep, value)
	if err != nil || !marked.Held {
		return marked, err
	}
	m.fence = marked.Fence
	return m.call(ctx, broker.MarkRequest{Action: broker.MarkSet, TTL: m.d.Keep, Value: value})
}

// abandon removes the marker, so that other jobs need not wait, unless a later delivery
// of the job has taken it. After the lease was lost, such a delivery may be about to
// take it, so abandon leaves it.
func (m *marker) abandon(ctx context.Context) {
	if errors.Is(context.Cause(ctx), jobs.ErrLeaseLost) {
		return
	}
	if _, err := m.call(context.WithoutCancel(ctx), broker.MarkRequest{Action: broker.MarkDrop}); err != nil {
		m.d.Logger.Warn("jobs: the marker of a failed job could not be removed, other jobs with its key wait for it",
			"queue", m.job.Queue(), "id", m.job.ID(), "type", m.job.Type(), "error", err)
	}
}

// digest returns a name of fixed length for a pair of strings.
func digest(a, b string) string {
	h := sha256.New()
	fmt.Fprintf(h, "%d:%s%s", len(a), a, b)
	return hex.EncodeToString(h.Sum(nil))
}
