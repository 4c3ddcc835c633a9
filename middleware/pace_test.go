package middleware

import (
	"fmt"
	"testing"
	"time"
)

// aPace is the limit of a key, with times since an hour that does not matter.
type aPace struct {
	*pace
	t *testing.T
}

func newPace(t *testing.T, cfg RateLimitConfig) aPace {
	t.Helper()
	if cfg.MaxDelay == 0 {
		cfg.MaxDelay = time.Hour
	}
	return aPace{newPaces(&cfg, cfg.Per/time.Duration(cfg.Runs)).get("k"), t}
}

var paceEpoch = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// want checks what a job is told at a time: zero is that it runs.
func (p aPace) want(job jobName, at, delay time.Duration) {
	p.t.Helper()
	if got := p.take(job, paceEpoch.Add(at)); got != delay {
		p.t.Errorf("job %d at %v is put off for %v, want %v", job, at, got, delay)
	}
}

func TestPace_ReservesEachJobATimeOfItsOwn(t *testing.T) {
	t.Parallel()
	p := newPace(t, RateLimitConfig{Runs: 60, Per: time.Minute, Burst: 2})
	p.want(1, 0, 0)
	p.want(2, 0, 0)
	for n := range 10 {
		p.want(jobName(3+n), 0, time.Duration(n+1)*time.Second)
	}
	p.want(99, 900*time.Millisecond, 10100*time.Millisecond) // the newcomer stands behind them
	p.want(3, 900*time.Millisecond, 100*time.Millisecond)    // one that comes early does not lose its time
	p.want(3, time.Second, 0)
	p.want(98, time.Second, 11*time.Second)
	p.want(4, 2*time.Second+time.Millisecond, 0)
	p.want(3, 3*time.Second-time.Millisecond, 10*time.Second+time.Millisecond) // it comes a second time, and is new
}

func TestPace_GivesATimeThatNobodyCollectsToTheNext(t *testing.T) {
	t.Parallel()
	p := newPace(t, RateLimitConfig{Runs: 60, Per: time.Minute, Burst: 4})
	for job := range 4 {
		p.want(jobName(job), 0, 0)
	}
	p.want(11, 0, time.Second)
	p.want(12, 0, 2*time.Second)
	p.want(13, 0, 3*time.Second)
	p.want(20, 2900*time.Millisecond, 1100*time.Millisecond) // 11 may still come
	p.want(21, 3*time.Second, 0)                             // 11 is late
	p.want(11, 3*time.Second, 2*time.Second)                 // its time is gone
	p.want(12, 5900*time.Millisecond, 0)                     // late, but nobody took it
	p.want(22, 7*time.Second, 0)                             // in the place of 13, which was deleted
	p.want(20, 7*time.Second, 0)                             // its own, three seconds late
	p.want(23, 7*time.Second, 0)                             // in the place of 11, the second time
	p.want(24, 7*time.Second, 0)                             // at six seconds, which nobody had taken
	p.want(25, 7*time.Second, 0)
	p.want(26, 7*time.Second, time.Second)
}

func TestPace_LateJobsBeginTogetherOnlyWithinTheirBound(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		cfg   RateLimitConfig
		bound int
	}{
		"a burst":  {RateLimitConfig{Runs: 60, Per: time.Minute, Burst: 10}, 2*10 + 1},
		"a second": {RateLimitConfig{Runs: 100, Per: time.Second, Burst: 1}, 100 + 1 + 1},
	} {
		p := newPace(t, c.cfg)
		for job := range 1000 {
			p.take(jobName(job), paceEpoch)
		}
		ran := 0
		for job := range 2000 { // all at once, when everybody's time is long over
			if p.take(jobName(job), paceEpoch.Add(time.Hour)) == 0 {
				ran++
			}
		}
		if ran != c.cfg.Burst {
			t.Errorf("%s: %d runs began at once after an hour, want the burst of %d: old reservations count for nothing", name, ran, c.cfg.Burst)
		}

		p = newPace(t, c.cfg)
		for job := range 1000 {
			p.take(jobName(job), paceEpoch)
		}
		stall, ran := time.Duration(500)*p.interval, 0
		for job := range 1000 {
			if p.take(jobName(job), paceEpoch.Add(stall)) == 0 {
				ran++
			}
		}
		if ran > c.bound || ran < c.bound/2-1 {
			t.Errorf("%s: %d runs began at once after a stall, want at most %d", name, ran, c.bound)
		}
	}
}

func TestPace_BoundsWhatItRemembers(t *testing.T) {
	t.Parallel()
	p := newPace(t, RateLimitConfig{Runs: 1_000_000, Per: time.Second, Burst: 1})
	for job := range maxPromises + 1000 {
		delay := p.take(jobName(job), paceEpoch)
		if longest := maxPromises * time.Microsecond; delay > longest || job > maxPromises+2 && delay < longest/2 {
			t.Fatalf("job %d is put off for %v, want %v to %v beyond the bound", job, delay, longest/2, longest)
		}
	}
	if len(p.promised) > maxPromises+1 || len(p.promises) > maxPromises+1 {
		t.Errorf("%d reservations are kept, want at most %d", len(p.promised), maxPromises)
	}
	p.take(1, paceEpoch.Add(time.Minute))
	if len(p.promised) > 0 || len(p.promises) > 0 {
		t.Errorf("%d reservations are kept a minute after all of them were over", len(p.promised))
	}
}

func TestPace_EndlessTimesDoNotOverflow(t *testing.T) {
	t.Parallel()
	century := 100 * 365 * 24 * time.Hour
	p := newPace(t, RateLimitConfig{Runs: 1, Per: century, Burst: 1_000_000, MaxDelay: century})
	p.want(1, 0, 0)
	p.want(2, 0, century)
}

func TestTable_ForgetsTheKeyThatWasIdleForLongest(t *testing.T) {
	t.Parallel()
	made := 0
	table := newTable(time.Nanosecond, func(string) *int { made++; n := made; return &n })
	for i := range 5 * maxKeys {
		if v := table.get(fmt.Sprint("key", i)); *v != i+1 {
			t.Fatalf("key %d shares its value with key %d", i, *v-1)
		}
		if v := table.get("key0"); *v != 1 {
			t.Fatal("a key in use was forgotten")
		}
		time.Sleep(time.Nanosecond)
	}
	if len(table.of) > maxKeys || table.latest.Len() != len(table.of) {
		t.Errorf("%d keys are kept, in a list of %d, want at most %d", len(table.of), table.latest.Len(), maxKeys)
	}
	if v := table.get("key1"); *v == 2 {
		t.Error("a key that was not used for longest was kept")
	}
}

func TestTable_KeysBeyondItsBoundShareOneWhileAllAreInUse(t *testing.T) {
	t.Parallel()
	table := newTable(time.Hour, func(key string) *string { return &key })
	for i := range maxKeys {
		table.get(fmt.Sprint("key", i))
	}
	if a, b := table.get("one more"), table.get("another"); a != b || *a != othersKey {
		t.Errorf("keys beyond the bound have %q and %q, want the shared one", *a, *b)
	}
	if v := table.get("key7"); *v != "key7" {
		t.Errorf("a key in use has become %q", *v)
	}
	if len(table.of) != maxKeys+1 {
		t.Errorf("%d keys are kept, want %d and the shared one", len(table.of), maxKeys)
	}
}
