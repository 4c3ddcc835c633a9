package workflow_test

import (
	"context"
	"errors"
	"fmt"
	"log"

	"github.com/seed81422ce9/jobs"
	"github.com/seed81422ce9/jobs/backends/membroker"
	"github.com/seed81422ce9/jobs/broker"
	"github.com/seed81422ce9/jobs/schedule"
	"github.com/seed81422ce9/jobs/workflow"
)

// A schedule starts a workflow each night. The job of a tick starts it, under the job's own ID: a job that runs
// again, after a crash for example, finds that it has started it.
func Example_schedule() {
	ctx := context.Background()
	b := membroker.New()
	defer b.Close()
	client := jobs.NewClient(b, jobs.ClientConfig{})
	defer client.Close()
	mux := jobs.NewServeMux()
	// begin scheduled
	mux.HandleFunc("report:start", func(ctx context.Context, job *jobs.Job) error {
		err := workflow.Start(ctx, client, workflow.New(job.ID()).Add(workflow.Chain(
			workflow.Node{Name: "collect", Task: jobs.NewTask("report:collect", nil)},
			workflow.Node{Name: "send", Task: jobs.NewTask("report:send", nil)},
		)))
		if errors.Is(err, jobs.ErrDuplicate) { // an earlier run of this job has started it
			return nil
		}
		return err
	})
	// end scheduled
	mux.HandleFunc("report:collect", func(context.Context, *jobs.Job) error {
		fmt.Println("collected")
		return nil
	})
	done := make(chan struct{})
	mux.HandleFunc("report:send", func(context.Context, *jobs.Job) error {
		fmt.Println("sent")
		close(done)
		return nil
	})
	// begin scheduled-server
	schedules := schedule.New(b, "billing")
	_, err := schedules.Put(ctx, "nightly-report", schedule.Cron("0 3 * * *", "Europe/Berlin"), jobs.NewTask("report:start", nil))
	if err != nil {
		log.Fatal(err)
	}
	server, err := jobs.NewServer(b, jobs.Config{Extensions: []jobs.Extension{
		schedules.Extension(client, schedule.ExtensionConfig{}),
		workflow.Extension(client, workflow.ExtensionConfig{}),
	}})
	// end scheduled-server
	if err == nil {
		err = server.Start(ctx, mux)
	}
	if err != nil {
		log.Fatal(err)
	}
	if _, err := schedules.RunNow(ctx, "nightly-report"); err != nil { // so as not to wait for the night
		log.Fatal(err)
	}
	<-done
	if err := server.Shutdown(ctx); err != nil {
		log.Fatal(err)
	}
	// Output:
	// collected
	// sent
}

// transaction stands for one of a database: Client.In takes what Tx of a pgbroker.Broker returns.
type transaction struct {
	store broker.Broker
	jobs  []broker.NewJob
}

func (tx *transaction) Limits() broker.Limits { return tx.store.Limits() }

func (tx *transaction) Enqueue(_ context.Context, req broker.EnqueueRequest) ([]broker.Receipt, error) {
	receipts := make([]broker.Receipt, len(req.Jobs))
	for i, job := range req.Jobs {
		receipts[i] = broker.Receipt{Queue: job.Queue, ID: job.ID}
	}
	tx.jobs = append(tx.jobs, req.Jobs...)
	return receipts, nil
}

func (tx *transaction) commit(ctx context.Context) error {
	_, err := tx.store.Enqueue(ctx, broker.EnqueueRequest{Jobs: tx.jobs})
	return err
}

// In a transaction, a workflow starts if and when that commits.
func ExampleStart_inATransaction() {
	ctx := context.Background()
	mux := jobs.NewServeMux()
	mux.HandleFunc("order:ship", func(context.Context, *jobs.Job) error { return nil })
	client, stop := serve(mux)
	defer stop()

	tx := &transaction{store: client.Broker()}
	wf := workflow.New("order-1001").Add(workflow.Node{Name: "ship", Task: jobs.NewTask("order:ship", nil)})
	if err := workflow.Start(ctx, client.In(tx), wf); err != nil {
		log.Fatal(err)
	}
	_, err := workflow.Get(ctx, client, "order-1001")
	fmt.Println("before the commit:", errors.Is(err, jobs.ErrNotFound))
	if err := tx.commit(ctx); err != nil {
		log.Fatal(err)
	}
	_, err = workflow.Wait(ctx, client, "order-1001")
	fmt.Println("after it:", err)
	// Output:
	// before the commit: true
	// after it: <nil>
}
