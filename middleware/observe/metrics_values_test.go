package observe

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed81422ce9/jobs"
	"github.com/seed81422ce9/jobs/broker"
)

// aLifeCounted has the counts after aLife. The two runs of type stuck belong to one
// job: its worker was lost, so the first run's outcome came too late.
const aLifeCounted = `
jobs_claimed_total{priority=normal,queue=default,type=at} 1
jobs_claimed_total{priority=normal,queue=default,type=cancels} 1
jobs_claimed_total{priority=normal,queue=default,type=fails-once} 2
jobs_claimed_total{priority=normal,queue=default,type=gives-up} 1
jobs_claimed_total{priority=normal,queue=default,type=later} 1
jobs_claimed_total{priority=normal,queue=default,type=ok} 3
jobs_claimed_total{priority=normal,queue=default,type=panics} 2
jobs_claimed_total{priority=normal,queue=default,type=slow} 1
jobs_claimed_total{priority=normal,queue=default,type=snoozes} 2
jobs_claimed_total{priority=normal,queue=default,type=stuck} 2
jobs_claimed_total{priority=urgent,queue=default,type=ok} 1
jobs_claimed_total{priority=urgent,queue=default,type=orphan} 1
jobs_dead_total{priority=normal,queue=default,reason=retries_spent,type=panics} 1
jobs_dead_total{priority=normal,queue=default,reason=skip_retry,type=gives-up} 1
jobs_duplicate_total{priority=normal,queue=default,type=ok,where=enqueue} 1
jobs_duplicate_total{priority=normal,queue=default,type=ok,where=run} 1
jobs_enqueued_total{priority=normal,queue=default,type=at} 1
jobs_enqueued_total{priority=normal,queue=default,type=cancels} 1
jobs_enqueued_total{priority=normal,queue=default,type=fails-once} 1
jobs_enqueued_total{priority=normal,queue=default,type=gives-up} 1
jobs_enqueued_total{priority=normal,queue=default,type=later} 1
jobs_enqueued_total{priority=normal,queue=default,type=ok} 3
jobs_enqueued_total{priority=normal,queue=default,type=panics} 1
jobs_enqueued_total{priority=normal,queue=default,type=slow} 1
jobs_enqueued_total{priority=normal,queue=default,type=snoozes} 1
jobs_enqueued_total{priority=normal,queue=default,type=stuck} 1
jobs_enqueued_total{priority=normal,queue=unserved,type=waits} 1
jobs_enqueued_total{priority=urgent,queue=default,type=ok} 1
jobs_failed_total{class=panic,priority=normal,queue=default,type=panics} 2
jobs_failed_total{class=permanent,priority=normal,queue=default,type=gives-up} 1
jobs_failed_total{class=retryable,priority=normal,queue=default,type=fails-once} 1
jobs_outcomes_total{outcome=cancelled,priority=normal,queue=default,type=cancels} 1
jobs_outcomes_total{outcome=completed,priority=normal,queue=default,type=at} 1
jobs_outcomes_total{outcome=completed,priority=normal,queue=default,type=fails-once} 1
jobs_outcomes_total{outcome=completed,priority=normal,queue=default,type=later} 1
jobs_outcomes_total{outcome=completed,priority=normal,queue=default,type=ok} 3
jobs_outcomes_total{outcome=completed,priority=normal,queue=default,type=slow} 1
jobs_outcomes_total{outcome=completed,priority=normal,queue=default,type=snoozes} 1
jobs_outcomes_total{outcome=completed,priority=normal,queue=default,type=stuck} 1
jobs_outcomes_total{outcome=completed,priority=urgent,queue=default,type=ok} 1
jobs_outcomes_total{outcome=completed,priority=urgent,queue=default,type=orphan} 1
jobs_outcomes_total{outcome=crashed,priority=normal,queue=default,type=stuck} 1
jobs_outcomes_total{outcome=crashed,priority=urgent,queue=default,type=orphan} 1
jobs_outcomes_total{outcome=dead,priority=normal,queue=default,type=gives-up} 1
jobs_outcomes_total{outcome=dead,priority=normal,queue=default,type=panics} 1
jobs_outcomes_total{outcome=lease_lost,priority=normal,queue=default,type=stuck} 1
jobs_outcomes_total{outcome=retried,priority=normal,queue=default,type=fails-once} 1
jobs_outcomes_total{outcome=retried,priority=normal,queue=default,type=panics} 1
jobs_outcomes_total{outcome=snoozed,priority=normal,queue=default,type=snoozes} 1
jobs_processed_total{priority=normal,queue=default,type=at} 1
jobs_processed_total{priority=normal,queue=default,type=fails-once} 1
jobs_processed_total{priority=normal,queue=default,type=later} 1
jobs_processed_total{priority=normal,queue=default,type=ok} 3
jobs_processed_total{priority=normal,queue=default,type=slow} 1
jobs_processed_total{priority=normal,queue=default,type=snoozes} 1
jobs_processed_total{priority=normal,queue=default,type=stuck} 1
jobs_processed_total{priority=urgent,queue=default,type=ok} 1
jobs_processed_total{priority=urgent,queue=default,type=orphan} 1
jobs_reclaimed_total{priority=normal,queue=default,type=stuck} 1
jobs_reclaimed_total{priority=urgent,queue=default,type=orphan} 1
jobs_refused_total{priority=normal,queue=default,reason=too_large,type=ok} 1
jobs_relay_refused_total{queue=outbox,reason=relay_id_taken} 1
jobs_relayed_total{queue=outbox} 1
jobs_retried_total{priority=normal,queue=default,type=fails-once} 1
jobs_retried_total{priority=normal,queue=default,type=panics} 1
jobs_store_errors_total{command=claim,error=unavailable} 1
jobs_stuck_total{priority=normal,queue=default,type=stuck} 2
jobs_worker_starts_total{} 2
jobs_worker_stops_total{reason=drained} 1
jobs_worker_stops_total{reason=lost} 1
`

