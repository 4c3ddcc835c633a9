package demo

import (
	"errors"
	"sync"
	"time"

	"github.com/seed81422ce9/jobs"
	"github.com/seed81422ce9/jobs/broker"
)

// Totals count what has happened since the beginning.
type Totals struct {
	Enqueued   int // jobs that the store accepted
	Duplicates int // refused, because another job held the unique key
	Refused    int // refused for another reason: the queue was full, the store away
	Done       int
	Failed     int // runs that failed, hung ones included
	Hung       int // runs that were ended by their timeout
	Dead       int // jobs that died, redriven ones again if they die again
	Redriven   int // by somebody who watches
	Cancelled  int // by somebody who watches
	Deleted    int // by somebody who watches
	Crashes    int // workers that were killed
	Reclaimed  int // jobs that other workers reclaimed from them

	Waiting int // now: neither done, cancelled, deleted nor dead
	DeadNow int // those of Dead that nobody redrove or deleted
}

// Event is something to tell.
type Event struct {
	At   time.Time
	Text string
}

const keptEvents = 100

type job struct{ queue, id string }

// ledger follows each job from its acceptance to its end, by what the store
// answers. A worker may know less: it dies before it hears the answer.
type ledger struct {
	mu     sync.Mutex
	totals Totals
	open   map[job]int  // 1: accepted and not ended; -1: the news of its end came first
	dead   map[job]bool // ended in the dead-letter queue
	last   map[string]*settle
	early  int // jobs in open whose end came first
	told   map[string]bool
	events []Event
}

// settle is the last one of a worker, which may be repeated.
type settle struct {
	number int64
	known  map[job]bool
}

func newLedger() *ledger {
	return &ledger{open: make(map[job]int), dead: make(map[job]bool), last: make(map[string]*settle),
		told: make(map[string]bool)}
}

func (l *ledger) count(j job, by int) {
	before := l.open[j]
	after := before + by
	l.early += max(-after, 0) - max(-before, 0)
	if l.open[j] = after; after == 0 {
		delete(l.open, j)
	}
}

// now are the totals, which add up.
func (l *ledger) now() Totals {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.balance()
}

// balance adds to the totals where the jobs are. Its caller holds the lock.
func (l *ledger) balance() Totals {
	t := l.totals
	t.Enqueued += l.early // accepted, and the answer is on its way or lost
	t.Waiting, t.DeadNow = len(l.open)-l.early, len(l.dead)
	return t
}

// accepted takes the answers to an enqueue.
func (l *ledger) accepted(receipts []jobs.Receipt) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, r := range receipts {
		switch {
		case r.Err == nil:
			l.totals.Enqueued++
			l.count(job{r.Queue, r.ID}, 1)
		case errors.Is(r.Err, broker.ErrDuplicate):
			l.totals.Duplicates++
		case !errors.Is(r.Err, broker.ErrOutcomeUnknown): // the news of its end will come if it was stored
			l.totals.Refused++
		}
	}
}

// settled takes the verdicts on what a worker settled.
func (l *ledger) settled(req broker.SettleRequest, verdicts []broker.Verdict) {
	l.mu.Lock()
	defer l.mu.Unlock()
	last := l.last[req.Worker]
	if last == nil || last.number != req.Number {
		last = &settle{req.Number, make(map[job]bool)}
		l.last[req.Worker] = last
	}
	for _, v := range verdicts {
		j := job{v.Queue, v.ID}
		if v.Err != nil || last.known[j] {
			continue
		}
		last.known[j] = true
		switch v.State {
		case broker.StateCompleted:
			l.totals.Done++
			l.count(j, -1)
		case broker.StateCancelled:
			l.totals.Cancelled++
			l.count(j, -1)
		case broker.StateDead:
			l.totals.Dead++
			l.totals.Failed++
			l.count(j, -1)
			l.dead[j] = true
			l.once("dead", "first dead job: it stays in the dead-letter queue until somebody redrives or deletes it")
		case broker.StateRetry:
			l.totals.Failed++
		}
	}
}

// decided takes the results of what somebody else decided.
func (l *ledger) decided(kind broker.OperationKind, results []broker.OperationResult) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, r := range results {
		j := job{r.Ref.Queue, r.Ref.ID}
		switch {
		case r.Err != nil:
		case kind == broker.OpRedrive && l.dead[j]:
			delete(l.dead, j)
			l.totals.Redriven++
			l.count(j, 1)
		case kind == broker.OpDelete && l.dead[j]:
			delete(l.dead, j)
			l.totals.Deleted++
		case kind == broker.OpDelete && l.open[j] > 0:
			l.totals.Deleted++
			l.count(j, -1)
		case kind == broker.OpCancel && r.State == broker.StateCancelled && l.open[j] > 0:
			l.totals.Cancelled++
			l.count(j, -1)
		}
	}
}

func (l *ledger) change(f func(*Totals)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	f(&l.totals)
}

func (l *ledger) tell(text string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.note(text)
}

// tellOnce keeps the first event of its kind.
func (l *ledger) tellOnce(kind, text string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.once(kind, text)
}

func (l *ledger) once(kind, text string) {
	if !l.told[kind] {
		l.told[kind] = true
		l.note(text)
	}
}

func (l *ledger) note(text string) {
	l.events = append(l.events, Event{time.Now(), text})
	l.events = l.events[max(len(l.events)-keptEvents, 0):]
}
