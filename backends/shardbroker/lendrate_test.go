package shardbroker

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed81422ce9/jobs/broker"
)

// rated is a queue with a rate, over the shards a and b. It remembers when jobs started.
type rated struct {
	*lending
	rate   broker.Rate
	starts []time.Time
}

func newRated(t *testing.T, per time.Duration) *rated {
	r := &rated{lending: newLending(t)}
	none := int64(broker.NoLimit)
	_, err := r.b.Policy(t.Context(), broker.PolicyRequest{Queue: "q", MaxActive: &none})
	r.ok(err)
	r.setRate(broker.Rate{Jobs: 8, Per: per, Burst: 2})
	return r
}

// lends lets the process lend what it serves. It looks at whole seconds from now, and the test does not.
func (r *rated) lends() {
	r.t.Helper()
	r.lending.claim()
	time.Sleep(lendOften / 2)
}

func (r *rated) setRate(rate broker.Rate) {
	r.t.Helper()
	r.rate = rate
	got, err := r.b.Policy(r.t.Context(), broker.PolicyRequest{Queue: "q", Rate: &rate})
	r.ok(err)
	if got.Rate != rate {
		r.t.Errorf("the rate is %+v, want %+v", got.Rate, rate)
	}
}

// rating runs a test in virtual time, with a process that lends.
func rating(t *testing.T, per time.Duration, test func(t *testing.T, r *rated)) {
	t.Helper()
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRated(t, per)
		r.lends()
		test(t, r)
	})
}

// part returns a shard's part, after it was set if to is not zero.
func (r *rated) part(shard string, to ...int64) int64 {
	r.t.Helper()
	req := broker.PolicyRequest{Queue: "q"}
	for _, jobs := range to {
		req.Rate = &broker.Rate{Jobs: jobs, Per: r.rate.Per, Burst: r.rate.Burst / 2}
	}
	got, err := r.stores[shard].Open().Policy(r.t.Context(), req)
	r.ok(err)
	return got.Rate.Jobs
}

// run starts and ends for a while all jobs that may start, and returns how many of each shard did. It fails if
// more start in a span of Per than the rate allows while parts move: in each shard what it may start at once.
func (r *rated) run(span time.Duration) map[string]int {
	r.t.Helper()
	started := make(map[string]int)
	for end := time.Now().Add(span); time.Now().Before(end); time.Sleep(r.rate.Per / 10) {
		if sum := r.part("a") + r.part("b"); sum > r.rate.Jobs {
			r.t.Fatalf("the parts add up to %d, the rate is %+v", sum, r.rate)
		}
		for _, s := range r.b.shards {
			got, err := s.Broker.Claim(r.t.Context(), broker.ClaimRequest{Worker: "w", Max: 50, Queues: []broker.Share{{Queue: "q", Max: 50}}})
			r.ok(err)
			if started[s.Name] += len(got.Jobs); len(got.Jobs) == 0 {
				continue
			}
			r.number++
			req := broker.SettleRequest{Worker: "w", Number: r.number}
			for i := range got.Jobs {
				r.starts = append(r.starts, time.Now())
				req.Items = append(req.Items, broker.Settlement{Job: &got.Jobs[i], Outcome: broker.Complete(nil)})
			}
			_, err = s.Broker.Settle(r.t.Context(), req)
			r.ok(err)
		}
	}
	most := int(r.rate.Jobs + 2*r.rate.Burst + int64(len(r.b.shards)))
	for i := range r.starts[:max(len(r.starts)-most, 0)] {
		if within := r.starts[i+most].Sub(r.starts[i]); within < r.rate.Per {
			r.t.Fatalf("%d jobs started within %v, the rate is %+v", most+1, within, r.rate)
		}
	}
	return started
}

// wantsParts checks how many jobs of each shard start in ten spans of Per, one more or less in each.
func (r *rated) wantsParts(when string, a, b int) {
	r.t.Helper()
	got := r.run(10 * r.rate.Per)
	if got["a"] < 10*a-10 || got["a"] > 10*a+10 || got["b"] < 10*b-10 || got["b"] > 10*b+10 {
		r.t.Errorf("%s the shards start %d and %d jobs in ten periods, want about %d and %d", when, got["a"], got["b"], 10*a, 10*b)
	}
}

