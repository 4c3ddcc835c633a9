package shardbroker

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed81422ce9/jobs/broker"
)

// poor makes the calls of a process take a time, so that jobs come and go between two of them, and loses some calls,
// and some answers.
func poor(b broker.Broker, r *rand.Rand, slowPolicies bool) broker.Broker {
	var mu sync.Mutex
	return broker.Wrap(b, func(ctx context.Context, c *broker.Call, next func(context.Context) error) error {
		mu.Lock()
		takes, luck := time.Duration(r.IntN(200))*time.Millisecond, r.IntN(60)
		mu.Unlock()
		if _, sets := c.Request.(*broker.PolicyRequest); !sets || slowPolicies {
			time.Sleep(takes)
		}
		if luck == 0 {
			return broker.ErrUnavailable
		}
		err := next(ctx)
		if luck == 1 {
			c.Clear()
			return broker.ErrUnavailable
		}
		return err
	})
}

// Whatever comes, ends and is changed, and wherever a process that lends dies: no job is accepted beside as many as
// the limit, which send checks, and another process lends on. The schedule is random, by the seed in the name.
func TestLendLevel_TheSumNeverExceedsTheLimit(t *testing.T) {
	t.Parallel()
	for seed := range uint64(24) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				r := rand.New(rand.NewPCG(seed, 0))
				f := newFilled(t, 40, seed%2 == 1)
				changes := seed%4 < 2 // a limit that is changed beside a slow policy call may be exceeded for a moment
				for range 3 {
					ctx, die := context.WithCancel(t.Context())
					p := &mortal{diesAt: 1 + r.IntN(150), applied: r.IntN(2) == 0, die: die}
					lends := f.open(func(name string, b broker.Broker) broker.Broker {
						return poor(p.wrap(name, b), rand.New(rand.NewPCG(seed, r.Uint64())), !changes)
					})
					_, _ = lends.Claim(ctx, broker.ClaimRequest{Worker: "other", Max: 1, Queues: []broker.Share{{Queue: "q", Max: 1}}})
					f.live(r, changes)
					lends.Close()
					die()
				}
				f.run(0) // this process lends from now on
				time.Sleep(2 * (lendTTL + lendSeldom))
				for range 12 { // the parts approach their ends step by step
					f.send("a", 100)
					time.Sleep(3 * lendOften)
					f.run(1000, "b")
				}
				if a, depth := f.part("a"); depth < f.limit*3/4 {
					t.Errorf("in the end a shard with a part of %d has %d jobs, want nearly %d: a part is lost", a, depth, f.limit)
				}
			})
		})
	}
}

// live sends and ends jobs at random for a minute; each shard has busy and quiet times.
func (f *filled) live(r *rand.Rand, changes bool) {
	busy := ""
	for range 200 {
		if r.IntN(20) == 0 {
			busy = []string{"a", "b", ""}[r.IntN(3)]
		}
		f.send(busy, r.IntN(12))
		f.run(r.IntN(8), []string{"a", "b"}[r.IntN(2)])
		if changes && r.IntN(30) == 0 {
			f.set(4 + r.Int64N(60))
		}
		time.Sleep(time.Duration(r.IntN(600)) * time.Millisecond)
	}
}

// A process dies while it sets a limit whose parts are uneven: it lowers some in all shards before it raises others.
func TestLendLevel_AProcessThatDiesWhileItSetsALimit(t *testing.T) {
	t.Parallel()
	for _, part := range []int64{5, 35} {
		deaths(t, func(t *testing.T, ctx context.Context, p *mortal) {
			f := newFilled(t, 40, false)
			for shard, part := range map[string]int64{"a": part, "b": f.limit - part} {
				_, err := f.stores[shard].Open().Policy(t.Context(), broker.PolicyRequest{Queue: "q", MaxDepth: &part})
				f.ok(err)
			}
			_, _ = f.open(p.wrap).Policy(ctx, broker.PolicyRequest{Queue: "q", MaxDepth: &f.limit})
			a, _ := f.part("a")
			b, _ := f.part("b")
			if a+b > f.limit || !p.dead && a != b {
				t.Errorf("the parts of a limit of %d are %d and %d", f.limit, a, b)
			}
			f.set(f.limit)
			if n := f.send("b", 40); n != 20 {
				t.Errorf("after the limit was set again, a shard accepts %d jobs, want 20", n)
			}
		})
	}
}

// A step either raises parts, to no more than the limit beside what all shards have, or lowers some. While nothing
// comes, steps end with the whole limit lent, and no shard waits for what another could lend.
func TestLevel_StepsKeepTheLimitAndEnd(t *testing.T) {
	t.Parallel()
	for seed := range uint64(3000) {
		r := rand.New(rand.NewPCG(seed, 0))
		n := 2 + r.IntN(5)
		total := int64(n) + r.Int64N(int64(1+r.IntN(1000)))
		v := limits[r.IntN(3)].(*level)
		infos := make([]*broker.QueueInfo, n)
		rest := total
		for i := range infos {
			q := &broker.QueueInfo{Bytes: r.Int64N(1 + total/int64(n)*2), Counts: map[broker.State]int64{
				broker.StatePending: r.Int64N(1 + total/int64(n)*2), broker.StateActive: r.Int64N(1 + total/int64(n)*2)}}
			part := 1 + r.Int64N(rest-int64(n-1-i))
			v.Set(&q.Policy, part)
			infos[i], rest = q, rest-part
		}
		for step := range 5 {
			for i, part := range v.next(total, infos, 0) {
				if part > v.Of(&infos[i].Policy) {
					t.Fatalf("seed %d, step %d: a part is raised beside jobs that are just accepted", seed, step)
				}
			}
			parts := v.next(total, infos, lendOften)
			raised, lowered, most, over, all := false, false, int64(0), false, int64(0)
			for i, q := range infos {
				used, _ := v.use(q)
				raised, lowered = raised || parts[i] > v.Of(&q.Policy), lowered || parts[i] < v.Of(&q.Policy)
				most, all = most+max(parts[i], used), all+parts[i]
				over = over || parts[i] < 1
			}
			if over || raised && (lowered || most > total) {
				t.Fatalf("seed %d, step %d: the parts of %d are %v after %v", seed, step, total, parts, v.parts(infos))
			}
			for i, q := range infos {
				v.Set(&q.Policy, parts[i])
			}
			if shares, left := v.shares(total, infos); step == 4 && (raised || lowered || left > 0) {
				t.Fatalf("seed %d: the parts of %d still move, to %v; the limit leaves %d to %+v", seed, total, parts, left, shares)
			}
		}
	}
}