// lines lists the values of the metrics that match.
func lines(all map[string]float64, match func(series string) bool) string {
	var b strings.Builder
	for _, series := range slices.Sorted(maps.Keys(all)) {
		if match(series) {
			fmt.Fprintf(&b, "\n%s %v", series, all[series])
		}
	}
	return b.String() + "\n"
}

// difference shows the lines that only one of two texts has.
func difference(got, want string) string {
	var b strings.Builder
	for line := range strings.Lines(got) {
		if !strings.Contains(want, "\n"+line) && line != "\n" {
			b.WriteString("not wanted: " + line)
		}
	}
	for line := range strings.Lines(want) {
		if !strings.Contains(got, "\n"+line) && line != "\n" {
			b.WriteString("missing:    " + line)
		}
	}
	return b.String()
}

func TestMetricsValues_EverythingInAJobsLifeIsCountedOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := newMeasured(t, MetricsConfig{})
		finish := aLife(t, m)
		states := func() string {
			return lines(values(t, m.registry), func(series string) bool {
				return strings.HasPrefix(series, "jobs_stuck_handlers") || strings.HasPrefix(series, "jobs_slots") ||
					strings.Contains(series, "type=stuck") && strings.HasPrefix(series, "jobs_in_flight")
			})
		}
		want := "\njobs_in_flight{priority=normal,queue=default,type=stuck} 2\njobs_slots{} 20\njobs_stuck_handlers{} 2\n"
		if got := states(); got != want {
			t.Errorf("with two stuck handlers:\n%s", difference(got, want))
		}
		finish()
		want = "\njobs_in_flight{priority=normal,queue=default,type=stuck} 0\njobs_slots{} 0\njobs_stuck_handlers{} 0\n"
		if got := states(); got != want {
			t.Errorf("after the drain:\n%s", difference(got, want))
		}
		got := lines(values(t, m.registry), func(series string) bool { return strings.Contains(series, "_total{") })
		if got != aLifeCounted {
			t.Errorf("counters after all of it happened:\n%s", difference(got, aLifeCounted))
		}
	})
}

