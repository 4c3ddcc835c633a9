package observe_test

import (
	"log"
	"time"

	"github.com/seed81422ce9/jobs"
	"github.com/seed81422ce9/jobs/backends/membroker"
	"github.com/seed81422ce9/jobs/middleware/observe"
)

func ExampleTotals() {
	b := membroker.New()
	defer b.Close()
	// begin totals
	server, err := jobs.NewServer(b, jobs.Config{
		Extensions: []jobs.Extension{observe.Totals(observe.TotalsConfig{Interval: time.Minute})},
	})
	// end totals
	if err != nil {
		log.Fatal(err)
	}
	_ = server
}
