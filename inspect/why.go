package inspect

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/seed81422ce9/jobs/broker"
	"github.com/seed81422ce9/jobs/internal/labels"
	"github.com/seed81422ce9/jobs/internal/parked"
	"github.com/seed81422ce9/jobs/internal/readable"
)

// Explanation is one reason why a job has not run. Programs can rely on Code. It is one of
// paused, no-worker, unknown-type, busy, not-due, due, failed, queued, running,
// cancel-requested, held, behind, workflow, completed, cancelled, dead, deadline and
// unreadable; or, for limits, queue-active, queue-rate, key-paused, key-order, key-active
// and key-rate. Text is for people; it can contain text of the job's producer or handler.
type Explanation struct {
	Code string `json:"code"`
	Text string `json:"text"`
}

// Why returns the reasons why a job has not run, or how it ended. What stops the job first
// comes first. See Evidence and Explain.
func (i *Inspector) Why(ctx context.Context, queue, id string) ([]Explanation, error) {
	job, err := i.Job(ctx, queue, id)
	if err != nil {
		return nil, err
	}
	evidence, err := i.Evidence(ctx, job)
	if err != nil {
		return nil, err
	}
	return Explain(evidence), nil
}

// Explain returns the reasons why a job has not run, or how it ended. What stops the job
// first comes first. It does not call the store.
func Explain(e Evidence) (reasons []Explanation) {
	j, q := e.Job, e.Queue
	add := func(code, format string, args ...any) {
		reasons = append(reasons, Explanation{code, fmt.Sprintf(format, args...)})
	}
	if j.Broken != nil {
		add("unreadable", "its stored bytes cannot be read: %v", j.Broken)
	}
	last := j.Errors.Last()
	switch j.State {
	case broker.StateCompleted:
		add("completed", "it completed %s ago", readable.Span(q.Now.Sub(j.FinishedAt)))
	case broker.StateCancelled:
		add("cancelled", "it was cancelled %s ago", readable.Span(q.Now.Sub(j.FinishedAt)))
	case broker.StateDead:
		add("dead", "it died %s ago (%s) and stays until somebody redrives or deletes it; its last error: %s",
			readable.Span(q.Now.Sub(j.FinishedAt)), j.Reason, last.Message)
	case broker.StateWaiting:
		code, then := "held", "before that it was"
		if _, ok := broker.IsBehind(j.Holder); ok {
			code, then = "behind", "then it is"
		}
		add(code, "%s; %s %s", heldBy(j.Holder), then, j.HeldFrom)
	case broker.StateActive:
		add("running", "it is held by %s", holder(j, q))
		if len(alive(q)) == 0 {
			add("no-worker", "%s", nobody(q.Name))
		}
		if j.CancelRequested {
			add("cancel-requested", "it was asked to cancel; its handler has not returned")
		}
	case broker.StateScheduled, broker.StateRetry:
		if w := j.Headers[parked.HeaderWorkflow]; w != "" && j.RunAt.Equal(parked.Until) {
			add("workflow", "it is the node %q of the workflow %s, and waits for its turn; jobsctl workflow show %s draws the nodes",
				j.Headers[parked.HeaderNode], w, w)
		} else if wait := j.RunAt.Sub(q.Now); wait > 0 {
			add("not-due", "it is due at %s, in %s", readable.Clock(j.RunAt), readable.Span(wait))
		} else {
			add("due", "it has been due for %s", readable.Span(-wait))
		}
		if j.State == broker.StateRetry {
			add("failed", "it failed %s; after %s it is dead; its last error: %s", readable.Count(j.Failures, "time"),
				readable.Count(j.MaxRetries+1, "failure"), last.Message)
		}
		e.obstacles(add)
	case broker.StatePending:
		e.obstacles(add)
		e.limits(add)
		if len(reasons) == 0 || reasons[len(reasons)-1].Code == "queue-rate" {
			ahead := q.Counts[broker.StatePending] - 1
			add("queued", "it waits with %s; the next one of its priority has waited %s",
				readable.Count(ahead, "other job"), orNow(q.AgePending(j.Priority)))
		}
	}
	if !j.Deadline.IsZero() && !j.State.Final() {
		add("deadline", "it does not run after its deadline, %s", readable.Clock(j.Deadline))
	}
	return reasons
}

