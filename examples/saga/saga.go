// Command saga books a trip at three companies: a flight, a hotel and a car, one after
// the other. If one of them refuses, it cancels what it booked before, the latest
// first.
//
//	saga          book a trip, in memory, and print what happens
//	saga full     the same, when there is no car left
package main

import (
	"context"
	"fmt"
	"io"
	"log"
	"os"

	"github.com/seed81422ce9/jobs"
	"github.com/seed81422ce9/jobs/backends/membroker"
	"github.com/seed81422ce9/jobs/broker"
	"github.com/seed81422ce9/jobs/workflow"
)

// Trip is the trip that a job is about.
type Trip struct{ ID string }

// begin saga

// Steps are what is booked, in order.
var Steps = []string{"flight", "hotel", "car"}

// Book starts the saga of a trip. Start stores all of it or nothing, and a trip
// is booked once.
func Book(ctx context.Context, client *jobs.Client, trip Trip) error {
	nodes := make([]workflow.Part, 0, len(Steps))
	for _, step := range Steps {
		do, err := task(step+":book", trip)
		if err != nil {
			return err
		}
		undo, err := task(step+":cancel", trip)
		if err != nil {
			return err
		}
		nodes = append(nodes, workflow.Node{Name: step, Task: do, Compensate: undo})
	}
	return workflow.Start(ctx, client, workflow.New(trip.ID).Add(workflow.Chain(nodes...)))
}

// end saga

func task(typ string, trip Trip) (*jobs.Task, error) {
	return jobs.Define[Trip](typ, jobs.WithQueue("trips"), jobs.WithMaxRetries(3)).Task(trip)
}

// Company books and cancels. Because a job can run twice, a repeated Book or Cancel
// changes nothing. Cancel also accepts trips that were never booked.
type Company interface {
	Book(ctx context.Context, what, trip string) error
	Cancel(ctx context.Context, what, trip string) error
}

// Handlers returns the handlers of all steps. An error of Book that wraps
// jobs.SkipRetry is a refusal; others are tried again.
func Handlers(c Company) *jobs.ServeMux {
	mux := jobs.NewServeMux()
	for _, step := range Steps {
		jobs.Handle(mux, jobs.Define[Trip](step+":book"), func(ctx context.Context, t Trip, _ *jobs.Job) error {
			return c.Book(ctx, step, t.ID)
		})
		jobs.Handle(mux, jobs.Define[Trip](step+":cancel"), func(ctx context.Context, t Trip, _ *jobs.Job) error {
			return c.Cancel(ctx, step, t.ID)
		})
	}
	return mux
}

// Config returns the configuration of a server that runs the steps.
func Config(client *jobs.Client) jobs.Config {
	return jobs.Config{
		Queues:     map[string]int{"trips": 1},
		Extensions: []jobs.Extension{workflow.Extension(client, workflow.ExtensionConfig{})},
	}
}

func main() {
	full := len(os.Args) > 1 && os.Args[1] == "full"
	if err := run(context.Background(), membroker.New(), printed{os.Stdout, full}); err != nil {
		log.Fatal("saga: ", err)
	}
}

// run books a trip and prints the outcome.
func run(ctx context.Context, b broker.Broker, c printed) error {
	defer b.Close()
	client := jobs.NewClient(b, jobs.ClientConfig{})
	defer client.Close()
	server, err := jobs.NewServer(b, Config(client))
	if err != nil {
		return err
	}
	if err := server.Start(ctx, Handlers(c)); err != nil {
		return err
	}
	if err := Book(ctx, client, Trip{ID: "trip-1"}); err != nil {
		return err
	}
	if _, err := workflow.Wait(ctx, client, "trip-1"); err != nil {
		fmt.Fprintln(c.out, "the trip is off:", err)
	} else {
		fmt.Fprintln(c.out, "have a good trip")
	}
	return server.Shutdown(ctx)
}

// printed is a company that prints what it does.
type printed struct {
	out  io.Writer
	full bool // there is no car left
}

func (p printed) Book(_ context.Context, what, trip string) error {
	if p.full && what == "car" {
		return fmt.Errorf("%w: no car is left", jobs.SkipRetry)
	}
	_, err := fmt.Fprintln(p.out, "booked:", what, "for", trip)
	return err
}

func (p printed) Cancel(_ context.Context, what, trip string) error {
	_, err := fmt.Fprintln(p.out, "cancelled:", what, "for", trip)
	return err
}
