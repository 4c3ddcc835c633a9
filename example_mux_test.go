package jobs_test

import (
	"context"
	"fmt"

	"github.com/seed81422ce9/jobs"
	"github.com/seed81422ce9/jobs/broker"
)

// around returns middleware that says when it begins and ends.
func around(name string) jobs.Middleware {
	return func(next jobs.Handler) jobs.Handler {
		return jobs.HandlerFunc(func(ctx context.Context, job *jobs.Job) error {
			fmt.Println(name, "begins")
			defer fmt.Println(name, "ends")
			return next.ProcessJob(ctx, job)
		})
	}
}

func process(mux *jobs.ServeMux, typ string) error {
	return mux.ProcessJob(context.Background(), jobs.NewJob(&broker.Job{Body: broker.Body{Type: typ}}))
}

func ExampleServeMux() {
	mux := jobs.NewServeMux()
	mux.HandleFunc("email:welcome", func(_ context.Context, job *jobs.Job) error {
		fmt.Println("the very pattern:", job.Type())
		return nil
	})
	mux.HandleFunc("email:*", func(_ context.Context, job *jobs.Job) error {
		fmt.Println("any other email:", job.Type())
		return nil
	})
	for _, typ := range []string{"email:welcome", "email:invoice", "sms"} {
		if err := process(mux, typ); err != nil {
			fmt.Println(err)
		}
	}
	// Output:
	// the very pattern: email:welcome
	// any other email: email:invoice
	// no handler is registered for the job's type: "sms"; register one with ServeMux.Handle
}

// What Use adds is outside of what is given with the pattern, and what comes
// first is outside of what comes after it.
func ExampleServeMux_Use() {
	mux := jobs.NewServeMux()
	mux.HandleFunc("email", func(context.Context, *jobs.Job) error {
		fmt.Println("handler")
		return nil
	}, around("limit"))
	mux.Use(around("trace"), around("log"))
	_ = process(mux, "email")
	// Output:
	// trace begins
	// log begins
	// limit begins
	// handler
	// limit ends
	// log ends
	// trace ends
}
