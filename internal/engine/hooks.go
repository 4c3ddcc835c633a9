package engine

import (
	"context"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/seed81422ce9/jobs/broker"
)

// Hooks report what the server does; package jobs describes them. Each may be nil.
type Hooks struct {
	Claim   func(ClaimEvent)
	Settle  func(SettleEvent)
	Renew   func(RenewEvent)
	Reclaim func(ReclaimEvent)
	Worker  func(WorkerEvent)
	Stuck   func(StuckEvent)
	Unstuck func(StuckEvent)
}

// ClaimEvent reports a claim.
type ClaimEvent struct {
	Now    time.Time
	Jobs   []broker.Job
	Asked  int
	Waited bool
	Took   time.Duration
	Err    error
}

// SettleEvent reports an attempt to settle outcomes.
type SettleEvent struct {
	Items    []broker.Settlement
	Verdicts []broker.Verdict
	Took     time.Duration
	Err      error
}

// RenewEvent reports a heartbeat.
type RenewEvent struct {
	Worker string
	Margin time.Duration
	Took   time.Duration
	Lost   bool
	Err    error
}

// ReclaimEvent reports an attempt to reclaim jobs of dead servers.
type ReclaimEvent struct {
	Jobs []broker.Job
	Took time.Duration
	Err  error
}

// WorkerEvent reports the start or the end of a worker.
type WorkerEvent struct {
	Kind   WorkerEventKind
	Worker string
	Err    error
}

// WorkerEventKind says what happened to a worker.
type WorkerEventKind uint8

// What happens to workers.
const (
	WorkerStarted WorkerEventKind = iota + 1
	WorkerLost
	WorkerDrained
)

// StuckEvent reports a handler that goes on although its context ended.
type StuckEvent struct {
	Job     *broker.Job
	Cause   error
	Overdue time.Duration
	Stack   string

	since time.Time
}

const (
	maxEvents = 256 // that wait: as many as a heartbeat sends in many minutes
	// LastEvents is how long the drain waits at its end for events that are left.
	LastEvents = time.Second
)

// events calls hooks and writes log lines for the heartbeat in another goroutine, in
// order, so that a slow hook or log cannot make the heartbeat late. Further events are
// dropped and counted while maxEvents wait.
type events struct {
	log     *slog.Logger
	queue   chan func()
	dropped atomic.Int64
}

func newEvents(log *slog.Logger) *events {
	return &events{log: log, queue: make(chan func(), maxEvents)}
}

// call has f called later, unless too many events wait.
func (e *events) call(f func()) {
	select {
	case e.queue <- f:
	default:
		e.dropped.Add(1)
	}
}

// line writes a line to the log later.
func (e *events) line(level slog.Level, text string, args ...any) {
	e.call(func() { e.log.Log(context.Background(), level, text, args...) })
}

// run calls the events, until ctx has ended and none is left.
func (e *events) run(ctx context.Context) {
	for {
		select {
		case f := <-e.queue:
			e.one(f)
			continue
		case <-ctx.Done():
		}
		select {
		case f := <-e.queue:
			e.one(f)
		default:
			return
		}
	}
}

func (e *events) one(f func()) {
	f()
	if n := e.dropped.Swap(0); n > 0 {
		e.log.Error("jobs: the log or a hook is too slow, events of the heartbeat were dropped", "dropped", n)
	}
}
