// Command moving is a small program that was written for asynq or River and moved here.
// It sends a welcome mail, a reminder a day later, and a report every night.
// docs/moving-from-asynq.md and docs/moving-from-river.md show it before and after.
//
// JOBS_BROKER is the URL of the store (redis://…, postgres://…, file:jobs.db).
package main

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"time"

	"github.com/seed81422ce9/jobs"
	"github.com/seed81422ce9/jobs/backends"
	"github.com/seed81422ce9/jobs/schedule"
)

// begin tasks

// Mail is what the jobs about a user need to know.
type Mail struct {
	UserID int `json:"user_id"`
}

// The tasks, with the defaults of their options.
var (
	Welcome = jobs.Define[Mail]("email:welcome", jobs.WithQueue("mail"), jobs.WithMaxRetries(5), jobs.WithTimeout(time.Minute))
	Remind  = jobs.Define[Mail]("email:remind", jobs.WithQueue("mail"))
	Report  = jobs.Define[struct{}]("report:nightly")
)

// end tasks

// begin enqueue

// SignUp enqueues the jobs for a user who signs up.
func SignUp(ctx context.Context, to jobs.Enqueuer, userID int) error {
	m := Mail{UserID: userID}
	if _, err := Welcome.Enqueue(ctx, to, m, jobs.WithUniqueUntilDone(time.Hour)); err != nil && !errors.Is(err, jobs.ErrDuplicate) {
		return err
	}
	_, err := Remind.Enqueue(ctx, to, m, jobs.WithDelay(24*time.Hour))
	return err
}

// end enqueue

var errNoUser = errors.New("no such user")

// App is what the handlers need.
type App struct {
	Send func(ctx context.Context, userID int, text string) error
}

// begin handlers

// Handlers returns the handlers of all types.
func (a *App) Handlers() jobs.Handler {
	mux := jobs.NewServeMux()
	mux.Use(timed)
	jobs.Handle(mux, Welcome, func(ctx context.Context, m Mail, job *jobs.Job) error {
		err := a.Send(ctx, m.UserID, "welcome")
		if errors.Is(err, errNoUser) {
			return fmt.Errorf("%w: %w", jobs.SkipRetry, err)
		}
		return err // after an error the job is retried, after nil it is completed
	})
	jobs.Handle(mux, Remind, func(ctx context.Context, m Mail, job *jobs.Job) error {
		return a.Send(ctx, m.UserID, "remember us")
	})
	jobs.Handle(mux, Report, func(ctx context.Context, _ struct{}, job *jobs.Job) error {
		return a.Send(ctx, 0, "report of "+job.ID())
	})
	return mux
}

// timed is middleware.
func timed(next jobs.Handler) jobs.Handler {
	return jobs.HandlerFunc(func(ctx context.Context, job *jobs.Job) error {
		start := time.Now()
		err := next.ProcessJob(ctx, job)
		log.Printf("%s %s took %v: %v", job.Type(), job.ID(), time.Since(start), err)
		return err
	})
}

// end handlers

func main() {
	app := &App{Send: func(_ context.Context, userID int, text string) error {
		_, err := fmt.Println("to user", userID, text)
		return err
	}}
	url := os.Getenv("JOBS_BROKER")
	if url == "" {
		log.Fatal("moving: JOBS_BROKER is not set: say where the jobs are, file:jobs.db for example")
	}
	if err := run(context.Background(), url, app); err != nil {
		log.Fatal("moving: ", err)
	}
}

// begin run

func run(ctx context.Context, brokerURL string, app *App) error {
	b, err := backends.Open(ctx, brokerURL)
	if err != nil {
		return err
	}
	defer b.Close()
	client := jobs.NewClient(b, jobs.ClientConfig{})
	defer client.Close()
	server, err := jobs.NewServer(b, Config(client))
	if err != nil {
		return err
	}
	return server.Run(ctx, app.Handlers()) // until SIGTERM, or the end of ctx
}

// Config returns the configuration of a server. Any number of servers can use it: the report is made
// once.
func Config(client *jobs.Client) jobs.Config {
	nightly := schedule.Define("nightly-report", schedule.Cron("30 3 * * *", "Europe/Berlin"), Report, struct{}{})
	return jobs.Config{
		Concurrency: 10,
		Queues:      map[string]int{"mail": 6, "default": 3},
		Extensions: []jobs.Extension{
			schedule.New(client.Broker(), "moving").Extension(client, schedule.ExtensionConfig{Definitions: []schedule.Definition{nightly}}),
		},
	}
}

// end run
