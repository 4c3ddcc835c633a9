package relay

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/seed81422ce9/jobs/broker"
	"github.com/seed81422ce9/jobs/conformance/faulty"
	"github.com/seed81422ce9/jobs/internal/handworker"
)

type brokenLog struct{ slog.Handler }

func (brokenLog) Handle(context.Context, slog.Record) error { panic("no line") }

// As the extension of a server, a relay logs in a goroutine of its own, where a panic would end the
// process.
func TestRelay_ALoggerThatPanicsLosesTheLineAlone(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.put([]string{"a"}, 1)
		away := broker.Wrap(w.to, func(ctx context.Context, c *broker.Call, next func(context.Context) error) error {
			if c.Method == "Enqueue" {
				return broker.ErrUnavailable
			}
			return next(ctx)
		})
		r, err := New(Config{From: w.from, FromQueue: outbox, To: away, ToQueue: mail,
			Logger: slog.New(brokenLog{slog.NewTextHandler(io.Discard, nil)})})
		if err != nil {
			t.Fatal(err)
		}
		ctx, stop := context.WithTimeout(t.Context(), time.Minute)
		defer stop()
		if err := r.Run(ctx); err != nil {
			t.Error(err)
		}
	})
}

// Of several relays one moves jobs. Another takes over almost at once when it
// drains, and after its lease when it is cut off.
func TestRelay_OneMovesJobsAndOthersStandBy(t *testing.T) {
	t.Parallel()
	inWorld(t, func(t *testing.T, w *world) {
		w.serve(time.Millisecond)
		const lease = 10 * time.Second
		var relays [3]*Relay
		var stops [3]func() error
		death := newDeath(0, false)
		for i := range relays {
			from, to := w.from, w.to
			if i == 1 {
				from, to = death.sees(from), death.sees(to)
			}
			relays[i] = w.relay(from, to, func(c *Config) { c.Lease = lease })
			if i != 2 {
				stops[i] = w.run(relays[i])
			}
			pass(100 * time.Millisecond)
		}
		active := func(want int, what string) {
			t.Helper()
			for i, r := range relays {
				if got := r.Stats().Active; got != (i == want) {
					t.Errorf("%s: relay %d says Active %v, want that of relay %d alone", what, i, got, want)
				}
			}
		}
		active(0, "at first")
		w.put(threeKeys, 10)
		pass(100 * time.Millisecond)
		if err := stops[0](); err != nil {
			t.Error(err)
		}
		pass(lease / 4)
		active(1, "after a drain")
		w.put(threeKeys, 10)
		stops[2] = w.run(relays[2])
		pass(time.Second)
		death.die()
		w.put(threeKeys, 10)
		pass(2*lease + time.Second)
		if !relays[2].Stats().Active {
			t.Errorf("%v after a death no other relay moves jobs", 2*lease)
		}
		w.exactlyOnce("three relays")
		if s := relays[0].Stats(); s.Relayed != 10 || s.Held != 0 || s.Lag != 0 {
			t.Errorf("the first relay says %+v, want 10 relayed and nothing in hand", s)
		}
		if n := len(w.queue(w.from, outbox).Workers); n != 1 {
			t.Errorf("the source lists %d workers, want that of one relay", n)
		}
	})
}

// A full target keeps jobs waiting at the source, in order.
func TestRelay_FullTarget(t *testing.T) {
	t.Parallel()
	inWorld(t, func(t *testing.T, w *world) {
		if _, err := w.to.Policy(t.Context(), broker.PolicyRequest{Queue: mail, MaxDepth: new(int64(5))}); err != nil {
			t.Fatal(err)
		}
		r := w.relay(w.from, w.to)
		w.put(threeKeys, 100)
		w.run(r)
		pass(time.Minute)
		if s := r.Stats(); !errors.Is(s.Err, broker.ErrQueueFull) || s.Relayed != 5 || s.Lag < time.Minute/2 || s.Held != 95 {
			t.Errorf("the relay says %+v, want that the queue is full, 5 jobs relayed and 95 in hand for a minute", s)
		}
		w.serve(10 * time.Millisecond)
		for range 60 {
			pass(time.Second)
			if n := w.counts(w.to, mail)[broker.StatePending]; n > 5 {
				t.Fatalf("%d jobs are pending at the target, its limit is 5", n)
			}
		}
		w.exactlyOnce("a full target")
		if s := r.Stats(); s.Err != nil || s.Relayed != 100 || s.Lag != 0 {
			t.Errorf("at last the relay says %+v, want 100 relayed and no error", s)
		}
	})
}

// A batch is sent in several calls. If one leaves jobs, those after it wait.
func TestRelay_ALaterCallOvertakesNone(t *testing.T) {
	t.Parallel()
	inWorld(t, func(t *testing.T, w *world) {
		w.serve(0)
		bad := faulty.Wrap(w.to, faulty.Plan{{Method: "Enqueue", Call: 1, Fault: faulty.Unavailable},
			{Method: "Enqueue", Call: 3, Fault: faulty.ReplyCut}})
		w.put(threeKeys, 1500)
		w.run(w.relay(w.from, bad))
		pass(time.Minute)
		w.exactlyOnce("calls of a batch failed")
		if n := bad.Calls("Enqueue"); n < 5 || n > 8 {
			t.Errorf("1500 jobs went in %d calls, two of which failed", n)
		}
	})
}

