package broker_test

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/seed81422ce9/jobs/broker"
)

// In no span of Per more start than Jobs + Burst, whenever they are asked for.
func TestBucket_BoundsEverySpan(t *testing.T) {
	t.Parallel()
	for _, r := range []broker.Rate{{Jobs: 1, Per: time.Second}, {Jobs: 3, Per: time.Second, Burst: 5}, {Jobs: 7, Per: 10 * time.Microsecond},
		{Jobs: 1000, Per: time.Minute, Burst: 1}, {Jobs: 1, Per: 24 * time.Hour, Burst: 3}, {Jobs: 999_983, Per: time.Second, Burst: 10}} {
		per := broker.DurationMicros(r.Per)
		rnd := rand.New(rand.NewPCG(1, uint64(r.Jobs)))
		var b broker.Bucket
		var starts []int64
		now := time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC).UnixMicro()
		for range 3000 {
			now += rnd.Int64N(2*per/r.Jobs + 2)
			if rnd.IntN(500) == 0 {
				now += rnd.Int64N(1000 * per)
			}
			free, next := b.Free(r, now)
			if (free == 0) != (next > 0) || free == 0 && next <= now {
				t.Fatalf("%+v at %d: %d are free, the next at %d", r, now, free, next)
			}
			if free == 0 {
				before, after := b, b
				if n, _ := before.Free(r, next-1); n > 0 {
					t.Fatalf("%+v: a start is free before %d, when the next was to be", r, next)
				}
				if n, _ := after.Free(r, next); n == 0 {
					t.Fatalf("%+v: no start is free at %d, when the next was to be", r, next)
				}
			}
			n := min(free, 1+rnd.Int64N(free+1))
			b.Take(n)
			for range min(n, 5000) {
				starts = append(starts, now)
			}
		}
		most := int(r.Jobs + r.Burst)
		for i := most; i < len(starts); i++ {
			if span := starts[i] - starts[i-most]; span < per {
				t.Fatalf("%+v: %d start within %d of %d µs, at most %d may", r, most+1, span, per, most)
			}
		}
		if len(starts) < 100 {
			t.Errorf("%+v: only %d started", r, len(starts))
		}
	}
}

func TestBucket_SavesUpBurstAndOne(t *testing.T) {
	t.Parallel()
	r := broker.Rate{Jobs: 10, Per: time.Second, Burst: 4}
	var b broker.Bucket
	now := int64(1e15)
	for i, c := range []struct{ pass, free int64 }{{0, 5}, {99_999, 0}, {1, 1}, {250_000, 2}, {50_000, 1}, {1e13, 5}} {
		now += c.pass
		free, _ := b.Free(r, now)
		if free != c.free {
			t.Errorf("step %d: %d are free, want %d", i, free, c.free)
		}
		b.Take(free)
	}
}

// A lower rate does not make up for what a higher one let start, and a clock that is
// set back by a year does not stop anything for a year.
func TestBucket_ForgetsWhatIsOver(t *testing.T) {
	t.Parallel()
	high, low := broker.Rate{Jobs: 1000, Per: time.Second, Burst: 1000}, broker.Rate{Jobs: 1, Per: time.Minute}
	var b broker.Bucket
	now := int64(1e15)
	n, _ := b.Free(high, now)
	b.Take(n)
	if _, next := b.Free(low, now); next > now+2*time.Minute.Microseconds() {
		t.Errorf("at the lower rate the next start is %v away", time.Duration(next-now)*time.Microsecond)
	}
	now -= (365 * 24 * time.Hour).Microseconds()
	if free, next := b.Free(low, now); free == 0 && next > now+2*time.Minute.Microseconds() {
		t.Errorf("after the clock went back the next start is %v away", time.Duration(next-now)*time.Microsecond)
	}
}

// A store that starts nothing need not keep what Free changed, also after the clock was set back.
func TestBucket_AllowsAStartAfterTheClockWasSetBack(t *testing.T) {
	t.Parallel()
	rate := broker.Rate{Jobs: 1, Per: 10 * time.Second, Burst: 2}
	var stored broker.Bucket
	now := int64(1e15)
	n, _ := stored.Free(rate, now)
	stored.Take(n)
	started := int64(0)
	for now -= time.Hour.Microseconds(); now < 1e15-time.Minute.Microseconds(); now += time.Second.Microseconds() {
		b := stored
		if n, _ := b.Free(rate, now); n > 0 {
			b.Take(n)
			stored, started = b, started+n
		}
	}
	if most := int64(59*6 + 1); started < most-1 || started > most {
		t.Errorf("in 59 minutes after the clock was set back %d jobs started, want %d", started, most)
	}
}
