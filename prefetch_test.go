package jobs

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed81422ce9/jobs/broker"
)

// byName is a handler of jobs whose IDs say how long they take.
func byName(quick, slow time.Duration) func(context.Context, *Job) error {
	return func(_ context.Context, j *Job) error {
		if strings.HasPrefix(j.ID(), "slow") {
			time.Sleep(slow)
		} else {
			time.Sleep(quick)
		}
		return nil
	}
}

// Quick and slow jobs, shuffled: a server all of whose slots are taken leaves the
// slow ones to the other.
func TestServer_DoesNotHoardBesideAnIdleServer(t *testing.T) {
	t.Parallel()
	for seed := range uint64(20) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				b := newStore()
				names := make([]string, 1020)
				for i := range names {
					names[i] = fmt.Sprint("quick", i)
					if i < 20 {
						names[i] = fmt.Sprint("slow", i)
					}
				}
				rand.New(rand.NewPCG(seed, 0)).Shuffle(len(names), func(i, k int) { names[i], names[k] = names[k], names[i] })
				for range 2 {
					serve(t, b, Config{Concurrency: 10}, byName(100*time.Microsecond, 5*time.Second))
				}
				add(t, b, DefaultQueue, "quick-first", 20) // both know that jobs are quick
				synctest.Wait()
				time.Sleep(time.Second)
				began := time.Now()
				for _, name := range names {
					add(t, b, DefaultQueue, name, 1)
				}
				for count(t, b, DefaultQueue, StateCompleted) < 1040 && time.Since(began) < time.Minute {
					time.Sleep(10 * time.Millisecond)
				}
				if took := time.Since(began); took > 5100*time.Millisecond {
					t.Errorf("all were done after %v; 5 s are ideal, 5.1 s are allowed", took)
				}
			})
		})
	}
}

func TestServer_GivesQuickJobsBehindSlowOnesToAnIdleServer(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b := newStore()
		handler := byName(100*time.Microsecond, 5*time.Second)
		serve(t, b, Config{Concurrency: 2}, handler)
		add(t, b, DefaultQueue, "quick-first", 20)
		time.Sleep(time.Second)
		began := time.Now()
		add(t, b, DefaultQueue, "slow", 2)
		add(t, b, DefaultQueue, "quick", 100)
		serve(t, b, Config{Concurrency: 10}, handler)
		for count(t, b, DefaultQueue, StateCompleted) < 120 && time.Since(began) < time.Minute {
			time.Sleep(time.Millisecond)
		}
		if took := time.Since(began); took > 80*time.Millisecond {
			t.Errorf("100 quick jobs were done after %v beside ten idle slots, want 50 ms and little more", took)
		}
		for i := range 100 {
			j := expect(t, b, DefaultQueue, fmt.Sprint("quick-", i), StateCompleted)
			if j.Deliveries > 2 {
				t.Fatalf("%s was handed out %d times, want twice at most", j.ID, j.Deliveries)
			}
		}
	})
}

// The claim that waits asks for jobs ahead, too. Once handlers are slow it is
// given up, and another one asks for as many as there are slots.
func TestServer_GivesUpAWaitForMoreThanItCanStart(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b := newStore()
		var most atomic.Int64
		tapped := &tap{Broker: b, claim: func(ctx context.Context, req broker.ClaimRequest) (broker.Claimed, error) {
			if req.Wait > 0 {
				most.Store(int64(req.Max))
				defer most.Store(0)
			}
			return b.Claim(ctx, req)
		}}
		var slow atomic.Bool
		serve(t, tapped, Config{Concurrency: 4}, func(context.Context, *Job) error {
			if slow.Load() {
				time.Sleep(3 * time.Second)
			}
			return nil
		})
		add(t, b, DefaultQueue, "quick", 20)
		pass(time.Second)
		if n := most.Load(); n <= 4 {
			t.Fatalf("a claim waits for %d jobs, want more than the 4 slots", n)
		}
		slow.Store(true)
		add(t, b, DefaultQueue, "slow", 1)
		pass(4 * time.Second)
		if n := most.Load(); n != 4 {
			t.Errorf("a claim waits for %d jobs although handlers are slow, want 4", n)
		}
		add(t, b, DefaultQueue, "slow-too", 4)
		pass(time.Second)
		if n := most.Load(); n != 0 {
			t.Errorf("a claim waits for %d jobs although all slots are taken", n)
		}
	})
}

// With few slots, handlers that take about as long as prefetched work may take,
// and a store that is farther away, a third of what may be held is less than one
// job. The server must claim that one.
func TestServer_FewSlotsAndAFarStoreGoOn(t *testing.T) {
	for _, slots := range []int{1, 2} {
		for _, took := range []time.Duration{5 * time.Millisecond, 15 * time.Millisecond, 19500 * time.Microsecond} {
			t.Run(fmt.Sprintf("%d slots, %v", slots, took), func(t *testing.T) {
				bubble(t, func(t *testing.T) {
					b := newStore()
					far := &tap{Broker: b}
					far.claim = func(ctx context.Context, req broker.ClaimRequest) (broker.Claimed, error) {
						time.Sleep(15 * time.Millisecond)
						got, err := b.Claim(ctx, req)
						time.Sleep(15 * time.Millisecond)
						return got, err
					}
					serve(t, far, Config{Concurrency: slots}, func(context.Context, *Job) error {
						time.Sleep(took)
						return nil
					})
					for i := range 50 {
						add(t, b, DefaultQueue, fmt.Sprint("batch", i), 3)
						pass(time.Duration(i%5) * 30 * time.Millisecond)
					}
					pass(time.Minute)
					if n := count(t, b, DefaultQueue, StateCompleted); n != 150 {
						t.Errorf("a minute after the last of 150 jobs came, %d are done", n)
					}
				})
			})
		}
	}
}
