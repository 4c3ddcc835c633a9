package shardbroker

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed81422ce9/jobs/broker"
)

// mortal is a process that dies at one of its calls: before the call arrives or, with
// applied, before its answer does. From then on it makes no call.
type mortal struct {
	diesAt  int
	applied bool
	die     context.CancelFunc // of the process's calls

	mu    sync.Mutex
	calls int
	dead  bool
}

var errDead = fmt.Errorf("%w: the process is dead", broker.ErrUnavailable)

func (p *mortal) wrap(_ string, b broker.Broker) broker.Broker {
	return broker.Wrap(b, func(ctx context.Context, c *broker.Call, next func(context.Context) error) error {
		p.mu.Lock()
		defer p.mu.Unlock()
		if p.dead {
			return errDead
		}
		p.calls++
		if p.calls < p.diesAt {
			return next(ctx)
		}
		if p.applied {
			_ = next(ctx)
			c.Clear()
		}
		p.dead = true
		p.die()
		return errDead
	})
}

// deaths calls life with processes that die at their first call, their second, and so
// on, until one lives to the end. Later calls repeat earlier ones: of these it takes some
// at random.
func deaths(t *testing.T, life func(t *testing.T, ctx context.Context, p *mortal)) {
	t.Helper()
	for _, applied := range []bool{false, true} {
		for n := 1; ; n++ {
			if n > 30 {
				n += rand.IntN(5)
			}
			alive := false
			synctest.Test(t, func(t *testing.T) {
				ctx, die := context.WithCancel(t.Context())
				defer die()
				p := &mortal{diesAt: n, applied: applied, die: die}
				life(t, ctx, p)
				alive = !p.dead
			})
			if t.Failed() {
				t.Fatalf("the process died at its call %d, which was applied: %v", n, applied)
			}
			if alive {
				if n < 4 {
					t.Errorf("the process made %d calls, want more: the test does not test what it should", n-1)
				}
				break
			}
		}
	}
}

