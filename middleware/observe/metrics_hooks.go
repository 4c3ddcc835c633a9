package observe

import (
	"context"
	"errors"
	"time"

	"github.com/seed81422ce9/jobs"
	"github.com/seed81422ce9/jobs/broker"
)

// Hooks measures what servers do: set Config.Hooks of each server to it, joined
// with others by jobs.JoinHooks. Outcomes are counted once the store has accepted
// them; a job whose lease was lost counts as lease_lost alone.
func (m *Metrics) Hooks() jobs.Hooks {
	return jobs.Hooks{
		Claim: m.claimed, Settle: m.settled, Renew: m.renewed, Reclaim: m.reclaimed,
		Worker: m.worker,
		Stuck: func(e jobs.StuckEvent) {
			m.local.stuck.Add(1)
			record := e.Job.Record()
			m.instruments.stuck.Add(context.Background(), 1, m.series.of(record.Queue, &record.Body).add...)
		},
		Unstuck: func(jobs.StuckEvent) { m.local.stuck.Add(-1) },
	}
}

func (m *Metrics) claimed(e jobs.ClaimEvent) {
	ctx := context.Background()
	options := m.instruments.unwaited
	if e.Waited {
		options = m.instruments.waited
	}
	m.instruments.claim.Record(ctx, e.Took.Seconds(), options...)
	m.messaging.claimed(&e)
	if e.Err == nil && !e.Now.IsZero() {
		m.local.offset.Store(int64(time.Until(e.Now)))
		m.local.timed.Store(true)
	}
	eachRun(e.Jobs, m, func(s *series, n int64) { m.instruments.claimed.Add(ctx, n, s.add...) })
}

func (m *Metrics) reclaimed(e jobs.ReclaimEvent) {
	eachRun(e.Jobs, m, func(s *series, n int64) { m.instruments.reclaimed.Add(context.Background(), n, s.add...) })
}

// eachRun calls f for each sequence of consecutive jobs with the same labels: most
// batches are one sequence.
func eachRun(list []broker.Job, m *Metrics, f func(s *series, n int64)) {
	var last *series
	n := int64(0)
	for i := range list {
		if s := m.series.next(last, &list[max(i-1, 0)], &list[i]); s != last {
			if n > 0 {
				f(last, n)
			}
			last, n = s, 0
		}
		n++
	}
	if n > 0 {
		f(last, n)
	}
}

func (m *Metrics) renewed(e jobs.RenewEvent) {
	m.local.mu.Lock()
	defer m.local.mu.Unlock()
	if w := m.local.workers[e.Worker]; w != nil {
		w.margin, w.at = e.Margin, time.Now()
	}
}

func (m *Metrics) worker(e jobs.WorkerEvent) {
	m.local.mu.Lock()
	if e.Kind == jobs.WorkerStarted {
		m.local.workers[e.Worker] = &liveWorker{concurrency: e.Concurrency, margin: e.Lease, at: time.Now()}
	} else {
		delete(m.local.workers, e.Worker)
	}
	m.local.mu.Unlock()
	switch e.Kind {
	case jobs.WorkerStarted:
		m.instruments.starts.Add(context.Background(), 1)
	case jobs.WorkerLost:
		m.instruments.stops.Add(context.Background(), 1, m.instruments.lost...)
	case jobs.WorkerDrained:
		m.instruments.stops.Add(context.Background(), 1, m.instruments.drained...)
	}
}

