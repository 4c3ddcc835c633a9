package inspect_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"time"

	"github.com/seed81422ce9/jobs"
	"github.com/seed81422ce9/jobs/backends/membroker"
	"github.com/seed81422ce9/jobs/inspect"
)

// When a queue is behind, less important producers of the same workers are blocked, and
// retries are slowed down.
func ExampleInspector_SetPolicy_behind() {
	store := membroker.NewStore()
	b := store.Open()
	defer b.Close()
	ctx := context.Background()
	client := jobs.NewClient(b, jobs.ClientConfig{})
	defer client.Close()
	inspector := inspect.New(b)

	// begin behind
	// relieve is called every ten seconds or so, by any number of processes.
	relieve := func(ctx context.Context) error {
		mail, err := inspector.Queue(ctx, "mail")
		if err != nil {
			return err
		}
		depth, retries := int64(inspect.NoLimit), inspect.Rate{Jobs: inspect.NoLimit}
		if mail.Age(jobs.StatePending) > 5*time.Minute {
			depth, retries = 100, inspect.Rate{Jobs: 1, Per: time.Second}
		}
		_, err = inspector.SetPolicy(ctx, inspect.PolicyRequest{Queue: "newsletter", MaxDepth: &depth})
		_, err2 := inspector.SetPolicy(ctx, inspect.PolicyRequest{Queue: "mail", RetryRate: &retries})
		return errors.Join(err, err2)
	}
	// end behind

	if _, err := client.Enqueue(ctx, jobs.NewTask("email:send", nil), jobs.WithQueue("mail")); err != nil {
		log.Fatal(err)
	}
	show := func() {
		if err := relieve(ctx); err != nil {
			log.Fatal(err)
		}
		newsletter, err := inspector.Policy(ctx, "newsletter")
		if err != nil {
			log.Fatal(err)
		}
		mail, err := inspector.Policy(ctx, "mail")
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println("newsletter: at most", newsletter.MaxDepth, "jobs wait; mail: retries a second:", mail.RetryRate.Jobs)
	}
	show()
	store.Advance(6 * time.Minute) // nobody sends mail
	show()
	if _, err := inspector.Select(inspect.Query{Queue: "mail", State: jobs.StatePending}).Delete(ctx); err != nil {
		log.Fatal(err)
	}
	show()
	// Output:
	// newsletter: at most 0 jobs wait; mail: retries a second: 0
	// newsletter: at most 100 jobs wait; mail: retries a second: 1
	// newsletter: at most 0 jobs wait; mail: retries a second: 0
}
