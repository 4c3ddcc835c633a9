package main

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/seed81422ce9/jobs/backends"
	"github.com/seed81422ce9/jobs/compat/riverdata"
)

func (a *app) importRiver() *cobra.Command {
	return a.importFrom("River's database, such as postgres://host/database?schema=public", &cobra.Command{
		Use:   "river --from URL",
		Short: "Import the jobs of River",
		Long: `Import the jobs that River keeps in Postgres: available, scheduled and retryable
ones as they are, discarded ones as dead. Pending ones, which River keeps until
somebody makes them available, are scheduled for the year 2190, until somebody
reschedules them. Each job keeps its queue, kind (as its type), arguments, priority,
attempts and errors; its ID is "river-" and River's. Tags and metadata become the
headers river-tags and river-metadata. River's tables are only read, and can be in
use. The command reads everything again at the end, to verify that each job is here.

Running jobs are not imported, nor are unique keys: River computes them in its
clients. So first point producers to the new store, pause the queues
(Client.QueuePause), wait until no job runs, and then import. Without the pause, a
job can run in both stores. Periodic jobs are code in River: write them as schedules.

You can run the command again, after an interruption or for jobs that came since: it
only counts jobs that are here already, or ran here. For that, the queues remember IDs
for --remember (DUPLICATE SPAN of "jobsctl queues policy").`,
		Example: "  jobsctl import river --from postgres://old/app --dry-run\n" +
			"  jobsctl import river --from 'postgres://old/app?schema=river' --queue default",
	}, func(ctx context.Context, url string) (*peer, error) {
		pool, schema, err := backends.PostgresPool(ctx, url)
		if err != nil {
			return nil, err
		}
		store := riverdata.NewStore(pool, schema)
		return &peer{name: "River", read: store.Jobs, close: pool.Close,
			look: func(ctx context.Context, names []string) ([]peerQueue, bool, error) {
				return lookAtRiver(ctx, store, names)
			}}, nil
	})
}

func lookAtRiver(ctx context.Context, store *riverdata.Store, names []string) (all []peerQueue, works bool, err error) {
	queues, err := store.Queues(ctx, names...)
	if err != nil {
		return nil, false, err
	}
	for _, q := range queues {
		all = append(all, peerQueue{name: q.Name, paused: q.Paused,
			found: []stateCount{{"available", q.Available}, {"scheduled", q.Scheduled}, {"retryable", q.Retryable},
				{"discarded", q.Discarded}, {"pending", q.Pending}},
			left: []stateCount{{"running", q.Running}, {"completed", q.Completed}, {"cancelled", q.Cancelled}}})
	}
	works, err = store.Led(ctx)
	return all, works, err
}
