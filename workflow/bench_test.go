package workflow

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/seed81422ce9/jobs"
	"github.com/seed81422ce9/jobs/backends"
	"github.com/seed81422ce9/jobs/backends/membroker"
	"github.com/seed81422ce9/jobs/broker"
	"github.com/seed81422ce9/jobs/internal/testenv"
)

// measured is a benchmark. on sets the handler of the store's server.
type measured func(b *testing.B, client *jobs.Client, on func(jobs.HandlerFunc))

// onStores runs a benchmark on memory, Redis and Postgres.
func onStores(b *testing.B, f measured) {
	onMemory(b, f)
	b.Run("redis", func(b *testing.B) { on(b, openStore(b, testenv.RedisPlace(b)), f) })
	b.Run("postgres", func(b *testing.B) { on(b, openStore(b, testenv.PostgresPlace(b)), f) })
}

// onMemory runs a benchmark on memory.
func onMemory(b *testing.B, f measured) {
	b.Run("memory", func(b *testing.B) { on(b, membroker.New(), f) })
}

// on runs a benchmark on a store, which it closes.
func on(b *testing.B, store broker.Broker, f measured) {
	client := jobs.NewClient(store, jobs.ClientConfig{})
	var mu sync.Mutex
	var handler jobs.HandlerFunc
	logger := slog.New(slog.DiscardHandler)
	server, err := jobs.NewServer(store, jobs.Config{Concurrency: 100, Logger: logger,
		Extensions: []jobs.Extension{Extension(client, ExtensionConfig{Logger: logger})}})
	if err == nil {
		err = server.Start(context.Background(), jobs.HandlerFunc(func(ctx context.Context, j *jobs.Job) error {
			mu.Lock()
			h := handler
			mu.Unlock()
			return h(ctx, j)
		}))
	}
	if err != nil {
		b.Fatal(err)
	}
	f(b, client, func(h jobs.HandlerFunc) { mu.Lock(); handler = h; mu.Unlock() })
	b.StopTimer()
	if err := server.Shutdown(context.Background()); err != nil {
		b.Error(err)
	}
	client.Close()
	store.Close()
}

func openStore(b *testing.B, url string) broker.Broker {
	if err := backends.Migrate(b.Context(), url); err != nil {
		b.Fatal(err)
	}
	store, err := backends.Open(b.Context(), url)
	if err != nil {
		b.Fatal(err)
	}
	return store
}

// BenchmarkFanOut measures 10,000 nodes with 1 KiB of payload each and the node
// that joins them, from Start to the end of the workflow.
func BenchmarkFanOut(b *testing.B) {
	const nodes = 10_000
	payload := make([]byte, 1024)
	onStores(b, func(b *testing.B, client *jobs.Client, on func(jobs.HandlerFunc)) {
		on(func(context.Context, *jobs.Job) error { return nil })
		var starting time.Duration
		n := 0
		for b.Loop() {
			n++
			parts := make([]Part, nodes)
			for i := range parts {
				parts[i] = Node{Name: fmt.Sprintf("n%05d", i), Task: jobs.NewTask("t", payload)}
			}
			id := fmt.Sprint("fan", n, time.Now().UnixNano())
			begun := time.Now()
			if err := Start(b.Context(), client, New(id).Add(Chord(Node{Name: "join", Task: jobs.NewTask("t", nil)}, parts...))); err != nil {
				b.Fatal(err)
			}
			starting += time.Since(begun)
			if _, err := Wait(b.Context(), client, id); err != nil {
				b.Fatal(err)
			}
		}
		b.ReportMetric(starting.Seconds()/float64(n), "s/start")
		b.ReportMetric(b.Elapsed().Seconds()/float64(n), "s/whole")
	})
}

// BenchmarkEdge measures the time from the end of a node in a chain to the start
// of the next one.
func BenchmarkEdge(b *testing.B) {
	const nodes = 200
	onStores(b, func(b *testing.B, client *jobs.Client, on func(jobs.HandlerFunc)) {
		var last time.Time
		var edges []time.Duration
		on(func(context.Context, *jobs.Job) error {
			if !last.IsZero() {
				edges = append(edges, time.Since(last))
			}
			last = time.Now()
			return nil
		})
		n := 0
		for b.Loop() {
			n++
			parts := make([]Part, nodes)
			for i := range parts {
				parts[i] = Node{Name: fmt.Sprint("n", i), Task: jobs.NewTask("t", nil)}
			}
			id := fmt.Sprint("chain", n, time.Now().UnixNano())
			last = time.Time{}
			if err := Start(b.Context(), client, New(id).Add(Chain(parts...))); err != nil {
				b.Fatal(err)
			}
			if _, err := Wait(b.Context(), client, id); err != nil {
				b.Fatal(err)
			}
		}
		slices.Sort(edges)
		b.ReportMetric(float64(edges[len(edges)/2].Microseconds())/1000, "ms/edge-median")
		b.ReportMetric(float64(edges[len(edges)*99/100].Microseconds())/1000, "ms/edge-p99")
	})
}

// BenchmarkNested measures a workflow of ten workflows with 10,000 nodes each. It runs on memory alone: BenchmarkFanOut
// shows how stores differ.
func BenchmarkNested(b *testing.B) {
	const outer, inner = 10, 10_000
	onMemory(b, func(b *testing.B, client *jobs.Client, on func(jobs.HandlerFunc)) {
		on(func(context.Context, *jobs.Job) error { return nil })
		n := 0
		for b.Loop() {
			n++
			id := fmt.Sprint("nested", n)
			wf := New(id)
			for k := range outer {
				parts := make([]Part, inner)
				for i := range parts {
					parts[i] = Node{Name: fmt.Sprintf("n%05d", i), Task: jobs.NewTask("t", nil)}
				}
				wf.Add(Node{Name: fmt.Sprint("part", k), Workflow: New("").Add(parts...)})
			}
			if err := Start(b.Context(), client, wf); err != nil {
				b.Fatal(err)
			}
			if _, err := Wait(b.Context(), client, id); err != nil {
				b.Fatal(err)
			}
		}
	})
}
