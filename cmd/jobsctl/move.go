package main

import (
	"cmp"
	"context"
	"errors"
	"slices"

	"github.com/spf13/cobra"

	"github.com/seed81422ce9/jobs/broker"
	"github.com/seed81422ce9/jobs/inspect"
)

// movable are the states whose jobs can be moved; those that wait to run come first.
var movable = []broker.State{
	broker.StatePending, broker.StateScheduled, broker.StateRetry, broker.StateDead, broker.StateCompleted, broker.StateCancelled,
}

// transfer is the configuration of a move, by flags.
type transfer struct {
	filter
	states             []string
	to, toQueue        string
	copy, policy, undo bool
	sharedBlobs        bool
	dry                bool
}

func (a *app) move() *cobra.Command {
	var t transfer
	cmd := &cobra.Command{
		Use:   "move --queue QUEUE",
		Short: "Move or copy a queue's jobs to another store or queue",
		Long: `Move a queue's jobs to another store, of any backend, or to another queue, with
their IDs, bytes, headers, errors, counts and times. --copy keeps them here too.

Workers can run on both sides. A job that waits to run is held here (state
waiting), enqueued there, and deleted here. So at any time it can be claimed in
at most one queue. Running jobs and new jobs are not moved: switch producers to
the new store first, and run the command again for the rest.

If the command was killed, run it again: it finishes the move. --undo puts held
jobs back into their queue instead: those for this destination, except jobs that
are there already or ran there in the last hour (the DUPLICATE SPAN of the queue
there); or, without --to and --to-queue, those of all moves.

A job is refused, and stays here, if another job there has its ID or its unique
key, or if the queue there is full. So is a job whose payload is a blob (claim
check), unless --shared-blobs is given. JOBS_TO can replace --to.`,
		Example: "  jobsctl move --queue mail --to postgres://… --policy\n" +
			"  jobsctl move --queue mail --to-queue mail-slow --state pending --type email:digest --rate 100",
		RunE: func(cmd *cobra.Command, _ []string) error {
			for _, name := range []string{"state", "type", "key", "error", "older-than", "newer-than", "limit", "rate", "policy"} {
				if t.undo && cmd.Flags().Changed(name) {
					return misuse("--undo puts back all jobs that the move holds: --%s cannot be given with it", name)
				}
			}
			return a.runMove(cmd.Context(), &t)
		},
	}
	flags := cmd.Flags()
	flags.StringVarP(&t.queue, "queue", "q", "", "queue to move from")
	flags.StringVar(&t.to, "to", "", "URL or context of the store to move to (default $JOBS_TO, or this store)")
	flags.StringVar(&t.toQueue, "to-queue", "", "queue to move to (default: the same name)")
	flags.StringSliceVarP(&t.states, "state", "s", texts(movable), "states to move")
	t.commonFlags(flags)
	flags.IntVarP(&t.limit, "limit", "n", 0, "maximum number of jobs (default: all)")
	t.rateFlag(flags)
	flags.BoolVar(&t.copy, "copy", false, "copy; a job that waits to run will then run twice")
	flags.BoolVar(&t.sharedBlobs, "shared-blobs", false, "both stores share a blob store and its CollectBlobs; move claim checks too")
	flags.BoolVar(&t.policy, "policy", false, "copy the queue's policy too, except whether it is paused")
	flags.BoolVar(&t.undo, "undo", false, "put jobs back that an interrupted move holds")
	flags.BoolVar(&t.dry, "dry-run", false, "only count the jobs")
	return cmd
}

// findEach sets the queries for each of the states.
func (t *transfer) findEach(ctx context.Context, i *inspect.Inspector) error {
	for _, name := range t.states {
		f := t.filter
		f.state, f.suppressed = name, true
		if err := f.find(ctx, i); err != nil {
			return err
		}
		if !slices.Contains(movable, f.queries[0].State) {
			return misuse("jobs in state %s cannot be moved", name)
		}
		t.queries = append(t.queries, f.queries...)
	}
	return nil
}

