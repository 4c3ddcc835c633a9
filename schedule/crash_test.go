package schedule

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/seed81422ce9/jobs"
	"github.com/seed81422ce9/jobs/broker"
	"github.com/seed81422ce9/jobs/conformance/faulty"
	"github.com/seed81422ce9/jobs/internal/mortal"
)

// counts reports whether a call belongs to a run of a schedule, including its
// settle.
func counts(c *broker.Call) bool {
	switch r := c.Request.(type) {
	case *broker.MarkRequest, *broker.EnqueueRequest, *broker.Query:
		return true
	case *broker.Operation:
		return true
	case *broker.SettleRequest:
		return len(r.Items) > 0 && r.Items[0].Job.Queue == Queue
	case *broker.ClaimRequest:
		return len(r.Settle.Items) > 0 && r.Settle.Items[0].Job.Queue == Queue
	}
	return c.Method == "Ping"
}

// A server dies before or after each single call that its schedules make.
// Another one continues, and each tick runs once.
func TestSchedule_NoCrashLosesOrDoublesATick(t *testing.T) {
	every := Every(5 * time.Second)
	for _, overlap := range []Overlap{OverlapAllow, OverlapSkip} {
		for call := int64(1); call <= 16; call++ {
			for _, lost := range []bool{false, true} {
				t.Run(fmt.Sprintf("%s, call %d, carried out %v", overlap, call, lost), func(t *testing.T) {
					inWorld(t, func(w *world) {
						w.put("s", every, WithOverlap(overlap), WithMisfire(RunUpTo(100, 0)))
						start := time.Now()
						dying := mortal.New(w.store, counts)
						dying.Lost = lost
						dying.After.Store(call)
						cfg := jobs.Config{Lease: time.Second, PollInterval: time.Second}
						w.serve(dying, cfg, ExtensionConfig{})
						for !dying.Dead() && time.Since(start) < 30*time.Second {
							time.Sleep(100 * time.Millisecond)
						}
						w.serve(w.store, cfg, ExtensionConfig{})
						pass(time.Until(start.Add(time.Minute)))
						if !dying.Dead() {
							t.Fatalf("the server made only %d calls: it did not die", dying.Calls.Load())
						}
						w.exactly("ticks", "s", w.nominal(every, start, time.Now()))
						if n := w.info("s").Counts; n != (Counts{Enqueued: 12}) {
							t.Errorf("the counts are %+v, want 12 enqueued and nothing else", n)
						}
					})
				})
			}
		}
	}
}

// Every method of the store fails now and then, before or after it is carried
// out.
func TestSchedule_NoLostAnswerLosesOrDoublesATick(t *testing.T) {
	for _, method := range []string{"Mark", "Enqueue", "Ping", "Settle", "Claim", "Find"} {
		for name, fault := range map[string]faulty.Fault{"unavailable": faulty.Unavailable, "lost": faulty.ReplyLost} {
			t.Run(method+" "+name, func(t *testing.T) {
				inWorld(t, func(w *world) {
					w.put("s", Every(time.Minute), WithOverlap(OverlapSkip))
					start := time.Now()
					bad := faulty.Wrap(w.store, nil)
					var plan faulty.Plan
					for n := 2; n < 200; n += 1 + n%4 {
						plan = append(plan, faulty.Step{Method: method, Call: n, Fault: fault})
					}
					bad.Set(plan)
					w.serve(bad, jobs.Config{Lease: 2 * time.Second, PollInterval: time.Second}, ExtensionConfig{})
					pass(10*time.Minute + 30*time.Second)
					if bad.Calls(method) < 3 {
						t.Fatalf("%s was called %d times: nothing failed", method, bad.Calls(method))
					}
					w.exactly(method, "s", w.nominal(Every(time.Minute), start, time.Now()))
				})
			})
		}
	}
}