// A process dies while it stores a job whose shard changes. Its client sends the job
// again, by another process: it is stored once, in the order of its key, and nothing
// else is left of the first attempt.
func TestMove_AProcessThatDiesLeavesNothingHalfDone(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(j *broker.NewJob, i int){
		"of a key":            func(j *broker.NewJob, i int) { j.Body.Key = fmt.Sprint("k", i) },
		"with a unique key":   func(j *broker.NewJob, i int) { j.Body.Unique = broker.Unique{Key: fmt.Sprint("u", i)} },
		"with a given ID":     func(j *broker.NewJob, _ int) { j.Body.GivenID = true },
		"of a key and unique": func(j *broker.NewJob, i int) { j.Body.Key, j.Body.Unique.Key = fmt.Sprint("k", i), "u" },
	} {
		for _, resent := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s, sent again %v", name, resent), func(t *testing.T) {
				t.Parallel()
				deaths(t, func(t *testing.T, ctx context.Context, p *mortal) {
					m, now := newMoving(t), switchAt.Add(time.Minute)
					old, survivor := m.before(), m.both(nil)
					var first, second broker.NewJob
					for i := 0; ; i++ {
						first, second = newJob(fmt.Sprint("first", i)), newJob(fmt.Sprint("second", i))
						change(&first, i)
						change(&second, i)
						if of := survivor.routes.of(label(second.ID, &second.Body)); len(of) == 2 && of[1].Name == "b" {
							break
						}
					}
					keyed := first.Body.Key != "" && first.Body.Unique.Key == ""
					if keyed { // the key has a job in its old shard
						if r := send(t, old, switchAt.Add(-time.Hour), first); r.Err != nil {
							t.Fatal(r.Err)
						}
					}
					_, _ = m.both(p.wrap).Enqueue(ctx, broker.EnqueueRequest{Now: now, Jobs: []broker.NewJob{second}})
					now = now.Add(probeTime + time.Second)
					if resent {
						if r := send(t, survivor, now, second); r.Err != nil && (!errors.Is(r.Err, broker.ErrDuplicate) || r.Holder != second.ID) {
							t.Errorf("the job sent again: %+v, want it stored, or a duplicate of itself", r)
						}
					}
					third := second
					third.ID = "third"
					r := send(t, survivor, now, third)
					switch {
					case r.Err == nil:
					case third.Body.Unique.Key != "" && errors.Is(r.Err, broker.ErrDuplicate) && r.Holder == second.ID:
					default:
						t.Errorf("a later job: %+v, want it stored, or a duplicate of the one before", r)
					}
					now = now.Add(probeTime + time.Second)
					if _, err := survivor.Prune(t.Context(), broker.PruneRequest{Now: now, Queues: []string{"q"}, Max: 1000}); err != nil {
						t.Error(err)
					}
					stored := make(map[string]int)
					for _, store := range m.stores {
						for _, state := range broker.States() {
							page, err := store.Open().Find(t.Context(), broker.Query{Now: now, Queue: "q", State: state})
							if err != nil {
								t.Fatal(err)
							}
							for _, j := range page.Jobs {
								if j.Type == probeType {
									t.Errorf("the probe %q is left", j.ID)
								}
								stored[j.ID]++
							}
						}
					}
					if n := stored[second.ID]; n > 1 || resent && n != 1 {
						t.Errorf("the job is stored %d times", n)
					}
					if n := stored["third"]; n != 1 && r.Err == nil {
						t.Errorf("the later job is stored %d times, want once", n)
					}
					w := &runner{t: t, b: survivor, queue: "q"}
					w.register(now)
					var ran []string
					for more := true; more; more = w.left {
						now = now.Add(time.Second)
						for _, j := range w.turn(now, 1) {
							ran = append(ran, j.ID)
						}
					}
					if len(ran) != len(stored) {
						t.Errorf("jobs %v ran, want those of %v", ran, stored)
					}
					for i := range ran {
						if want := []string{first.ID, second.ID, "third"}; keyed && resent && (len(ran) != 3 || ran[i] != want[i]) {
							t.Errorf("the jobs of the key ran in the order %v, want %v", ran, want)
						}
					}
					if left, err := survivor.Left(t.Context()); err != nil || left["b"] != 0 {
						t.Errorf("left are %v, %v; want none: the old shard can go", left, err)
					}
				})
			})
		}
	}
}

// A process dies while it gives the new shards their parts of limits. The next one
// continues: the limit is never exceeded, and whole in the end.
func TestMove_APolicyIsWholeAfterAProcessDied(t *testing.T) {
	t.Parallel()
	for _, keysOnly := range []bool{false, true} {
		t.Run(fmt.Sprintf("of keys alone %v", keysOnly), func(t *testing.T) {
			t.Parallel()
			deaths(t, func(t *testing.T, ctx context.Context, p *mortal) {
				m := newMoving(t)
				old := m.before()
				wanted := []broker.PolicyRequest{{Queue: "q", Key: "k", Weight: new(int64(3))}}
				if !keysOnly {
					wanted = append(wanted, broker.PolicyRequest{Queue: "q", MaxActive: new(int64(9)), Ordered: new(broker.OrderStop)})
				}
				for _, req := range wanted {
					if _, err := old.Policy(t.Context(), req); err != nil {
						t.Fatal(err)
					}
				}
				active := func() (sum int64, parts []int64) {
					for _, name := range []string{"a", "b", "c", "d"} {
						got, err := m.stores[name].Open().Policy(t.Context(), broker.PolicyRequest{Queue: "q"})
						if err != nil {
							t.Fatal(err)
						}
						sum, parts = sum+got.MaxActive, append(parts, got.MaxActive)
					}
					return sum, parts
				}
				renew := broker.RenewRequest{Worker: "w", Queues: []string{"q"}, Lease: time.Hour, Register: true}
				_, _ = m.both(p.wrap).Renew(ctx, renew)
				if sum, parts := active(); sum > 9 {
					t.Errorf("the parts of a limit of 9 are %v when the process died", parts)
				}
				renew.Worker = "another"
				if _, err := m.both(nil).Renew(t.Context(), renew); err != nil {
					t.Error(err)
				}
				for name, store := range m.stores {
					if got, err := store.Open().Policy(t.Context(), broker.PolicyRequest{Queue: "q", Key: "k"}); err != nil || got.Weight != 3 {
						t.Errorf("shard %s has the weight %d for a key, %v; want 3", name, got.Weight, err)
					}
				}
				if sum, parts := active(); !keysOnly && (sum != 9 || parts[2] == 0 || parts[3] == 0) {
					t.Errorf("the parts of a limit of 9 are %v in the end", parts)
				}
			})
		})
	}
}