func TestLendRate_AShardUsesWhatAnotherLeaves(t *testing.T) {
	t.Parallel()
	for _, per := range []time.Duration{time.Second, lendRatePer} {
		synctest.Test(t, func(t *testing.T) {
			r := newRated(t, per)
			r.lends()
			r.add("a", 1000)
			r.run(2*per + 5*time.Second)
			r.wantsParts("while the other shard is idle,", 7, 0)
			r.add("b", 1000)
			r.run(2*per + 5*time.Second)
			r.wantsParts("while jobs wait in both,", 4, 4)
			r.setRate(broker.Rate{Jobs: 16, Per: per, Burst: 4})
			r.wantsParts("after the rate was raised,", 8, 8)
			r.setRate(r.rate)
			r.wantsParts("after the same rate was set again,", 8, 8)
		})
	}
}

// The rate of retries is lent too: by the retries that are due.
func TestLendRate_RetriesOfAShardUseWhatAnotherLeaves(t *testing.T) {
	rating(t, time.Second, func(t *testing.T, r *rated) {
		none := broker.Rate{Jobs: broker.NoLimit}
		got, err := r.b.Policy(t.Context(), broker.PolicyRequest{Queue: "q", Rate: &none, RetryRate: &r.rate})
		if r.ok(err); got.RetryRate != r.rate {
			t.Errorf("the rate of retries is %+v, want %+v", got.RetryRate, r.rate)
		}
		turn := func(o broker.Outcome) (n int) {
			got, err := r.b.Claim(t.Context(), broker.ClaimRequest{Worker: "w", Max: 300, Queues: []broker.Share{{Queue: "q", Max: 300}}})
			r.ok(err)
			r.number++
			req := broker.SettleRequest{Worker: "w", Number: r.number}
			for i := range got.Jobs {
				req.Items = append(req.Items, broker.Settlement{Job: &got.Jobs[i], Outcome: o})
			}
			_, err = r.b.Settle(t.Context(), req)
			r.ok(err)
			return len(got.Jobs)
		}
		for _, shards := range [][]string{{"a"}, {"a", "b"}} {
			jobs := 0
			for _, shard := range shards {
				r.add(shard, 150)
				jobs += 150
			}
			for jobs > 0 {
				jobs -= turn(broker.Retry(2*time.Second, broker.Failure{Message: "x"}))
			}
			ran, at := 0, time.Now().Add(6*time.Second)
			for time.Now().Before(at.Add(10 * time.Second)) {
				if n := turn(broker.Complete(nil)); time.Now().After(at) {
					ran += n
				}
				time.Sleep(lendOften / 10)
			}
			if want := 6 + len(shards); ran < 10*want-10 || ran > 10*8+10 {
				t.Errorf("of the shards %v, %d retries run in ten seconds, want about %d", shards, ran, 10*want)
			}
			for turn(broker.Complete(nil)) > 0 || r.left() > 0 {
				time.Sleep(lendOften / 10)
			}
		}
	})
}

// left returns how many retries there are.
func (r *rated) left() int64 {
	r.t.Helper()
	got, err := r.b.Queues(r.t.Context(), broker.QueuesRequest{Names: []string{"q"}})
	r.ok(err)
	return got.Queues[0].Counts[broker.StateRetry]
}

// Each part that grows may start a burst, so parts do not follow jobs that come and go within a period.
func TestLendRate_PartsMoveOnceInAPeriod(t *testing.T) {
	rating(t, lendRatePer, func(t *testing.T, r *rated) {
		moves, last := 0, r.part("a")
		for i := range 40 {
			r.add([]string{"a", "b"}[i/2%2], 1+i/20)
			r.run(lendRatePer / 5)
			if now := r.part("a"); now != last {
				moves, last = moves+1, now
			}
		}
		if moves < 2 || moves > 8 {
			t.Errorf("a part moved %d times in 8 periods", moves)
		}
	})
}

