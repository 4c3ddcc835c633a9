package schedule_test

import (
	"context"
	"fmt"
	"log"
	"time"

	"github.com/seed81422ce9/jobs"
	"github.com/seed81422ce9/jobs/backends/membroker"
	"github.com/seed81422ce9/jobs/broker"
	"github.com/seed81422ce9/jobs/schedule"
)

// A report each night at three, by the clocks of Berlin.
func Example_nightlyReport() {
	ctx := context.Background()
	b := membroker.New()
	defer b.Close()
	client := jobs.NewClient(b, jobs.ClientConfig{})
	defer client.Close()

	// begin nightly
	schedules := schedule.New(b, "billing")
	report := jobs.NewTask("report:nightly", nil, jobs.WithQueue("reports"))
	change, err := schedules.Put(ctx, "nightly-report", schedule.Cron("0 3 * * *", "Europe/Berlin"), report,
		schedule.WithOverlap(schedule.OverlapSkip))
	if err != nil {
		log.Fatal(err)
	}
	server, err := jobs.NewServer(b, jobs.Config{
		Queues:     map[string]int{"reports": 1},
		Extensions: []jobs.Extension{schedules.Extension(client, schedule.ExtensionConfig{})},
	})
	// end nightly
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(change)

	done := make(chan string, 1)
	// begin handler
	mux := jobs.NewServeMux()
	mux.HandleFunc("report:nightly", func(_ context.Context, job *jobs.Job) error {
		tick, _ := schedule.TickOf(job)
		done <- fmt.Sprintf("a report of %s", tick.Schedule)
		return nil
	})
	// end handler
	if err := server.Start(ctx, mux); err != nil {
		log.Fatal(err)
	}
	if _, err := schedules.RunNow(ctx, "nightly-report"); err != nil { // so as not to wait for the night
		log.Fatal(err)
	}
	fmt.Println(<-done)
	if err := server.Shutdown(ctx); err != nil {
		log.Fatal(err)
	}
	// Output:
	// created
	// a report of nightly-report
}

type reportArgs struct{ Region string }

// begin typed
var report = jobs.Define[reportArgs]("report:nightly", jobs.WithQueue("reports"))

func schedulesOf(ctx context.Context, b broker.Broker) (schedule.Synced, error) {
	return schedule.New(b, "billing").Sync(ctx,
		schedule.Define("nightly-eu", schedule.Cron("0 3 * * *", "Europe/Berlin"), report, reportArgs{Region: "eu"}),
		schedule.Define("nightly-us", schedule.Cron("0 3 * * *", "America/New_York"), report, reportArgs{Region: "us"}))
}

// end typed

// A set of schedules, each with typed arguments.
func ExampleDefine() {
	b := membroker.New()
	defer b.Close()
	for range 2 {
		done, err := schedulesOf(context.Background(), b)
		if err != nil {
			log.Fatal(err)
		}
		fmt.Printf("created %v, unchanged %v\n", done.Created, done.Unchanged)
	}
	// Output:
	// created [nightly-eu nightly-us], unchanged []
	// created [], unchanged [nightly-eu nightly-us]
}

// The next times of a line, across a clock change.
func ExampleSpec_Next() {
	berlin, err := time.LoadLocation("Europe/Berlin")
	if err != nil {
		log.Fatal(err)
	}
	times, err := schedule.Cron("30 2 * * *", "Europe/Berlin").Next(time.Date(2026, 3, 28, 0, 0, 0, 0, berlin), 3)
	if err != nil {
		log.Fatal(err)
	}
	for _, t := range times {
		fmt.Println(t.In(berlin).Format("Jan 2 15:04 MST"))
	}
	// Output:
	// Mar 28 02:30 CET
	// Mar 29 03:00 CEST
	// Mar 30 02:30 CEST
}