func TestMetricsValues_TimesAreMeasuredFromWhereTheyBegin(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := newMeasured(t, MetricsConfig{})
		m.enqueue(t, "now")
		m.enqueue(t, "delayed", jobs.WithDelay(10*time.Second))
		m.enqueue(t, "timed", jobs.WithRunAt(time.Now().Add(20*time.Second)))
		m.enqueue(t, "replaced", jobs.WithUniqueKey("k"), jobs.WithDelay(10*time.Second))
		m.enqueue(t, "replaced", jobs.WithUniqueKey("k"), jobs.WithUniqueReplace())
		m.enqueue(t, "past", jobs.WithRunAt(time.Now().Add(-time.Hour)))
		time.Sleep(time.Minute)
		stop := m.serve(t, jobs.Config{}, jobs.HandlerFunc(func(_ context.Context, job *jobs.Job) error {
			time.Sleep(3 * time.Second)
			if job.Type() == "now" && job.Attempt() == 0 {
				return jobs.RetryAfter(time.Minute, errors.New("not yet"))
			}
			return nil
		}))
		pass(2 * time.Minute)
		got := values(t, m.registry)
		stop()
		for series, want := range map[string]float64{
			"jobs_wait_seconds{priority=normal,queue=default,type=now} sum":               60,
			"jobs_wait_seconds{priority=normal,queue=default,type=now}":                   1, // not for the second run
			"jobs_lateness_seconds{priority=normal,queue=default,type=replaced} sum":      50,
			"jobs_wait_seconds{priority=normal,queue=default,type=past} sum":              60, // as if it had no time
			"jobs_lateness_seconds{priority=normal,queue=default,type=delayed} sum":       50,
			"jobs_lateness_seconds{priority=normal,queue=default,type=timed} sum":         40,
			"jobs_retry_wait_seconds{priority=normal,queue=default,type=now} sum":         60,
			"jobs_retry_wait_seconds{priority=normal,queue=default,type=now}":             1,
			"jobs_processing_latency_seconds{priority=normal,queue=default,type=now} sum": 6,
		} {
			if math.Abs(got[series]-want) > 0.01 {
				t.Errorf("%s = %v, want %v", series, got[series], want)
			}
		}
		if n, there := got["jobs_wait_seconds{priority=normal,queue=default,type=delayed}"]; there {
			t.Errorf("a delay counts as waiting, %v times", n)
		}
	})
}

func TestMetricsValues_QueuesOfTheFrameworkHaveMetricsOfTheirOwn(t *testing.T) {
	t.Parallel()
	for name, cfg := range map[string]MetricsConfig{
		"by default": {Schedules: missing(2)}, "by name": {Schedules: missing(2), Queues: []string{"@schedules", "mail"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				m := newMeasured(t, cfg)
				m.enqueueReserved(t, "@schedules", time.Minute)
				m.enqueue(t, "x", jobs.WithQueue("mail"))
				check := func(overdue float64) {
					t.Helper()
					got := lines(values(t, m.registry), func(series string) bool {
						return strings.Contains(series, "@schedules") && !strings.Contains(series, "state=") || strings.Contains(series, "schedules_miss") ||
							strings.Contains(series, "depth") && values(t, m.registry)[series] > 0
					})
					want := fmt.Sprintf(`
jobs_extension_depth{queue=@schedules,state=scheduled} 1
jobs_extension_overdue_seconds{queue=@schedules} %v
jobs_queue_depth{queue=mail,state=pending} 1
jobs_schedules_missed_total{reason=too_late} 2
jobs_schedules_missing{} 2
`, overdue)
					if got != want {
						t.Errorf("the metrics are\n%s", difference(got, want))
					}
				}
				time.Sleep(30 * time.Second)
				check(0)
				time.Sleep(2 * time.Minute)
				check(90)
			})
		})
	}
}

