package pgbroker_test

import (
	"testing"
	"time"

	"github.com/seed81422ce9/jobs/broker"
)

// again settles jobs of two queues in one request, each to run again.
func (f *fixture) again(number int64, delay time.Duration, jobs ...broker.Job) map[string]broker.State {
	f.t.Helper()
	req := broker.SettleRequest{Worker: testWorker, Number: number}
	for i := range jobs {
		req.Items = append(req.Items, broker.Settlement{Job: &jobs[i], Outcome: broker.Retry(delay, broker.Failure{Message: "again"})})
	}
	verdicts, err := f.Settle(f.t.Context(), req)
	f.ok(err)
	states := make(map[string]broker.State)
	for _, v := range verdicts {
		f.ok(v.Err)
		states[v.ID] = v.State
	}
	return states
}

// The statement that moves jobs which were asked to cancel, and whose outcome would not end
// them, reads only if there are some.
func TestSettleAgain_JobsThatAllLiveOnAreCancelledWhenThatWasAskedFor(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	const other = "other"
	_, err := f.Renew(t.Context(), broker.RenewRequest{Worker: testWorker, Queues: []string{other}, Lease: time.Hour, Register: true})
	f.ok(err)
	elsewhere := func(j *broker.NewJob) { j.Queue = other }
	f.store(f, series("a", 3)...)
	f.store(f, aJob("x", elsewhere), aJob("y", elsewhere))
	take := func(n int, queues ...broker.Share) []broker.Job {
		got, err := f.Claim(t.Context(), broker.ClaimRequest{Worker: testWorker, Max: n, Queues: queues})
		f.ok(err)
		if len(got.Jobs) != n {
			t.Fatalf("claimed %v, want %d jobs", names(got.Jobs), n)
		}
		return got.Jobs
	}
	both := []broker.Share{{Queue: testQueue, Max: 10}, {Queue: other, Max: 10}}
	ask := func(queue, id string) {
		_, err := f.Operate(t.Context(), broker.Operation{Kind: broker.OpCancel,
			Refs: []broker.Ref{{Queue: queue, ID: id, Epoch: broker.AnyEpoch}}})
		f.ok(err)
	}
	check := func(when string, states map[string]broker.State, cancelled ...string) {
		t.Helper()
		for id, state := range states {
			want := broker.StatePending
			for _, c := range cancelled {
				if c == id {
					want = broker.StateCancelled
				}
			}
			if state != want {
				t.Errorf("%s: %s is %v, want %v", when, id, state, want)
			}
		}
		if n := f.ask("select count(*) from jobs.job where state = 7"); n != 0 {
			t.Errorf("%s: %d cancelled jobs stay among those that live", when, n)
		}
		for _, state := range []string{"pending", "active"} {
			counted := f.ask("select (select coalesce(sum(" + state + "), 0) from jobs.count_total) + (select coalesce(sum(" + state +
				"), 0) from jobs.count_delta)")
			if n := f.ask("select count(*) from jobs.job where state = case '" + state + "' when 'active' then 3 else 1 end"); n != counted {
				t.Errorf("%s: %d jobs are counted as %s, there are %d", when, counted, state, n)
			}
		}
	}
	jobs := take(5, both...)
	check("none asked for", f.again(1, 0, jobs...))

	jobs = take(5, both...)
	ask(testQueue, "a0000001") // of the queue that is settled last, behind one with nothing to move
	check("one asked for", f.again(2, 0, jobs...), "a0000001")

	jobs = take(4, both...)
	ask(other, "x")
	check("one of the other queue", f.again(3, 0, jobs...), "x")
	if n := f.ask("select count(*) from jobs.job"); n != 3 {
		t.Errorf("%d jobs are left, want 3", n)
	}
}

// If the answer to a settle is lost and the settle repeated, its jobs run again once.
func TestSettleAgain_ASettleOfJobsThatLiveOnIsAnsweredAgain(t *testing.T) {
	t.Parallel()
	sent := new(statements)
	f := newFixture(t, sent.hook)
	f.store(f, series("a", 3)...)
	jobs := f.claim(3, 0)
	sent.sends(t, "a settle of jobs that are all retried", 1, 3, func() { f.again(7, time.Hour, jobs...) })
	for id, state := range f.again(7, time.Hour, jobs...) {
		if state != broker.StateRetry {
			t.Errorf("the repeat says that %s is %v", id, state)
		}
	}
	if n := f.ask("select sum(failures) from jobs.job where epoch = 1 and state = 4"); n != 3 {
		t.Errorf("%d failures are charged, want 3", n)
	}
	f.checkCounts()
}
