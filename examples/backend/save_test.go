package savebroker

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/seed81422ce9/jobs"
	"github.com/seed81422ce9/jobs/backends/membroker"
	"github.com/seed81422ce9/jobs/broker"
	"github.com/seed81422ce9/jobs/conformance"
	"github.com/seed81422ce9/jobs/inspect"
)

// begin conformance

// Every rule of the contract, on handles of one store.
func TestConformance(t *testing.T) {
	t.Parallel()
	conformance.Run(t, func(tb conformance.TB) *conformance.Store {
		store, file := membroker.NewStore(), filepath.Join(tb.TempDir(), "jobs")
		return &conformance.Store{
			Open: func(conformance.TB) broker.Broker { return &unsaved{Broker{Broker: store.Open(), file: file}} },
		}
	})
}

// end conformance

// unsaved is a handle whose Close saves nothing: other handles still use the store.
type unsaved struct{ Broker }

func (b *unsaved) Close() error { return b.Broker.Broker.Close() }

func TestBroker_JobsAreThereWhenTheFileIsOpenedAgain(t *testing.T) {
	t.Parallel()
	ctx, file := t.Context(), filepath.Join(t.TempDir(), "jobs")
	b := open(t, file)
	client := jobs.NewClient(b, jobs.ClientConfig{})
	for _, task := range []*jobs.Task{
		jobs.NewTask("now", []byte("1")),
		jobs.NewTask("later", []byte("2"), jobs.WithDelay(time.Hour), jobs.WithUniqueKey("later")),
		jobs.NewTask("bad", []byte("\xff"), jobs.WithQueue("other"), jobs.WithMaxRetries(0)),
	} {
		if _, err := client.Enqueue(ctx, task); err != nil {
			t.Fatal(err)
		}
	}
	server, err := jobs.NewServer(b, jobs.Config{Queues: map[string]int{"other": 1}})
	if err != nil {
		t.Fatal(err)
	}
	ran := make(chan struct{})
	if err := server.Start(ctx, jobs.HandlerFunc(func(context.Context, *jobs.Job) error {
		defer close(ran)
		return errors.New("no")
	})); err != nil {
		t.Fatal(err)
	}
	<-ran
	if err := errors.Join(server.Shutdown(ctx), client.Close(), b.Close()); err != nil {
		t.Fatal(err)
	}

	b = open(t, file)
	defer b.Close()
	queues, err := inspect.New(b).Queues(ctx)
	if err != nil {
		t.Fatal(err)
	}
	got := make(map[string]int64)
	for _, q := range queues {
		for state, n := range q.Counts {
			if n > 0 {
				got[q.Name+" "+state.String()] = n
			}
		}
	}
	if len(got) != 3 || got["default pending"] != 1 || got["default scheduled"] != 1 || got["other dead"] != 1 {
		t.Errorf("after it was closed and opened there is %v; want a job pending, one scheduled and one dead", got)
	}
	client = jobs.NewClient(b, jobs.ClientConfig{})
	defer client.Close()
	if _, err := client.Enqueue(ctx, jobs.NewTask("later", nil, jobs.WithUniqueKey("later"))); !errors.Is(err, jobs.ErrDuplicate) {
		t.Errorf("a job with the unique key of one that was saved: %v, want %v", err, jobs.ErrDuplicate)
	}
}

func TestBroker_AFileThatCannotBeReadIsNotReplaced(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "jobs")
	if err := os.WriteFile(file, []byte("something else\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(t.Context(), file); err == nil {
		t.Error("it was opened")
	}
}

func open(t *testing.T, file string) broker.Broker {
	t.Helper()
	b, err := Open(t.Context(), file)
	if err != nil {
		t.Fatal(err)
	}
	return b
}
