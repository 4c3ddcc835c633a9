// Command quickstart enqueues a job and handles it, in one process and without
// a server to install. It runs until it is interrupted.
package main

import (
	"context"
	"fmt"
	"log"

	"github.com/seed81422ce9/jobs"
	"github.com/seed81422ce9/jobs/backends/membroker"
)

// begin quickstart

// Welcome is what the job needs to know.
type Welcome struct{ Name string }

// WelcomeEmail ties a type of task to its arguments, for both sides.
var WelcomeEmail = jobs.Define[Welcome]("email:welcome", jobs.WithMaxRetries(5))

func main() {
	ctx := context.Background()
	b := membroker.New() // or redisbroker.New(…), pgbroker.New(…): nothing else changes
	defer b.Close()

	client := jobs.NewClient(b, jobs.ClientConfig{})
	if _, err := WelcomeEmail.Enqueue(ctx, client, Welcome{Name: "Ada"}); err != nil {
		log.Fatal(err)
	}

	mux := jobs.NewServeMux()
	jobs.Handle(mux, WelcomeEmail, func(ctx context.Context, w Welcome, job *jobs.Job) error {
		fmt.Println("welcome,", w.Name) // an error would be tried again later
		return nil
	})
	server, err := jobs.NewServer(b, jobs.Config{Concurrency: 10})
	if err != nil {
		log.Fatal(err)
	}
	if err := server.Run(ctx, mux); err != nil { // returns after SIGTERM, when all handlers have
		log.Fatal(err)
	}
}

// end quickstart
