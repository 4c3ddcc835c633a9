// Package before is the program of examples/moving as it was for River, which
// docs/moving-from-river.md shows. Its code is compiled, and not run.
package before

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/riverqueue/river/rivertype"
)

// begin tasks

// WelcomeArgs are the arguments of a welcome mail.
type WelcomeArgs struct {
	UserID int `json:"user_id"`
}

// Kind is the job's kind.
func (WelcomeArgs) Kind() string { return "email:welcome" }

// InsertOpts are the defaults.
func (WelcomeArgs) InsertOpts() river.InsertOpts {
	return river.InsertOpts{Queue: "mail", MaxAttempts: 6, UniqueOpts: river.UniqueOpts{ByArgs: true,
		ByState: []rivertype.JobState{rivertype.JobStateAvailable, rivertype.JobStatePending, rivertype.JobStateRetryable,
			rivertype.JobStateRunning, rivertype.JobStateScheduled}}}
}

// RemindArgs are the arguments of a reminder.
type RemindArgs struct {
	UserID int `json:"user_id"`
}

// Kind is the job's kind.
func (RemindArgs) Kind() string { return "email:remind" }

// ReportArgs are the arguments of the report.
type ReportArgs struct{}

// Kind is the job's kind.
func (ReportArgs) Kind() string { return "report:nightly" }

// end tasks

// begin enqueue

// SignUp inserts the jobs of a user who signs up, in the transaction of the user's row.
func SignUp(ctx context.Context, client *river.Client[pgx.Tx], tx pgx.Tx, userID int) error {
	if _, err := client.InsertTx(ctx, tx, WelcomeArgs{UserID: userID}, nil); err != nil { // a duplicate is not an error
		return err
	}
	tomorrow := time.Now().Add(24 * time.Hour)
	_, err := client.InsertTx(ctx, tx, RemindArgs{UserID: userID}, &river.InsertOpts{Queue: "mail", ScheduledAt: tomorrow})
	return err
}

// end enqueue

var errNoUser = errors.New("no such user")

// App is what the workers need.
type App struct {
	Send func(ctx context.Context, userID int, text string) error
}

// begin handlers

type welcome struct {
	river.WorkerDefaults[WelcomeArgs]
	app *App
}

func (w *welcome) Timeout(*river.Job[WelcomeArgs]) time.Duration { return time.Minute }

func (w *welcome) Work(ctx context.Context, job *river.Job[WelcomeArgs]) error {
	err := w.app.Send(ctx, job.Args.UserID, "welcome")
	if errors.Is(err, errNoUser) {
		return river.JobCancel(err)
	}
	return err
}

// Workers returns the workers of all kinds.
func (a *App) Workers() *river.Workers {
	workers := river.NewWorkers()
	river.AddWorker(workers, &welcome{app: a})
	river.AddWorker(workers, river.WorkFunc(func(ctx context.Context, job *river.Job[RemindArgs]) error {
		return a.Send(ctx, job.Args.UserID, "remember us")
	}))
	river.AddWorker(workers, river.WorkFunc(func(ctx context.Context, job *river.Job[ReportArgs]) error {
		return a.Send(ctx, 0, fmt.Sprint("report of ", job.ID))
	}))
	return workers
}

type timed struct{ river.MiddlewareDefaults }

func (*timed) Work(ctx context.Context, job *rivertype.JobRow, next func(context.Context) error) error {
	start := time.Now()
	err := next(ctx)
	log.Printf("%s %d took %v: %v", job.Kind, job.ID, time.Since(start), err)
	return err
}

// end handlers

// begin run

// nightly is when the report is made; the zone is the server's.
type nightly struct{}

func (nightly) Next(t time.Time) time.Time {
	next := time.Date(t.Year(), t.Month(), t.Day(), 3, 30, 0, 0, t.Location())
	if !next.After(t) {
		next = next.AddDate(0, 0, 1)
	}
	return next
}

// Run works until SIGTERM.
func Run(ctx context.Context, pool *pgxpool.Pool, app *App) error {
	client, err := river.NewClient(riverpgxv5.New(pool), &river.Config{
		Workers:    app.Workers(),
		Middleware: []rivertype.Middleware{&timed{}},
		Queues:     map[string]river.QueueConfig{"mail": {MaxWorkers: 6}, river.QueueDefault: {MaxWorkers: 3}},
		PeriodicJobs: []*river.PeriodicJob{
			river.NewPeriodicJob(nightly{}, func() (river.JobArgs, *river.InsertOpts) { return ReportArgs{}, nil }, nil),
		},
	})
	if err != nil {
		return err
	}
	if err := client.Start(ctx); err != nil {
		return err
	}
	stop := make(chan os.Signal, 1)
	signal.Notify(stop, syscall.SIGTERM)
	<-stop
	stopping, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	return client.Stop(stopping)
}

// end run
