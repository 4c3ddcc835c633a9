package main

import (
	"context"
	"time"

	"github.com/seed81422ce9/jobs/inspect"

	"github.com/spf13/cobra"
)

// periodView is what a queue did in a period, as --json writes it, and what it had
// at the end.
type periodView struct {
	workView
	Until   time.Time  `json:"until"`
	Totals  totalsView `json:"totals"` // of the period
	Pending int64      `json:"pending"`
	Active  int64      `json:"active"`
	Dead    int64      `json:"dead"`
	Paused  bool       `json:"paused"`
}

var historyColumns = []column{
	{head: "UNTIL"},
	{head: "CAME", shape: shape{rank: 3}},
	{head: "DONE"},
	{head: "DONE/S", shape: shape{rank: 4}},
	{head: "FAILED"},
	{head: "DIED", shape: shape{rank: 2}},
	{head: "WAIT"},
	{head: "RUN", shape: shape{rank: 1}},
	{head: "PENDING"},
	{head: ""}, // paused
}

func (a *app) history() *cobra.Command {
	var since time.Duration
	var rows int
	cmd := &cobra.Command{
		Use:   "history QUEUE",
		Short: "Show what a queue did, period by period",
		Long: `Show what a queue did in equal periods until now: how many jobs came, completed and
died, the share of runs that failed or crashed, how long jobs waited for their first
run and how long runs took, in the mean; and how many were pending at the end.

A server of the store stores totals once a minute, for a day, and once an hour, for
90 days. While none runs there are none: what happened then counts for the period in
which one ran again. Periods in which nothing happened are left out.`,
		Args: exactly("QUEUE"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if since <= 0 || rows < 1 {
				return &usageError{"--since and --rows are more than zero"}
			}
			return a.historyOf(cmd.Context(), args[0], since, rows)
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
	for _, p := range periods(points, since, rows) {
		w := inspect.WorkBetween(p[0], p[1])
		v := periodView{*viewWork(w, p[1].Pending), p[1].At.UTC(), viewTotals(w.Totals), p[1].Pending, p[1].Active, p[1].Dead, p[1].Paused}
		if err := l.add(v, p[1].At, blankZero(w.Enqueued), blankZero(w.Completed), perSecond(w, w.Completed), failureRate(w),
			blankZero(w.Dead), mean(w.MeanWait(), w.Waits), mean(w.MeanRun(), w.Runs), blankZero(p[1].Pending), paused(p[1].Paused)); err != nil {
			return err
		}
	}
	return l.end()
}

// periods divides a history into at most so many parts of equal length: each the
// last point before it, and its own last one. The newest is last.
func periods(points []inspect.Point, span time.Duration, rows int) (all [][2]inspect.Point) {
	if len(points) < 2 {
		return nil
	}
	now := points[len(points)-1].At
	length := span / time.Duration(rows)
	before := points[0]
	for n := 1; n < len(points); n++ {
		p := points[n]
		last := n == len(points)-1
		if !last && now.Sub(p.At)/length == now.Sub(points[n+1].At)/length {
			continue // another one of this period follows
		}
		if p.Totals != before.Totals || last {
			all = append(all, [2]inspect.Point{before, p})
		}
		before = p
	}
	return all
}
