package main

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/oklog/ulid/v2"
	"github.com/spf13/cobra"

	"github.com/seed81422ce9/jobs/broker"
	"github.com/seed81422ce9/jobs/inspect"
	"github.com/seed81422ce9/jobs/internal/readable"
)

func (a *app) show() *cobra.Command {
	var payload bool
	cmd := a.aboutJob(&cobra.Command{
		Use:   "show ID",
		Short: "Show a job with its history",
		Long: `Show a job with its counters, times, errors and headers, its progress, and the steps
that are done. Payload, result and checkpoint may contain secrets; --payload shows
them.`,
	}, func(_ context.Context, _ *inspect.Inspector, j *broker.Job) error {
		if a.structured() {
			return a.object(wholeView(j, payload))
		}
		return a.showJob(j, payload)
	})
	cmd.Flags().BoolVar(&payload, "payload", false, "show payload, result and checkpoint, too")
	return cmd
}

func (a *app) showJob(j *broker.Job, payload bool) error {
	t := a.table("ID", j.ID)
	field := t.field
	field("QUEUE", j.Queue)
	field("TYPE", j.Type)
	state := j.State.String()
	if j.State == broker.StateDead {
		state += ", " + j.Reason.String()
	}
	if j.Suppressed {
		state += ", suppressed"
	}
	if j.CancelRequested {
		state += ", asked to cancel"
	}
	field("STATE", state)
	field("CREATED", clock(j.CreatedAt))
	field("DUE", clock(j.RunAt))
	field("ENDED", clock(j.FinishedAt))
	field("DEADLINE", clock(j.Deadline))
	field("WORKER", j.Worker)
	field("HOLDER", j.Holder)
	field("PRIORITY", strconv.Itoa(int(j.Priority)))
	field("RUNS", fmt.Sprintf("%d delivered, %d failed (retries allowed: %d), %d crashed, %d snoozed",
		j.Deliveries, j.Failures, j.MaxRetries, j.Crashes, j.Snoozes))
	if k := j.Kept; k != nil {
		if !k.Progress.IsZero() {
			field("PROGRESS", k.Progress.String())
		}
		for _, s := range k.Steps {
			field("STEP DONE", s.Name)
		}
		if n := len(k.Checkpoint); n > 0 {
			field("CHECKPOINT", plural(n, "byte"))
		}
	}
	field("TIMEOUT", span(j.Timeout))
	field("KEY", j.Key)
	field("UNIQUE", j.Unique.Key)
	field("CORRELATION", j.CorrelationID)
	field("IDEMPOTENCY", j.IdempotencyKey)
	field("SOURCE", j.Source)
	field("TRACE", readable.TraceID(j.Headers))
	for _, name := range slices.Sorted(maps.Keys(j.Headers)) {
		field("HEADER", name+": "+short(j.Headers[name], 200))
	}
	if j.Broken != nil {
		field("UNREADABLE", j.Broken.Error())
	}
	field("PAYLOAD", plural(len(j.Payload), "byte"))
	if err := t.end(); err != nil {
		return err
	}
	a.showErrors(j)
	if payload {
		a.say("\nPAYLOAD\n  %s", content(j.Payload))
		if len(j.Result) > 0 {
			a.say("\nRESULT\n  %s", content(j.Result))
		}
		if k := j.Kept; k != nil && len(k.Checkpoint) > 0 {
			a.say("\nCHECKPOINT\n  %s", content(k.Checkpoint))
		}
	}
	return nil
}

func (a *app) showErrors(j *broker.Job) {
	if j.Errors.Dropped > 0 {
		a.say("\nnot kept: %s", plural(j.Errors.Dropped, "older error"))
	}
	for _, f := range j.Errors.Entries {
		kind := f.Class
		if f.Code != "" {
			kind += " " + f.Code
		}
		a.say("\n%s  attempt %d  %s  worker %s  %s\n  %s",
			clock(f.At), f.Attempt, plain(kind), plain(f.Worker), plain(f.Version), lines(f.Message))
		if f.Stack != "" {
			a.say("  %s", lines(f.Stack))
		}
	}
}

// lines indents all lines of a text but the first.
func lines(s string) string { return strings.ReplaceAll(readable.PlainLines(s), "\n", "\n  ") }

// content formats bytes for a terminal: JSON indented, other text line by line,
// anything else quoted.
func content(p []byte) string {
	p, _ = readable.Indented(p)
	if utf8.Valid(p) {
		return lines(string(p))
	}
	return strconv.QuoteToASCII(string(p))
}

