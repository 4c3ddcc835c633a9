package main

import (
	"context"
	"strconv"
	"time"

	"github.com/seed81422ce9/jobs/broker"
	"github.com/seed81422ce9/jobs/inspect"

	"github.com/spf13/cobra"
)

func (a *app) list() *cobra.Command {
	var f filter
	var watch time.Duration
	cmd := &cobra.Command{
		Use:   "ls",
		Short: "List jobs",
		Long: `List the jobs of one state, worker or tenant key, in one queue or in all. Payloads
are not shown.

States: pending, scheduled, active, retry, completed, dead, cancelled, and waiting
(held by a move).`,
		Example: "  jobsctl ls --state retry --queue mail --error timeout\n  jobsctl ls --worker 01J… --json",
		Args:    noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctx := cmd.Context()
			i, err := a.inspector(ctx)
			if err != nil {
				return err
			}
			return a.watch(ctx, watch, func() error { return a.listOnce(ctx, i, &f) })
		},
	}
	f.flags(cmd.Flags(), broker.StatePending.String())
	f.limit = 50
	limit := cmd.Flags().Lookup("limit")
	limit.DefValue, limit.Usage = "50", "maximum number of jobs, over all queues; 0 for all"
	watchFlag(cmd.Flags(), &watch)
	return cmd
}

func (a *app) listOnce(ctx context.Context, i *inspect.Inspector, f *filter) error {
	queries, err := f.queries(ctx, i)
	if err != nil {
		return err
	}
	left := f.limit
	var t table
	if !a.json {
		t = a.table("QUEUE", "ID", "TYPE", "STATE", "ATTEMPT", "WHEN", "KEY", "LAST ERROR")
	}
	for _, q := range queries {
		for j, err := range i.Select(q).Limit(left).Jobs(ctx) {
			if err != nil {
				return err
			}
			if a.json {
				if err := a.object(view(j)); err != nil {
					return err
				}
			} else {
				t.row(j.Queue, j.ID, j.Type, j.State.String(), strconv.Itoa(j.Failures), clock(when(j)), j.Key,
					short(j.Errors.Last().Message, 60))
			}
			if f.limit > 0 {
				if left--; left == 0 {
					break
				}
			}
		}
		if f.limit > 0 && left == 0 {
			break
		}
	}
	if a.json {
		return nil
	}
	return t.end()
}

// when is the time that matters in a job's state.
func when(j *broker.Job) time.Time {
	switch {
	case !j.RunAt.IsZero():
		return j.RunAt
	case !j.FinishedAt.IsZero():
		return j.FinishedAt
	}
	return j.CreatedAt
}
