package asynqcompat_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log"
	"slices"
	"testing"
	"time"

	"github.com/hibiken/asynq"

	"github.com/seed81422ce9/jobs"
	asynqcompat "github.com/seed81422ce9/jobs/compat/asynq"
	"github.com/seed81422ce9/jobs/jobstest"
)

// The program of examples/moving as it was for asynq, which docs/moving-from-asynq.md
// shows.

// begin tasks

type mail struct {
	UserID int `json:"user_id"`
}

func newMail(typ string, userID int) (*asynq.Task, error) {
	payload, err := json.Marshal(mail{UserID: userID})
	if err != nil {
		return nil, err
	}
	return asynq.NewTask(typ, payload), nil
}

// end tasks

// begin enqueue

func signUp(ctx context.Context, client *asynq.Client, userID int) error {
	welcome, err := newMail("email:welcome", userID)
	if err != nil {
		return err
	}
	_, err = client.EnqueueContext(ctx, welcome, asynq.Queue("mail"), asynq.MaxRetry(5), asynq.Timeout(time.Minute), asynq.Unique(time.Hour))
	if err != nil && !errors.Is(err, asynq.ErrDuplicateTask) {
		return err
	}
	remind, err := newMail("email:remind", userID)
	if err != nil {
		return err
	}
	_, err = client.EnqueueContext(ctx, remind, asynq.Queue("mail"), asynq.ProcessIn(24*time.Hour))
	return err
}

// end enqueue

var errNoUser = errors.New("no such user")

type app struct {
	send func(ctx context.Context, userID int, text string) error
}

// begin handlers

func (a *app) handlers() asynq.Handler {
	mux := asynq.NewServeMux()
	mux.Use(timed)
	mux.HandleFunc("email:welcome", func(ctx context.Context, task *asynq.Task) error {
		var m mail
		if err := json.Unmarshal(task.Payload(), &m); err != nil {
			return fmt.Errorf("%w: %w", err, asynq.SkipRetry)
		}
		err := a.send(ctx, m.UserID, "welcome")
		if errors.Is(err, errNoUser) {
			return fmt.Errorf("%w: %w", err, asynq.SkipRetry)
		}
		return err
	})
	mux.HandleFunc("email:remind", func(ctx context.Context, task *asynq.Task) error {
		var m mail
		if err := json.Unmarshal(task.Payload(), &m); err != nil {
			return fmt.Errorf("%w: %w", err, asynq.SkipRetry)
		}
		return a.send(ctx, m.UserID, "remember us")
	})
	mux.HandleFunc("report:nightly", func(ctx context.Context, task *asynq.Task) error {
		return a.send(ctx, 0, "report")
	})
	return mux
}

func timed(next asynq.Handler) asynq.Handler {
	return asynq.HandlerFunc(func(ctx context.Context, task *asynq.Task) error {
		start := time.Now()
		err := next.ProcessTask(ctx, task)
		log.Printf("%s took %v: %v", task.Type(), time.Since(start), err)
		return err
	})
}

// end handlers

// begin run

func workThere(conn asynq.RedisConnOpt, a *app) error {
	server := asynq.NewServer(conn, asynq.Config{Concurrency: 10, Queues: map[string]int{"mail": 6, "default": 3}})
	return server.Run(a.handlers())
}

// A process of its own, of which only one may run.
func tick(conn asynq.RedisConnOpt) error {
	zone, err := time.LoadLocation("Europe/Berlin")
	if err != nil {
		return err
	}
	scheduler := asynq.NewScheduler(conn, &asynq.SchedulerOpts{Location: zone})
	if _, err := scheduler.Register("30 3 * * *", asynq.NewTask("report:nightly", nil)); err != nil {
		return err
	}
	return scheduler.Run()
}

// end run

// What compiles is shown; it would need a Redis.
var _, _ = workThere, tick

// begin shim

// The handlers are those above, and so is what enqueues.
func workHere(ctx context.Context, b jobs.Broker, a *app) error {
	server, err := jobs.NewServer(b, jobs.Config{
		Concurrency: 10,
		Queues:      map[string]int{"mail": 6, "default": 3},
		RetryPolicy: asynqcompat.RetryPolicy(asynq.DefaultRetryDelayFunc),
	})
	if err != nil {
		return err
	}
	return server.Run(ctx, asynqcompat.Handler(a.handlers()))
}

func clientHere(client *jobs.Client) *asynq.Client {
	return asynq.NewClient(asynqcompat.Conn(client))
}

// end shim

var _ = workHere

// The program of the page runs on our store with only its connection changed.
func TestHandler_TheProgramOfTheGuideRunsUnchanged(t *testing.T) {
	t.Parallel()
	b := jobstest.New(t)
	for _, userID := range []int{1, 2, 1} { // 1 presses the button twice
		if err := signUp(t.Context(), clientHere(b.Client()), userID); err != nil {
			t.Fatal(err)
		}
	}
	var sent []string
	a := &app{send: func(_ context.Context, userID int, text string) error {
		if userID == 2 {
			return errNoUser
		}
		sent = append(sent, fmt.Sprint(userID, " ", text))
		return nil
	}}
	cfg := jobstest.Config{Queues: map[string]int{"mail": 1}}
	now := jobstest.Drain(t, b, asynqcompat.Handler(a.handlers()), cfg)
	if want := []string{"1 welcome"}; !slices.Equal(sent, want) || now.Completed != 1 || now.Dead != 1 {
		t.Errorf("sent at once: %q, and %+v; want %q, one completed and one dead", sent, now, want)
	}
	jobstest.Drain(t, b, asynqcompat.Handler(a.handlers()), cfg, jobstest.Ahead(25*time.Hour))
	if want := []string{"1 welcome", "1 remember us", "1 remember us"}; !slices.Equal(sent, want) {
		t.Errorf("sent within a day: %q, want %q", sent, want)
	}
}