func (a *app) runMove(ctx context.Context, t *transfer) error {
	t.to = cmp.Or(t.to, a.getenv("JOBS_TO"))
	switch {
	case t.queue == "":
		return misuse("give --queue")
	case t.to == "" && t.toQueue == "" && !t.undo:
		return misuse("give --to or --to-queue")
	case t.undo && t.copy:
		return misuse("--undo cannot be given with --copy: a copy holds no jobs")
	}
	i, err := a.inspector(ctx)
	if err != nil {
		return err
	}
	if _, err := i.Queue(ctx, t.queue); err != nil { // images+* names several queues; each has its own policy and held jobs
		return err
	}
	if err := t.findEach(ctx, i); err != nil {
		return err
	}
	to := inspect.Destination{Queue: t.toQueue, Copy: t.copy, SharedBlobs: t.sharedBlobs}
	switch {
	case t.to != "":
		if to.Broker, err = a.destination(ctx, t.to); err != nil {
			return err
		}
		defer to.Broker.Close()
	case t.toQueue != "":
		to.Broker = a.store
	}
	if t.undo {
		return a.undoMove(ctx, i, t, to)
	}
	d := &decision{Verb: inspect.Verb{Name: "move", Done: "moved", Grave: true,
		Do: func(s inspect.Selection, ctx context.Context) (inspect.Report, error) { return s.Move(ctx, to) }}}
	if t.copy {
		d.Name, d.Done, d.Grave = "copy", "copied", false
	}
	return a.moveQueries(ctx, i, t, to, d)
}

func (a *app) undoMove(ctx context.Context, i *inspect.Inspector, t *transfer, to inspect.Destination) error {
	d := &decision{Verb: inspect.Verb{Name: "put back", Done: "put back"}}
	if t.dry {
		n, err := i.CountHeld(ctx, t.queue, to)
		if err != nil {
			return err
		}
		return a.report(d, inspect.Report{Matched: n}, true)
	}
	const question = "put back all jobs that moves hold, although some may be at their destination and run twice"
	if err := a.confirm(ctx, to.Broker == nil, question); err != nil {
		return err
	}
	r, err := i.UndoMove(ctx, t.queue, to)
	return errors.Join(err, a.report(d, r, false))
}

func (a *app) moveQueries(ctx context.Context, i *inspect.Inspector, t *transfer, to inspect.Destination, d *decision) error {
	n := 0
	for _, q := range t.queries {
		some, err := i.Select(q).Limit(rest(t.limit, n)).Count(ctx)
		if n += some; err != nil {
			return err
		}
		if t.limit > 0 && n >= t.limit {
			break
		}
	}
	if t.dry {
		return a.report(d, inspect.Report{Matched: n}, true)
	}
	if err := a.confirm(ctx, d.Grave || n > largeDecision, "%s about %s of %s", d.Name, plural(n, "job"), plain(t.queue)); err != nil {
		return err
	}
	if t.policy {
		if err := copyPolicy(ctx, i, t.queue, to); err != nil {
			return err
		}
		a.say("%s there has the policy of %s.", plain(cmp.Or(to.Queue, t.queue)), plain(t.queue))
	}
	if !t.copy {
		r, err := i.FinishMove(ctx, t.queue, to)
		if r.Matched > 0 {
			a.say("%s of %s moved.", number(r.Done), plural(r.Matched, "held job"))
		}
		if err != nil {
			return err
		}
	}
	err := a.carryOut(ctx, i, d, &t.filter, n)
	if info, infoErr := i.Queue(ctx, t.queue); infoErr == nil {
		if running := info.Counts[broker.StateActive]; running > 0 {
			a.say("Not %s: %s. Run the command again when they have ended.", d.Done, plural(int(running), "running job"))
		}
	}
	return err
}

// copyPolicy copies the policy of a queue to the destination, except whether the queue
// is paused.
func copyPolicy(ctx context.Context, i *inspect.Inspector, queue string, to inspect.Destination) error {
	wanted, err := i.Policy(ctx, queue)
	if err != nil {
		return err
	}
	there, name := inspect.New(to.Broker), cmp.Or(to.Queue, queue)
	now, err := there.Policy(ctx, name)
	if err == nil {
		wanted.Paused = now.Paused
		_, err = there.SetPolicy(ctx, broker.PolicyFrom(name, "", now, wanted))
	}
	return err
}