func TestRelay_TargetAway(t *testing.T) {
	t.Parallel()
	inWorld(t, func(t *testing.T, w *world) {
		w.serve(time.Millisecond)
		bad := faulty.Wrap(w.to, faulty.Plan{{Fault: faulty.Unavailable}})
		r := w.relay(w.from, bad)
		w.run(r)
		w.put(threeKeys, 20)
		pass(3 * time.Hour)
		if s := r.Stats(); !errors.Is(s.Err, broker.ErrUnavailable) || !s.Active || s.Lag < 2*time.Hour {
			t.Errorf("while the target is away the relay says %+v", s)
		}
		if n := bad.Calls("Enqueue"); n < 100 || n > 10_000 {
			t.Errorf("it tried %d times in three hours", n)
		}
		w.put(threeKeys, 10)
		bad.Set(nil)
		pass(10 * time.Second)
		w.exactlyOnce("the target was away")
		if s := r.Stats(); s.Err != nil || s.Relayed != 30 {
			t.Errorf("when it is back the relay says %+v", s)
		}
	})
}

// The source fails to settle one of the jobs.
func TestRelay_AJobThatWasNotSettledIsSettledLater(t *testing.T) {
	t.Parallel()
	inWorld(t, func(t *testing.T, w *world) {
		w.serve(0)
		left := 0
		forgetful := broker.Wrap(w.from, func(ctx context.Context, c *broker.Call, next func(context.Context) error) error {
			req, ok := c.Request.(*broker.ClaimRequest)
			if !ok || left > 0 || len(req.Settle.Items) == 0 {
				return next(ctx)
			}
			left++
			items := req.Settle.Items
			req.Settle.Items = items[1:]
			err := next(ctx)
			reply := c.Reply.(*broker.Claimed)
			reply.Verdicts = append([]broker.Verdict{{ID: items[0].Job.ID, Err: broker.ErrUnavailable}}, reply.Verdicts...)
			return err
		})
		w.put(threeKeys, 20)
		w.run(w.relay(forgetful, w.to, func(c *Config) { c.Batch = 10 }))
		pass(time.Minute)
		if left != 1 {
			t.Fatal("no job was left out")
		}
		w.exactlyOnce("one was not settled at first")
	})
}

// A drain finishes the held jobs. The next relay need not wait.
func TestRelay_Drain(t *testing.T) {
	t.Parallel()
	inWorld(t, func(t *testing.T, w *world) {
		w.serve(time.Millisecond)
		slow := faulty.Wrap(w.to, faulty.Plan{{Method: "Enqueue", Call: 2, Fault: faulty.SlowReply(time.Second)}})
		stop := w.run(w.relay(w.from, slow, func(c *Config) { c.Batch = 10 }))
		w.put(threeKeys, 30)
		pass(500 * time.Millisecond)
		if err := stop(); err != nil {
			t.Error(err)
		}
		left := w.counts(w.from, outbox)
		if left[broker.StateActive] > 0 || left[broker.StatePending] == 0 || len(w.queue(w.from, outbox).Workers) > 0 {
			t.Errorf("after the drain the source has %v and the workers %v; want pending jobs alone", left, w.queue(w.from, outbox).Workers)
		}
		w.run(w.relay(w.from, w.to))
		pass(100 * time.Millisecond)
		w.exactlyOnce("after a drain")
	})
}

// A drain while the target is away leaves the jobs to the next relay, in order.
func TestRelay_DrainWhileTheTargetIsAway(t *testing.T) {
	t.Parallel()
	for name, fault := range map[string]faulty.Fault{"away": faulty.Unavailable, "answers are lost": faulty.ReplyLost} {
		inWorld(t, func(t *testing.T, w *world) {
			w.serve(time.Millisecond)
			bad := faulty.Wrap(w.to, faulty.Plan{{Method: "Enqueue", Fault: fault}})
			stop := w.run(w.relay(w.from, bad, func(c *Config) { c.Batch = 20 }))
			w.put(threeKeys, 50)
			pass(time.Minute)
			began := time.Now()
			if err := stop(); err != nil || time.Since(began) > time.Second {
				t.Errorf("%s: the drain says %v after %v", name, err, time.Since(began))
			}
			w.run(w.relay(w.from, w.to))
			pass(broker.DefaultLease + 2*time.Second)
			w.exactlyOnce("a drain while the target is " + name)
		})
	}
}

// An operator can cancel a job that the relay holds because the target is away.
func TestRelay_AJobInHandIsCancelled(t *testing.T) {
	t.Parallel()
	inWorld(t, func(t *testing.T, w *world) {
		w.serve(time.Millisecond)
		bad := faulty.Wrap(w.to, faulty.Plan{{Fault: faulty.Unavailable}})
		w.run(w.relay(w.from, bad))
		w.put(threeKeys, 10)
		pass(time.Second)
		cancelled := w.sent[4]
		decide(t, w.from, broker.OpCancel, outbox, cancelled)
		w.sent = append(w.sent[:4:4], w.sent[5:]...)
		pass(time.Minute)
		bad.Set(nil)
		pass(time.Minute)
		w.exactlyOnce("without the one that was cancelled")
	})
}

// A relay waits for other workers of its queue, and says so.
func TestRelay_OtherWorkersOfItsQueue(t *testing.T) {
	t.Parallel()
	inWorld(t, func(t *testing.T, w *world) {
		w.serve(time.Millisecond)
		w.put(threeKeys, 10)
		handworker.New(t, w.from, "server", outbox) // for an hour
		r := w.relay(w.from, w.to)
		w.run(r)
		pass(time.Minute)
		if s := r.Stats(); s.Active || !errors.Is(s.Err, errOther) || !strings.Contains(s.Err.Error(), "server") {
			t.Errorf("the relay says %+v, want that it waits for the worker", s)
		}
		pass(time.Hour)
		w.exactlyOnce("when the other worker has run out")
		if s := r.Stats(); s.Err != nil {
			t.Errorf("at last the relay says %+v", s)
		}
	})
}
