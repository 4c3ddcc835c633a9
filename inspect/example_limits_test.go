package inspect_test

import (
	"context"
	"fmt"
	"log"
	"time"

	"github.com/seed81422ce9/jobs"
	"github.com/seed81422ce9/jobs/backends/membroker"
	"github.com/seed81422ce9/jobs/broker"
	"github.com/seed81422ce9/jobs/inspect"
)

// An API that allows 30 calls a minute, and 3 at a time.
func ExampleInspector_SetPolicy_rate() {
	b := membroker.New()
	defer b.Close()
	ctx := context.Background()
	inspector := inspect.New(b)

	// begin rate
	policy, err := inspector.SetPolicy(ctx, inspect.PolicyRequest{
		Queue:     "geocoder",
		Rate:      &inspect.Rate{Jobs: 30, Per: time.Minute},
		MaxActive: new(int64(3)),
	})
	// end rate
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(policy.Rate.Jobs, "jobs per", policy.Rate.Per, "and", policy.MaxActive, "at once")

	_, err = inspector.SetPolicy(ctx, inspect.PolicyRequest{Queue: "geocoder", Rate: &inspect.Rate{Burst: 10}})
	fmt.Println(err)
	// Output:
	// 30 jobs per 1m0s and 3 at once
	// jobs: policy: queue "geocoder": rate: invalid: has 0 jobs; use 1 or more, or NoLimit (-1) for none, or pause
}

// Tenants that take turns; one of them may use more than the others.
func ExampleInspector_SetPolicy_tenants() {
	b := membroker.New()
	defer b.Close()
	ctx := context.Background()
	client := jobs.NewClient(b, jobs.ClientConfig{})
	defer client.Close()
	inspector := inspect.New(b)

	// begin tenants
	_, err := inspector.SetPolicy(ctx, inspect.PolicyRequest{Queue: "reports", KeyMaxActive: new(int64(5)), KeyMaxDepth: new(int64(10_000))})
	if err == nil { // acme pays for more
		_, err = inspector.SetPolicy(ctx, inspect.PolicyRequest{Queue: "reports", Key: "acme", MaxActive: new(int64(50)), Weight: new(int64(4))})
	}
	if err == nil {
		_, err = client.Enqueue(ctx, jobs.NewTask("report", nil), jobs.WithQueue("reports"), jobs.WithPartitionKey("globex"))
	}
	// end tenants
	if err != nil {
		log.Fatal(err)
	}
	for key, err := range inspector.Keys(ctx, "reports") {
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(key.Key, "has", key.Pending, "pending jobs, weight", max(1, key.Policy.Weight))
	}
	// Output:
	// acme has 0 pending jobs, weight 4
	// globex has 1 pending jobs, weight 1
}

// The jobs of an account run one after the other.
func ExampleInspector_SetPolicy_ordered() {
	b := membroker.New()
	defer b.Close()
	ctx := context.Background()
	client := jobs.NewClient(b, jobs.ClientConfig{})
	defer client.Close()
	inspector := inspect.New(b)

	// begin ordered
	order := inspect.OrderStop
	if _, err := inspector.SetPolicy(ctx, inspect.PolicyRequest{Queue: "ledger", Ordered: &order}); err != nil {
		log.Fatal(err)
	}
	_, err := client.Enqueue(ctx, jobs.NewTask("book", nil), jobs.WithQueue("ledger"), jobs.WithPartitionKey("account-7"))
	// end ordered
	if err != nil {
		log.Fatal(err)
	}
	_, err = client.Enqueue(ctx, jobs.NewTask("book", nil), jobs.WithQueue("ledger"), jobs.WithID("new"))
	fmt.Println(err)
	info, err := inspector.Queue(ctx, "ledger")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(info.Counts[broker.StatePending], "pending")
	// Output:
	// jobs: enqueue: queue "ledger": job "new": key: invalid: is empty; the queue is ordered, name the key whose jobs run one after the other
	// 1 pending
}
