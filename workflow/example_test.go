package workflow_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"sort"
	"time"

	"github.com/seed81422ce9/jobs"
	"github.com/seed81422ce9/jobs/backends/membroker"
	"github.com/seed81422ce9/jobs/workflow"
)

// serve starts a server that runs workflows, and returns a function that stops it.
func serve(mux *jobs.ServeMux) (client *jobs.Client, stop func()) {
	b := membroker.New()
	client = jobs.NewClient(b, jobs.ClientConfig{})
	// begin server
	server, err := jobs.NewServer(b, jobs.Config{
		Extensions: []jobs.Extension{workflow.Extension(client, workflow.ExtensionConfig{})},
	})
	// end server
	if err == nil {
		err = server.Start(context.Background(), mux)
	}
	if err != nil {
		log.Fatal(err)
	}
	return client, func() {
		if err := server.Shutdown(context.Background()); err != nil {
			log.Fatal(err)
		}
		client.Close()
		b.Close()
	}
}

// A handler finds out the parts of the work and adds a node for each. The summary
// waits for all of them, although their number was not known before.
func Example_fanOut() {
	ctx := context.Background()
	mux := jobs.NewServeMux()
	// begin fanout-handlers
	mux.HandleFunc("report:plan", func(ctx context.Context, _ *jobs.Job) error {
		var parts []workflow.Part
		for _, city := range []string{"Bern", "Lima", "Oslo"} {
			parts = append(parts, workflow.Node{Name: city, Task: jobs.NewTask("report:city", []byte(city)), Before: []string{"summary"}})
		}
		return workflow.Of(ctx).Add(ctx, parts...)
	})
	mux.HandleFunc("report:city", func(ctx context.Context, job *jobs.Job) error {
		return workflow.SetResult(ctx, len(job.Payload())*100)
	})
	mux.HandleFunc("report:summary", func(ctx context.Context, _ *jobs.Job) error {
		sales, err := workflow.Results[int](ctx)
		if err != nil {
			return err
		}
		total := 0
		for _, n := range sales {
			total += n
		}
		return workflow.SetResult(ctx, fmt.Sprintf("%d cities, %d sold", len(sales), total))
	})
	// end fanout-handlers
	client, stop := serve(mux)
	defer stop()

	// begin fanout
	wf := workflow.New("report-2026-11").Add(workflow.Chain(
		workflow.Node{Name: "plan", Task: jobs.NewTask("report:plan", nil)},
		workflow.Node{Name: "summary", Task: jobs.NewTask("report:summary", nil)},
	))
	if err := workflow.Start(ctx, client, wf); err != nil {
		log.Fatal(err)
	}
	result, err := workflow.Wait(ctx, client, "report-2026-11")
	// end fanout
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(string(result))
	// Output:
	// "3 cities, 1200 sold"
}

// An order: completed steps are undone when a later one fails for good.
func Example_orderSaga() {
	ctx := context.Background()
	did := make(chan string, 10)
	mux := jobs.NewServeMux()
	step := func(ctx context.Context, job *jobs.Job) error {
		did <- job.Type()
		return nil
	}
	for _, typ := range []string{"stock:reserve", "stock:release", "card:charge", "card:refund"} {
		mux.HandleFunc(typ, step)
	}
	mux.HandleFunc("parcel:ship", func(context.Context, *jobs.Job) error {
		return fmt.Errorf("%w: no carrier goes there", jobs.SkipRetry)
	})
	client, stop := serve(mux)
	defer stop()

	// begin saga
	task := func(typ string) *jobs.Task { return jobs.NewTask(typ, []byte(`{"order":42}`)) }
	wf := workflow.New("order-42").Add(workflow.Chain(
		workflow.Node{Name: "reserve", Task: task("stock:reserve"), Compensate: task("stock:release")},
		workflow.Node{Name: "charge", Task: task("card:charge"), Compensate: task("card:refund")},
		workflow.Node{Name: "ship", Task: task("parcel:ship")},
	))
	if err := workflow.Start(ctx, client, wf); err != nil {
		log.Fatal(err)
	}
	_, err := workflow.Wait(ctx, client, "order-42")
	// end saga
	fmt.Println("failed:", errors.Is(err, jobs.ErrDead))
	info, err := workflow.Get(ctx, client, "order-42")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(info.Cause)
	close(did)
	for typ := range did {
		fmt.Println(typ)
	}
	// Output:
	// failed: true
	// node "ship" is dead: skip retry for this job: no carrier goes there
	// stock:reserve
	// card:charge
	// card:refund
	// stock:release
}

// An approval by a person, with a limit of two days.
func Example_approval() {
	ctx := context.Background()
	asked := make(chan bool, 1)
	mux := jobs.NewServeMux()
	mux.HandleFunc("invoice:ask", func(context.Context, *jobs.Job) error { asked <- true; return nil })
	// begin approval-handler
	mux.HandleFunc("invoice:pay", func(ctx context.Context, _ *jobs.Job) error {
		who, err := workflow.Result[string](ctx, "approval")
		if err != nil {
			return err
		}
		return workflow.SetResult(ctx, "paid, approved by "+who)
	})
	// end approval-handler
	client, stop := serve(mux)
	defer stop()

	// begin approval
	wf := workflow.New("invoice-7").Add(workflow.Chain(
		workflow.Node{Name: "ask", Task: jobs.NewTask("invoice:ask", nil)},
		workflow.Node{Name: "approval", Signal: "approve", Within: 48 * time.Hour},
		workflow.Node{Name: "pay", Task: jobs.NewTask("invoice:pay", nil)},
	))
	if err := workflow.Start(ctx, client, wf); err != nil {
		log.Fatal(err)
	}
	// end approval
	<-asked
	// begin signal
	err := workflow.Signal(ctx, client, "invoice-7", "approve", []byte(`"Ada"`))
	// end signal
	if err != nil {
		log.Fatal(err)
	}
	result, err := workflow.Wait(ctx, client, "invoice-7")
	if err != nil {
		log.Fatal(err)
	}
	info, err := workflow.Get(ctx, client, "invoice-7")
	if err != nil {
		log.Fatal(err)
	}
	var states []string
	for _, n := range info.Nodes {
		states = append(states, n.Name+" "+string(n.State))
	}
	sort.Strings(states)
	fmt.Println(string(result), states)
	// Output:
	// "paid, approved by Ada" [approval completed ask completed pay completed]
}
