package shardbroker

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed81422ce9/jobs/broker"
)

// filled is a queue with a limit of its depth, or of its bytes, over the shards a and b.
type filled struct {
	*lending
	limit int64 // in jobs
	bytes bool  // it is one of bytes: each job has filledBytes
}

const filledBytes = 100

// filling runs a test in virtual time, for a limit of depth and for one of bytes. A process lends at whole seconds,
// and the test is between them.
func filling(t *testing.T, limit int64, test func(t *testing.T, f *filled)) {
	t.Helper()
	t.Parallel()
	for _, bytes := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			f := newFilled(t, limit, bytes)
			f.run(0)
			time.Sleep(lendOften / 2)
			test(t, f)
		})
	}
}

func newFilled(t *testing.T, limit int64, bytes bool) *filled {
	f := &filled{lending: newLending(t), bytes: bytes}
	none := int64(broker.NoLimit)
	_, err := f.b.Policy(t.Context(), broker.PolicyRequest{Queue: "q", MaxActive: &none})
	f.ok(err)
	f.set(limit)
	return f
}

func (f *filled) set(limit int64) {
	f.t.Helper()
	f.limit = limit
	req := broker.PolicyRequest{Queue: "q", MaxDepth: &limit}
	if f.bytes {
		req = broker.PolicyRequest{Queue: "q", MaxBytes: new(limit * filledBytes)}
	}
	got, err := f.b.Policy(f.t.Context(), req)
	f.ok(err)
	if got := f.of(&got); got != limit {
		f.t.Errorf("the limit is %d jobs, want %d", got, limit)
	}
}

// of returns how many jobs a policy allows.
func (f *filled) of(p *broker.Policy) int64 {
	if f.bytes {
		return (p.MaxBytes + filledBytes/2) / filledBytes
	}
	return p.MaxDepth
}

// part returns a shard's part, and how many jobs wait there.
func (f *filled) part(shard string) (part, depth int64) {
	f.t.Helper()
	got, err := f.stores[shard].Open().Queues(f.t.Context(), broker.QueuesRequest{Names: []string{"q"}})
	f.ok(err)
	return f.of(&got.Queues[0].Policy), got.Queues[0].Counts[broker.StatePending]
}

// grow sends jobs to a shard until it has all that the others lend it.
func (f *filled) grow(shard string) {
	for range 12 {
		f.send(shard, 400)
		time.Sleep(lendOften)
	}
}

// send sends jobs to a shard, or to the shards of their IDs, and returns how many were accepted. It fails if
// the queue was full before: but of a limit of bytes one more job may come to each shard, and one may always
// come to a shard that has none, since no part is less than one.
func (f *filled) send(shard string, n int) (accepted int) {
	f.t.Helper()
	for n > 0 {
		f.next++
		j := newJob(fmt.Sprint("j", f.next))
		j.Body.Payload = make([]byte, filledBytes)
		home := f.b.routes.of(label(j.ID, &j.Body))[0].Name
		if shard != "" && home != shard {
			continue
		}
		n--
		most := f.limit
		if f.bytes {
			most += int64(len(f.b.shards))
		}
		_, a := f.part("a")
		_, b := f.part("b")
		receipts, err := f.b.Enqueue(f.t.Context(), broker.EnqueueRequest{Jobs: []broker.NewJob{j}})
		f.ok(err)
		switch err := receipts[0].Err; {
		case err == nil && a+b >= most && map[string]int64{"a": a, "b": b}[home] > 0:
			f.t.Fatalf("a job is accepted beside %d and %d, the limit is %d", a, b, f.limit)
		case err == nil:
			accepted++
		case !errors.Is(err, broker.ErrQueueFull):
			f.t.Fatal(err)
		}
	}
	return accepted
}

// run starts and ends jobs, of any shard, or of one, and returns how many.
func (f *filled) run(n int, shard ...string) (ran int) {
	f.t.Helper()
	b := broker.Broker(f.b)
	for _, name := range shard {
		b = f.stores[name].Open()
	}
	for {
		got, err := b.Claim(f.t.Context(), broker.ClaimRequest{Worker: "w", Max: n - ran, Queues: []broker.Share{{Queue: "q", Max: n - ran}}})
		f.ok(err)
		f.number++
		req := broker.SettleRequest{Worker: "w", Number: f.number}
		for i := range got.Jobs {
			req.Items = append(req.Items, broker.Settlement{Job: &got.Jobs[i], Outcome: broker.Complete(nil)})
		}
		_, err = b.Settle(f.t.Context(), req)
		f.ok(err)
		if ran += len(got.Jobs); ran == n || len(got.Jobs) == 0 {
			return ran
		}
	}
}

