package relay

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/seed81422ce9/jobs/broker"
	"github.com/seed81422ce9/jobs/conformance/faulty"
)

// death makes the process of a relay die at a call, counted over both stores:
// before the call is carried out, or after it.
type death struct {
	at    int
	after bool

	mu    sync.Mutex
	calls int
	ctx   context.Context
	die   context.CancelFunc
}

func newDeath(at int, after bool) *death {
	d := &death{at: at, after: after}
	d.ctx, d.die = context.WithCancel(context.Background())
	return d
}

var errDied = errors.New("the process died")

// sees returns the store as that process sees it.
func (d *death) sees(b broker.Broker) broker.Broker {
	return broker.Wrap(b, func(ctx context.Context, c *broker.Call, next func(context.Context) error) error {
		d.mu.Lock()
		d.calls++
		last := d.calls == d.at
		d.mu.Unlock()
		if last && !d.after {
			d.die()
		}
		if d.ctx.Err() != nil {
			return errDied
		}
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		defer context.AfterFunc(d.ctx, cancel)()
		err := next(ctx)
		if last {
			d.die()
		}
		if d.ctx.Err() != nil {
			c.Clear()
			return errDied
		}
		return err
	})
}

var threeKeys = []string{"a", "b", "c"}

// A relay dies before or after each of its calls. Another one, which stands by or
// starts later, brings each job to the target once and in order.
func TestRelay_NoCrashLosesDoublesOrOvertakesAJob(t *testing.T) {
	for _, standby := range []bool{false, true} {
		for _, after := range []bool{false, true} {
			t.Run(fmt.Sprintf("standby %v, after the call %v", standby, after), func(t *testing.T) {
				t.Parallel()
				for at, lived := 1, false; !lived; at++ {
					inWorld(t, func(t *testing.T, w *world) {
						w.serve(time.Millisecond)
						w.put(threeKeys, 40)
						d := newDeath(at, after)
						small := func(c *Config) { c.Batch = 10 }
						first := w.relay(d.sees(w.from), d.sees(w.to), small)
						stop := w.run(first)
						pass(100 * time.Millisecond)
						if standby {
							w.run(w.relay(w.from, w.to, small))
						}
						w.put(threeKeys, 15) // while the first relay runs, is dead, or is replaced
						pass(time.Second)
						if lived = d.ctx.Err() == nil; lived {
							if d.calls < 10 {
								t.Errorf("the relay made %d calls: it did not work", d.calls)
							}
							stop()
						} else if !standby {
							w.run(w.relay(w.from, w.to, small))
						}
						pass(time.Minute)
						w.exactlyOnce(fmt.Sprintf("killed at call %d", at))
					})
				}
			})
		}
	}
}

// Each call of a relay fails in turn, or its answer is lost or cut short. The same
// relay goes on.
func TestRelay_NoLostAnswerLosesDoublesOrOvertakesAJob(t *testing.T) {
	for name, fault := range map[string]faulty.Fault{"unavailable": faulty.Unavailable, "lost": faulty.ReplyLost, "cut": faulty.ReplyCut,
		"late": faulty.SlowReply(time.Minute)} {
		for _, target := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s at the target %v", name, target), func(t *testing.T) {
				t.Parallel()
				for at, done := 1, false; !done; at++ {
					inWorld(t, func(t *testing.T, w *world) {
						w.serve(time.Millisecond)
						w.put(threeKeys, 30)
						bad := faulty.Wrap(w.from, faulty.Plan{{Call: at, Fault: fault}})
						from, to := broker.Broker(bad), w.to
						if target {
							bad = faulty.Wrap(w.to, faulty.Plan{{Call: at, Fault: fault}})
							from, to = w.from, bad
						}
						w.run(w.relay(from, to, func(c *Config) { c.Batch = 7 }))
						pass(time.Second)
						w.put(threeKeys, 10)
						pass(2 * time.Minute)
						w.exactlyOnce(fmt.Sprintf("call %d fails", at))
						done = at > 25 || target && bad.Calls("") < at
					})
				}
			})
		}
	}
}

// Both stores have several faults again and again.
func TestRelay_FaultyStores(t *testing.T) {
	t.Parallel()
	for seed := range 20 {
		inWorld(t, func(t *testing.T, w *world) {
			w.serve(time.Millisecond)
			faults := []faulty.Fault{faulty.Unavailable, faulty.ReplyLost, faulty.ReplyCut}
			var plan [2]faulty.Plan
			for n := 1 + seed; n < 400; n += 3 + (n*seed)%5 {
				plan[n%2] = append(plan[n%2], faulty.Step{Call: n, Fault: faults[(n+seed)%3]})
			}
			from, to := faulty.Wrap(w.from, plan[0]), faulty.Wrap(w.to, plan[1])
			for range 2 {
				w.run(w.relay(from, to, func(c *Config) { c.Batch, c.Lease = 5, time.Second }))
			}
			for range 10 {
				w.put(threeKeys, 7)
				pass(time.Second)
			}
			pass(10 * time.Minute)
			w.exactlyOnce(fmt.Sprintf("seed %d", seed))
		})
	}
}
