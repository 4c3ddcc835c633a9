package broker

import "time"

// Totals counts what happened in a queue since it was made (§42). No number falls while
// the queue exists, so the difference of two readings is what happened between them.
type Totals struct {
	Enqueued  int64 // new jobs that were stored, without restored ones
	Claimed   int64 // leases that claims gave, without reclaims
	Completed int64 // jobs that completed
	Failed    int64 // runs that were charged a failure
	Retried   int64 // of these, those after which the job runs again
	Dead      int64 // jobs that died, whatever the reason
	Crashed   int64 // crashes that were charged
	Cancelled int64 // jobs that were cancelled
	Expired   int64 // of the dead ones, those whose deadline had passed

	Waits        int64 // settlements with Waited
	WaitedMicros int64 // the sum of these; a Duration would overflow after 292 years, which all jobs together can wait
	Runs         int64 // settlements with Ran
	RanMicros    int64 // the sum of these
}

// Ended counts the end of a lease by s. o is the outcome as applied, after
// IfCancelRequested. Keep counts nothing.
func (t *Totals) Ended(s *Settlement, o Outcome) {
	h := o.Charge(Head{})
	t.Failed += int64(h.Failures)
	t.Crashed += int64(h.Crashes)
	switch o.kind {
	case OutcomeKeep:
		return
	case OutcomeComplete:
		t.Completed++
	case OutcomeRetry:
		t.Retried++
	case OutcomeDie:
		t.Dead++
		if o.reason == ReasonExpired {
			t.Expired++
		}
	case OutcomeCancel:
		t.Cancelled++
	}
	t.Took(s)
}

// Took adds the wait and the run of a settlement.
func (t *Totals) Took(s *Settlement) {
	if s.Waited > 0 {
		t.Waits++
		t.WaitedMicros += DurationMicros(s.Waited)
	}
	if s.Ran > 0 {
		t.Runs++
		t.RanMicros += DurationMicros(s.Ran)
	}
}

// Numbers returns pointers to the fields of t, for stores that keep them as a list. A new field
// comes last.
func (t *Totals) Numbers() [totalsFields]*int64 {
	return [totalsFields]*int64{&t.Enqueued, &t.Claimed, &t.Completed, &t.Failed, &t.Retried, &t.Dead, &t.Crashed, &t.Cancelled, &t.Expired,
		&t.Waits, &t.WaitedMicros, &t.Runs, &t.RanMicros}
}

const totalsFields = 13

// Plus returns the sum of t and u, the totals of another store or a later time.
func (t Totals) Plus(u Totals) Totals {
	to := t.Numbers()
	for i, n := range u.Numbers() {
		*to[i] += *n
	}
	return t
}

// Since returns what happened between an earlier reading and this one. The totals of a
// queue that was removed and made again begin at zero; then Since returns all of t.
func (t Totals) Since(earlier Totals) Totals {
	d := t
	to := d.Numbers()
	for i, n := range earlier.Numbers() {
		if *to[i] -= *n; *to[i] < 0 {
			return t
		}
	}
	return d
}

// MeanWait returns the mean of the waits, zero without any.
func (t Totals) MeanWait() time.Duration { return mean(t.WaitedMicros, t.Waits) }

// MeanRun returns the mean of the runs, zero without any.
func (t Totals) MeanRun() time.Duration { return mean(t.RanMicros, t.Runs) }

func mean(us, n int64) time.Duration {
	if n == 0 {
		return 0
	}
	return micros(us / n)
}

// FailureRate returns the share of failed and crashed runs among the completed, failed
// and crashed ones: 0 to 1, and 0 without any.
func (t Totals) FailureRate() float64 {
	bad := t.Failed + t.Crashed
	if bad == 0 {
		return 0
	}
	return float64(bad) / float64(bad+t.Completed)
}