// Five servers are killed at random for six minutes, and replaced. Each tick of
// five schedules has one job.
func TestSchedule_ServersKilledAtRandom(t *testing.T) {
	inWorld(t, func(w *world) {
		const schedules, ticks = 5, 24
		seed := rand.Uint64()
		t.Logf("seed %d", seed)
		r := rand.New(rand.NewPCG(seed, 1))
		for i := range schedules {
			w.put(fmt.Sprint("s", i), Every(10*time.Second), WithMisfire(RunUpTo(1000, 0)))
		}
		start := time.Now()
		var mu sync.Mutex
		runs := make(map[string]int)
		w.handler = func(_ context.Context, j *jobs.Job) error {
			k, _ := TickOf(j)
			mu.Lock()
			runs[k.Schedule]++
			mu.Unlock()
			return nil
		}
		cfg := jobs.Config{Lease: 2 * time.Second, PollInterval: time.Second}
		fleet := make([]*mortal.Broker, 5)
		servers := make([]*jobs.Server, 5)
		for i := range fleet {
			fleet[i] = mortal.New(w.store, counts)
			servers[i] = w.serve(fleet[i], cfg, ExtensionConfig{})
		}
		kills := 0
		for time.Since(start) < ticks*10*time.Second-time.Minute {
			time.Sleep(time.Duration(r.Int64N(int64(10 * time.Second))))
			i := r.IntN(len(fleet))
			fleet[i].Kill()
			kills++
			ctx, cancel := context.WithTimeout(context.Background(), time.Second)
			_ = servers[i].Shutdown(ctx)
			cancel()
			fleet[i] = mortal.New(w.store, counts)
			servers[i] = w.serve(fleet[i], cfg, ExtensionConfig{})
		}
		pass(time.Until(start.Add(ticks*10*time.Second + 5*time.Second)))
		for i := range schedules {
			id := fmt.Sprint("s", i)
			c := w.info(id).Counts
			if c != (Counts{Enqueued: ticks}) {
				t.Errorf("after %d kills %s has the counts %+v, want %d enqueued", kills, id, c, ticks)
			}
			for n := 1; n <= ticks; n++ { // like any job it may run twice, but each tick has one job
				at := start.Add(time.Duration(n) * 10 * time.Second)
				if w.ran[tick{At: at}.jobID(id)] == 0 {
					t.Fatalf("after %d kills the tick %v of %s never ran", kills, at, id)
				}
			}
		}
		if len(w.ran) != schedules*ticks {
			t.Errorf("%d jobs ran, want %d: one for each tick", len(w.ran), schedules*ticks)
		}
	})
}

// The store loses the state of a schedule. Ticks that ran do not run again, and
// the schedule continues.
func TestSchedule_LostState(t *testing.T) {
	inWorld(t, func(w *world) {
		w.up()
		w.put("s", Every(10*time.Minute), WithMisfire(RunUpTo(1000, 0)))
		start := time.Now()
		pass(5*time.Hour + time.Minute)
		m, err := w.store.Mark(w.Context(), broker.MarkRequest{Action: broker.MarkTake, Name: "schedule:s", Owner: "schedule", TTL: time.Hour})
		if err == nil {
			m, err = w.store.Mark(w.Context(), broker.MarkRequest{Action: broker.MarkDrop, Name: "schedule:s", Owner: "schedule", Fence: m.Fence})
		}
		if err != nil || !m.Held {
			t.Fatal(m, err)
		}
		pass(time.Hour)
		w.exactly("after the state was lost", "s", w.nominal(Every(10*time.Minute), start, time.Now()))
	})
}

// A client that dies between its edit and waking the schedule puts it again when it restarts.
func TestSchedule_APutWhoseWakeWasLostIsMadeGoodByTheNext(t *testing.T) {
	inWorld(t, func(w *world) {
		w.up()
		w.put("s", Every(24*time.Hour))
		pass(time.Minute)
		bad := faulty.Wrap(w.store, faulty.Plan{{Method: "Operate", Call: 2, Fault: faulty.Fault{Before: broker.ErrClosed}}})
		put := func(b broker.Broker) (Change, error) {
			return New(b, "test").Put(w.Context(), "s", Every(time.Minute), jobs.NewTask("task", nil))
		}
		if _, err := put(bad); !errors.Is(err, broker.ErrClosed) {
			t.Fatalf("the client that dies gets %v", err)
		}
		pass(10 * time.Minute)
		if got := len(w.ticks()); got != 0 {
			t.Fatalf("%d ticks ran before the second call, which shows nothing then", got)
		}
		for range 2 {
			if change, err := put(w.store); change != Unchanged || err != nil {
				t.Errorf("the repetition answers %q, %v", change, err)
			}
			pass(5 * time.Minute)
		}
		if got := len(w.ticks()); got < 10 {
			t.Errorf("%d ticks ran in ten minutes", got)
		}
	})
}
