package jobs

import (
	"context"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"
	"weak"

	"github.com/seed81422ce9/jobs/broker"
)

// A job that runs for long keeps its own bytes in memory, and little of what came
// with it; a slot that is idle keeps nothing of its last job.
func TestServer_KeepsOnlyTheBytesOfWhatRuns(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ jobs, size, most int }{{50, 100_000, 1}, {50, 10_000, 5}, {500, 1_000, 40}} {
		t.Run(fmt.Sprint(test.jobs, " jobs of ", test.size), func(t *testing.T) {
			t.Parallel()
			b := newStore()
			var mu sync.Mutex
			var payloads []weak.Pointer[byte]
			tapped := &tap{Broker: b, claim: func(ctx context.Context, req broker.ClaimRequest) (broker.Claimed, error) {
				got, err := b.Claim(ctx, req)
				mu.Lock()
				defer mu.Unlock()
				for i := range got.Jobs {
					payloads = append(payloads, weak.Make(&got.Jobs[i].Payload[0]))
				}
				return got, err
			}}
			add(t, b, DefaultQueue, "quick", test.jobs/2, heavy(test.size))
			add(t, b, DefaultQueue, "long", 1, heavy(test.size))
			add(t, b, DefaultQueue, "quick-too", test.jobs/2, heavy(test.size))
			end := make(chan struct{})
			serve(t, tapped, Config{Concurrency: test.jobs + 1}, func(_ context.Context, j *Job) error {
				if strings.HasPrefix(j.ID(), "long") {
					<-end
				}
				return nil
			})
			kept := func(when string, done, most int) {
				t.Helper()
				n := 0
				for range 600 {
					runtime.GC()
					mu.Lock()
					n = 0
					for _, p := range payloads {
						if p.Value() != nil {
							n++
						}
					}
					mu.Unlock()
					if count(t, b, DefaultQueue, StateCompleted) == done && n <= most {
						return
					}
					time.Sleep(10 * time.Millisecond)
				}
				t.Errorf("%s: %d payloads are in memory, want at most %d", when, n, most)
			}
			kept("while one job runs", test.jobs, test.most)
			close(end)
			kept("when all slots are idle", test.jobs+1, 0)
		})
	}
}