// holder returns a text about the worker that holds a job.
func holder(j *broker.Job, q QueueInfo) string {
	const next = "another worker of the queue will reclaim the job"
	for _, w := range q.Workers {
		if w.ID != j.Worker {
			continue
		}
		text := fmt.Sprintf("worker %s on %s (PID %d, %s)", w.ID, w.Host, w.PID, w.Program)
		if !w.Alive(q.Now) {
			text += fmt.Sprintf(", whose lease ran out %s ago: %s", orNow(q.Now.Sub(w.Until)), next)
		}
		return text
	}
	return fmt.Sprintf("worker %s, which is gone: %s", j.Worker, next)
}

// alive returns the workers of a queue whose leases have not run out. A crashed worker
// is still listed until another worker reclaims its jobs.
func alive(q QueueInfo) (workers []WorkerInfo) {
	for _, w := range q.Workers {
		if w.Alive(q.Now) {
			workers = append(workers, w)
		}
	}
	return workers
}

// heldBy returns a text about the holder of a waiting job, and what to do.
func heldBy(holder string) string {
	if id, ok := broker.IsBehind(holder); ok {
		return fmt.Sprintf("it runs after the job %s, which holds its unique key; it has the last payload that was enqueued meanwhile", id)
	}
	if to, ok := strings.CutPrefix(holder, movePrefix); ok {
		return fmt.Sprintf("a move to %s (store and queue) holds it; if that move is no longer running, run it again or undo it", to)
	}
	return fmt.Sprintf("%q holds it, and decides when it may run", holder)
}

func orNow(d time.Duration) string {
	if s := readable.Span(d); s != "" {
		return s
	}
	return "no time"
}

// obstacles adds the reasons why no worker has claimed a due job.
func (e *Evidence) obstacles(add adder) {
	j, q := e.Job, e.Queue
	switch {
	case e.Pause != nil:
		add("paused", "the queue %s is paused %v", q.Name, e.Pause)
	case q.Policy.Paused:
		add("paused", "the queue %s is paused", q.Name)
	}
	workers := alive(q)
	if len(workers) == 0 {
		add("no-worker", "%s", nobody(q.Name))
		return
	}
	knows, free := 0, 0
	for _, w := range workers {
		if knowsType(w, j.Type) {
			knows++
			free += max(0, w.Concurrency-w.Held)
		}
	}
	switch {
	case knows == 0:
		add("unknown-type", "no live worker of the queue (%d) has a handler for the type %s", len(workers), j.Type)
	case free == 0:
		add("busy", "all slots of the live workers for it (%d) are taken", knows)
	}
}

// nobody returns the text that no live worker serves a queue, with the labels that a
// worker would need.
func nobody(queue string) string {
	base, required := labels.Split(queue)
	switch len(required) {
	case 0:
		return fmt.Sprintf("no live worker serves the queue %s", queue)
	case 1:
		return fmt.Sprintf("no live worker of the queue %s offers the label %s", base, required[0])
	}
	return fmt.Sprintf("no live worker of the queue %s offers all of the labels %s", base, strings.Join(required, ", "))
}

// knowsType reports whether a worker has a handler for a type. A worker that reports no
// types takes all.
func knowsType(w WorkerInfo, typ string) bool {
	for _, pattern := range w.Types {
		prefix, any := strings.CutSuffix(pattern, "*")
		if pattern == typ || any && strings.HasPrefix(typ, prefix) {
			return true
		}
	}
	return len(w.Types) == 0
}

// Evidence is the data from which Explain explains a job.
type Evidence struct {
	Job   *broker.Job
	Queue QueueInfo
	Key   KeyInfo          // of the job's key; zero if the job has none
	Pause *PauseNote       // of the queue, if it is paused and the note is known
	Peers []broker.Running // active jobs of the key as workers report them, the longest first; not always all
}

