package jobs_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"strings"
	"time"

	"github.com/seed81422ce9/jobs"
	"github.com/seed81422ce9/jobs/backends/membroker"
	"github.com/seed81422ce9/jobs/broker"
)

// WelcomeEmail is what a job of type email:welcome is about.
type WelcomeEmail struct {
	UserID int    `json:"user_id"`
	To     string `json:"to"`
}

var welcome = jobs.Define[WelcomeEmail]("email:welcome", jobs.WithQueue("critical"), jobs.WithUniqueUntilDone(10*time.Minute)).
	UniqueBy(func(e WelcomeEmail) string { return fmt.Sprint(e.UserID) })

func ExampleDefine() {
	b := membroker.New()
	defer b.Close()
	client := jobs.NewClient(b, jobs.ClientConfig{})
	defer client.Close()
	ctx := context.Background()

	info, err := welcome.Enqueue(ctx, client, WelcomeEmail{UserID: 42, To: "ada@example.com"})
	if err != nil {
		log.Fatal(err)
	}
	_, err = welcome.Enqueue(ctx, client, WelcomeEmail{UserID: 42, To: "ada@example.org"})
	fmt.Println(info.Queue, errors.Is(err, jobs.ErrDuplicate))
	// Output: critical true
}

func ExampleDefinition_EnqueueWith() {
	b := membroker.New()
	defer b.Close()
	client := jobs.NewClient(b, jobs.ClientConfig{})
	defer client.Close()
	ctx := context.Background()

	// begin enqueue-with
	// Nobody gets mail of this program outside of example.com.
	ours := func(next jobs.EnqueueFunc) jobs.EnqueueFunc {
		return func(ctx context.Context, batch []*jobs.Outgoing) {
			for _, job := range batch {
				if e, err := welcome.Decode(job.Body.Payload); err != nil || !strings.HasSuffix(e.To, "@example.com") {
					job.Err = errors.New("the address is not ours") // the job is not stored
				}
			}
			next(ctx, batch)
		}
	}
	email := welcome.EnqueueWith(ours)
	// end enqueue-with

	_, err := email.Enqueue(ctx, client, WelcomeEmail{UserID: 1, To: "ada@example.com"})
	fmt.Println("ada:", err)
	_, err = email.Enqueue(ctx, client, WelcomeEmail{UserID: 2, To: "bob@example.org"}, jobs.WithID("to-bob"))
	fmt.Println("bob:", err)
	// Output:
	// ada: <nil>
	// bob: jobs: enqueue: queue "critical": job "to-bob": the address is not ours
}

// Summary is the result of jobs of type report:sum.
type Summary struct{ Orders, Cents int }

func ExampleAwait() {
	b := membroker.New()
	defer b.Close()
	client := jobs.NewClient(b, jobs.ClientConfig{})
	defer client.Close()
	server, err := jobs.NewServer(b, jobs.Config{Queues: map[string]int{"reports": 1}})
	if err != nil {
		log.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()

	mux := jobs.NewServeMux()
	mux.HandleFunc("report:sum", func(ctx context.Context, job *jobs.Job) error {
		return jobs.SetResult(job, Summary{Orders: 17, Cents: 34_900})
	})
	if err := server.Start(ctx, mux); err != nil {
		log.Fatal(err)
	}
	defer server.Shutdown(ctx)

	// begin await
	info, err := client.Enqueue(ctx, jobs.NewTask("report:sum", nil, jobs.WithQueue("reports"), jobs.WithRetention(time.Hour)))
	if err != nil {
		log.Fatal(err)
	}
	sum, err := jobs.Await[Summary](ctx, client, info.Queue, info.ID)
	switch {
	case errors.Is(err, jobs.ErrExpired):
		fmt.Println("nobody ran it in time")
	case errors.Is(err, jobs.ErrDead):
		fmt.Println("it failed:", err)
	case err != nil:
		log.Fatal(err)
	default:
		fmt.Printf("%d orders\n", sum.Orders)
	}
	// end await
	// Output: 17 orders
}

func ExampleHandle() {
	mux := jobs.NewServeMux()
	jobs.Handle(mux, welcome, func(ctx context.Context, e WelcomeEmail, job *jobs.Job) error {
		fmt.Printf("to %s, attempt %d\n", e.To, job.Attempt())
		return nil
	})

	run := func(payload string) {
		job := jobs.NewJob(&broker.Job{Body: broker.Body{Type: "email:welcome", Payload: []byte(payload)}})
		err := mux.ProcessJob(context.Background(), job)
		fmt.Println(err, errors.Is(err, jobs.SkipRetry))
	}
	run(`{"user_id":42,"to":"ada@example.com"}`)
	run(`not JSON`)
	// Output:
	// to ada@example.com, attempt 0
	// <nil> false
	// skip retry for this job: the payload of "email:welcome" cannot be decoded as a jobs_test.WelcomeEmail: malformed JSON at byte 2 true
}