// New shards come while a part of a limit moves, so that the parts of the old ones add up to less.
func TestMove_APolicyIsWholeWhileAPartMoves(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := newMoving(t)
		set := broker.PolicyRequest{Queue: "q", MaxActive: new(int64(9)), Rate: &broker.Rate{Jobs: 9, Per: time.Second}}
		if _, err := m.before().Policy(t.Context(), set); err != nil {
			t.Fatal(err)
		}
		lowered := broker.PolicyRequest{Queue: "q", MaxActive: new(int64(1)), Rate: &broker.Rate{Jobs: 1, Per: time.Second}}
		if _, err := m.stores["a"].Open().Policy(t.Context(), lowered); err != nil {
			t.Fatal(err)
		}
		renew := broker.RenewRequest{Worker: "w", Queues: []string{"q"}, Lease: time.Hour, Register: true}
		if _, err := m.both(nil).Renew(t.Context(), renew); err != nil {
			t.Fatal(err)
		}
		active, starts := int64(0), int64(0)
		for _, store := range m.stores {
			got, err := store.Open().Policy(t.Context(), broker.PolicyRequest{Queue: "q"})
			if err != nil {
				t.Fatal(err)
			}
			active, starts = active+got.MaxActive, starts+got.Rate.Jobs
		}
		if active != 9 || starts != 9 {
			t.Errorf("the parts of limits of 9 add up to %d active jobs and %d starts", active, starts)
		}
	})
}

// New shards come while an old one has most of what a limit of depth allows: they accept no more than the rest.
func TestMove_NewShardsTakeNothingThatAnOldOneUses(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := newMoving(t)
		if _, err := m.before().Policy(t.Context(), broker.PolicyRequest{Queue: "q", MaxDepth: new(int64(100))}); err != nil {
			t.Fatal(err)
		}
		for name, part := range map[string]int64{"a": 90, "b": 10} {
			if _, err := m.stores[name].Open().Policy(t.Context(), broker.PolicyRequest{Queue: "q", MaxDepth: &part}); err != nil {
				t.Fatal(err)
			}
		}
		for i := range 80 {
			receipts, err := m.stores["a"].Open().Enqueue(t.Context(), broker.EnqueueRequest{Jobs: []broker.NewJob{newJob(fmt.Sprint("j", i))}})
			if err != nil || receipts[0].Err != nil {
				t.Fatal(err, receipts)
			}
		}
		renew := broker.RenewRequest{Worker: "w", Queues: []string{"q"}, Lease: time.Hour, Register: true}
		if _, err := m.both(nil).Renew(t.Context(), renew); err != nil {
			t.Fatal(err)
		}
		parts, sum := make(map[string]int64), int64(0)
		for name, store := range m.stores {
			got, err := store.Open().Policy(t.Context(), broker.PolicyRequest{Queue: "q"})
			if err != nil {
				t.Fatal(err)
			}
			parts[name] = got.MaxDepth
			sum += got.MaxDepth
		}
		if sum != 100 || parts["a"] < 80 || parts["c"] == 0 || parts["d"] == 0 {
			t.Errorf("beside 80 jobs in shard a the parts of a limit of 100 are %v", parts)
		}
	})
}
