package inspect

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/seed81422ce9/jobs/broker"
	"github.com/seed81422ce9/jobs/internal/readable"
)

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
