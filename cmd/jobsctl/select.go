package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/seed81422ce9/jobs/broker"
	"github.com/seed81422ce9/jobs/inspect"
)

// filter holds the flags that select jobs.
type filter struct {
	queue, state, typ, key, worker, text string
	reason, groupID                      string
	olderThan, newerThan                 time.Duration
	suppressed                           bool
	limit, rate                          int

	// By find:
	infos   []inspect.QueueInfo
	queries []inspect.Query // one for each of infos
	group   *inspect.Group  // the group that groupID names
}

// flags adds the flags of f; state is the default.
func (f *filter) flags(flags *pflag.FlagSet, state string) {
	f.commonFlags(flags)
	flags.StringVarP(&f.queue, "queue", "q", "", "queue (default: all)")
	flags.StringVarP(&f.state, "state", "s", state, "state of the jobs; \"jobsctl ls --help\" lists the states")
	flags.StringVarP(&f.worker, "worker", "w", "", "ID of the worker that holds the job")
	flags.BoolVar(&f.suppressed, "suppressed", false, "include suppressed dead jobs")
	flags.IntVarP(&f.limit, "limit", "n", 0, "maximum number of jobs, over all queues (default: all)")
}

// commonFlags adds the flags of f that moves have too.
func (f *filter) commonFlags(flags *pflag.FlagSet) {
	flags.StringVarP(&f.typ, "type", "t", "", "type of the task")
	flags.StringVarP(&f.key, "key", "k", "", "partition key")
	flags.StringVar(&f.text, "error", "", "text that the last error contains")
	spanFlag(flags, &f.olderThan, "older-than", 0, "older than this, such as 3d: by creation, end or due time, depending on the state")
	spanFlag(flags, &f.newerThan, "newer-than", 0, "newer than this")
}

// rateFlag adds --rate, for decisions.
func (f *filter) rateFlag(flags *pflag.FlagSet) {
	flags.IntVar(&f.rate, "rate", 0, "maximum number of jobs per second (default: no limit)")
}

// deadFlags adds the flags of f that select dead jobs.
func (f *filter) deadFlags(flags *pflag.FlagSet) {
	flags.StringVar(&f.reason, "reason", "", "why dead jobs died, such as retries_spent or expired")
	flags.StringVar(&f.groupID, "group", "", "group of dead jobs, by its ID in \"jobsctl dlq groups\"")
}

// byStateAlone reports whether f selects by state alone. Queues count such jobs, so
// nothing has to be searched.
func (f *filter) byStateAlone() bool {
	return f.typ+f.key+f.worker+f.text+f.reason+f.groupID == "" && f.olderThan == 0 && f.newerThan == 0
}

var reasons = []broker.DeadReason{broker.ReasonRetries, broker.ReasonSkipRetry, broker.ReasonCrashes, broker.ReasonExpired,
	broker.ReasonUnknownType, broker.ReasonUndecodable}

// deadReason returns the reason that f selects.
func (f *filter) deadReason() (broker.DeadReason, error) {
	if f.reason == "" {
		return broker.ReasonNone, nil
	}
	n := slices.Index(texts(reasons), strings.ReplaceAll(strings.ToLower(f.reason), "-", "_"))
	if n < 0 {
		return 0, misuse("unknown reason %q; use one of %s", f.reason, joined(reasons))
	}
	return reasons[n], nil
}

// listable are the states in which jobs can be listed.
var listable = append(slices.Clone(shown), broker.StateWaiting)

// stateNamed returns the state with a name.
func stateNamed(name string) (broker.State, error) {
	state, err := broker.ParseState(name)
	if err != nil {
		err = misuse("unknown state %q; use one of %s", name, joined(listable))
	}
	return state, err
}

// jobState returns the state that f selects, or StateNone.
func (f *filter) jobState() (broker.State, error) {
	if f.state == "" {
		return broker.StateNone, nil
	}
	return stateNamed(f.state)
}

// find sets the query for each queue that the filter selects. Ages count back from the store's time.
func (f *filter) find(ctx context.Context, i *inspect.Inspector) error {
	worker, err := f.holder(ctx, i)
	if err != nil {
		return err
	}
	reason, err := f.deadReason()
	if err != nil {
		return err
	}
	if f.reason+f.groupID != "" && f.state != broker.StateDead.String() {
		return misuse("--reason and --group select dead jobs: give --state dead")
	}
	q := inspect.Query{Type: f.typ, Reason: reason, Key: f.key, Worker: worker, ErrorText: f.text, Suppressed: f.suppressed, NoPayload: true}
	if q.State, err = f.jobState(); err != nil {
		return err
	}
	if f.infos, err = readQueues(ctx, i.Queues, oneQueue(f.queue)...); err != nil {
		return err
	}
	if f.groupID != "" {
		if err := f.findGroup(ctx, i); err != nil {
			return err
		}
		of := f.group.Query("")
		q.Type, q.ErrorText = cmp.Or(q.Type, of.Type), cmp.Or(q.ErrorText, of.ErrorText)
	}
	f.queries = nil // of a look before this one
	for _, info := range f.infos {
		q.Queue = info.Name
		if f.olderThan > 0 {
			q.Before = info.Now.Add(-f.olderThan)
		}
		if f.newerThan > 0 {
			q.After = info.Now.Add(-f.newerThan)
		}
		f.queries = append(f.queries, q)
	}
	return nil
}

func (f *filter) findGroup(ctx context.Context, i *inspect.Inspector) error {
	var names []string
	for _, info := range f.infos {
		names = append(names, info.Name)
	}
	g, err := i.DeadGroup(ctx, f.groupID, names...)
	if errors.Is(err, broker.ErrNotFound) {
		err = fmt.Errorf("%w: no dead job belongs to the group %s; \"jobsctl dlq groups\" lists the groups", broker.ErrNotFound, plain(f.groupID))
	}
	f.group = &g
	return err
}

// of returns the jobs that a query selects, limited to the filter's group.
func (f *filter) of(i *inspect.Inspector, q inspect.Query) inspect.Selection {
	s := i.Select(q)
	if f.group != nil {
		s = s.Where(f.group.Has)
	}
	return s
}

// holder returns the ID of the worker given by --worker, in upper or lower case, or by
// the beginning of its ID. An unknown ID is returned unchanged: jobs may still name a
// worker that is gone.
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
	return "", misuse("the IDs of several workers begin with %q: %s", f.worker, plain(strings.Join(like, ", ")))
}
