package middleware_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/seed81422ce9/jobs/middleware"

	"github.com/seed81422ce9/jobs/internal/chaintest"

	"github.com/seed81422ce9/jobs"
	"github.com/seed81422ce9/jobs/backends/membroker"
	"github.com/seed81422ce9/jobs/broker"
)

// producer makes a client with an enqueue chain.
func producer(t *testing.T, chain ...jobs.EnqueueMiddleware) (*jobs.Client, *membroker.Broker) {
	t.Helper()
	b := membroker.New()
	c := jobs.NewClient(b, jobs.ClientConfig{Middleware: chain})
	t.Cleanup(func() { c.Close(); b.Close() })
	return c, b
}

func TestValidate_ABadTaskIsRefusedAndTheOthersOfItsBatchAreStored(t *testing.T) {
	t.Parallel()
	passed := 0
	counts := func(next jobs.EnqueueFunc) jobs.EnqueueFunc {
		return func(ctx context.Context, batch []*jobs.Outgoing) {
			passed += len(batch)
			next(ctx, batch)
		}
	}
	c, b := producer(t, middleware.Validate(nil, func(_ context.Context, job *broker.NewJob) error {
		switch string(job.Body.Payload) {
		case "bad":
			return errors.New("is bad")
		case "evil":
			panic("a bug in a check")
		}
		return nil
	}), counts)
	tasks := []*jobs.Task{jobs.NewTask("a", []byte("fine")), jobs.NewTask("a", []byte("bad")), jobs.NewTask("a", []byte("evil")),
		jobs.NewTask("a", []byte("fine"))}
	receipts, err := c.EnqueueMany(t.Context(), tasks)
	if !errors.Is(err, jobs.ErrInvalid) {
		t.Errorf("the batch gets %v", err)
	}
	for i, want := range []string{"", "is bad", "a bug in a check", ""} {
		switch err := receipts[i].Err; {
		case want == "" && err != nil:
			t.Errorf("task %d was refused: %v", i, err)
		case want != "" && (!errors.Is(err, jobs.ErrInvalid) || !strings.Contains(err.Error(), want)):
			t.Errorf("task %d gets %v, want %v because it %s", i, err, jobs.ErrInvalid, want)
		}
	}
	reply, err := b.Queues(t.Context(), broker.QueuesRequest{Names: []string{jobs.DefaultQueue}})
	if err != nil || reply.Queues[0].Counts[jobs.StatePending] != 2 {
		t.Errorf("stored are %v (%v), want 2", reply.Queues, err)
	}
	if _, err := c.Enqueue(t.Context(), tasks[1]); !errors.Is(err, jobs.ErrInvalid) || errors.Is(err, jobs.ErrOutcomeUnknown) {
		t.Errorf("alone, the bad task gets %v", err)
	}
	if passed != 2 {
		t.Errorf("%d jobs went on to the rest of the chain, want the 2 that are fine", passed)
	}
}

func TestValidate_RefusesAPatternThatNoTypeWasMeantToMatch(t *testing.T) {
	t.Parallel()
	defer func() {
		if got := fmt.Sprint(recover()); !strings.Contains(got, `KnownTypes: invalid: has the pattern "report:*:daily"`) {
			t.Errorf("the panic says %q", got)
		}
	}()
	middleware.KnownTypes("email:*", "report:*:daily")
}

func TestValidate_ChecksNameFieldLimitAndRemedy(t *testing.T) {
	t.Parallel()
	mux := jobs.NewServeMux()
	for _, pattern := range []string{"email:welcome", "report:*"} {
		mux.HandleFunc(pattern, func(context.Context, *jobs.Job) error { return nil })
	}
	c, _ := producer(t, middleware.Validate(middleware.KnownTypes(mux.Patterns()...), middleware.MaxPayload(10), middleware.JSONPayload(),
		middleware.RequireKey()))
	key := jobs.WithPartitionKey("acme")
	for _, x := range []struct {
		task *jobs.Task
		want []string
	}{
		{jobs.NewTask("email:welcome", []byte("{}"), key), nil},
		{jobs.NewTask("report:daily", []byte("{}"), key), nil},
		{jobs.NewTask("email:goodbye", []byte("{}"), key), []string{"type", `"email:goodbye" is not known`, "email:welcome"}},
		{jobs.NewTask("report:x", []byte(`"0123456789"`), key), []string{"payload", "12 bytes", "the limit is 10", "ClaimCheck"}},
		{jobs.NewTask("report:x", []byte("secret"), key), []string{"payload", "not JSON", "Define"}},
		{jobs.NewTask("report:x", []byte("{}")), []string{"key", "WithPartitionKey"}},
	} {
		_, err := c.Enqueue(t.Context(), x.task)
		if len(x.want) == 0 && err != nil {
			t.Errorf("a task that is fine gets %v", err)
		}
		for _, word := range x.want {
			if !errors.Is(err, jobs.ErrInvalid) || !strings.Contains(err.Error(), word) || strings.Contains(err.Error(), "secret") {
				t.Errorf("the error is %v, want it to say %q and nothing of the payload", err, word)
			}
		}
	}
	chaintest.WantRefusal(t, "MaxPayload: invalid: is 0; use 1 byte or more", func() { middleware.MaxPayload(0) })
}
