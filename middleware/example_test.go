package middleware_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"log/slog"
	"net/http"
	"time"

	"github.com/seed81422ce9/jobs/internal/chaintest"

	"github.com/seed81422ce9/jobs/middleware/observe"

	"github.com/seed81422ce9/jobs"
	"github.com/seed81422ce9/jobs/backends/membroker"
	"github.com/seed81422ce9/jobs/broker"
	"github.com/seed81422ce9/jobs/middleware"
)

// process runs one job as a server would.
func process(h jobs.Handler, typ string) error {
	return h.ProcessJob(context.Background(), jobs.NewJob(&broker.Job{Queue: "default", Body: broker.Body{Type: typ, MaxRetries: 25}}))
}

// The standard chain: what is first is outermost.
func Example() {
	mux := jobs.NewServeMux()
	mux.HandleFunc("email:send", func(ctx context.Context, job *jobs.Job) error {
		return nil
	})
	mux.HandleFunc("report:build", func(ctx context.Context, job *jobs.Job) error {
		var totals map[string]int
		totals["all"]++ // a bug
		return nil
	})

	b, logger := membroker.New(), chaintest.PlainLogger()
	defer b.Close()

	// begin chain
	tracing := observe.NewTracing(observe.TracingConfig{})
	metrics, err := observe.NewMetrics(observe.MetricsConfig{Broker: b})
	if err != nil {
		log.Fatal(err)
	}
	mux.Use(tracing.Middleware(), metrics.Middleware(), observe.Logging(observe.LoggingConfig{Logger: logger}))
	mux.Use(middleware.Breaker(middleware.BreakerConfig{}), middleware.Retry(middleware.RetryConfig{Attempts: 8}))
	mux.Use(middleware.Timeout(middleware.TimeoutConfig{Soft: 5 * time.Minute, Hard: 6 * time.Minute}), middleware.Recovery(nil))
	// end chain

	defer metrics.Close()
	_ = process(mux, "email:send")
	_ = process(mux, "report:build")
	// Output:
	// level=INFO type=email:send outcome=completed
	// level=WARN type=report:build outcome=retried class=panic error="panic: assignment to entry in nil map"
}

// The chain of the server is outside of that of the mux, which is outside of
// that of the pattern. Each sees what those inside of it have made of a panic:
// Recovery an error, Retry, with its one attempt, the end of the job.
func Example_order() {
	var steps []string
	note := func(where string) jobs.Middleware {
		return func(next jobs.Handler) jobs.Handler {
			return jobs.HandlerFunc(func(ctx context.Context, job *jobs.Job) error {
				steps = append(steps, "into "+where)
				err := next.ProcessJob(ctx, job)
				steps = append(steps, fmt.Sprintf("%s sees %q, the job will be %s", where, err, jobs.EndingOf(ctx, job, err).Outcome))
				return err
			})
		}
	}

	b := membroker.New()
	defer b.Close()
	mux := jobs.NewServeMux()
	mux.HandleFunc("report", func(context.Context, *jobs.Job) error { panic("a bug") },
		note("pattern"), middleware.Recovery(nil))
	mux.Use(note("mux 1"), middleware.Retry(middleware.RetryConfig{Attempts: 1}), note("mux 2"))
	server, err := jobs.NewServer(b, jobs.Config{
		Middleware: []jobs.Middleware{note("server")},
		Logger:     slog.New(slog.DiscardHandler),
	})
	if err != nil {
		log.Fatal(err)
	}
	client := jobs.NewClient(b, jobs.ClientConfig{})
	info, err := client.Enqueue(context.Background(), jobs.NewTask("report", nil))
	if err != nil {
		log.Fatal(err)
	}
	if err := server.Start(context.Background(), mux); err != nil {
		log.Fatal(err)
	}
	if _, err := client.Wait(context.Background(), info.Queue, info.ID); !errors.Is(err, jobs.ErrDead) {
		log.Fatal(err)
	}
	if err := server.Shutdown(context.Background()); err != nil {
		log.Fatal(err)
	}
	for _, s := range steps {
		fmt.Println(s)
	}
	// Output:
	// into server
	// into mux 1
	// into mux 2
	// into pattern
	// pattern sees "panic: a bug", the job will be retried
	// mux 2 sees "panic: a bug", the job will be retried
	// mux 1 sees "panic: a bug", the job will be dead
	// server sees "panic: a bug", the job will be dead
}