func TestMetricsValues_WaitsGoByTheStoresClock(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := newMeasured(t, MetricsConfig{})
		store := time.Now().Add(time.Hour) // this host is an hour behind
		m.metrics.Hooks().Claim(jobs.ClaimEvent{Now: store})
		h := m.metrics.Middleware()(jobs.HandlerFunc(func(context.Context, *jobs.Job) error { return nil }))
		job := &broker.Job{Queue: "q", Body: broker.Body{Type: "t"}, CreatedAt: store.Add(-2 * time.Second)}
		if err := h.ProcessJob(t.Context(), jobs.NewJob(job)); err != nil {
			t.Fatal(err)
		}
		got := values(t, m.registry)
		if w := got["jobs_wait_seconds{priority=normal,queue=q,type=t} sum"]; w != 2 {
			t.Errorf("a job created 2 s ago by the store's clock has waited for %v s", w)
		}
		if o := got["jobs_store_clock_offset_seconds{}"]; o != 3600 {
			t.Errorf("the offset of the store's clock is %v s, want 3600", o)
		}
	})
}

func TestMetricsValues_TheLeaseMarginFallsUntilTheNextRenewal(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := newMeasured(t, MetricsConfig{})
		hooks := m.metrics.Hooks()
		margin := func() float64 { return values(t, m.registry)["jobs_lease_margin_seconds{}"] }
		hooks.Renew(jobs.RenewEvent{Worker: "a", Margin: -time.Hour}) // its registration
		if _, there := values(t, m.registry)["jobs_lease_margin_seconds{}"]; there {
			t.Error("there is a margin before there is a worker")
		}
		hooks.Worker(jobs.WorkerEvent{Kind: jobs.WorkerStarted, Worker: "a", Lease: 15 * time.Second, Concurrency: 4})
		hooks.Worker(jobs.WorkerEvent{Kind: jobs.WorkerStarted, Worker: "b", Lease: time.Minute, Concurrency: 6})
		time.Sleep(4 * time.Second)
		if got := margin(); got != 11 {
			t.Errorf("4 s after a lease of 15 s began, the margin is %v", got)
		}
		hooks.Renew(jobs.RenewEvent{Worker: "a", Margin: 14 * time.Second})
		time.Sleep(20 * time.Second)
		if got := margin(); got != -6 {
			t.Errorf("20 s after a renewal that left 14 s, the margin is %v", got)
		}
		if got := values(t, m.registry)["jobs_slots{}"]; got != 10 {
			t.Errorf("two workers of 4 and 6 slots have %v", got)
		}
		hooks.Worker(jobs.WorkerEvent{Kind: jobs.WorkerLost, Worker: "a"})
		if got := margin(); got != 36 {
			t.Errorf("with the other worker's lease of a minute left, the margin is %v", got)
		}
	})
}

func TestMetricsValues_ASettleThatWillBeRepeatedCountsNothing(t *testing.T) {
	t.Parallel()
	m := newMeasured(t, MetricsConfig{})
	hooks := m.metrics.Hooks()
	items := []broker.Settlement{
		{Job: &broker.Job{Queue: "q", Body: broker.Body{Type: "t"}}, Outcome: broker.Complete(nil)},
		{Job: &broker.Job{Queue: "q", Body: broker.Body{Type: "t"}}, Outcome: broker.Retry(0, broker.Failure{Class: "retryable"})},
	}
	hooks.Settle(jobs.SettleEvent{Items: items, Err: broker.ErrUnavailable})
	hooks.Settle(jobs.SettleEvent{Items: items, Err: context.DeadlineExceeded})
	hooks.Settle(jobs.SettleEvent{Items: items, Verdicts: []broker.Verdict{{State: broker.StateCompleted}, {State: broker.StateCancelled}}})
	hooks.Settle(jobs.SettleEvent{Items: items, Verdicts: []broker.Verdict{{Err: broker.ErrLeaseLost}, {State: broker.StateRetry}}})
	hooks.Settle(jobs.SettleEvent{Items: items, Err: broker.ErrWorkerGone}) // will not be sent again
	const want = `
jobs_failed_total{class=retryable,priority=normal,queue=q,type=t} 1
jobs_outcomes_total{outcome=cancelled,priority=normal,queue=q,type=t} 1
jobs_outcomes_total{outcome=completed,priority=normal,queue=q,type=t} 1
jobs_outcomes_total{outcome=lease_lost,priority=normal,queue=q,type=t} 3
jobs_outcomes_total{outcome=retried,priority=normal,queue=q,type=t} 1
jobs_processed_total{priority=normal,queue=q,type=t} 1
jobs_retried_total{priority=normal,queue=q,type=t} 1
`
	if got := lines(values(t, m.registry), func(s string) bool { return strings.Contains(s, "_total{") }); got != want {
		t.Errorf("outcomes:\n%s", difference(got, want))
	}
}

