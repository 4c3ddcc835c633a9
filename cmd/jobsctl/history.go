package main

import (
	"context"
	"strings"
	"time"

	"github.com/seed81422ce9/jobs/inspect"
	"github.com/seed81422ce9/jobs/internal/figures"

	"github.com/spf13/cobra"
)

var historyColumns = append(append([]column{
	{head: "UNTIL"},
	{head: "CAME", shape: shape{rank: 3}},
	{head: "DONE"},
	{head: "DONE/S", shape: shape{rank: 4}},
	{head: "FAILED"},
	{head: "DIED", shape: shape{rank: 2}},
}, latencyColumns...), column{head: "PENDING"}, column{head: ""}) // paused

func (a *app) history() *cobra.Command {
	var since time.Duration
	var rows int
	cmd := &cobra.Command{
		Use:   "history [QUEUE]",
		Short: "Show what a queue, or all of them, did, period by period",
		Long: `Show what a queue did in equal periods until now, or all queues together without
one: how many jobs came, completed and died, the share of runs that failed or
crashed; within which time 50, 95 and 99 of 100 jobs began their first run (WAIT P95)
and runs ended (RUN P95), within 12 %; and how many were pending at the end.

A server of the store stores totals once a minute, for a day, and once an hour, for
90 days. While none runs there are none: what happened then counts for the period in
which one ran again. Periods in which nothing happened are left out. In the minute in
which a queue is removed nothing is told of all queues.`,
		Args: orNone("QUEUE"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if since <= 0 || rows < 1 {
				return &usageError{"--since and --rows are more than zero"}
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
	l, err := a.newList(historyColumns, "")
	if err != nil {
		return err
	}
	all := inspect.Periods(points, since, rows)
	for n, p := range all {
		if p.Totals == (inspect.Totals{}) && n+1 < len(all) {
			continue
		}
		u := p.Until
		cells := append([]any{u.At, blankZero(p.Enqueued), blankZero(p.Completed), perSecond(p.Work, p.Completed),
			failureRate(p.Work), blankZero(p.Work.Dead)}, latencyCells(p.Work.Latency)...)
		if err := l.add(figures.PeriodOf(p), append(cells, blankZero(u.Pending), paused(u.Paused))...); err != nil {
			return err
		}
	}
	return l.end()
}
