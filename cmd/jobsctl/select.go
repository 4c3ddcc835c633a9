package main

import (
	"context"
	"fmt"
	"slices"
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

	infos []inspect.QueueInfo // of the queues that queries are for
}

// flags adds the flags of f; state is the default.
func (f *filter) flags(flags *pflag.FlagSet, state string) {
	flags.StringVarP(&f.queue, "queue", "q", "", "queue (default: all)")
	flags.StringVarP(&f.state, "state", "s", state, "state of the jobs; \"jobsctl ls --help\" lists the states")
	flags.StringVarP(&f.typ, "type", "t", "", "type of the task")
	flags.StringVarP(&f.key, "key", "k", "", "partition key")
	flags.StringVarP(&f.worker, "worker", "w", "", "ID of the worker that holds the job")
	flags.StringVar(&f.text, "error", "", "text that the last error contains")
	spanFlag(flags, &f.olderThan, "older-than", 0, "older than this, such as 3d: by creation, end or due time, depending on the state")
	spanFlag(flags, &f.newerThan, "newer-than", 0, "newer than this")
	flags.BoolVar(&f.suppressed, "suppressed", false, "include suppressed dead jobs")
	flags.IntVarP(&f.limit, "limit", "n", 0, "maximum number of jobs, over all queues (default: all)")
}

// byStateAlone reports whether the selection is of a state, whose jobs queues
// count.
func (f *filter) byStateAlone() bool {
	return f.typ+f.key+f.worker+f.text == "" && f.olderThan == 0 && f.newerThan == 0
}

func stateNames() (names []string) {
	for _, s := range append(slices.Clone(shown), broker.StateWaiting) {
		names = append(names, s.String())
	}
	return names
}

// queries are one for each queue that the filter means, at the store's time.
func (f *filter) queries(ctx context.Context, i *inspect.Inspector) ([]inspect.Query, error) {
	worker, err := f.holder(ctx, i)
	if err != nil {
		return nil, err
	}
	q := inspect.Query{Type: f.typ, Key: f.key, Worker: worker, ErrorText: f.text, Suppressed: f.suppressed, NoPayload: true}
	if f.state != "" {
		var state broker.State
		if err := state.UnmarshalText([]byte(f.state)); err != nil {
			return nil, &usageError{fmt.Sprintf("unknown state %q; use one of %s", f.state, strings.Join(stateNames(), ", "))}
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
	f.infos = infos
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

// holder is the ID of the worker that is meant, in any case and also by its
// beginning. One that is not listed is taken as it is: jobs may still name it.
func (f *filter) holder(ctx context.Context, i *inspect.Inspector) (string, error) {
	if f.worker == "" {
		return "", nil
	}
	workers, err := i.Workers(ctx)
	if err != nil {
		return "", err
	}
	var like []string
	for _, w := range workers {
		if w.ID == f.worker {
			return w.ID, nil
		}
		if strings.HasPrefix(w.ID, strings.ToUpper(f.worker)) {
			like = append(like, w.ID)
		}
	}
	switch len(like) {
	case 0:
		return f.worker, nil
	case 1:
		return like[0], nil
	}
	return "", &usageError{fmt.Sprintf("the IDs of several workers begin with %q: %s", f.worker, plain(strings.Join(like, ", ")))}
}