func TestLendLevel_AShardFillsWhatAnotherLeaves(t *testing.T) {
	filling(t, 400, func(t *testing.T, f *filled) {
		if n := f.send("a", 400); n != 200 {
			t.Errorf("at first a shard accepts %d jobs, want 200", n)
		}
		n := 0
		for range 12 {
			time.Sleep(lendOften)
			n += f.send("a", 400)
		}
		if n < 170 {
			t.Errorf("while the other shard is idle, a shard accepts %d jobs more, want nearly 200", n)
		}
		if n := f.send("b", 400); n < 3 {
			t.Errorf("the idle shard accepts %d jobs, want a few", n)
		}
		got, err := f.b.Queues(t.Context(), broker.QueuesRequest{Names: []string{"q"}})
		if f.ok(err); got.Queues[0].Bytes != filledBytes*total(got.Queues[0].Counts) {
			t.Errorf("%v jobs have %d bytes, want %d for each", got.Queues[0].Counts, got.Queues[0].Bytes, filledBytes)
		}
		f.run(400)
		for range 4 {
			time.Sleep(lendOften)
			f.send("b", 400)
		}
		if _, n := f.part("b"); n < 200 {
			t.Errorf("after the jobs ran, the other shard accepts %d, want its half at least", n)
		}
	})
}

func TestLendLevel_AnIdleShardGetsItsShareBackAsTheOtherDrains(t *testing.T) {
	filling(t, 400, func(t *testing.T, f *filled) {
		f.grow("a")
		before, _ := f.part("b")
		for want := before; want < 150; {
			f.run(100, "a")
			time.Sleep(3 * lendOften)
			now, _ := f.part("b")
			if _, depth := f.part("a"); now < (400-depth)/4 {
				t.Fatalf("while %d jobs wait in a shard, the idle one has room for %d", depth, now)
			}
			if want = now; f.run(1, "a") == 0 && now < 150 {
				t.Fatalf("after the shard drained, the idle one has room for %d, want about 200", now)
			}
		}
	})
}

// The limit is lowered below what a shard has: no other shard accepts what the limit does not leave, also at once.
func TestLendLevel_ALimitThatIsLoweredOrRaisedWhilePartsAreLentHolds(t *testing.T) {
	filling(t, 400, func(t *testing.T, f *filled) {
		f.grow("a")
		f.set(100)
		for range 5 {
			f.send("b", 400)
			time.Sleep(lendOften)
		}
		f.run(1000, "a")
		f.set(1000)
		time.Sleep(3 * lendOften)
		if n := f.send("a", 1000); n < 490 {
			t.Errorf("after the limit was raised a shard accepts %d jobs, want half of it", n)
		}
	})
}

// Jobs spread by their IDs need no lending: whether the queue is empty, half full or full, no call moves a part.
func TestLendLevel_EvenLoadMovesNoPart(t *testing.T) {
	t.Parallel()
	for _, bytes := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			f := newFilled(t, 1000, bytes)
			var looks, moves atomic.Int64
			lends := f.open(func(_ string, b broker.Broker) broker.Broker {
				return broker.Wrap(b, func(ctx context.Context, c *broker.Call, next func(context.Context) error) error {
					switch c.Request.(type) {
					case *broker.QueuesRequest:
						looks.Add(1)
					case *broker.PolicyRequest:
						moves.Add(1)
					}
					return next(ctx)
				})
			})
			_, _ = lends.Claim(t.Context(), broker.ClaimRequest{Worker: "other", Max: 1, Queues: []broker.Share{{Queue: "q", Max: 1}}})
			time.Sleep(lendOften / 2)
			f.send("a", 150) // though the other shard has more room, this one has enough
			time.Sleep(3 * lendOften)
			f.run(150)
			r := rand.New(rand.NewPCG(1, 0))
			for i := range 300 {
				ran := 0
				for range r.IntN(40) { // the jobs of both shards alike
					ran += f.run(1, []string{"a", "b"}[r.IntN(2)])
				}
				f.send("", min(i/100, 1)*ran+r.IntN(20)) // first it is nearly empty, then it fills, then it is full
				time.Sleep(lendOften)
			}
			_, a := f.part("a")
			_, b := f.part("b")
			if moves.Load() > 0 || looks.Load() < 500 || a+b < 900 {
				t.Errorf("after %d looks with %d and %d jobs, parts moved %d times, want never", looks.Load(), a, b, moves.Load())
			}
		})
	}
}
