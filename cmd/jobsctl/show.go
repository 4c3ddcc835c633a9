package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/seed81422ce9/jobs/broker"
	"github.com/seed81422ce9/jobs/inspect"
	"github.com/seed81422ce9/jobs/internal/readable"
)

func (a *app) show() *cobra.Command {
	var queue string
	var payload bool
	cmd := &cobra.Command{
		Use:   "show ID",
		Short: "Show a job with its history",
		Long: `Show a job with its counters, times, errors and headers, its progress, and the steps
that are done. Payload, result and checkpoint may contain secrets; --payload shows
them.`,
		Args: exactly("ID"),
		RunE: a.inspecting(func(ctx context.Context, i *inspect.Inspector, args []string) error {
			j, err := a.locate(ctx, i, queue, args[0])
			if err != nil {
				return err
			}
			if a.structured() {
				return a.object(wholeView(j, payload))
			}
			return a.showJob(j, payload)
		}),
	}
	cmd.Flags().StringVarP(&queue, "queue", "q", "", "queue (default: look in all)")
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
	p, _ = indented(p)
	if utf8.Valid(p) {
		return lines(string(p))
	}
	return strconv.QuoteToASCII(string(p))
}

// indented returns JSON indented, unless it is too deep for that; anything else is returned as it is.
func indented(p []byte) (text []byte, ok bool) {
	var b bytes.Buffer
	if readable.Shallow(p) && json.Indent(&b, p, "", "  ") == nil {
		return b.Bytes(), true
	}
	return p, false
}
