package main

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/seed81422ce9/jobs/broker"
	"github.com/seed81422ce9/jobs/inspect"

	"github.com/spf13/cobra"
)

// queueView is a queue as --json writes it; ages are seconds.
type queueView struct {
	Queue   string             `json:"queue"`
	Paused  bool               `json:"paused"`
	Counts  map[string]int64   `json:"counts"`
	Oldest  map[string]float64 `json:"oldest_seconds"`
	Pending map[int]float64    `json:"oldest_pending_seconds,omitempty"` // by priority
	Policy  policyView         `json:"policy,omitempty"`
	Workers []workerView       `json:"workers,omitempty"`
	Now     time.Time          `json:"now"`
}

// shown are the states that tables have columns for.
var shown = []broker.State{
	broker.StatePending, broker.StateScheduled, broker.StateActive, broker.StateRetry,
	broker.StateCompleted, broker.StateDead, broker.StateCancelled,
}

// suppressed heads the column of dead jobs that are suppressed; that of dead ones
// leaves these out.
const suppressed = "suppressed"

// anySuppressed reports whether there are any.
func anySuppressed(infos []inspect.QueueInfo) bool {
	return slices.ContainsFunc(infos, func(q inspect.QueueInfo) bool { return q.Suppressed > 0 })
}

// shownOf are those and, while a job is held, waiting.
func shownOf(infos ...inspect.QueueInfo) []broker.State {
	for _, q := range infos {
		if q.Counts[broker.StateWaiting] > 0 {
			return append(slices.Clone(shown), broker.StateWaiting)
		}
	}
	return shown
}

func viewQueue(q inspect.QueueInfo) queueView {
	v := queueView{Queue: q.Name, Paused: q.Policy.Paused, Counts: map[string]int64{}, Oldest: map[string]float64{},
		Pending: map[int]float64{}, Now: q.Now.UTC()}
	for _, s := range shownOf(q) {
		v.Counts[s.String()] = q.Listed(s)
		if age := q.Age(s); age > 0 {
			v.Oldest[s.String()] = age.Seconds()
		}
	}
	if q.Suppressed > 0 {
		v.Counts[suppressed] = q.Suppressed
	}
	for p := range q.OldestPending {
		v.Pending[int(p)] = q.AgePending(p).Seconds()
	}
	return v
}

func (a *app) stats() *cobra.Command {
	var watch time.Duration
	cmd := &cobra.Command{
		Use:   "stats [QUEUE…]",
		Short: "Count jobs by queue and state",
		Long: `Count jobs by queue and state. OLDEST is the age of the oldest among the jobs that
are next in their priority. --json shows this age for each priority. DEAD leaves
out suppressed jobs, which SUPPRESSED counts where there are any.`,
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx := cmd.Context()
			i, err := a.inspector(ctx)
			if err != nil {
				return err
			}
			return a.watch(ctx, watch, func() error { return a.statsOnce(ctx, i, args) })
		},
	}
	watchFlag(cmd.Flags(), &watch)
	return cmd
}

func (a *app) statsOnce(ctx context.Context, i *inspect.Inspector, queues []string) error {
	infos, err := i.Queues(ctx, queues...)
	if err == nil {
		err = allThere(infos, queues)
	}
	if err != nil {
		return err
	}
	if a.json {
		for _, q := range infos {
			if err := a.object(viewQueue(q)); err != nil {
				return err
			}
		}
		return nil
	}
	states, heads := shownOf(infos...), []string{"QUEUE"}
	for _, s := range states {
		heads = append(heads, strings.ToUpper(s.String()))
	}
	apart := anySuppressed(infos)
	if apart {
		heads = append(heads, strings.ToUpper(suppressed))
	}
	t := a.table(append(heads, "OLDEST", "")...)
	for _, q := range infos {
		cells := []string{q.Name}
		for _, s := range states {
			cells = append(cells, count(q.Listed(s)))
		}
		if apart {
			cells = append(cells, count(q.Suppressed))
		}
		t.row(append(cells, span(q.Age(broker.StatePending)), paused(q.Policy.Paused))...)
	}
	return t.end()
}

func paused(p bool) string {
	if p {
		return "paused"
	}
	return ""
}