func (m *Metrics) settled(e jobs.SettleEvent) {
	ctx := context.Background()
	m.instruments.settle.Record(ctx, e.Took.Seconds())
	m.messaging.settled(&e)
	answered := len(e.Verdicts) == len(e.Items)
	if !answered && !errors.Is(e.Err, broker.ErrLeaseLost) && !errors.Is(e.Err, broker.ErrWorkerGone) {
		return // the server will send it again
	}
	var last ending
	n, before := int64(0), 0
	for i := range e.Items {
		if e.Items[i].Outcome.Kind() == broker.OutcomeKeep {
			continue // its job goes on
		}
		verdict := broker.Verdict{Err: e.Err}
		if answered {
			verdict = e.Verdicts[i]
		}
		next := m.endingOf(m.series.next(last.series, e.Items[before].Job, e.Items[i].Job), &e.Items[i], &verdict)
		before = i
		if next != last {
			last.count(ctx, m, n)
			last, n = next, 0
		}
		n++
	}
	last.count(ctx, m, n)
}

// Values of the label outcome.
const (
	outcomeCompleted = "completed"
	outcomeRetried   = "retried"
	outcomeDead      = "dead"
	outcomeExpired   = "expired"
	outcomeCrashed   = "crashed"
	outcomeCancelled = "cancelled"
	outcomeSnoozed   = "snoozed"
	outcomeReleased  = "released"
	outcomeLeaseLost = "lease_lost"
	outcomeKept      = "kept" // only in spans: the job goes on
)

// ending is what is counted when a lease ends. Consecutive equal endings are
// recorded in one measurement.
type ending struct {
	series   *series
	outcome  string
	reason   broker.DeadReason // set if the job is dead
	failed   bool              // a failure was charged
	class    string            // class of the failure
	attempts int               // runs of a job that ended; otherwise 0
}

func (m *Metrics) endingOf(s *series, item *broker.Settlement, v *broker.Verdict) ending {
	e := ending{series: s}
	e.outcome = settledAs(item.Outcome, v)
	switch e.outcome {
	case outcomeCompleted:
		e.attempts = item.Job.Failures + 1
	case outcomeRetried:
		e.failed = true
	case outcomeDead, outcomeExpired, outcomeCrashed:
		e.reason = item.Outcome.Reason()
		if e.reason == broker.ReasonRetries || e.reason == broker.ReasonSkipRetry {
			e.failed, e.attempts = true, item.Job.Failures+1
		}
	}
	if f := item.Outcome.Failure(); e.failed && f != nil {
		e.class = m.series.class(f.Class)
	}
	return e
}

// settledAs returns the label outcome for the end of a lease.
func settledAs(o broker.Outcome, v *broker.Verdict) string {
	switch {
	case v.Err != nil:
		return outcomeLeaseLost
	case v.State == broker.StateCancelled:
		return outcomeCancelled
	}
	switch o.Kind() {
	case broker.OutcomeComplete:
		return outcomeCompleted
	case broker.OutcomeRetry:
		return outcomeRetried
	case broker.OutcomeCrash:
		return outcomeCrashed
	case broker.OutcomeSnooze:
		return outcomeSnoozed
	case broker.OutcomeRelease:
		return outcomeReleased
	case broker.OutcomeCancel:
		return outcomeCancelled
	case broker.OutcomeKeep:
		return outcomeKept
	}
	switch o.Reason() {
	case broker.ReasonExpired:
		return outcomeExpired
	case broker.ReasonCrashes:
		return outcomeCrashed
	}
	return outcomeDead
}

// count records n such endings.
func (e *ending) count(ctx context.Context, m *Metrics, n int64) {
	if n == 0 {
		return
	}
	i, s := &m.instruments, e.series
	i.outcomes.Add(ctx, n, s.with(labelOutcome, e.outcome)...)
	switch {
	case e.outcome == outcomeCompleted:
		i.processed.Add(ctx, n, s.add...)
	case e.outcome == outcomeRetried:
		i.retried.Add(ctx, n, s.add...)
	case e.reason != broker.ReasonNone:
		i.dead.Add(ctx, n, s.with(labelReason, e.reason.String())...)
	}
	if e.failed {
		i.failures.Add(ctx, n, s.with(labelClass, e.class)...)
	}
	for range n {
		if e.attempts > 0 {
			i.attempts.Record(ctx, int64(e.attempts), s.record...)
		}
	}
}
