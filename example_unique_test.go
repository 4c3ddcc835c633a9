package jobs_test

import (
	"context"
	"fmt"
	"log"
	"time"

	"github.com/seed81422ce9/jobs"
	"github.com/seed81422ce9/jobs/backends/membroker"
)

func ExampleWithUniqueReplace() {
	b := membroker.New()
	defer b.Close()
	client := jobs.NewClient(b, jobs.ClientConfig{})
	defer client.Close()
	ctx := context.Background()

	// begin replace
	sync := func(state string) *jobs.Task {
		return jobs.NewTask("profile:sync", []byte(state), jobs.WithUniqueKey("user 7"), jobs.WithUniqueReplace())
	}
	first, err := client.Enqueue(ctx, sync("name=Ada"))
	if err != nil {
		log.Fatal(err)
	}
	second, err := client.Enqueue(ctx, sync("name=Grace")) // no second job: the first one has this payload now
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(first.Replaced, second.Replaced, second.ID == first.ID)
	// end replace
	// Output: false true true
}

func ExampleWithUniqueDebounce() {
	b := membroker.New()
	defer b.Close()
	client := jobs.NewClient(b, jobs.ClientConfig{})
	defer client.Close()
	ctx := context.Background()

	// begin debounce
	index := func(document string) *jobs.Task {
		return jobs.NewTask("search:index", []byte(document), jobs.WithUniqueKey("document 12"),
			jobs.WithUniqueDebounce(30*time.Second, 5*time.Minute))
	}
	for _, text := range []string{"T", "Te", "Text"} { // somebody is typing
		info, err := client.Enqueue(ctx, index(text))
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(info.State, info.Replaced)
	}
	// It runs once, when 30 s have passed without a change, or 5 minutes after the first one.
	// end debounce
	// Output:
	// scheduled false
	// scheduled true
	// scheduled true
}

func ExampleWithUniqueKeepLast() {
	b := membroker.New()
	defer b.Close()
	client := jobs.NewClient(b, jobs.ClientConfig{})
	defer client.Close()
	ctx := context.Background()

	// begin keeplast
	publish := func(version string) *jobs.Task {
		return jobs.NewTask("site:publish", []byte(version), jobs.WithUniqueKey("site"), jobs.WithUniqueKeepLast())
	}
	// end keeplast

	done := make(chan bool)
	mux := jobs.NewServeMux()
	mux.HandleFunc("site:publish", func(ctx context.Context, job *jobs.Job) error {
		fmt.Printf("publishing %s\n", job.Payload())
		switch string(job.Payload()) {
		case "v1": // and while it runs, others come
			for _, version := range []string{"v2", "v3"} {
				info, err := client.Enqueue(ctx, publish(version))
				if err != nil {
					return err
				}
				fmt.Println(version, info.State, info.Replaced)
			}
		case "v3":
			close(done)
		}
		return nil
	})
	server, err := jobs.NewServer(b, jobs.Config{})
	if err != nil {
		log.Fatal(err)
	}
	if err := server.Start(ctx, mux); err != nil {
		log.Fatal(err)
	}
	if _, err := client.Enqueue(ctx, publish("v1")); err != nil {
		log.Fatal(err)
	}
	<-done
	if err := server.Shutdown(ctx); err != nil {
		log.Fatal(err)
	}
	// Output:
	// publishing v1
	// v2 waiting false
	// v3 waiting true
	// publishing v3
}
