package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/seed81422ce9/jobs/broker"
	"github.com/seed81422ce9/jobs/inspect"
)

// locate finds a job by its ID or the beginning of its ID, in one queue or in all. It prints the job's
// ID if that differs from what was typed.
func (a *app) locate(ctx context.Context, i *inspect.Inspector, queue, id string) (*broker.Job, error) {
	var queues []string
	if queue != "" {
		queues = []string{queue}
	}
	found, err := i.Lookup(ctx, id, queues...)
	switch {
	case err != nil:
		return nil, err
	case len(found) == 0:
		return nil, fmt.Errorf("job %q: %w%s", id, broker.ErrNotFound, missing(id))
	case len(found) > 1:
		return nil, misuse("%s", several(id, found))
	}
	j := &found[0]
	if j.ID != id {
		fmt.Fprintf(a.err, "%s is %s in %s.\n", plain(id), plain(j.ID), plain(j.Queue))
	}
	return i.Job(ctx, j.Queue, j.ID)
}

// missing returns a sentence about why there may be no job with an ID.
func missing(id string) string {
	if len(id) < inspect.LeastPrefix {
		return fmt.Sprintf("; for the beginning of an ID give at least %d characters", inspect.LeastPrefix)
	}
	return ": it ended without a record (see KEEP COMPLETED of jobsctl queues policy), or was deleted, or is in another store"
}

// several returns a text that lists the jobs that an ID can mean.
func several(id string, found []broker.Job) string {
	var b strings.Builder
	if found[0].ID == found[1].ID {
		fmt.Fprintf(&b, "the ID %q is in several queues; choose one with --queue", id)
	} else {
		fmt.Fprintf(&b, "the IDs of several jobs begin with %q; give more characters of the one you mean", id)
	}
	for _, j := range found {
		fmt.Fprintf(&b, "\n  %s  %s  %s  %s", plain(j.ID), plain(j.Queue), plain(j.Type), j.State)
	}
	if len(found) == inspect.MaxLookup {
		b.WriteString("\n  and perhaps more")
	}
	b.WriteString("\n")
	return b.String()
}
