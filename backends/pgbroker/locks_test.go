package pgbroker_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/seed81422ce9/jobs/broker"
)

// Calls that wait for several rows take them in one order (see the package comment), whatever
// order their callers name the queues in. Each pair would deadlock if one of them began at the
// other end, since each waits before the other has all that it needs.
func TestLocks_AreTakenInOneOrder(t *testing.T) {
	t.Parallel()
	limited := func(f *fixture) {
		for _, q := range []string{"one", "two"} {
			_, err := f.Policy(f.t.Context(), broker.PolicyRequest{Queue: q, Rate: &broker.Rate{Jobs: 1000, Per: time.Second}})
			f.ok(err)
		}
		f.ok(f.claimFrom("one", "two")) // so that the process knows how claims serve them
	}
	keyed := func(f *fixture) {
		for _, q := range []string{"one", "two"} {
			f.store(f, aJob("job", func(j *broker.NewJob) { j.Queue, j.Body.Key = q, "k" }))
		}
		f.ok(f.claimFrom("one", "two"))
	}
	forward := func(f *fixture) error { return f.claimFrom("one", "two") }
	backward := func(f *fixture) error { return f.claimFrom("two", "one") }
	retire := func(f *fixture) error {
		_, err := f.Retire(f.t.Context(), broker.RetireRequest{Worker: testWorker, Queues: []string{"two", "one"}})
		return err
	}
	const worker = "select from jobs.worker where queue = (select id from jobs.queue where name = 'one') for update"
	for _, c := range []struct {
		name          string
		prepare       func(*fixture)
		hold          string
		first, second func(*fixture) error
	}{
		{"limits", limited, "select from jobs.limiter where queue = (select id from jobs.queue where name = 'one') for update", forward,
			backward},
		{"a retire and a claim", func(*fixture) {}, worker, retire, backward},
		{"a retire and a claim with limits", limited, worker, retire, backward},
		{"a retire and a claim with keys", keyed, worker, retire, backward},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t)
			_, err := f.Renew(t.Context(), broker.RenewRequest{Worker: testWorker, Queues: []string{"one", "two"}, Lease: time.Hour, Register: true})
			f.ok(err)
			c.prepare(f)
			tx := f.begin(pgx.TxOptions{})
			_, err = tx.Exec(t.Context(), f.in(c.hold))
			f.ok(err)
			done := make(chan error, 2)
			for i, call := range []func(*fixture) error{c.first, c.second} {
				go func() { done <- call(f) }()
				for f.lockWaits() <= int64(i) && len(done) == 0 {
				}
			}
			f.ok(tx.Rollback(t.Context()))
			for range 2 {
				if err := <-done; err != nil && !errors.Is(err, broker.ErrWorkerGone) {
					t.Error(err)
				}
			}
		})
	}
}

// Claims of several queues may make keys of these queues in opposite orders. Here each has made the key a in its first
// queue, and waits in another one, when the key is called again.
func TestLocks_ClaimsOfSeveralQueuesMakeKeys(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	all := []string{"one", "two", "three", "four"}
	_, err := f.Renew(t.Context(), broker.RenewRequest{Worker: testWorker, Queues: all, Lease: time.Hour, Register: true})
	f.ok(err)
	store := func(call int, key string, queues ...string) {
		for _, q := range queues {
			f.store(f, aJob(fmt.Sprint("job", call, q), func(j *broker.NewJob) { j.Queue, j.Body.Key = q, key }))
		}
	}
	store(1, "k", all...)
	f.ok(f.claimFrom(all...)) // so that the process knows how claims serve them
	store(2, "a", "one", "two")
	store(3, "z", "three", "four")
	tx := f.begin(pgx.TxOptions{})
	_, err = tx.Exec(t.Context(), f.in("insert into jobs.key (queue, name) select id, 'z' from jobs.queue where name in ('three', 'four')"))
	f.ok(err)
	done := make(chan error, 2)
	for i, queues := range [][]string{{"one", "three", "two"}, {"two", "four", "one"}} {
		go func() { done <- f.claimFrom(queues...) }()
		for f.lockWaits() <= int64(i) && len(done) == 0 {
		}
	}
	store(4, "a", "one", "two")
	f.ok(tx.Rollback(t.Context()))
	for range 2 {
		f.ok(<-done)
	}
}

// claimFrom claims from queues, in this order.
func (f *fixture) claimFrom(queues ...string) error {
	req := broker.ClaimRequest{Worker: testWorker, Max: 10}
	for _, q := range queues {
		req.Queues = append(req.Queues, broker.Share{Queue: q, Max: 10})
	}
	_, err := f.Claim(f.t.Context(), req)
	return err
}

// A claim that waited for another one answers the time at which it counted its jobs for a
// rate, not the one at which it began to wait: a caller that checks a rate by these times sees
// it kept.
func TestClaim_AnswersTheTimeAtWhichARateCountedItsJobs(t *testing.T) {
	t.Parallel()
	rate := &broker.Rate{Jobs: 1000, Per: time.Second}
	for _, c := range []struct {
		name   string
		policy broker.PolicyRequest
		hold   string
	}{
		{"of a queue", broker.PolicyRequest{Rate: rate}, "select from jobs.limiter for update"},
		{"of a queue with keys", broker.PolicyRequest{Rate: rate, KeyRate: rate}, "select from jobs.limiter for update"},
		{"of a key", broker.PolicyRequest{KeyRate: rate}, "insert into jobs.key (queue, name) select id, 'new' from jobs.queue"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t)
			c.policy.Queue = testQueue
			_, err := f.Policy(t.Context(), c.policy)
			f.ok(err)
			if c.policy.KeyRate != nil {
				f.store(f, aJob("first", func(j *broker.NewJob) { j.Body.Key = "k" }))
			}
			f.claim(1, 0) // so that the process knows how claims serve the queue
			f.store(f, aJob("job", func(j *broker.NewJob) {
				if c.policy.KeyRate != nil {
					j.Body.Key = "new"
				}
			}))
			tx := f.begin(pgx.TxOptions{})
			_, err = tx.Exec(t.Context(), f.in(c.hold))
			f.ok(err)
			answer := make(chan broker.Claimed, 1)
			go func() {
				got, err := f.Claim(t.Context(), broker.ClaimRequest{Worker: testWorker, Max: 1,
					Queues: []broker.Share{{Queue: testQueue, Max: 1}}})
				if err != nil {
					t.Error(err)
				}
				answer <- got
			}()
			f.awaitLockWait()
			released := f.ask("select (extract(epoch from statement_timestamp()) * 1000000)::bigint")
			f.ok(tx.Rollback(t.Context()))
			if got := <-answer; len(got.Jobs) != 1 || got.Now.UnixMicro() < released {
				t.Errorf("claimed %d jobs at %d, want 1 at %d or later, when it had waited", len(got.Jobs), got.Now.UnixMicro(), released)
			}
		})
	}
}
