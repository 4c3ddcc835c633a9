package main

import (
	"context"
	"errors"

	"github.com/spf13/cobra"

	"github.com/seed81422ce9/jobs/backends"
	"github.com/seed81422ce9/jobs/broker"
	"github.com/seed81422ce9/jobs/compat/asynqdata"
	"github.com/seed81422ce9/jobs/schedule"
)

func (a *app) importAsynq() *cobra.Command {
	var zone string
	cmd := a.importFrom("asynq's Redis, such as redis://host:6379/0", &cobra.Command{
		Use:   "asynq --from URL",
		Short: "Import the tasks of asynq",
		Long: `Import the tasks that asynq keeps in Redis: pending, scheduled and retried ones as
they are, archived ones as dead. Each keeps its ID, queue, type, payload, headers,
options, counts and last error. Asynq's Redis is only read, and can be in use. The
command reads everything again at the end, to verify that each task is here.

Tasks that run and groups that wait are not imported. So first point producers to
the new store, pause the queues ("asynq queue pause"), wait until no task is
active, and then import. Without the pause, a task can run in both stores.

You can run the command again, after an interruption or for tasks that came since: it
only counts tasks that are here already, or ran here. For that, the queues remember IDs
for --remember (DUPLICATE SPAN of "jobsctl queues policy").

Without --queue, the entries of a running scheduler become paused schedules of the
owner asynq: resume them when the scheduler has stopped. Asynq stores neither the
scheduler's zone nor the options of NewTask: give --zone, and check the options.`,
		Example: "  jobsctl import asynq --from redis://old:6379/0 --dry-run\n" +
			"  jobsctl import asynq --from redis://old:6379/0 --queue critical,default",
	}, func(_ context.Context, url string) (*peer, error) {
		client, err := backends.RedisClient(url)
		if err != nil {
			return nil, err
		}
		store := asynqdata.NewStore(client)
		return &peer{name: "asynq", read: store.Tasks, close: func() { _ = client.Close() }, // it was only read
			look: func(ctx context.Context, names []string) ([]peerQueue, bool, error) {
				return lookAtAsynq(ctx, store, names)
			},
			rest: func(ctx context.Context, dry bool) error { return a.importPeriodic(ctx, store, dry, zone) }}, nil
	})
	cmd.Flags().StringVar(&zone, "zone", "", "zone of asynq's scheduler, such as Europe/Berlin (default: UTC)")
	return cmd
}

func lookAtAsynq(ctx context.Context, store *asynqdata.Store, names []string) (all []peerQueue, works bool, err error) {
	queues, err := store.Queues(ctx, names...)
	if err != nil {
		return nil, false, err
	}
	for _, q := range queues {
		all = append(all, peerQueue{name: q.Name, paused: q.Paused,
			found: []stateCount{{"pending", q.Pending}, {"scheduled", q.Scheduled}, {"retry", q.Retry}, {"archived", q.Archived}},
			left:  []stateCount{{"active", q.Active}, {"aggregating", q.Aggregating}, {"completed", q.Completed}}})
	}
	servers, err := store.Servers(ctx)
	return all, servers > 0, err
}

// importPeriodic stores the tasks of asynq's schedulers as schedules. New schedules
// start paused.
func (a *app) importPeriodic(ctx context.Context, store *asynqdata.Store, dry bool, zone string) error {
	entries, err := store.Periodic(ctx)
	if err != nil || len(entries) == 0 {
		return err
	}
	b, err := a.broker(ctx)
	if err != nil {
		return err
	}
	schedules := schedule.New(b, asynqdata.Source)
	var all error
	for _, e := range entries {
		d, err := e.Definition(zone)
		change := schedule.Unchanged
		if err == nil && !dry {
			d.Options = append(d.Options, schedule.WithPaused("jobsctl import")) // asynq's scheduler may still run
			change, err = d.Put(ctx, schedules)
		}
		if broker.StoreFailed(err) {
			return errors.Join(all, err)
		}
		refusal := ""
		if err != nil {
			refusal, all = err.Error(), errRefused
		}
		if err := a.object(map[string]any{"verb": "import", "from": "asynq", "schedule": d.ID, "spec": d.Spec.String(),
			"type": e.Type, "change": string(change), "dry_run": dry, "error": refusal}); err != nil {
			return err
		}
		switch {
		case err != nil:
			a.say("schedule %s: %s", plain(d.ID), plain(text(err)))
		case dry:
			a.say("schedule %s (%s) could be imported.", plain(d.ID), plain(d.Spec.String()))
		case change == schedule.Created:
			a.say("schedule %s (%s) imported, and paused.", plain(d.ID), plain(d.Spec.String()))
		default:
			a.say("schedule %s (%s) existed already.", plain(d.ID), plain(d.Spec.String()))
		}
	}
	return all
}
