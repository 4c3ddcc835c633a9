package inspect

import (
	"context"
	"fmt"
	"iter"
	"time"

	"github.com/seed81422ce9/jobs/broker"
	"github.com/seed81422ce9/jobs/internal/readable"
)

// Finding is one problem in a store. Package broker documents its fields and the
// meaning of its code.
type Finding = broker.Finding

// Examination configures Examine. The zero value examines the whole store and
// changes nothing.
type Examination struct {
	Queue string // examine only this queue
	Fix   bool   // repair findings where possible

	// OnStep, if set, is called after each step of some hundred records.
	OnStep func(broker.Examined)
}

// Examine looks for problems in the store: contradictory keys or rows, settings that
// lose jobs, queues without workers. It works in bounded steps and can run while
// workers run: it gives no false alarms. With Fix it repairs each finding in the step
// that found it, and still reports those that it cannot repair. An error comes with a
// zero finding and ends the examination. It is ErrUnsupported if the store cannot be
// examined (broker.Limits.NoExamine); otherwise see Inspector.
func (i *Inspector) Examine(ctx context.Context, e Examination) iter.Seq2[Finding, error] {
	return func(yield func(Finding, error) bool) {
		if err := i.examine(ctx, e, yield); err != nil {
			yield(Finding{}, err)
		}
	}
}

// examine reports findings to yield, and returns an error that it has not reported.
func (i *Inspector) examine(ctx context.Context, e Examination, yield func(Finding, error) bool) error {
	if err := i.check(ctx); err != nil {
		return err
	}
	var names []string
	if e.Queue != "" {
		if _, err := i.Queue(ctx, e.Queue); err != nil {
			return err
		}
		names = []string{e.Queue}
	}
	req := broker.ExamineRequest{Queue: e.Queue, Fix: e.Fix}
	for {
		callCtx, cancel := context.WithTimeout(ctx, examineTimeout)
		got, err := i.broker.Examine(callCtx, req)
		cancel()
		for _, f := range got.Findings {
			if !yield(f, nil) {
				return nil
			}
		}
		if err != nil {
			return err
		}
		if e.OnStep != nil {
			e.OnStep(got)
		}
		if req.Cursor = got.Cursor; req.Cursor == "" {
			break
		}
	}
	queues, err := i.queues(ctx, broker.QueuesRequest{Names: names, Workers: true})
	for _, q := range queues {
		for _, f := range unserved(q) {
			if !yield(f, nil) {
				return nil
			}
		}
	}
	return err
}

// examineTimeout limits a step, which may have to count the rows of a Postgres table.
const examineTimeout = 30 * time.Second

// reclaimGrace is the time within which other workers should have reclaimed the jobs of
// a dead worker.
const reclaimGrace = time.Minute

var kinds = broker.KnownFindings()

// unserved returns findings about the workers of a queue.
func unserved(q QueueInfo) (findings []Finding) {
	live := 0
	for _, w := range q.Workers {
		if w.Alive(q.Now) {
			live++
		} else if gone := q.Now.Sub(w.Until); gone > reclaimGrace {
			findings = append(findings, Finding{FindingKind: kinds.Of("worker-not-reclaimed"), Queue: q.Name, ID: w.ID,
				What: fmt.Sprintf("worker %s on %s ran out %v ago and holds %s", w.ID, w.Host, gone.Round(time.Second), readable.Count(w.Held, "job"))})
		}
	}
	due := q.Counts[broker.StatePending]
	if broker.Reserved(q.Name) { // its jobs recur, so they need a server even before they are due
		due += q.Counts[broker.StateScheduled] + q.Counts[broker.StateRetry]
	}
	if due == 0 && q.Age(broker.StateScheduled)+q.Age(broker.StateRetry) > reclaimGrace {
		due = 1
	}
	if live == 0 && due > 0 && !q.Policy.Paused {
		findings = append(findings, Finding{FindingKind: kinds.Of("queue-not-served"), Queue: q.Name,
			What: fmt.Sprintf("%s to run: %s", readable.Count(due, "job"), nobody(q.Name))})
	}
	return findings
}
