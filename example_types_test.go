package jobs_test

import (
	"context"
	"fmt"
	"log"
	"time"

	"github.com/seed81422ce9/jobs"
	"github.com/seed81422ce9/jobs/backends/membroker"
)

// Two reports run at once at most, whatever their kind, and leave the other slots
// to the jobs behind them.
func ExampleConfig_typeConcurrency() {
	ctx := context.Background()
	b := membroker.New()
	defer b.Close()
	client := jobs.NewClient(b, jobs.ClientConfig{})
	defer client.Close()
	reportsEnd, mailed := make(chan struct{}), make(chan struct{})
	mux := jobs.NewServeMux()
	mux.HandleFunc("report:*", func(context.Context, *jobs.Job) error { <-reportsEnd; return nil })
	mux.HandleFunc("mail", func(context.Context, *jobs.Job) error { close(mailed); return nil })
	for _, typ := range []string{"report:day", "report:day", "report:year", "report:day", "mail"} {
		if _, err := client.Enqueue(ctx, jobs.NewTask(typ, nil)); err != nil {
			log.Fatal(err)
		}
	}

	// begin types
	server, err := jobs.NewServer(b, jobs.Config{
		Concurrency:     10,
		TypeConcurrency: map[string]int{"report:*": 2},
	})
	// end types
	if err != nil {
		log.Fatal(err)
	}
	if err := server.Start(ctx, mux); err != nil {
		log.Fatal(err)
	}
	<-mailed
	for l := server.TypeLimits()[0]; l.Running < 2; l = server.TypeLimits()[0] {
		time.Sleep(time.Millisecond)
	}
	l := server.TypeLimits()[0]
	fmt.Printf("mail was sent; of %s %d run and %d wait\n", l.Pattern, l.Running, l.Waiting)
	close(reportsEnd)
	if err := server.Shutdown(ctx); err != nil {
		log.Fatal(err)
	}
	// Output: mail was sent; of report:* 2 run and 2 wait
}
