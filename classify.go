package jobs

import (
	"context"
	"errors"
	"log/slog"
	"math"
	"strings"
	"time"

	"github.com/seed81422ce9/jobs/broker"
	"github.com/seed81422ce9/jobs/internal/engine"
	"github.com/seed81422ce9/jobs/internal/guard"
	"github.com/seed81422ce9/jobs/internal/putoff"
	"github.com/seed81422ce9/jobs/internal/sleep"
)

// Classes of errors that the server itself sets; see Classification.
const (
	ClassRetryable   = "retryable"    // any other error
	ClassPermanent   = "permanent"    // the error wraps SkipRetry
	ClassRateLimited = "rate_limited" // set by middleware only: a service that the job calls asked for a pause
	ClassTimeout     = "timeout"      // the run's timeout passed, or the error is ErrTimeout
	ClassPanic       = "panic"        // the handler panicked
	ClassCrash       = "crash"        // the server died or lost its lease during the run
	ClassCancelled   = "cancelled"    // the job was cancelled while it ran, or by the handler
	ClassExpired     = "expired"      // the job's deadline passed
	ClassUnknownType = "unknown_type" // the handler does not know the job's type
	ClassUnreadable  = "unreadable"   // the job's stored form cannot be read
	ClassUncommitted = "uncommitted"  // the handler's transaction should have completed the job, but did not commit
)

// Classification says what an error of a handler means. Code and Class are
// kept in the job's error history and are labels of metrics, so use few values.
type Classification struct {
	// Code is short and machine-readable, such as an HTTP status, at most 255
	// bytes. The default is none.
	Code string
	// Class is the kind of error: one of the Class constants, or the
	// application's own. Empty means the class that the server gives the error
	// itself, whatever As is.
	Class string
	// As, if not nil, decides in place of the error: an error that wraps
	// SkipRetry, or one made by RetryAfter, Snooze or Cancel. Any other error is
	// retried by policy.
	As error
	// Attempts, if above zero, is how many charged failures make the job dead, this
	// one included. It can only lower what the job's MaxRetries allows.
	Attempts int
	// MinDelay, if above zero, is the least time until the next run of a job that is
	// retried by policy: a pause that a service asked for. RetryAfter overrides it.
	MinDelay time.Duration
}

// Classified returns err with a classification, for middleware that knows what it
// means; Config.Classify is then not called. The result has the text of err and
// wraps it; for a nil err it is nil. If an error was classified several times, the
// outermost counts.
func Classified(err error, c Classification) error {
	if err == nil {
		return nil
	}
	return &classified{err: err, class: c}
}

type classified struct {
	err   error
	class Classification
}

func (e *classified) Error() string { return e.err.Error() }
func (e *classified) Unwrap() error { return e.err }

// carriedBy returns the classification that Classified gave err, if any.
func carriedBy(err error) (c Classification, ok bool) {
	if carried, ok := errors.AsType[*classified](err); ok {
		return carried.class, true
	}
	return c, false
}

// orClass returns c, with this class if c has none.
func (c Classification) orClass(class string) Classification {
	if c.Class == "" {
		c.Class = class
	}
	return c
}

// verdict returns the error that decides what becomes of the job.
func (c Classification) verdict(err error) error {
	if c.As != nil {
		return c.As
	}
	return err
}

// classOf returns the class that the server itself gives an error.
func classOf(err, cause error) string {
	switch {
	case isA[*PanicError](err):
		return ClassPanic
	case errors.Is(cause, ErrCancelled) || isA[*cancelled](err):
		return ClassCancelled
	case errors.Is(err, SkipRetry):
		return ClassPermanent
	case errors.Is(err, ErrUnknownType):
		return ClassUnknownType
	case errors.Is(cause, ErrDeadline):
		return ClassExpired
	case errors.Is(cause, ErrTimeout) || errors.Is(err, ErrTimeout):
		return ClassTimeout
	}
	return ClassRetryable
}

// isA reports whether err is or wraps an E.
func isA[E error](err error) bool {
	_, ok := errors.AsType[E](err)
	return ok
}

// ruling is what a handler's error, and the cause that ended its context, mean for the job.
type ruling uint8

const (
	rulingRetry ruling = iota
	rulingRetryAfter
	rulingCancel
	rulingSkip
	rulingSnooze
	rulingUnknown
	rulingExpired
	rulingRelease
)

