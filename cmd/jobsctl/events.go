package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/charmbracelet/x/ansi"
	"github.com/spf13/cobra"

	"github.com/seed81422ce9/jobs/broker"
	"github.com/seed81422ce9/jobs/inspect"
)

// eventView is an event as -o json writes it. Its names are a contract.
type eventView struct {
	At      time.Time `json:"at"`    // when the command saw it
	Event   string    `json:"event"` // settled, cancel-requested or missed
	Queue   string    `json:"queue,omitempty"`
	ID      string    `json:"id,omitempty"`
	State   string    `json:"state,omitempty"` // the job's new state
	Type    string    `json:"type,omitempty"`  // empty if the job left no record, or could not be read
	Attempt int       `json:"attempt,omitempty"`
	Error   string    `json:"last_error,omitempty"`
	Missed  int64     `json:"missed,omitempty"` // how many events were lost because they came faster than they could be written
}

const (
	lookForQueues = 10 * time.Second       // time between two looks for new queues
	gatherEvents  = 100 * time.Millisecond // how long events are gathered, so that one call for each queue looks up their jobs
	mostGathered  = 500                    // how many events are gathered at most
)

func (a *app) events() *cobra.Command {
	var states []string
	cmd := &cobra.Command{
		Use:   "events [QUEUE…]",
		Short: "Follow jobs as they complete, fail, die or are cancelled",
		Long: `Follow jobs as they complete, fail (state retry), die or are cancelled, until the
command is interrupted. Without QUEUE it follows all queues, also new ones.

The time is when the command saw the event. Events are hints: each comes at most
once, and some are lost while the store is away. Following them costs the store a
little for each job that ends.`,
		Example: "  jobsctl events --state dead,retry\n  jobsctl events mail --json | jq -r .last_error",
		RunE: a.inspecting(func(ctx context.Context, i *inspect.Inspector, args []string) error {
			for _, name := range states {
				if _, err := stateNamed(name); err != nil {
					return err
				}
			}
			f := follower{app: a, inspector: i, states: states}
			err := f.follow(ctx, args)
			if ctx.Err() != nil {
				return nil // the usual end
			}
			return err
		}),
	}
	cmd.Flags().StringSliceVarP(&states, "state", "s", nil, "only events that took jobs into these states (default: all)")
	return cmd
}

type follower struct {
	*app
	inspector *inspect.Inspector
	states    []string
}

// follow follows the named queues. Without names it follows all queues, including those that are created
// meanwhile.
func (f *follower) follow(ctx context.Context, names []string) error {
	for {
		queues, err := readQueues(ctx, f.inspector.Queues, names...)
		if err != nil {
			return err
		}
		watched := make([]string, len(queues))
		for i, q := range queues {
			watched[i] = q.Name
		}
		if err := f.watched(ctx, watched, len(names) == 0); err != nil {
			return err
		}
	}
}

// watched follows queues. If look is set, it returns when queues were created or removed.
func (f *follower) watched(ctx context.Context, queues []string, look bool) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var events <-chan broker.Event
	if len(queues) > 0 {
		var err error
		if events, err = f.inspector.Watch(ctx, queues...); err != nil {
			return err
		}
	}
	var others <-chan time.Time
	if look {
		ticker := time.NewTicker(lookForQueues)
		defer ticker.Stop()
		others = ticker.C
	}
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case e, open := <-events:
			if !open {
				return broker.ErrClosed
			}
			if err := f.write(ctx, gather(e, events)); err != nil {
				return err
			}
		case <-others:
			now, err := f.inspector.Queues(ctx)
			if f.away(err) {
				continue
			}
			if err != nil {
				return err
			}
			if !slices.EqualFunc(queues, now, func(name string, q inspect.QueueInfo) bool { return name == q.Name }) {
				return nil
			}
		}
	}
}

// gather returns the first event and those that arrive shortly after it.
func gather(first broker.Event, events <-chan broker.Event) []broker.Event {
	all, enough := []broker.Event{first}, time.After(gatherEvents)
	for len(all) < mostGathered {
		select {
		case e, open := <-events:
			if !open {
				return all
			}
			all = append(all, e)
		case <-enough:
			return all
		}
	}
	return all
}

// write writes events with the current type and attempt of their jobs.
func (f *follower) write(ctx context.Context, events []broker.Event) error {
	events = slices.DeleteFunc(events, func(e broker.Event) bool {
		return len(f.states) > 0 && e.Kind != broker.EventMissed && !slices.Contains(f.states, e.State.String())
	})
	byQueue := make(map[string][]string)
	for _, e := range events {
		if e.ID != "" && !slices.Contains(byQueue[e.Queue], e.ID) {
			byQueue[e.Queue] = append(byQueue[e.Queue], e.ID)
		}
	}
	known := make(map[[2]string]*broker.Job)
	for queue, ids := range byQueue {
		for j, err := range f.inspector.Select(inspect.Query{Queue: queue, IDs: ids, NoPayload: true}).Jobs(ctx) {
			if f.away(err) {
				break
			}
			if err != nil {
				return err
			}
			known[[2]string{j.Queue, j.ID}] = j
		}
	}
	for _, e := range events {
		if err := f.writeOne(e, known[[2]string{e.Queue, e.ID}]); err != nil {
			return err
		}
	}
	return nil
}

// away reports whether an error means that the store is away, which the user is told:
// following goes on when it is back.
func (f *follower) away(err error) bool {
	if !broker.StoreFailed(err) || errors.Is(err, context.Canceled) {
		return false
	}
	fmt.Fprintln(f.err, "jobsctl:", text(err)+"; events may be missing")
	return true
}

// writeOne writes an event; j is nil if the job has left no record.
func (f *follower) writeOne(e broker.Event, j *broker.Job) error {
	v := eventView{At: time.Now().UTC(), Event: "settled", Queue: e.Queue, ID: e.ID, Missed: e.Missed}
	what := e.State.String()
	switch e.Kind {
	case broker.EventSettled:
		v.State = what
	case broker.EventCancel:
		v.Event, what = "cancel-requested", "cancel requested"
	case broker.EventMissed:
		v.Event, what = "missed", "missed "+plural(int(e.Missed), "event")
	}
	if j != nil {
		v.Type, v.Attempt, v.Error = j.Type, j.Failures, j.Errors.Last().Message
	}
	if f.structured() {
		return f.object(v)
	}
	line := strings.TrimRight(strings.Join([]string{clock(v.At), fmt.Sprintf("%-9s", what), plain(v.Queue), plain(v.ID), plain(v.Type),
		plain(cause(v.Error))}, "  "), " ")
	if room := terminalWidth(f.out); room > 0 && f.output != wideOutput {
		line = ansi.Truncate(line, room, "…")
	}
	_, err := fmt.Fprintln(f.out, line)
	return err
}