// maxPeers is how many active jobs of a key are read: enough for most limits.
const maxPeers = 100

// Evidence reads the evidence about a job, in up to four calls.
func (i *Inspector) Evidence(ctx context.Context, job *broker.Job) (Evidence, error) {
	info, err := i.Queue(ctx, job.Queue)
	if err != nil {
		return Evidence{Job: job}, err
	}
	return i.EvidenceIn(ctx, job, info)
}

// EvidenceIn is like Evidence, for a caller that has the queue's QueueInfo. It makes up
// to three calls, and none for a job without a key in a queue that is not paused.
func (i *Inspector) EvidenceIn(ctx context.Context, job *broker.Job, info QueueInfo) (e Evidence, err error) {
	e.Job, e.Queue = job, info
	if info.Policy.Paused && !job.State.Final() {
		if note, known, err := i.PauseNote(ctx, info.Name); err == nil && known && note.Paused {
			e.Pause = &note
		}
	}
	if job.Key == "" || job.State.Final() {
		return e, nil
	}
	e.Key, err = i.Key(ctx, job.Queue, job.Key)
	if errors.Is(err, broker.ErrUnsupported) {
		return e, nil
	}
	if err != nil || e.Key.Block != broker.BlockActive {
		return e, err
	}
	page, err := i.List(ctx, Query{Queue: job.Queue, State: broker.StateActive, Key: job.Key, NoPayload: true, Limit: maxPeers})
	active := make(map[string]bool)
	for _, j := range page.Jobs {
		active[j.ID] = true
	}
	for _, w := range e.Queue.Workers {
		for _, r := range w.Longest {
			if active[r.ID] && r.Queue == job.Queue {
				e.Peers = append(e.Peers, r)
			}
		}
	}
	return e, err
}

type adder func(code, format string, args ...any)

// limits adds the limits of the queue or of the key that keep a pending job back.
func (e *Evidence) limits(add adder) {
	q, p := &e.Queue, &e.Queue.Policy
	if active := q.Counts[broker.StateActive]; p.MaxActive > 0 && active >= p.MaxActive {
		add("queue-active", "the queue %s has %d of %d jobs running", q.Name, active, p.MaxActive)
	}
	key := e.Job.Key
	of := p.OfKey(e.Key.Policy)
	switch e.Key.Block {
	case broker.BlockPaused:
		add("key-paused", "the key %s is paused", key)
	case broker.BlockOrder:
		if e.Key.Head != e.Job.ID {
			add("key-order", "the jobs of the key %s go one after the other, and the job %s is before it", key, e.Key.Head)
		}
	case broker.BlockActive:
		add("key-active", "the key %s has %d of %d running%s", key, e.Key.Active, of.MaxActive, e.oldestPeer())
	case broker.BlockRate:
		add("key-rate", "the key %s may start %s; the next may start %s", key, rateText(of.Rate), e.until())
	}
	if p.Rate.Jobs > 0 {
		add("queue-rate", "the queue %s starts %s", q.Name, rateText(p.Rate))
	}
}

func (e *Evidence) oldestPeer() string {
	var oldest time.Time
	for _, r := range e.Peers {
		if oldest.IsZero() || r.Since.Before(oldest) {
			oldest = r.Since
		}
	}
	if oldest.IsZero() {
		return ""
	}
	return fmt.Sprintf("; the oldest since %s", readable.Clock(oldest))
}

func (e *Evidence) until() string {
	if wait := e.Key.Until.Sub(e.Queue.Now); wait > 0 {
		return "in " + readable.Span(wait)
	}
	return "now"
}

func rateText(r broker.Rate) string {
	text := fmt.Sprintf("%d per %s", r.Jobs, readable.Span(r.Per))
	if r.Burst > 0 {
		text += fmt.Sprintf(" and %d more at once", r.Burst)
	}
	return text
}