func TestLendRate_AQueueThatWasEmptiedKeepsItsParts(t *testing.T) {
	rating(t, time.Second, func(t *testing.T, r *rated) {
		r.add("a", 100)
		r.run(20 * time.Second)
		time.Sleep(time.Minute)
		if part := r.part("a"); part != 7 {
			t.Errorf("after a minute without jobs a part is %d, want 7", part)
		}
	})
}

// Parts are repaired that add up to more than the rate, as after a call that came late, or to less.
func TestLendRate_RepairsTheSum(t *testing.T) {
	rating(t, time.Second, func(t *testing.T, r *rated) {
		r.run(3 * time.Second)
		r.part("b", 9)
		time.Sleep(4 * lendOften)
		if a, b := r.part("a"), r.part("b"); a+b != 8 {
			t.Errorf("parts that were too large are %d and %d, want 8", a, b)
		}
		r.add("b", 100)
		r.part("a", 3)
		r.part("b", 2)
		r.run(4 * lendOften)
		if a, b := r.part("a"), r.part("b"); a != 1 || b != 7 {
			t.Errorf("parts that were too small are %d and %d, want 1 and 7", a, b)
		}
	})
}

func TestLendRate_LongPeriodsStaySplit(t *testing.T) {
	rating(t, lendRatePer+time.Second, func(t *testing.T, r *rated) {
		r.add("a", 200)
		r.run(5 * r.rate.Per)
		r.wantsParts("while the other shard is idle,", 4, 0)
	})
}

func TestLendRate_ARateSetWhilePartsAreLent(t *testing.T) {
	rating(t, time.Second, func(t *testing.T, r *rated) {
		r.add("a", 1000)
		r.run(5 * time.Second)
		for _, jobs := range []int64{5, 8, 3, 8} {
			r.starts = nil
			r.setRate(broker.Rate{Jobs: jobs, Per: time.Second, Burst: 2})
			r.run(5 * time.Second)
			r.wantsParts("after the rate was set,", int(jobs)-1, 0)
		}
		none := broker.Rate{Jobs: broker.NoLimit}
		_, err := r.b.Policy(t.Context(), broker.PolicyRequest{Queue: "q", Rate: &none})
		r.ok(err)
		time.Sleep(5 * time.Second)
		got, err := r.b.Policy(t.Context(), broker.PolicyRequest{Queue: "q"})
		if r.ok(err); got.Rate != (broker.Rate{}) {
			t.Errorf("after it was removed the rate is %+v", got.Rate)
		}
	})
}

// Whenever the process that lends dies, the rate holds, and another process lends on.
func TestLendRate_AProcessThatDiesLeavesTheRateWhole(t *testing.T) {
	t.Parallel()
	deaths(t, func(t *testing.T, ctx context.Context, p *mortal) {
		r := newRated(t, time.Second)
		lends := r.open(p.wrap)
		_, _ = lends.Claim(ctx, broker.ClaimRequest{Worker: "other", Max: 1, Queues: []broker.Share{{Queue: "q", Max: 1}}})
		time.Sleep(lendOften / 2) // it is the first to take the mark
		r.lends()
		r.add("a", 150)
		r.run(5 * time.Second)
		r.add("b", 20)
		r.run(4 * time.Second)
		lends.Close()
		time.Sleep(2 * (lendTTL + lendSeldom))
		r.add("a", 100)
		r.add("b", 100)
		r.run(5 * time.Second)
		r.wantsParts("after a process died", 4, 4)
	})
}

func TestRate_NoPartIsLessThanOne(t *testing.T) {
	t.Parallel()
	for _, waits := range [][]bool{{false, false, false, false}, {true, false, false, false}, {true, true, true, false}} {
		for i, part := range fairRates(2, waits) {
			if part != 1 {
				t.Errorf("with jobs in the shards %v the part of shard %d is %d", waits, i, part)
			}
		}
	}
}