// A handler that calls an HTTP service returns what CheckResponse says; what
// only this application knows is said by a Classifier.
func ExampleRetry() {
	errSent := errors.New("duplicate message ID")
	answers := map[string]*http.Response{
		"limited": {StatusCode: http.StatusTooManyRequests, Header: http.Header{"Retry-After": {"120"}}},
		"refused": {StatusCode: http.StatusUnprocessableEntity},
		"flaky":   {StatusCode: http.StatusBadGateway},
	}
	send := jobs.HandlerFunc(func(ctx context.Context, job *jobs.Job) error {
		if job.Type() == "repeated" {
			return errSent
		}
		return middleware.CheckResponse(answers[job.Type()])
	})
	retry := middleware.Retry(middleware.RetryConfig{
		Attempts: 8,
		Backoff:  jobs.Exponential(time.Second, time.Hour),
		Classify: []middleware.Classifier{func(err error, job *jobs.Job) middleware.Finding {
			if errors.Is(err, errSent) {
				return middleware.Finding{Kind: middleware.AlreadyDone}
			}
			return middleware.Finding{}
		}},
	})
	logging := observe.Logging(observe.LoggingConfig{Logger: chaintest.PlainLogger()})
	for _, typ := range []string{"limited", "refused", "flaky", "repeated"} {
		_ = process(jobs.Chain(logging, retry)(send), typ)
	}
	// Output:
	// level=WARN type=limited outcome=retried class=rate_limited code=HTTP_429 error="HTTP status 429 Too Many Requests, retry after 2m0s"
	// level=ERROR type=refused outcome=dead class=permanent code=HTTP_422 error="HTTP status 422 Unprocessable Entity"
	// level=WARN type=flaky outcome=retried class=retryable code=HTTP_502 error="HTTP status 502 Bad Gateway"
	// level=INFO type=repeated outcome=completed
}

// After two failures in a row jobs are put off, without a charge.
func ExampleBreaker() {
	breaker := middleware.Breaker(middleware.BreakerConfig{
		Failures: 2,
		Pause:    time.Minute,
		OnChange: func(key string, from, to middleware.BreakerState) { fmt.Println("breaker of", key, "is", to) },
	})
	call := breaker(jobs.HandlerFunc(func(context.Context, *jobs.Job) error {
		return errors.New("connection refused")
	}))
	for range 3 {
		err := process(call, "crm:sync")
		fmt.Println(errors.Is(err, middleware.ErrBreakerOpen))
	}
	// Output:
	// false
	// breaker of crm:sync is open
	// false
	// true
}

// A limit for one pattern: 100 runs a minute in this process.
func ExampleRateLimit() {
	mux := jobs.NewServeMux()
	mux.HandleFunc("sms:send", func(context.Context, *jobs.Job) error { return nil },
		middleware.RateLimit(middleware.RateLimitConfig{Runs: 100, Per: time.Minute, Burst: 1}))
	for range 2 {
		err := process(mux, "sms:send")
		fmt.Println(errors.Is(err, middleware.ErrRateLimited))
	}
	// Output:
	// false
	// true
}

type requestIDKey struct{}

// What a producer leaves open is filled in, and then all of it is checked.
func ExampleValidate() {
	b := membroker.New()
	defer b.Close()
	client := jobs.NewClient(b, jobs.ClientConfig{Middleware: []jobs.EnqueueMiddleware{
		middleware.Defaults(func(ctx context.Context, job *broker.NewJob) middleware.TaskDefaults {
			id, _ := ctx.Value(requestIDKey{}).(string)
			return middleware.TaskDefaults{CorrelationID: id, Source: "shop"}
		}),
		middleware.Validate(middleware.KnownTypes("email:*"), middleware.JSONPayload()),
	}})
	defer client.Close()

	ctx := context.WithValue(context.Background(), requestIDKey{}, "request 7")
	_, err := client.Enqueue(ctx, jobs.NewTask("emial:send", []byte(`{}`), jobs.WithID("1")))
	fmt.Println(err)
	info, err := client.Enqueue(ctx, jobs.NewTask("email:send", []byte(`{}`)))
	if err != nil {
		log.Fatal(err)
	}
	page, err := b.Find(ctx, broker.Query{Queue: info.Queue, IDs: []string{info.ID}})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(page.Jobs[0].Source, page.Jobs[0].CorrelationID)
	// Output:
	// jobs: enqueue: queue "default": job "1": type: invalid: "emial:send" is not known here; known are ["email:*"]
	// shop request 7
}
