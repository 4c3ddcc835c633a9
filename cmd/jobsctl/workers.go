package main

import (
	"context"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/seed81422ce9/jobs/inspect"
	"github.com/seed81422ce9/jobs/internal/labels"
)

// workerView is a worker as -o json writes it.
type workerView struct {
	ID          string     `json:"id"`
	Host        string     `json:"host"`
	PID         int        `json:"pid"`
	Program     string     `json:"program"`
	Concurrency int        `json:"concurrency"`
	Held        int        `json:"held"`
	Queues      []string   `json:"queues"`
	Types       []string   `json:"types"`
	StartedAt   *time.Time `json:"started_at,omitempty"`
	LeaseUntil  *time.Time `json:"lease_until,omitempty"`
	Longest     []runView  `json:"longest,omitempty"`
}

// runView is one of the jobs that a worker has run for longest.
type runView struct {
	Queue string     `json:"queue"`
	ID    string     `json:"id"`
	Since *time.Time `json:"since"`
}

func viewWorker(w inspect.WorkerInfo) workerView {
	v := workerView{w.ID, w.Host, w.PID, w.Program, w.Concurrency, w.Held, w.Queues, w.Types, at(w.StartedAt), at(w.Until), nil}
	for _, r := range w.Longest {
		v.Longest = append(v.Longest, runView{r.Queue, r.ID, at(r.Since)})
	}
	return v
}

func (a *app) workers() *cobra.Command {
	cmd := a.listWorkers("workers [QUEUE…]")
	cmd.AddCommand(a.listWorkers("ls [QUEUE…]"))
	return cmd
}

func (a *app) listWorkers(use string) *cobra.Command {
	var running bool
	cmd := &cobra.Command{
		Use:   use,
		Short: "List live workers and, with --running, what they run",
		Long: `List live workers and, with --running, what they run. If a worker's lease ran
out, it died or cannot reach the store. Another worker of the queue reclaims its
jobs; then the worker leaves this list. -o wide also shows for how long the leases
hold, if the workers do not renew them.

Every few seconds a worker reports the jobs that it has run for longest, and since
when. The others have just started, or wait for a slot.`,
		RunE: a.inspecting(func(ctx context.Context, i *inspect.Inspector, args []string) error {
			l := a.newList(workerColumns)
			queues, err := readQueues(ctx, i.Overview, args...)
			if err != nil {
				return err
			}
			for _, w := range inspect.WorkersOf(queues) {
				l.add(viewWorker(w), w.ID, w.Host, w.PID, w.Program, w.Held, w.Concurrency, w.StartedAt,
					lease(w, queues[0].Now), max(0, w.Until.Sub(queues[0].Now)), strings.Join(w.Queues, " "), strings.Join(w.Types, " "))
				if running {
					if err := a.running(ctx, i, w, args, queues[0].Now, l); err != nil {
						return err
					}
				}
			}
			return l.end()
		}),
	}
	cmd.Flags().BoolVarP(&running, "running", "r", false, "show the jobs that they hold, too")
	a.sortFlag(cmd, workerColumns)
	return cmd
}

var workerColumns = []column{
	{head: "WORKER"},
	{head: "HOST", least: 8},
	{head: "PID", rank: 4},
	{head: "PROGRAM", rank: 3, least: 8},
	{head: "HOLDS"},
	{head: "SLOTS", rank: 2},
	{head: "STARTED", rank: 5},
	{head: "LEASE"},
	{head: "LEFT", wide: true}, // of the lease
	{head: "QUEUES", rank: 1, least: 8},
	{head: "TYPES", wide: true},
}

func lease(w inspect.WorkerInfo, now time.Time) string {
	if w.Alive(now) {
		return "holds"
	}
	return "ran out " + span(now.Sub(w.Until)) + " ago"
}

// readQueues reads the named queues, or all. It returns an error for the first name of a queue that does not exist.
func readQueues(ctx context.Context, read func(context.Context, ...string) ([]inspect.QueueInfo, error), names ...string) (
	[]inspect.QueueInfo, error) {
	queues, err := read(ctx, names...)
	for _, name := range names {
		if err == nil && !slices.ContainsFunc(queues, func(q inspect.QueueInfo) bool { return labels.Means(name, q.Name) }) {
			err = noQueue(name)
		}
	}
	return queues, err
}

// oneQueue returns the name that a flag gives, if it does, for functions that take all queues without a name.
func oneQueue(queue string) []string {
	if queue == "" {
		return nil
	}
	return []string{queue}
}

// running adds a line for each job of the named queues that a worker holds; of all queues, if none is named.
func (a *app) running(ctx context.Context, i *inspect.Inspector, w inspect.WorkerInfo, names []string, now time.Time, l *listing) error {
	if a.structured() {
		return nil // the worker's object names those that it has run for longest
	}
	since := make(map[[2]string]time.Time, len(w.Longest))
	for _, r := range w.Longest {
		since[[2]string{r.Queue, r.ID}] = r.Since
	}
	for _, queue := range w.Queues {
		if len(names) > 0 && !slices.ContainsFunc(names, func(name string) bool { return labels.Means(name, queue) }) {
			continue
		}
		for j, err := range i.Select(inspect.Query{Queue: queue, Worker: w.ID, NoPayload: true}).Jobs(ctx) {
			if err != nil {
				return err
			}
			l.under(j.ID, runsFor(since[[2]string{j.Queue, j.ID}], now), j.Queue, j.Type, "attempt "+strconv.Itoa(j.Failures))
		}
	}
	return nil
}

func runsFor(since, now time.Time) string {
	if since.IsZero() {
		return "just started"
	}
	return "for " + span(now.Sub(since))
}
