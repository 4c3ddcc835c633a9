package backends_test

import (
	"context"
	"fmt"
	"log/slog"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/seed81422ce9/jobs"
	"github.com/seed81422ce9/jobs/backends"
	"github.com/seed81422ce9/jobs/internal/testenv"
)

// One of three Redis servers is killed while jobs are enqueued and handled. The others go on, and when it is back, each job
// that was accepted has run.
func TestShards_AServerOfAShardIsKilled(t *testing.T) {
	t.Parallel()
	shards := url.Values{}
	victim := testenv.PrivateRedis(t)
	for name, u := range map[string]string{"a": victim.URL, "b": testenv.PrivateRedis(t).URL, "c": testenv.PrivateRedis(t).URL} {
		shards.Set(name, u)
	}
	b, err := backends.Open(t.Context(), "shards://?"+shards.Encode())
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()

	var mu sync.Mutex
	ran := map[string]bool{}
	progress := make(chan struct{}, 1)
	server, err := jobs.NewServer(b, jobs.Config{Concurrency: 8, Lease: 2 * time.Second, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	err = server.Start(t.Context(), jobs.HandlerFunc(func(_ context.Context, j *jobs.Job) error {
		time.Sleep(20 * time.Millisecond) // so that jobs wait and run when the server is killed
		mu.Lock()
		defer mu.Unlock()
		ran[j.ID()] = true
		select {
		case progress <- struct{}{}:
		default:
		}
		return nil
	}))
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := server.Shutdown(context.Background()); err != nil {
			t.Error(err)
		}
	}()

	client, accepted := jobs.NewClient(b, jobs.ClientConfig{}), map[string]bool{}
	enqueue := func(phase string, n int) {
		for i := range n {
			ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
			r, err := client.Enqueue(ctx, jobs.NewTask("work", nil), jobs.WithID(fmt.Sprint(phase, i)))
			if cancel(); err == nil {
				accepted[r.ID] = true
			}
		}
	}
	await := func(what string, done func() bool) {
		t.Helper()
		for late := time.After(time.Minute); !done(); {
			select {
			case <-progress:
			case <-late:
				t.Fatalf("%s did not come about; %d jobs were accepted", what, len(accepted))
			}
		}
	}
	enqueue("before-", 300)
	if len(accepted) != 300 {
		t.Fatalf("%d of 300 jobs were accepted while all servers were there", len(accepted))
	}
	victim.Kill()
	enqueue("without-", 24)
	if n := len(accepted) - 300; n == 0 || n == 24 {
		t.Errorf("%d of 24 jobs were accepted without one of three servers, want those of the other two", n)
	}
	of := func(phase string) (n int) {
		mu.Lock()
		defer mu.Unlock()
		for id := range accepted {
			if strings.HasPrefix(id, phase) && ran[id] {
				n++
			}
		}
		return n
	}
	await("the run of what the other shards accepted", func() bool { return of("without-") == len(accepted)-300 })
	if err := victim.Start(); err != nil {
		t.Fatal(err)
	}
	await("the run of all that was accepted", func() bool { return of("before-")+of("without-") == len(accepted) })
}
