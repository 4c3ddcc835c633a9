package main

import (
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/seed81422ce9/jobs"
)

func (a *app) why() *cobra.Command {
	var queue string
	cmd := &cobra.Command{
		Use:   "why ID",
		Short: "Say why a job has not run, or what became of it",
		Args:  exactly("ID"),
		RunE: func(cmd *cobra.Command, args []string) error {
			i, err := a.inspector(cmd.Context())
			if err != nil {
				return err
			}
			j, err := a.locate(cmd.Context(), i, queue, args[0])
			if err != nil {
				return err
			}
			q, err := i.Queue(cmd.Context(), j.Queue)
			if err != nil {
				return err
			}
			reasons := explain(j, q)
			if a.json {
				return a.object(map[string]any{"queue": j.Queue, "id": j.ID, "state": j.State.String(), "reasons": reasons})
			}
			a.say("%s is %s.", plain(j.ID), j.State)
			for _, r := range reasons {
				a.say("- %s", plain(r.Text))
			}
			return nil
		},
	}
	cmd.Flags().StringVarP(&queue, "queue", "q", "", "queue (default: look in all)")
	return cmd
}

// reason is one answer. Its code is a contract, its text is for people.
type reason struct {
	Code string `json:"code"`
	Text string `json:"text"`
}

// explain says what a job waits for or has come to, the first obstacle first.
func explain(j *jobs.JobRecord, q jobs.QueueInfo) (reasons []reason) {
	add := func(code, format string, args ...any) {
		reasons = append(reasons, reason{code, fmt.Sprintf(format, args...)})
	}
	if j.Broken != nil {
		add("unreadable", "what is stored of it cannot be read: %v", j.Broken)
	}
	last := j.Errors.Last()
	switch j.State {
	case jobs.StateCompleted:
		add("completed", "it completed %s ago", span(q.Now.Sub(j.FinishedAt)))
	case jobs.StateCancelled:
		add("cancelled", "it was cancelled %s ago", span(q.Now.Sub(j.FinishedAt)))
	case jobs.StateDead:
		add("dead", "it is dead since %s ago (%s), until somebody redrives or deletes it; its last error: %s", span(q.Now.Sub(j.FinishedAt)), j.Reason, last.Message)
	case jobs.StateActive:
		holder := fmt.Sprintf("worker %s, which is not alive: its lease ran out or is about to, and another worker takes over", j.Worker)
		for _, w := range q.Workers {
			if w.ID == j.Worker {
				holder = fmt.Sprintf("worker %s on %s (PID %d, %s)", w.ID, w.Host, w.PID, w.Program)
			}
		}
		add("running", "it is held by %s", holder)
		if j.CancelRequested {
			add("cancel-requested", "it was asked to cancel; its handler has not returned")
		}
	case jobs.StateScheduled, jobs.StateRetry:
		if wait := j.RunAt.Sub(q.Now); wait > 0 {
			add("not-due", "it is due at %s, in %s", clock(j.RunAt), span(wait))
		} else {
			add("due", "it is due since %s", span(-wait))
		}
		if j.State == jobs.StateRetry {
			add("failed", "it failed %d times of %d; its last error: %s", j.Failures, j.MaxRetries+1, last.Message)
		}
		obstacles(j, q, add)
	case jobs.StatePending:
		obstacles(j, q, add)
		if len(reasons) == 0 {
			ahead := q.Counts[jobs.StatePending] - 1
			add("queued", "it is in line with %d others; the one that is next in turn has waited %s", ahead, orNow(q.Age(jobs.StatePending)))
		}
	}
	if !j.Deadline.IsZero() && !j.State.Final() {
		add("deadline", "no run of it begins after %s", clock(j.Deadline))
	}
	return reasons
}

func orNow(d time.Duration) string {
	if s := span(d); s != "" {
		return s
	}
	return "no time"
}

// obstacles says what stands between a due job and a worker.
func obstacles(j *jobs.JobRecord, q jobs.QueueInfo, add func(code, format string, args ...any)) {
	if q.Policy.Paused {
		add("paused", "the queue %s is paused", q.Name)
	}
	if len(q.Workers) == 0 {
		add("no-worker", "no live worker serves the queue %s", q.Name)
		return
	}
	knows, free := 0, 0
	for _, w := range q.Workers {
		if knowsType(w, j.Type) {
			knows++
			free += max(0, w.Concurrency-w.Held)
		}
	}
	switch {
	case knows == 0:
		add("unknown-type", "none of the %d live workers of the queue has a handler for the type %s", len(q.Workers), j.Type)
	case free == 0:
		add("busy", "all slots of the %d live workers for it are taken", knows)
	}
}

// knowsType reports whether a worker has a handler for a type. One that names
// no types takes all.
func knowsType(w jobs.WorkerInfo, typ string) bool {
	for _, pattern := range w.Types {
		prefix, any := strings.CutSuffix(pattern, "*")
		if pattern == typ || any && strings.HasPrefix(typ, prefix) {
			return true
		}
	}
	return len(w.Types) == 0
}
