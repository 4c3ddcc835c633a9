package conformance

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/seed81422ce9/jobs/broker"
)

// BenchFlow measures the cost of limits, keys and turns (§32 to §38), each beside the
// same load without them. It reports jobs per second, or the time of a claim.
func BenchFlow(b *testing.B, newStore func(TB) *Store) {
	const plenty = 1 << 30
	rate := &broker.Rate{Jobs: 1 << 20, Per: time.Second, Burst: 1 << 16}
	for _, load := range []struct {
		name   string
		keys   int
		policy broker.PolicyRequest
	}{
		{"plain", 0, broker.PolicyRequest{}},
		{"max-active", 0, broker.PolicyRequest{MaxActive: new(int64(plenty))}},
		{"rate", 0, broker.PolicyRequest{Rate: rate}},
		{"max-bytes", 0, broker.PolicyRequest{MaxBytes: new(int64(1 << 40))}},
		{"keys=1", 1, broker.PolicyRequest{}},
		{"keys=100", 100, broker.PolicyRequest{}},
		{"keys=100000", 100_000, broker.PolicyRequest{}},
		{"keys=100,key-max-active", 100, broker.PolicyRequest{KeyMaxActive: new(int64(plenty))}},
		{"keys=100,key-rate", 100, broker.PolicyRequest{KeyRate: rate}},
	} {
		b.Run("Life/"+load.name, func(b *testing.B) { newBench(b, newStore).life(load.keys, load.policy) })
	}
	for _, keys := range []int{0, 50_000} {
		b.Run(fmt.Sprintf("IdleClaim/blocked-keys=%d", keys), func(b *testing.B) { newBench(b, newStore).idleClaim(keys) })
	}
	b.Run("SmallKeys/beside-jobs=200000", func(b *testing.B) { newBench(b, newStore).smallKeys(200_000, 1000) })
}

// limit sets a policy of the queue, if the request has one.
func (b *bench) limit(to broker.Broker, policy broker.PolicyRequest) {
	policy.Queue = benchQueue
	if _, err := to.Policy(b.ctx, policy); err != nil {
		b.b.Fatalf("Policy: %v", err)
	}
}

// keyed distributes jobs over that many keys, or gives them none if keys is zero.
func (b *bench) keyed(jobs []broker.NewJob, keys int) []broker.NewJob {
	for i := range jobs {
		if keys > 0 {
			jobs[i].Body.Key = fmt.Sprint("key-", (int(b.ids.Load())+i)%keys)
		}
	}
	return jobs
}

// life measures the whole life of jobs, from enqueue to completion, in batches of 100
// by one worker, while 2,000 other jobs wait.
func (b *bench) life(keys int, policy broker.PolicyRequest) {
	const batch = 100
	to := b.open()
	w := &bencher{bench: b, b: to, id: "w"}
	w.register(time.Time{})
	b.limit(to, policy)
	for range 20 {
		b.put(to, time.Time{}, b.keyed(b.make(batch), keys))
	}
	for b.b.Loop() {
		b.put(to, time.Time{}, b.keyed(b.make(batch), keys))
		b.jobs.Add(int64(w.turn(time.Time{}, batch)))
	}
	w.turn(time.Time{}, 0)
	b.report()
}

// idleClaim measures a claim that finds nothing, since all keys are at their limits.
func (b *bench) idleClaim(keys int) {
	to := b.open()
	busy, idle := &bencher{bench: b, b: to, id: "busy"}, &bencher{bench: b, b: to, id: "idle"}
	busy.register(time.Time{})
	idle.register(time.Time{})
	b.limit(to, broker.PolicyRequest{KeyMaxActive: new(int64(1))})
	for range 2 { // one of each key runs, one waits
		for left := keys; left > 0; left -= 1000 {
			b.put(to, time.Time{}, b.keyed(b.make(1000), keys))
		}
	}
	for taken := 0; taken < keys; {
		got, err := to.Claim(b.ctx, broker.ClaimRequest{Worker: "busy", Max: 1000, Queues: []broker.Share{{Queue: benchQueue, Max: 1000}}})
		if err != nil || len(got.Jobs) == 0 {
			b.b.Fatalf("%d of %d keys run, then a claim gave %d jobs, %v", taken, keys, len(got.Jobs), err)
		}
		taken += len(got.Jobs)
	}
	for range keys/100 + 1 { // claims first work through what the enqueues left
		idle.turn(time.Time{}, 10)
	}
	for b.b.Loop() {
		if n := idle.turn(time.Time{}, 10); n > 0 {
			b.b.Fatalf("a claim gave %d jobs of keys that are at their limit", n)
		}
	}
}

// smallKeys measures how long a job of a small key waits beside a key with many jobs,
// in claims of ten jobs by one worker, and in time.
func (b *bench) smallKeys(large, small int) {
	to := b.open()
	w := &bencher{bench: b, b: to, id: "w"}
	w.register(time.Time{})
	for left := large; left > 0; left -= 1000 {
		b.put(to, time.Time{}, b.keyed(b.make(1000), 1))
	}
	var waits []time.Duration
	for b.b.Loop() {
		jobs := b.make(small)
		for i := range jobs {
			jobs[i].Body.Key = fmt.Sprint("small-", i)
		}
		began := time.Now()
		b.put(to, time.Time{}, jobs)
		for left := small; left > 0 && !b.b.Failed(); {
			w.turn(time.Time{}, 10)
			for _, j := range w.held {
				if j.Key != "key-0" {
					waits, left = append(waits, time.Since(began)), left-1
				}
			}
		}
	}
	w.turn(time.Time{}, 0)
	slices.Sort(waits)
	b.b.ReportMetric(float64(waits[len(waits)/2].Microseconds())/1000, "p50-ms")
	b.b.ReportMetric(float64(waits[len(waits)*99/100].Microseconds())/1000, "p99-ms")
}
