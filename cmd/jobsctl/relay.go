package main

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	"github.com/seed81422ce9/jobs/broker"
	"github.com/seed81422ce9/jobs/relay"
)

// relaying is the configuration of relays, by flags.
type relaying struct {
	queues      []string
	to, toQueue string
	batch       int
	lease       time.Duration
	untilEmpty  bool
	sharedBlobs bool
}

func (a *app) relay() *cobra.Command {
	var r relaying
	cmd := &cobra.Command{
		Use:   "relay --queue QUEUE --to URL",
		Short: "Move jobs to another store as they arrive: an outbox",
		Long: `Move jobs to another store as they arrive: an application enqueues here, in the
transaction that writes its rows, and its workers take the jobs there. The
command runs until it is interrupted; then it drains.

Each job arrives once, under its ID. Jobs with the same key arrive in order. Any
number of relays can run for a queue: one works, and the others stand by. If it
dies, another takes over after --lease. No worker may serve the queue here.

While the other store cannot be reached, or its queue is full, jobs wait here. A job
that it refuses for good becomes dead here, with the reason; redrive sends it again.
So does a job whose payload is a blob (claim check), unless --shared-blobs is given.

JOBS_TO can replace --to. To move jobs once, with their past, use "jobsctl move".`,
		Example: "  jobsctl relay --queue mail --to redis://localhost:6379\n" +
			"  jobsctl relay --queue outbox --to redis://… --to-queue mail",
		RunE: func(cmd *cobra.Command, _ []string) error { return a.runRelay(cmd.Context(), &r) },
	}
	flags := cmd.Flags()
	flags.StringSliceVarP(&r.queues, "queue", "q", nil, "queues to move jobs from")
	flags.StringVar(&r.to, "to", "", "URL or context of the store to move jobs to (default $JOBS_TO, or this store)")
	flags.StringVar(&r.toQueue, "to-queue", "", "queue to move jobs to (default: the same name)")
	flags.IntVar(&r.batch, "batch", broker.MaxClaim, "maximum number of jobs in one step")
	spanFlag(flags, &r.lease, "lease", broker.DefaultLease, "time until another relay takes over, if this one dies")
	flags.BoolVar(&r.sharedBlobs, "shared-blobs", false, "both stores share a blob store and its CollectBlobs; move claim checks too")
	flags.BoolVar(&r.untilEmpty, "until-empty", false, "end when no job is left that could be moved now")
	return cmd
}

func (a *app) runRelay(ctx context.Context, r *relaying) error {
	r.to = cmp.Or(r.to, a.getenv("JOBS_TO"))
	switch {
	case len(r.queues) == 0:
		return misuse("give --queue")
	case r.to == "" && r.toQueue == "":
		return misuse("give --to or --to-queue")
	case r.toQueue != "" && len(r.queues) > 1:
		return misuse("--to-queue can be given with only one --queue")
	}
	from, err := a.broker(ctx)
	if err != nil {
		return err
	}
	to := from
	if r.to != "" {
		if to, err = a.destination(ctx, r.to); err != nil {
			return err
		}
		defer to.Close()
	}
	relays := make([]*relay.Relay, len(r.queues))
	for i, queue := range r.queues {
		relays[i], err = relay.New(relay.Config{From: from, FromQueue: queue, To: to, ToQueue: r.toQueue, Batch: r.batch, Lease: r.lease,
			StopWhenEmpty: r.untilEmpty, SharedBlobs: r.sharedBlobs, Logger: slog.New(slog.NewTextHandler(a.err, nil))})
		if err != nil {
			return err
		}
	}
	running, ctx := errgroup.WithContext(ctx)
	for _, one := range relays {
		running.Go(func() error { return one.Run(ctx) })
	}
	err = running.Wait()
	return errors.Join(err, a.sayRelayed(relays, r.untilEmpty))
}

// sayRelayed reports how many jobs were moved and refused. If wanted is set, which --until-empty does,
// refused jobs are an error.
func (a *app) sayRelayed(relays []*relay.Relay, wanted bool) error {
	var err error
	for _, one := range relays {
		s := one.Stats()
		refused := int64(0)
		for _, n := range s.Refused {
			refused += n
		}
		if err := a.answer(map[string]any{"queue": s.Queue, "relayed": s.Relayed, "refused": refused}, "%s of %s relayed, %s refused.",
			plural(int(s.Relayed), "job"), plain(s.Queue), number(int(refused))); err != nil {
			return err
		}
		if refused > 0 && wanted {
			err = errRefused
		}
	}
	return err
}