func TestMetricsValues_NeighboursInABatchThatDifferInOneLabelAreCountedApart(t *testing.T) {
	t.Parallel()
	m := newMeasured(t, MetricsConfig{Keys: 2})
	list := []broker.Job{
		{Queue: "q", Body: broker.Body{Type: "t", Key: "a"}},
		{Queue: "q", Body: broker.Body{Type: "t", Key: "a"}},
		{Queue: "q", Body: broker.Body{Type: "t", Key: "b"}},
		{Queue: "r", Body: broker.Body{Type: "t", Key: "b"}},
		{Queue: "r", Body: broker.Body{Type: "u", Key: "b"}},
		{Queue: "r", Body: broker.Body{Type: "u", Key: "b", Priority: broker.PriorityUrgent}},
	}
	var items []broker.Settlement
	for i := range list {
		items = append(items, broker.Settlement{Job: &list[i], Outcome: broker.Complete(nil)})
	}
	m.metrics.Hooks().Claim(jobs.ClaimEvent{Jobs: list})
	m.metrics.Hooks().Settle(jobs.SettleEvent{Items: items, Verdicts: make([]broker.Verdict, len(items))})
	const want = `
jobs_claimed_total{key=a,priority=normal,queue=q,type=t} 2
jobs_claimed_total{key=b,priority=normal,queue=q,type=t} 1
jobs_claimed_total{key=b,priority=normal,queue=r,type=t} 1
jobs_claimed_total{key=b,priority=normal,queue=r,type=u} 1
jobs_claimed_total{key=b,priority=urgent,queue=r,type=u} 1
jobs_processed_total{key=a,priority=normal,queue=q,type=t} 2
jobs_processed_total{key=b,priority=normal,queue=q,type=t} 1
jobs_processed_total{key=b,priority=normal,queue=r,type=t} 1
jobs_processed_total{key=b,priority=normal,queue=r,type=u} 1
jobs_processed_total{key=b,priority=urgent,queue=r,type=u} 1
`
	got := lines(values(t, m.registry), func(s string) bool {
		return strings.HasPrefix(s, "jobs_claimed") || strings.HasPrefix(s, "jobs_processed_total")
	})
	if got != want {
		t.Errorf("jobs of a batch:\n%s", difference(got, want))
	}
}

func TestMetricsValues_EveryOutcomeHasItsName(t *testing.T) {
	t.Parallel()
	f := broker.Failure{Class: "c", Message: "m"}
	for _, c := range []struct {
		outcome broker.Outcome
		state   broker.State
		want    string
	}{
		{broker.Complete(nil), broker.StateCompleted, "completed"},
		{broker.Retry(0, f), broker.StateRetry, "retried"},
		{broker.Retry(0, f), broker.StateCancelled, "cancelled"}, // a client asked to cancel it
		{broker.Die(broker.ReasonRetries, f), broker.StateDead, "dead"},
		{broker.Die(broker.ReasonSkipRetry, f), broker.StateDead, "dead"},
		{broker.Die(broker.ReasonUnknownType, f), broker.StateDead, "dead"},
		{broker.Die(broker.ReasonUndecodable, f), broker.StateDead, "dead"},
		{broker.Die(broker.ReasonExpired, f), broker.StateDead, "expired"},
		{broker.Die(broker.ReasonCrashes, f), broker.StateDead, "crashed"},
		{broker.Crash(0, f), broker.StatePending, "crashed"},
		{broker.Snooze(0, f), broker.StateRetry, "snoozed"},
		{broker.Release(), broker.StatePending, "released"},
		{broker.Cancel(f), broker.StateCancelled, "cancelled"},
	} {
		if got := settledAs(c.outcome, &broker.Verdict{State: c.state}); got != c.want {
			t.Errorf("%v, which led to %v, is called %s; want %s", c.outcome.Kind(), c.state, got, c.want)
		}
	}
}
