package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/seed81422ce9/jobs/broker"
	"github.com/seed81422ce9/jobs/inspect"

	"github.com/spf13/pflag"
)

// filter is the flags that select jobs.
type filter struct {
	queue, state, typ, key, worker, text string
	olderThan, newerThan                 time.Duration
	suppressed                           bool
	limit                                int
}

// flags adds the flags of f; state is the default.
func (f *filter) flags(flags *pflag.FlagSet, state string) {
	flags.StringVarP(&f.queue, "queue", "q", "", "queue (default: all)")
	flags.StringVarP(&f.state, "state", "s", state, "state: one of the columns of jobs stats, or waiting, when held")
	flags.StringVarP(&f.typ, "type", "t", "", "type of the task")
	flags.StringVarP(&f.key, "key", "k", "", "tenant key")
	flags.StringVarP(&f.worker, "worker", "w", "", "worker that holds it")
	flags.StringVar(&f.text, "error", "", "part of the last error's message")
	flags.DurationVar(&f.olderThan, "older-than", 0, "at least so old: since it was created, ended, or became due, as its state is")
	flags.DurationVar(&f.newerThan, "newer-than", 0, "at most so old")
	flags.BoolVar(&f.suppressed, "suppressed", false, "also suppressed dead jobs")
	flags.IntVarP(&f.limit, "limit", "n", 0, "so many at most, over all queues (default: all)")
}

func stateNames() (names []string) {
	for _, s := range []broker.State{broker.StatePending, broker.StateScheduled, broker.StateActive, broker.StateRetry, broker.StateCompleted, broker.StateDead, broker.StateCancelled, broker.StateWaiting} {
		names = append(names, s.String())
	}
	return names
}

// queries are one for each queue that the filter means, at the store's time.
func (f *filter) queries(ctx context.Context, i *inspect.Inspector) ([]inspect.Query, error) {
	q := inspect.Query{Type: f.typ, Key: f.key, Worker: f.worker, ErrorText: f.text, Suppressed: f.suppressed, NoPayload: true}
	if f.state != "" {
		var state broker.State
		if err := state.UnmarshalText([]byte(f.state)); err != nil {
			return nil, &usageError{fmt.Sprintf("there is no state %q: use one of %s", f.state, strings.Join(stateNames(), ", "))}
		}
		q.State = state
	}
	if f.olderThan < 0 || f.newerThan < 0 || f.limit < 0 {
		return nil, &usageError{"--older-than, --newer-than and --limit cannot be negative"}
	}
	var names []string
	if f.queue != "" {
		names = []string{f.queue}
	}
	infos, err := i.Queues(ctx, names...)
	if err == nil && len(infos) == 0 && f.queue != "" {
		err = fmt.Errorf("queue %q: %w", f.queue, broker.ErrNotFound)
	}
	var queries []inspect.Query
	for _, info := range infos {
		q.Queue = info.Name
		if f.olderThan > 0 {
			q.Before = info.Now.Add(-f.olderThan)
		}
		if f.newerThan > 0 {
			q.After = info.Now.Add(-f.newerThan)
		}
		queries = append(queries, q)
	}
	return queries, err
}

// locate finds a job by its ID, in one queue or in any.
func (a *app) locate(ctx context.Context, i *inspect.Inspector, queue, id string) (*broker.Job, error) {
	if queue != "" {
		return i.Job(ctx, queue, id)
	}
	infos, err := i.Queues(ctx)
	if err != nil {
		return nil, err
	}
	var found *broker.Job
	for _, info := range infos {
		page, err := i.List(ctx, inspect.Query{Queue: info.Name, IDs: []string{id}, Suppressed: true})
		if err != nil {
			return nil, err
		}
		for n := range page.Jobs {
			if found != nil {
				return nil, &usageError{fmt.Sprintf("the ID %q is in the queues %q and %q: choose with --queue", id, found.Queue, info.Name)}
			}
			found = &page.Jobs[n]
		}
	}
	if found == nil {
		return nil, fmt.Errorf("job %q: %w", id, broker.ErrNotFound)
	}
	return found, nil
}