// judge returns the ruling on err, with the delay that err sets. A cancellation,
// SkipRetry, Snooze and an unknown type count even if the context has ended. A
// passed deadline comes before RetryAfter.
func judge(err, cause error) (ruling, time.Duration) {
	if errors.Is(cause, ErrCancelled) || isA[*cancelled](err) {
		return rulingCancel, 0
	}
	if errors.Is(err, SkipRetry) {
		return rulingSkip, 0
	}
	if s, ok := errors.AsType[*putoff.Snooze](err); ok {
		return rulingSnooze, min(s.Delay, broker.MaxDelay)
	}
	if errors.Is(err, ErrUnknownType) {
		return rulingUnknown, 0
	}
	if errors.Is(cause, ErrDeadline) {
		return rulingExpired, 0
	}
	if r, ok := errors.AsType[*retryAfter](err); ok {
		return rulingRetryAfter, min(r.delay, broker.MaxDelay)
	}
	if errors.Is(cause, ErrShutdown) || errors.Is(cause, ErrLeaseLost) {
		return rulingRelease, 0
	}
	return rulingRetry, 0
}

// decide returns the outcome for a job whose handler returned err. Methods of err,
// Classify and retry policies are the application's code: if they panic, and again with
// an error whose methods work, the job is retried by the default policy.
func (s *Server) decide(r *engine.Run, job *Job, err error) (outcome broker.Outcome) {
	now := time.Now()
	cause, _ := r.Over(now)
	r.Finish(context.Canceled, now)
	if guard.IsNil(err) {
		err = guard.Error(err)
	}
	class := Classification{Class: ClassRetryable}
	rule := func() {
		class.Class = classOf(err, cause)
		given, ok := carriedBy(err)
		if !ok && s.cfg.Classify != nil {
			given = s.cfg.Classify(err, job)
		}
		class = given.orClass(class.Class)
		if errors.Is(err, ErrLeaseLost) {
			r.InTx = false // without the lease, no transaction of this run can complete the job
		}
		outcome = s.outcome(r, job, err, cause, class)
	}
	failed := guard.Call(rule)
	if failed != nil { // perhaps through a method of err
		err = guard.Error(err)
		failed = guard.Call(rule)
	}
	if failed == nil {
		return outcome
	}
	s.reports.Report(s.cfg.Logger, "Classify", slog.LevelError,
		"jobs: a method of the handler's error, Classify or a retry policy panicked, the job is retried by the default policy",
		"queue", job.Queue(), "id", job.ID(), "type", job.Type(), "error", failed, "stack", failed.Stack)
	f := s.failure(r, job, errors.New(guard.Text(err)), class)
	if p, ok := err.(*PanicError); ok && p != nil {
		f.Stack = p.Stack
	}
	return s.retry(r, job, f, defaultRetry(job.Attempt(), nil, job), class.Attempts)
}

// outcome returns how the lease ends after a handler's error.
func (s *Server) outcome(r *engine.Run, job *Job, err, cause error, c Classification) broker.Outcome {
	f := s.failure(r, job, err, c)
	err = c.verdict(err)
	switch ruling, delay := judge(err, cause); ruling {
	case rulingCancel:
		return broker.Cancel(f)
	case rulingSkip:
		return s.dead(job, broker.ReasonSkipRetry, f)
	case rulingSnooze:
		return putoff.Outcome(err, delay, f.At)
	case rulingUnknown:
		return s.putOff(r, job, broker.ReasonUnknownType, f)
	case rulingExpired:
		return s.dead(job, broker.ReasonExpired, f)
	case rulingRetryAfter:
		return s.retry(r, job, f, delay, c.Attempts)
	case rulingRelease:
		return broker.Release() // the server ended the run, so the job is not charged
	}
	return s.retry(r, job, f, max(s.cfg.retryDelay(job, err), min(c.MinDelay, broker.MaxDelay)), c.Attempts)
}

// retry charges a failure: the job runs again after delay, or is dead when it
// has spent its retries.
func (s *Server) retry(r *engine.Run, job *Job, f broker.Failure, delay time.Duration, attempts int) broker.Outcome {
	if spent(job, attempts) {
		return s.dead(job, broker.ReasonRetries, f)
	}
	s.logFailure(r, job, "jobs: a job failed and runs again", f, delay)
	return broker.Retry(delay, f)
}

// retryDelay returns the delay before the next run by the policy that applies: the
// job's own, that of its type, or the server's.
func (cfg *Config) retryDelay(job *Job, err error) time.Duration {
	policy := cfg.RetryPolicy
	if f, ok := cfg.RetryPolicies[job.Type()]; ok {
		policy = f
	}
	switch b := job.record.Backoff; b.Kind {
	case broker.BackoffExponential:
		policy = Exponential(b.Base, b.Max)
	case broker.BackoffLinear:
		policy = Linear(b.Base, b.Max)
	case broker.BackoffConstant:
		policy = Constant(b.Base)
	}
	return min(max(policy(job.Attempt(), err, job), 0), broker.MaxDelay)
}

const maxLoggedError = 1 << 10 // bytes of an error's text in the log: some ten lines; the job's record has more

// logged shortens an error's text for the log.
func logged(message string) string {
	if len(message) > maxLoggedError {
		return strings.ToValidUTF8(message[:maxLoggedError], "") + "…"
	}
	return message
}

