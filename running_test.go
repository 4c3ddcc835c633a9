package jobs

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed81422ce9/jobs/internal/sleep"

	"github.com/seed81422ce9/jobs/inspect"
)

// Operators see which jobs a worker has run for longest, and since when, as of
// its last heartbeat; handlers that return at once are not among them.
func TestServer_AWorkerSaysWhatItHasRunForLongest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newStore()
		defer b.Close()
		server, err := NewServer(b, Config{Concurrency: 2 * keptLongest})
		if err != nil {
			t.Fatal(err)
		}
		server.Start(context.Background(), HandlerFunc(func(ctx context.Context, job *Job) error {
			if job.Type() == "long" {
				return sleep.For(ctx, time.Minute)
			}
			return nil
		}))
		defer server.Shutdown(t.Context())
		client := NewClient(b, ClientConfig{})
		began := make(map[string]time.Time)
		var ids []string
		for n := range keptLongest + 3 {
			for _, typ := range []string{"long", "short"} {
				id := fmt.Sprintf("%s-%02d", typ, n)
				if _, err := client.Enqueue(t.Context(), NewTask(typ, nil), WithID(id)); err != nil {
					t.Fatal(err)
				}
				if typ == "long" {
					ids, began[id] = append(ids, id), time.Now()
				}
			}
			time.Sleep(100 * time.Millisecond)
		}
		look := func() (named []string) {
			t.Helper()
			workers, err := inspect.New(b).Workers(t.Context())
			if err != nil || len(workers) != 1 {
				t.Fatalf("%d workers, %v", len(workers), err)
			}
			for _, r := range workers[0].Longest {
				named = append(named, r.ID)
				if off := r.Since.Sub(began[r.ID]); off < 0 || off > 10*time.Millisecond {
					t.Errorf("%s is said to run since %v after it began", r.ID, off)
				}
			}
			return named
		}
		if named := look(); len(named) > 0 {
			t.Errorf("named before any ran for long: %v", named)
		}
		time.Sleep(20 * time.Second)
		if named := look(); !slices.Equal(named, ids[:keptLongest]) {
			t.Errorf("named are %v, want the first %d of %v", named, keptLongest, ids)
		}
		time.Sleep(time.Minute)
		if named := look(); len(named) > 0 {
			t.Errorf("named after all have returned: %v", named)
		}
	})
}
