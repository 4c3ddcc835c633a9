// Command shop is a shop that does its background work with jobs: a receipt for each
// order, thumbnails with progress, parcels booked through an API that allows two calls
// a second, and a nightly report that fans out and is summed up. No customer waits
// behind another's hundred orders.
//
//	shop    take some orders in memory, print what is done about them, and end
package main

import (
	"context"
	"fmt"
	"io"
	"log"
	"os"
	"time"

	"github.com/seed81422ce9/jobs"
	"github.com/seed81422ce9/jobs/backends/membroker"
	"github.com/seed81422ce9/jobs/broker"
	"github.com/seed81422ce9/jobs/inspect"
	"github.com/seed81422ce9/jobs/schedule"
	"github.com/seed81422ce9/jobs/workflow"
)

func main() {
	if err := run(context.Background(), os.Stdout); err != nil {
		log.Fatal("shop: ", err)
	}
}

// run runs the program.
func run(ctx context.Context, out io.Writer) error {
	b := membroker.New() // or redisbroker.New(…), pgbroker.New(…)
	defer b.Close()
	client := jobs.NewClient(b, jobs.ClientConfig{})
	defer client.Close()
	s := &Shop{Orders: &memory{client: client, orders: make(map[string]Order)}, Outside: &printed{out: out}, Client: client}
	if err := Limit(ctx, inspect.New(b)); err != nil {
		return err
	}
	server, err := jobs.NewServer(b, s.Config(b))
	if err != nil {
		return err
	}
	if err := server.Start(ctx, s.Handlers()); err != nil {
		return err
	}
	for i := range 6 {
		id := fmt.Sprint(1001 + i)
		o := Order{ID: id, Customer: "ada", Region: regions[i%3], Cents: int64(995 * (i + 1)), Pictures: []string{id + "-front", id + "-back"}}
		if i == 5 {
			o.Customer = "bob" // his thumbnails do not wait for all of ada's
		}
		if err := s.Place(ctx, o); err != nil {
			return err
		}
	}
	// Do not wait for three o'clock:
	night, err := ReportNight.Enqueue(ctx, client, struct{}{}, jobs.WithRetention(time.Hour))
	if err != nil {
		return err
	}
	if _, err := client.Wait(ctx, night.Queue, night.ID); err != nil {
		return err
	}
	if _, err := workflow.Wait(ctx, client, night.ID); err != nil {
		return err
	}
	return server.Shutdown(ctx) // returns when the running handlers have returned
}

// begin config

// Config returns the server's configuration. Mail gets most of the slots when all queues have work.
func (s *Shop) Config(b broker.Broker) jobs.Config {
	return jobs.Config{
		Concurrency: 10,
		Queues:      map[string]int{queueMail: 5, queuePictures: 2, queueCarrier: 2, queueReports: 1},
		Extensions: []jobs.Extension{
			workflow.Extension(s.Client, workflow.ExtensionConfig{}),
			schedule.New(b, "shop").Extension(s.Client, schedule.ExtensionConfig{Definitions: []schedule.Definition{nightly}}),
		},
	}
}

// end config
