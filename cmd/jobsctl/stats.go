package main

import (
	"context"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/seed81422ce9/jobs/broker"
	"github.com/seed81422ce9/jobs/inspect"
	"github.com/seed81422ce9/jobs/internal/figures"
)

// shown are the states that tables have columns for.
var shown = []broker.State{
	broker.StatePending, broker.StateScheduled, broker.StateActive, broker.StateRetry,
	broker.StateCompleted, broker.StateDead, broker.StateCancelled,
}

var queueColumns = append(append([]column{
	{head: "QUEUE", least: 8},
	{head: "PENDING"},
	{head: "SCHEDULED", rank: 3},
	{head: "ACTIVE"},
	{head: "RETRY"},
	{head: "COMPLETED", rank: 8},
	{head: "DEAD"},
	{head: "CANCELLED", rank: 9},
	{head: "WAITING", seen: true},
	{head: "SUPPRESSED", rank: 1, seen: true},
	{head: "OLDEST"},
}, workColumns...), column{head: ""}) // paused

func (a *app) stats() *cobra.Command {
	var watch time.Duration
	cmd := &cobra.Command{
		Use:   "stats [QUEUE…]",
		Short: "Count jobs by queue and state",
		Long: `Count jobs by queue and state. OLDEST: in each priority, one pending job is next; this is
the age of the oldest of them. --json shows this age for each priority. DEAD leaves
out suppressed jobs, which SUPPRESSED counts where there are any.

The other columns cover about the last five minutes: DONE/S is how many jobs
completed per second, FAILED the share of runs that failed or crashed. 95 of 100 jobs
waited no longer than WAIT P95 for their first run, and 95 of 100 runs took no longer
than RUN P95, both within 12 %; P50 and P99 likewise. GONE IN is the time until no job
is pending at these rates, blank if the number of pending jobs does not fall. A server
records these figures once a minute; they are blank while none runs. --json has means,
too.`,
		RunE: a.inspecting(func(ctx context.Context, i *inspect.Inspector, args []string) error {
			return a.watch(ctx, watch, func() error { return a.statsOnce(ctx, i, args) })
		}),
	}
	watchFlag(cmd.Flags(), &watch)
	a.sortFlag(cmd, queueColumns)
	return cmd
}

func (a *app) statsOnce(ctx context.Context, i *inspect.Inspector, queues []string) error {
	infos, err := readQueues(ctx, i.Queues, queues...)
	if err != nil {
		return err
	}
	l := a.newList(queueColumns)
	lately, err := i.Lately(ctx, infos)
	if err != nil {
		return err
	}
	for _, q := range infos {
		values := []any{q.Name}
		for _, s := range listable {
			values = append(values, blankZero(q.Listed(s)))
		}
		values = append(values, blankZero(q.Suppressed), q.Age(broker.StatePending))
		values = append(values, workCells(lately[q.Name], q.Counts[broker.StatePending])...)
		values = append(values, paused(q.Policy.Paused))
		l.add(figures.QueueOf(q, lately), values...)
	}
	return l.end()
}

func paused(p bool) string {
	if p {
		return "paused"
	}
	return ""
}

var historyColumns = append(append([]column{
	{head: "UNTIL"},
	{head: "CAME", rank: 3},
	{head: "DONE"},
	{head: "DONE/S", rank: 4},
	{head: "FAILED"},
	{head: "DIED", rank: 2},
}, latencyColumns...), column{head: "PENDING"}, column{head: ""}) // paused

func (a *app) history() *cobra.Command {
	var since time.Duration
	var rows int
	cmd := &cobra.Command{
		Use:   "history [QUEUE]",
		Short: "Show what a queue, or all of them, did, period by period",
		Long: `Show what a queue did in equal periods until now; without QUEUE, what all queues
did together. CAME, DONE and DIED count jobs that were enqueued, completed and dead;
FAILED is the share of runs that failed or crashed. 95 of 100 jobs waited no longer
than WAIT P95 for their first run, and 95 of 100 runs took no longer than RUN P95;
both within 12 %. PENDING is the number of pending jobs at the end of the period.

One of the store's servers stores the totals: once a minute for a day, and once an
hour for 90 days. What happens while no server runs counts for the period in which
one runs again. Periods in which nothing happened are left out, and so is, without
QUEUE, the minute in which a queue is removed.`,
		RunE: a.inspecting(func(ctx context.Context, i *inspect.Inspector, args []string) error {
			if since <= 0 || rows < 1 {
				return misuse("--since and --rows must be more than zero")
			}
			points, err := i.History(ctx, strings.Join(args, ""), since)
			if err != nil {
				return err
			}
			return a.listPeriods(inspect.Periods(points, since, rows))
		}),
	}
	spanFlag(cmd.Flags(), &since, "since", time.Hour, "how far back, at most 90d")
	cmd.Flags().IntVar(&rows, "rows", 24, "how many periods at most")
	return cmd
}

func (a *app) listPeriods(all []inspect.Period) error {
	l := a.newList(historyColumns)
	for n, p := range all {
		if p.Totals == (inspect.Totals{}) && n+1 < len(all) {
			continue
		}
		u := p.Until
		cells := append([]any{u.At, blankZero(p.Enqueued), blankZero(p.Completed), perSecond(p.Work, p.Completed),
			failureRate(p.Work), blankZero(p.Work.Dead)}, latencyCells(p.Work.Latency)...)
		l.add(figures.PeriodOf(p), append(cells, blankZero(u.Pending), paused(u.Paused))...)
	}
	return l.end()
}