// logFailure logs that a run failed, and when the next one is. For each type it logs
// one failure in ten seconds, because every job may fail; then it also asks whether the
// level is Debug, at which it logs all.
func (s *Server) logFailure(r *engine.Run, job *Job, text string, f broker.Failure, delay time.Duration) {
	if r.InTx {
		return // the transaction may have completed the job
	}
	args := func() []any {
		return []any{"queue", job.Queue(), "id", job.ID(), "type", job.Type(), "attempt", f.Attempt, "class", f.Class,
			"error", logged(f.Message), "next", f.At.Add(delay).UTC().Truncate(time.Millisecond)}
	}
	debug := func() bool { return s.cfg.Logger.Enabled(context.Background(), slog.LevelDebug) }
	if s.logsAll.Load() && debug() {
		s.cfg.Logger.Warn(text, args()...)
	} else if s.reports.ReportOf(s.cfg.Logger, "type "+job.Type(), slog.LevelWarn, text, args) {
		s.logsAll.Store(debug())
	}
}

// spent reports whether the next failure makes the job dead. attempts is
// Classification.Attempts.
func spent(job *Job, attempts int) bool {
	j := job.record
	return j.Failures >= j.MaxRetries || attempts > 0 && j.Failures >= attempts-1
}

func (s *Server) dead(job *Job, reason broker.DeadReason, f broker.Failure) broker.Outcome {
	j := job.record
	s.cfg.Logger.Warn("jobs: a job is dead", "reason", reason.String(), "queue", j.Queue, "id", j.ID, "type", j.Type,
		"attempt", j.Failures, "class", f.Class, "error", logged(f.Message))
	return broker.Die(reason, f)
}

// Delays of a job that this server cannot run: half the time since the first
// snooze, so that each delay is 1.5 times the one before. A deploy takes minutes: the first
// delays are short beside that, and the last one is short for people who wait for the job.
const (
	putOffMin = 5 * time.Second
	putOffMax = 10 * time.Minute
)

// putOff snoozes a job that another program may be able to run, until the limit has
// passed. The limit counts from the first of these snoozes since a run, which leaves an
// entry in the error history.
func (s *Server) putOff(r *engine.Run, job *Job, reason broker.DeadReason, f broker.Failure) broker.Outcome {
	j, waited := job.record, time.Duration(0)
	before := j.PutOffFor(reason.String())
	limit := s.cfg.UnknownTypeLimit
	switch {
	case before.Times > 0:
		waited = f.At.Sub(before.Since)
	case j.NewerHead() && limit >= 0: // only the counts can be read: snoozes of its own must not make the job dead
		waited, limit = putOffSum(j.Snoozes, 2*putOffMax), math.MaxInt64
	}
	if limit < 0 || waited >= limit {
		return s.dead(job, reason, f)
	}
	return s.setAside(r, job, reason, f, sleep.Jitter(putOffDelay(waited), 0.1))
}

// setAside snoozes a job that this server cannot run.
func (s *Server) setAside(r *engine.Run, job *Job, reason broker.DeadReason, f broker.Failure, delay time.Duration) broker.Outcome {
	s.logFailure(r, job, "jobs: this server cannot run a job and snoozes it", f, delay)
	return putoff.Recorded(job.record, reason.String(), delay, f)
}

func putOffDelay(waited time.Duration) time.Duration { return min(max(waited/2, putOffMin), putOffMax) }

// putOffSum returns the time that n put-offs take, or enough of them to reach limit.
func putOffSum(n int, limit time.Duration) (sum time.Duration) {
	for ; n > 0 && sum < limit; n-- {
		sum += putOffDelay(sum)
	}
	return sum
}

// unreadable returns the outcome for a job whose stored form cannot be read.
func (s *Server) unreadable(r *engine.Run, job *Job) broker.Outcome {
	err := job.record.Broken
	f := s.failure(r, job, err, Classification{Class: ClassUnreadable})
	if errors.Is(err, broker.ErrNewerForm) {
		return s.putOff(r, job, broker.ReasonUndecodable, f)
	}
	return s.dead(job, broker.ReasonUndecodable, f)
}

// failure returns the entry of the error history for err.
func (s *Server) failure(r *engine.Run, job *Job, err error, c Classification) broker.Failure {
	f := broker.Failure{
		At: s.engine.StoreNow(), Attempt: job.Attempt(), Message: err.Error(),
		Code: clip(c.Code), Class: clip(c.Class), Worker: r.Worker(), Version: s.cfg.Program,
	}
	if panicked, ok := errors.AsType[*PanicError](err); ok {
		f.Stack = panicked.Stack
	}
	return f
}

// clip shortens a code or a class to the maximum length of a name, but not in the middle of a character.
func clip(s string) string {
	if len(s) > broker.MaxNameLen {
		return strings.ToValidUTF8(s[:broker.MaxNameLen], "")
	}
	return s
}
