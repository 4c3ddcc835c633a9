package integration

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/seed81422ce9/jobs"
	"github.com/seed81422ce9/jobs/backends"
)

// The settings of a worker process.
const (
	envURL         = "JOBS_INTEGRATION_URL"
	envConcurrency = "JOBS_INTEGRATION_CONCURRENCY"
	envShutdown    = "JOBS_INTEGRATION_SHUTDOWN"
	envLease       = "JOBS_INTEGRATION_LEASE"
	envGo          = "JOBS_INTEGRATION_GO" // start with the order "go" given
)

// The types of task that a worker handles.
const (
	typeQuick    = "quick"    // completes at once
	typeHold     = "hold"     // waits for the order "go", or for the end of its context
	typeStubborn = "stubborn" // waits for the order "go", whatever its context says
	typeKiller   = "killer"   // kills its process after a moment
	typeLong     = "long"     // takes longer than the killer
	typeEffect   = "effect"   // has its effect once per idempotency key, then waits like typeHold
)

// event is a line of JSON that a worker process prints, in the order of events.
type event struct {
	Kind string // ready, claimed, begun, ended, effect, settled, log
	ID   string // of the job
	Text string // ended: the cause of the context's end; settled: the state, leaseLost or another error; log: the message
}

// leaseLost is the text of a settle that came too late.
const leaseLost = "lease lost"

// work runs a worker process. Its only order, on standard input, is "go".
func work() int {
	var lines sync.Mutex
	out := json.NewEncoder(os.Stdout)
	tell := func(kind, id, text string) {
		lines.Lock()
		defer lines.Unlock()
		_ = out.Encode(event{Kind: kind, ID: id, Text: text})
	}
	orders := make(chan struct{})
	if os.Getenv(envGo) != "" {
		close(orders)
	} else {
		go func() {
			if line, _ := bufio.NewReader(os.Stdin).ReadString('\n'); line == "go\n" {
				close(orders)
			}
		}()
	}
	if err := serve(tell, orders); err != nil {
		tell("log", "", err.Error())
		return 1
	}
	return 0
}

func serve(tell func(kind, id, text string), orders <-chan struct{}) error {
	b, err := backends.Open(context.Background(), os.Getenv(envURL))
	if err != nil {
		return err
	}
	defer b.Close()
	var concurrency int
	if _, err := fmt.Sscan(os.Getenv(envConcurrency), &concurrency); err != nil {
		return err
	}
	shutdown, err := time.ParseDuration(os.Getenv(envShutdown))
	if err != nil {
		return err
	}
	lease, err := time.ParseDuration(os.Getenv(envLease))
	if err != nil {
		return err
	}
	server, err := jobs.NewServer(b, jobs.Config{
		Queues: map[string]int{queue: 1}, Concurrency: concurrency, Lease: lease, ShutdownTimeout: shutdown,
		Prefetch: jobs.NoPrefetch, RetryPolicy: jobs.Constant(10 * time.Millisecond),
		Logger: slog.New(slog.NewTextHandler(logWriter(tell), nil)),
		Hooks: jobs.Hooks{
			Claim: func(e jobs.ClaimEvent) {
				for i := range e.Jobs {
					tell("claimed", e.Jobs[i].ID, "")
				}
			},
			Settle: func(e jobs.SettleEvent) {
				for _, v := range e.Verdicts {
					switch {
					case errors.Is(v.Err, jobs.ErrLeaseLost):
						tell("settled", v.ID, leaseLost)
					case v.Err != nil:
						tell("settled", v.ID, v.Err.Error())
					default:
						tell("settled", v.ID, v.State.String())
					}
				}
			},
		},
	})
	if err != nil {
		return err
	}
	mux := handlers(tell, orders)
	mux.Handle(typeCharge, charge(b, tell, orders))
	bills, err := openBilling(context.Background(), os.Getenv(envURL))
	if err != nil {
		return err
	}
	if bills != nil {
		defer bills.close()
		mux.HandleFunc(typeBill, bills.handler(tell, orders))
	}
	return server.Run(context.Background(), mux)
}

func handlers(tell func(kind, id, text string), orders <-chan struct{}) *jobs.ServeMux {
	hold := func(ctx context.Context, job *jobs.Job) error {
		tell("begun", job.ID(), "")
		select {
		case <-orders:
			return nil
		case <-ctx.Done():
			tell("ended", job.ID(), context.Cause(ctx).Error())
			return context.Cause(ctx)
		}
	}
	mux := jobs.NewServeMux()
	mux.HandleFunc(typeQuick, func(context.Context, *jobs.Job) error { return nil })
	mux.HandleFunc(typeHold, hold)
	mux.HandleFunc(typeKiller, func(_ context.Context, job *jobs.Job) error {
		tell("begun", job.ID(), "")
		time.Sleep(100 * time.Millisecond)
		return syscall.Kill(os.Getpid(), syscall.SIGKILL)
	})
	mux.HandleFunc(typeLong, func(context.Context, *jobs.Job) error {
		time.Sleep(500 * time.Millisecond)
		return nil
	})
	mux.HandleFunc(typeStubborn, func(ctx context.Context, job *jobs.Job) error {
		tell("begun", job.ID(), "")
		<-orders
		job.SetResult(fmt.Appendf(nil, "%d", os.Getpid()))
		return nil
	})
	mux.HandleFunc(typeEffect, func(ctx context.Context, job *jobs.Job) error {
		// The effect and its key are stored in one step: the file's name is the key.
		f, err := os.OpenFile(filepath.Join(string(job.Payload()), job.IdempotencyKey()), os.O_CREATE|os.O_EXCL, 0o600)
		switch {
		case errors.Is(err, os.ErrExist):
			tell("effect", job.ID(), "is there")
			return nil
		case err != nil:
			return err
		}
		f.Close()
		tell("effect", job.ID(), "made")
		return hold(ctx, job)
	})
	return mux
}

// logWriter turns each line of a log into an event.
type logWriter func(kind, id, text string)

func (w logWriter) Write(line []byte) (int, error) {
	w("log", "", strings.TrimSpace(string(line)))
	return len(line), nil
}
