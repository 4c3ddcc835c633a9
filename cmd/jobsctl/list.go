package main

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/seed81422ce9/jobs/broker"
	"github.com/seed81422ce9/jobs/inspect"
)

func (a *app) list() *cobra.Command {
	var f filter
	var watch time.Duration
	cmd := &cobra.Command{
		Use:   "ls",
		Short: "List jobs",
		Long: `List the jobs of one state, worker or partition key, in one queue or in all.
With --state "", those of a worker or key in all states. Payloads are not shown.

States: pending, scheduled, active, retry, completed, dead, cancelled, and waiting
(held by a move, or until a job with the same unique key has ended).`,
		Example: "  jobsctl ls --state retry --queue mail --error timeout\n  jobsctl ls --worker 01J… --json",
		RunE: a.inspecting(func(ctx context.Context, i *inspect.Inspector, _ []string) error {
			return a.watch(ctx, watch, func() error { return a.listOnce(ctx, i, &f) })
		}),
	}
	f.flags(cmd.Flags(), broker.StatePending.String())
	_ = cmd.Flags().SetAnnotation("state", canBeEmpty, nil) // the flag exists
	f.deadFlags(cmd.Flags())
	f.limit = 50
	limit := cmd.Flags().Lookup("limit")
	limit.DefValue, limit.Usage = "50", "maximum number of jobs, over all queues; 0 for all"
	watchFlag(cmd.Flags(), &watch)
	a.sortFlag(cmd, jobColumns)
	return cmd
}

var jobColumns = []column{
	{head: "QUEUE", least: 8},
	{head: "ID", least: 26}, // a ULID is never cut
	{head: "TYPE", least: 8},
	{head: "STATE", rank: 4}, // usually the one that the user asked for
	{head: "ATTEMPT", rank: 2},
	{head: "WHEN", rank: 1},
	{head: "KEY", rank: 3, least: 8},
	{head: "PRIORITY", wide: true},
	{head: "CREATED", wide: true},
	{head: "DELIVERIES", wide: true},
	{head: "CRASHES", wide: true},
	{head: "REASON", wide: true},
	{head: "WORKER", wide: true},
	{head: "CORRELATION", wide: true},
	{head: "LAST ERROR", least: 10},
}

func (l *listing) addJob(j *broker.Job) {
	reason := ""
	if j.State == broker.StateDead {
		reason = j.Reason.String()
	}
	l.add(view(j), j.Queue, j.ID, j.Type, j.State, j.Failures, when(j), j.Key, int(j.Priority), j.CreatedAt,
		j.Deliveries, j.Crashes, reason, j.Worker, j.CorrelationID, cause(j.Errors.Last().Message))
}

func (a *app) listOnce(ctx context.Context, i *inspect.Inspector, f *filter) error {
	l := a.newList(jobColumns)
	if err := f.find(ctx, i); err != nil {
		return err
	}
	look := a.search("looking", f)
	defer look.end()
	most := f.limit
	switch {
	case l.sort != "":
		l.limit, most = f.limit, 0 // the first rows are known only after sorting
	case most > 0 && len(f.queries) > 1:
		l.sort = "queue"
	}
	if a.sort == "" && look.total > 0 {
		l.early(look)
	}
	from := make([]inspect.Selection, len(f.queries))
	for n, q := range f.queries {
		if q.Newest = newestFirst(&q); q.Newest && l.sort == "queue" {
			l.sort = "-when"
		}
		looked := look.of(n)
		from[n] = f.of(i, q).OnLook(func(n int) { looked(n); l.tick() })
	}
	for j, err := range inspect.InTurn(ctx, most, from...) {
		if err = cmp.Or(err, l.failed); err != nil {
			return err
		}
		l.addJob(j)
	}
	return l.end()
}

// newestFirst reports whether a list begins with the newest jobs. For jobs that ended
// it does: people want to see what happened last.
func newestFirst(q *inspect.Query) bool { return q.State.Final() && q.Worker == "" && q.Key == "" }

// when returns the time that matters in a job's state.
func when(j *broker.Job) time.Time {
	switch {
	case !j.RunAt.IsZero():
		return j.RunAt
	case !j.FinishedAt.IsZero():
		return j.FinishedAt
	}
	return j.CreatedAt
}

// minWatch is the shortest interval of --watch, so that the store is not flooded.
const minWatch = time.Second

// watchFlag adds --watch, for commands that can repeat their output.
func watchFlag(flags *pflag.FlagSet, every *time.Duration) {
	spanFlag(flags, every, "watch", 0, "repeat after this time, at least 1s, until interrupted")
}

// watch calls look once, or if every is not 0 repeatedly until ctx ends. If the store goes
// away meanwhile, watch tells the user and looks again.
func (a *app) watch(ctx context.Context, every time.Duration, look func() error) error {
	for again := false; ; again = true {
		err := look()
		if every > 0 && ctx.Err() != nil {
			return nil
		}
		if again && broker.StoreFailed(err) {
			fmt.Fprintln(a.err, "jobsctl:", text(err)+"; asking again")
			err = nil
		}
		if err != nil || every == 0 {
			return err
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(max(every, minWatch)):
			a.say("")
		}
	}
}
