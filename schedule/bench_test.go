package schedule

import (
	"context"
	"fmt"
	"log/slog"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed81422ce9/jobs"
	"github.com/seed81422ce9/jobs/backends/membroker"
)

// BenchmarkTicks measures ten ticks of each of 10,000 schedules, all at the
// same times, in virtual time on the memory broker. It includes putting them.
func BenchmarkTicks(b *testing.B) {
	const schedules = 10_000
	for range b.N {
		synctest.Test(new(testing.T), func(*testing.T) {
			store := membroker.New()
			defer store.Close()
			s := New(store, "bench")
			for i := range schedules {
				if _, err := s.Put(context.Background(), fmt.Sprint("s", i), Every(time.Hour), jobs.NewTask("t", nil)); err != nil {
					b.Fatal(err)
				}
			}
			client := jobs.NewClient(store, jobs.ClientConfig{})
			server, err := jobs.NewServer(store, jobs.Config{Extensions: []jobs.Extension{s.Extension(client, ExtensionConfig{})},
				Logger: slog.New(slog.DiscardHandler)})
			if err != nil {
				b.Fatal(err)
			}
			var ran atomic.Int64
			if err := server.Start(context.Background(), jobs.HandlerFunc(func(context.Context, *jobs.Job) error {
				ran.Add(1)
				return nil
			})); err != nil {
				b.Fatal(err)
			}
			pass(10*time.Hour + 30*time.Minute)
			if ran.Load() != 10*schedules {
				b.Errorf("%d ticks ran, want %d", ran.Load(), 10*schedules)
			}
			_ = server.Shutdown(context.Background())
		})
	}
	b.ReportMetric(float64(b.N)*10*schedules/b.Elapsed().Seconds(), "ticks/s")
}

// BenchmarkNext measures the next tick of a line in a zone.
func BenchmarkNext(b *testing.B) {
	for _, text := range []string{"*/5 * * * *", "0 3 * * *", "0 0 29 2 *"} {
		b.Run(text, func(b *testing.B) {
			p, err := (&record{Spec: text, Zone: "Europe/Berlin"}).plan("s")
			if err != nil {
				b.Fatal(err)
			}
			t := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
			for range b.N {
				p.after(t)
			}
		})
	}
}
