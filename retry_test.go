package jobs

import (
	"testing"
	"time"

	"github.com/seed81422ce9/jobs/broker"
)

func TestRetryPolicy_ExponentialSpreadsOverTheWholeOfItsGrowingRange(t *testing.T) {
	t.Parallel()
	policy := Exponential(10*time.Second, time.Hour)
	for attempt, ceiling := range map[int]time.Duration{0: 10 * time.Second, 1: 20 * time.Second, 5: 320 * time.Second, 20: time.Hour,
		1 << 30: time.Hour} {
		var sum, most time.Duration
		least := ceiling
		const n = 2000
		for range n {
			d := policy(attempt, nil, nil)
			if d <= 0 || d > ceiling {
				t.Fatalf("attempt %d: %v is outside of 0 to %v", attempt, d, ceiling)
			}
			sum, least, most = sum+d, min(least, d), max(most, d)
		}
		if mean := sum / n; mean < ceiling*4/10 || mean > ceiling*6/10 || least > ceiling/20 || most < ceiling*19/20 {
			t.Errorf("attempt %d: from %v to %v, mean %v; want the whole range to %v", attempt, least, most, mean, ceiling)
		}
	}
	if d := Exponential(time.Hour, 0)(60, nil, nil); d <= 0 || d > broker.MaxDelay {
		t.Errorf("without a maximum: %v", d)
	}
}

func TestRetryPolicy_LinearGrowsToItsMaximum(t *testing.T) {
	t.Parallel()
	policy := Linear(time.Minute, 5*time.Minute)
	for attempt, want := range map[int]time.Duration{0: time.Minute, 1: 2 * time.Minute, 4: 5 * time.Minute, 5: 5 * time.Minute,
		1 << 60: 5 * time.Minute} {
		if d := policy(attempt, nil, nil); d != want {
			t.Errorf("attempt %d: %v, want %v", attempt, d, want)
		}
	}
	if d := Linear(time.Hour, 0)(1<<60, nil, nil); d != broker.MaxDelay {
		t.Errorf("without a maximum: %v", d)
	}
}

func TestRetryPolicy_ABaseOfZeroOrLessMeansNoDelay(t *testing.T) {
	t.Parallel()
	for _, base := range []time.Duration{0, -1, -10 * time.Second, -5 * time.Hour, -1 << 62} {
		for _, attempt := range []int{0, 3, 30, 62, 63, 600_000} {
			if d := Exponential(base, time.Hour)(attempt, nil, nil); d != 0 {
				t.Errorf("Exponential of %v, attempt %d: %v, want none", base, attempt, d)
			}
			if d := Linear(base, time.Hour)(attempt, nil, nil); d != 0 {
				t.Errorf("Linear of %v, attempt %d: %v, want none", base, attempt, d)
			}
		}
	}
}

func TestRetryPolicy_AbsurdDelaysOfAPolicyAreCut(t *testing.T) {
	t.Parallel()
	for asked, want := range map[time.Duration]time.Duration{-time.Hour: 0, 1<<63 - 1: broker.MaxDelay, time.Second: time.Second} {
		cfg, err := Config{RetryPolicy: Constant(asked)}.withDefaults()
		if err != nil {
			t.Fatal(err)
		}
		if d := cfg.retryDelay(NewJob(&broker.Job{}), nil); d != want {
			t.Errorf("%v became %v, want %v", asked, d, want)
		}
	}
}

func TestRetryPolicy_TheDefaultRetriesSpanDays(t *testing.T) {
	t.Parallel()
	cfg, err := Config{}.withDefaults()
	if err != nil {
		t.Fatal(err)
	}
	var sum time.Duration
	const n = 200
	for range n {
		for attempt := range broker.DefaultMaxRetries {
			sum += cfg.retryDelay(NewJob(&broker.Job{Head: broker.Head{Failures: attempt}}), nil)
		}
	}
	if mean := sum / n; mean < 75*time.Hour || mean > 95*time.Hour {
		t.Errorf("25 retries span %v on average; Config says three and a half days", mean)
	}
}
