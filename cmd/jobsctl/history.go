package main

import (
	"context"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/seed81422ce9/jobs/inspect"
	"github.com/seed81422ce9/jobs/internal/figures"
)

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
		RunE: func(cmd *cobra.Command, args []string) error {
			if since <= 0 || rows < 1 {
				return misuse("--since and --rows must be more than zero")
			}
			return a.historyOf(cmd.Context(), strings.Join(args, ""), since, rows)
		},
	}
	spanFlag(cmd.Flags(), &since, "since", time.Hour, "how far back, at most 90d")
	cmd.Flags().IntVar(&rows, "rows", 24, "how many periods at most")
	return cmd
}

func (a *app) historyOf(ctx context.Context, queue string, since time.Duration, rows int) error {
	i, err := a.inspector(ctx)
	if err != nil {
		return err
	}
	points, err := i.History(ctx, queue, since)
	if err != nil {
		return err
	}
	l := a.newList(historyColumns)
	all := inspect.Periods(points, since, rows)
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