func (a *app) why() *cobra.Command {
	return a.aboutJob(&cobra.Command{
		Use:   "why ID",
		Short: "Explain why a job has not run, or how it ended",
	}, func(ctx context.Context, i *inspect.Inspector, j *broker.Job) error {
		evidence, err := i.Evidence(ctx, j)
		if err != nil {
			return err
		}
		reasons := inspect.Explain(evidence)
		if a.structured() {
			return a.object(map[string]any{"queue": j.Queue, "id": j.ID, "state": j.State.String(), "reasons": reasons})
		}
		a.say("%s is %s.", plain(j.ID), j.State)
		for _, r := range reasons {
			a.say("- %s", plain(r.Text))
		}
		return nil
	})
}

func (a *app) copyJob() *cobra.Command {
	var as string
	cmd := a.aboutJob(&cobra.Command{
		Use:   "copy ID",
		Short: "Enqueue a fresh job like this one",
		Long: `Enqueue a new job with the type, payload, headers, priority, keys and limits of
this one, which can be in any state and stays as it is. The copy runs at once, with
fresh retries and without a deadline. The copy is refused if another job holds its
unique key, or if the payload is a blob (claim check), which belongs to this job.`,
	}, func(ctx context.Context, i *inspect.Inspector, j *broker.Job) error {
		id := cmp.Or(as, ulid.Make().String())
		if err := i.EnqueueCopy(ctx, j, id); err != nil {
			return err
		}
		return a.answer(map[string]string{"queue": j.Queue, "id": id, "copy_of": j.ID},
			"%s  %s  a copy of %s", plain(id), plain(j.Queue), plain(j.ID))
	})
	cmd.Flags().StringVar(&as, "id", "", "ID of the copy; a second copy with this ID is refused")
	return cmd
}

// aboutJob completes a command about the job that its argument names.
func (a *app) aboutJob(cmd *cobra.Command, do func(ctx context.Context, i *inspect.Inspector, j *broker.Job) error) *cobra.Command {
	var queue string
	cmd.Flags().StringVarP(&queue, "queue", "q", "", "queue (default: look in all)")
	cmd.RunE = a.inspecting(func(ctx context.Context, i *inspect.Inspector, args []string) error {
		j, err := a.locate(ctx, i, queue, args[0])
		if err != nil {
			return err
		}
		return do(ctx, i, j)
	})
	return cmd
}

// locate finds a job by its ID or the beginning of its ID, in one queue or in all. It prints the job's
// ID if that differs from what was typed.
func (a *app) locate(ctx context.Context, i *inspect.Inspector, queue, id string) (*broker.Job, error) {
	found, err := i.Lookup(ctx, id, oneQueue(queue)...)
	switch {
	case err != nil:
		return nil, err
	case len(found) == 0:
		return nil, fmt.Errorf("job %q: %w%s", id, broker.ErrNotFound, missing(id))
	case len(found) > 1:
		return nil, misuse("%s", several(id, found))
	}
	j := &found[0]
	if j.ID != id {
		fmt.Fprintf(a.err, "%s is %s in %s.\n", plain(id), plain(j.ID), plain(j.Queue))
	}
	return i.Job(ctx, j.Queue, j.ID)
}

// missing returns a sentence about why there may be no job with an ID.
func missing(id string) string {
	if len(id) < inspect.LeastPrefix {
		return fmt.Sprintf("; for the beginning of an ID give at least %d characters", inspect.LeastPrefix)
	}
	return ": it ended without a record (see KEEP COMPLETED of jobsctl queues policy), or was deleted, or is in another store"
}

// several returns a text that lists the jobs that an ID can mean.
func several(id string, found []broker.Job) string {
	var b strings.Builder
	if found[0].ID == found[1].ID {
		fmt.Fprintf(&b, "the ID %q is in several queues; choose one with --queue", id)
	} else {
		fmt.Fprintf(&b, "the IDs of several jobs begin with %q; give more characters of the one you mean", id)
	}
	for _, j := range found {
		fmt.Fprintf(&b, "\n  %s  %s  %s  %s", plain(j.ID), plain(j.Queue), plain(j.Type), j.State)
	}
	if len(found) == inspect.MaxLookup {
		b.WriteString("\n  and perhaps more")
	}
	b.WriteString("\n")
	return b.String()
}
