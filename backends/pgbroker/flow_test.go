package pgbroker_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/seed81422ce9/jobs/broker"
)

func ofKey(key string) func(*broker.NewJob) { return func(j *broker.NewJob) { j.Body.Key = key } }

func (f *fixture) policy(req broker.PolicyRequest) broker.Policy {
	f.t.Helper()
	req.Queue = testQueue
	p, err := f.Policy(f.t.Context(), req)
	f.ok(err)
	return p
}

func (f *fixture) wants(what string, got []broker.Job, ids ...string) {
	f.t.Helper()
	if !slices.Equal(names(got), ids) {
		f.t.Errorf("%s: claimed %v, want %v", what, names(got), ids)
	}
}

func TestFlow_KeysTakeTurns(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	for i := range 4 {
		f.store(f, aJob(fmt.Sprintf("a%d", i), ofKey("a"), fresh))
	}
	f.store(f, aJob("b0", ofKey("b")), aJob("b1", ofKey("b")), aJob("c0", ofKey("c")), aJob("n0", fresh), aJob("n1"))
	f.wants("one turn of each", f.claim(4, 0), "a0", "b0", "c0", "n0")
	f.wants("and the next ones", f.claim(10, 0), "a1", "b1", "n1", "a2", "a3")
	f.wants("nothing is left", f.claim(10, 0))
	if n := f.ask("select count(*) from jobs.key") + f.ask("select count(*) from jobs.call"); n != 0 {
		t.Errorf("%d rows of keys are left that have nothing pending", n)
	}
}

func TestFlow_WeightsGiveMoreTurns(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.policy(broker.PolicyRequest{Key: "heavy", Weight: new(int64(3))})
	f.store(f, series("h", 40, ofKey("heavy"))...)
	f.store(f, series("l", 40, ofKey("light"))...)
	heavy := 0
	for range 20 {
		if strings.HasPrefix(f.claim(1, 0)[0].ID, "h") {
			heavy++
		}
	}
	if heavy < 14 || heavy > 16 {
		t.Errorf("of 20 jobs %d were of the key of weight 3, want 15", heavy)
	}
}

func TestFlow_LimitsOfKeysHold(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.policy(broker.PolicyRequest{KeyMaxActive: new(int64(2))})
	f.policy(broker.PolicyRequest{Key: "b", MaxActive: new(int64(1))})
	f.store(f, series("a", 4, ofKey("a"))...)
	f.store(f, series("b", 4, ofKey("b"))...)
	first := f.claim(10, 0)
	f.wants("within the limits", first, "a0000000", "b0000000", "a0000001")
	f.wants("all are at their limits", f.claim(10, 0))
	f.settle(first[1:2], broker.Complete(nil))
	f.wants("one ended", f.claim(10, 0), "b0000001")
	f.policy(broker.PolicyRequest{Key: "b", MaxActive: new(int64(broker.NoLimit))})
	f.wants("its limit was removed", f.claim(10, 0), "b0000002")
	f.policy(broker.PolicyRequest{KeyMaxActive: new(int64(3))})
	f.wants("the limit was raised", f.claim(10, 0), "a0000002", "b0000003")
	f.policy(broker.PolicyRequest{Key: "a", Paused: new(true)})
	f.settle(first[:1], broker.Complete(nil))
	f.wants("the key is paused", f.claim(10, 0))
	f.policy(broker.PolicyRequest{Key: "a", Paused: new(false)})
	f.wants("it was resumed", f.claim(10, 0), "a0000003")
}

func TestFlow_LimitsOfTheQueueHold(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.policy(broker.PolicyRequest{MaxActive: new(int64(3))})
	f.store(f, series("n", 4)...)
	f.store(f, series("a", 4, ofKey("a"))...)
	first := f.claim(10, 0)
	f.wants("within the limit", first, "a0000000", "n0000000", "a0000001")
	f.wants("at the limit", f.claim(10, 0))
	f.settle(first[:2], broker.Complete(nil))
	f.wants("two ended", f.claim(10, 0), "n0000001", "a0000002")
}

func TestFlow_RatesOfQueuesAndKeysHold(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	now := time.Now().Truncate(time.Microsecond)
	claim := func(after time.Duration) broker.Claimed {
		t.Helper()
		got, err := f.Claim(t.Context(), broker.ClaimRequest{Now: now.Add(after), Worker: testWorker, Max: 10,
			Queues: []broker.Share{{Queue: testQueue, Max: 10}}})
		f.ok(err)
		return got
	}
	f.policy(broker.PolicyRequest{Rate: &broker.Rate{Jobs: 2, Per: time.Second, Burst: 1}})
	f.store(f, series("n", 20)...)
	f.store(f, series("a", 20, ofKey("a"))...)
	got := claim(0)
	f.wants("what is saved up", got.Jobs, "a0000000", "n0000000")
	if want := now.Add(500 * time.Millisecond); !got.NextDue.Equal(want) || got.More {
		t.Errorf("NextDue %v, More %v; want %v, false", got.NextDue, got.More, want)
	}
	f.wants("too early", claim(500*time.Millisecond-1).Jobs)
	f.wants("in time", claim(500*time.Millisecond).Jobs, "a0000001")
	f.policy(broker.PolicyRequest{Rate: &broker.Rate{Jobs: broker.NoLimit}, KeyRate: &broker.Rate{Jobs: 1, Per: time.Second}})
	f.policy(broker.PolicyRequest{Key: "b", Rate: &broker.Rate{Jobs: 2, Per: time.Second, Burst: 1}})
	f.store(f, series("b", 20, ofKey("b"))...)
	f.decideAll(broker.OpDelete, "n")
	got = claim(time.Second)
	f.wants("of each key", got.Jobs, "a0000002", "b0000000", "b0000001")
	if want := now.Add(1500 * time.Millisecond); !got.NextDue.Equal(want) || got.More {
		t.Errorf("NextDue %v, More %v; want %v, false", got.NextDue.Sub(now), got.More, want.Sub(now))
	}
	f.wants("of the quicker key", claim(1500*time.Millisecond).Jobs, "b0000002")
	f.wants("of both", claim(2*time.Second).Jobs, "a0000003", "b0000003")
}

// decideAll applies an operation to the pending jobs whose IDs begin with prefix.
func (f *fixture) decideAll(kind broker.OperationKind, prefix string) {
	f.t.Helper()
	page, err := f.Find(f.t.Context(), broker.Query{Queue: testQueue, State: broker.StatePending, Limit: 1000})
	f.ok(err)
	op := broker.Operation{Kind: kind}
	for _, j := range page.Jobs {
		if strings.HasPrefix(j.ID, prefix) {
			op.Refs = append(op.Refs, j.Ref())
		}
	}
	results, err := f.Operate(f.t.Context(), op)
	f.ok(err)
	for _, r := range results {
		f.ok(r.Err)
	}
}

func TestFlow_OrderedKeysGoOneAfterTheOther(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.policy(broker.PolicyRequest{Ordered: new(broker.OrderStop)})
	f.store(f, series("a", 3, ofKey("a"))...)
	f.store(f, series("b", 2, ofKey("b"))...)
	got := f.claim(10, 0)
	f.wants("the heads", got, "a0000000", "b0000000")
	f.settle(got[:1], broker.Retry(time.Hour, broker.Failure{Message: "no"}))
	f.wants("a head in retry keeps its key back", f.claim(10, 0))
	f.settle(got[1:], broker.Die(broker.ReasonSkipRetry, broker.Failure{Message: "no"}))
	f.wants("and so does a dead one", f.claim(10, 0))
	reply, err := f.Keys(t.Context(), broker.KeysRequest{Queue: testQueue})
	f.ok(err)
	if len(reply.Keys) != 2 || reply.Keys[0].Head != "a0000000" || reply.Keys[1].Head != "b0000000" ||
		reply.Keys[1].Block != broker.BlockOrder {
		t.Errorf("Keys: %+v", reply.Keys)
	}
	results, err := f.Operate(t.Context(), broker.Operation{Kind: broker.OpReschedule,
		Refs: []broker.Ref{{Queue: testQueue, ID: "a0000000", Epoch: broker.AnyEpoch}}})
	f.ok(errors.Join(err, results[0].Err))
	results, err = f.Operate(t.Context(), broker.Operation{Kind: broker.OpRedrive,
		Refs: []broker.Ref{{Queue: testQueue, ID: "b0000000", Epoch: broker.AnyEpoch}}})
	f.ok(errors.Join(err, results[0].Err))
	got = f.claim(10, 0)
	f.wants("they are the first of their keys", got, "a0000000", "b0000000")
	f.settle(got, broker.Complete(nil))
	got = f.claim(10, 0)
	f.wants("the next ones", got, "a0000001", "b0000001")
	f.settle(got[:1], broker.Die(broker.ReasonSkipRetry, broker.Failure{Message: "no"}))
	f.policy(broker.PolicyRequest{Ordered: new(broker.OrderSkip)})
	f.wants("a dead one is skipped", f.claim(10, 0), "a0000002")
}

// With concurrent workers on few keys, none waits for ever, no key has more active jobs than
// it may, and no job is lost.
func TestFlow_NoLimitIsExceededByManyAtOnce(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	const keys, each, most, workers = 5, 60, 2, 8
	f.policy(broker.PolicyRequest{KeyMaxActive: new(int64(most)), MaxActive: new(int64(keys*most - 2))})
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	var mu sync.Mutex
	active, done, total := make(map[string]int), 0, 0
	var group sync.WaitGroup
	group.Go(func() {
		for i := range each {
			var jobs []broker.NewJob
			for k := range keys {
				jobs = append(jobs, aJob(fmt.Sprintf("k%d-%03d", k, i), ofKey(fmt.Sprintf("k%d", k)), fresh))
			}
			f.store(f, jobs...)
		}
	})
	for w := range workers {
		worker := fmt.Sprintf("worker%d", w)
		f.register(worker)
		group.Go(func() {
			number := int64(0)
			for ctx.Err() == nil {
				mu.Lock()
				over := done == keys*each
				mu.Unlock()
				if over {
					return
				}
				got, err := f.Claim(ctx, broker.ClaimRequest{Worker: worker, Max: 3, Wait: 50 * time.Millisecond,
					Queues: []broker.Share{{Queue: testQueue, Max: 3}}})
				if err != nil {
					t.Errorf("claim: %v", err)
					return
				}
				mu.Lock()
				for _, j := range got.Jobs {
					active[j.Key]++
					total++
					if active[j.Key] > most {
						t.Errorf("%d jobs of %s are active, want at most %d", active[j.Key], j.Key, most)
					}
				}
				if total > keys*most-2 {
					t.Errorf("%d jobs are active, want at most %d", total, keys*most-2)
				}
				mu.Unlock()
				if len(got.Jobs) == 0 {
					continue
				}
				number++
				req := broker.SettleRequest{Worker: worker, Number: number}
				mu.Lock()
				for i := range got.Jobs {
					active[got.Jobs[i].Key]-- // before another job can start
					total--
					req.Items = append(req.Items, broker.Settlement{Job: &got.Jobs[i], Outcome: broker.Complete(nil)})
				}
				done += len(got.Jobs)
				mu.Unlock()
				if _, err := f.Settle(ctx, req); err != nil {
					t.Errorf("settle: %v", err)
					return
				}
			}
		})
	}
	group.Wait()
	if done != keys*each {
		t.Errorf("%d jobs were done, want %d: %v", done, keys*each, f.content())
	}
	if n := f.ask("select count(*) from jobs.key") + f.ask("select count(*) from jobs.call"); n != 0 {
		f.claim(10, 0)
		t.Logf("%d rows were left of keys that have nothing pending", n)
	}
}

// A job of a caller's transaction is served when the transaction commits, and blocks no job of
// its key before.
func TestFlow_ATransactionHoldsUpNoKey(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.policy(broker.PolicyRequest{KeyMaxActive: new(int64(5))})
	f.store(f, aJob("before", ofKey("a")))
	tx := f.begin(pgx.TxOptions{})
	f.store(f.Tx(tx), aJob("inside", ofKey("a")), aJob("another", ofKey("b")))
	f.store(f, aJob("beside", ofKey("a")))
	got := f.claim(10, 0)
	f.wants("beside the open transaction", got, "before", "beside")
	f.settle(got, broker.Complete(nil))
	f.wants("nothing is left", f.claim(10, 0))
	f.ok(tx.Commit(t.Context()))
	f.wants("after the commit", f.claim(10, 0), "inside", "another")
}

// The cost of a claim does not grow with the jobs that a reached limit blocks.
func TestFlow_KeysAtTheirLimitsAreNotLookedAt(t *testing.T) {
	t.Parallel()
	sent := new(statements)
	f := newFixture(t, sent.hook)
	f.policy(broker.PolicyRequest{KeyMaxActive: new(int64(1))})
	const keys = 3000
	var jobs []broker.NewJob
	for i := range keys {
		key := ofKey(fmt.Sprintf("k%04d", i))
		jobs = append(jobs, aJob(fmt.Sprintf("a%04d", i), key, fresh), aJob(fmt.Sprintf("b%04d", i), key, fresh))
	}
	f.store(f, jobs...)
	for left := keys; left > 0; {
		got := f.claim(1000, 0)
		if left -= len(got); len(got) == 0 {
			t.Fatalf("%d jobs that may start were not claimed", left)
		}
	}
	f.wants("all keys are at their limits", f.claim(10, 0))
	sent.sends(t, "a claim from a queue whose keys are at their limits", 1, 3, func() { f.claim(10, 0) })
	conn, err := f.direct.Acquire(t.Context())
	f.ok(err)
	defer conn.Release()
	if n := f.ask("select count(*) from jobs.key where blocked is not null and pass is null"); n != keys {
		t.Errorf("%d keys are kept back, want %d", n, keys)
	}
}

func TestFlow_AQueueThatGetsLimitsKeepsItsTurn(t *testing.T) {
	t.Parallel()
	for name, key := range map[string]string{"with keys": "k", "without": ""} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t)
			ctx, queues := t.Context(), []string{"first", "second"}
			_, err := f.Renew(ctx, broker.RenewRequest{Worker: testWorker, Queues: queues, Lease: time.Minute, Register: true})
			f.ok(err)
			for _, q := range queues {
				_, err := f.Policy(ctx, broker.PolicyRequest{Queue: q, Rate: &broker.Rate{Jobs: 100, Per: time.Second, Burst: 100}})
				f.ok(err)
				f.store(f, aJob(q+"1", ofKey(key), func(j *broker.NewJob) { j.Queue = q }),
					aJob(q+"2", ofKey(key), func(j *broker.NewJob) { j.Queue = q }))
			}
			if key != "" {
				_, err := f.Policy(ctx, broker.PolicyRequest{Queue: "first", Rate: &broker.Rate{Jobs: broker.NoLimit}})
				f.ok(err)
			}
			claim := func() []broker.Job {
				t.Helper()
				got, err := f.Claim(ctx, broker.ClaimRequest{Worker: testWorker, Max: 1,
					Queues: []broker.Share{{Queue: "first", Max: 1}, {Queue: "second", Max: 1}}})
				f.ok(err)
				return got.Jobs
			}
			f.wants("before", claim(), "first1")
			if key == "" {
				f.store(f, aJob("keyed", ofKey("k"), func(j *broker.NewJob) { j.Queue = "first" }))
			} else {
				_, err := f.Policy(ctx, broker.PolicyRequest{Queue: "first", MaxActive: new(int64(5))})
				f.ok(err)
			}
			if id := claim()[0].Queue; id != "first" {
				t.Errorf("a claim served queue %q before the first one, which is served in another way since", id)
			}
		})
	}
}

func TestFlow_SaysMoreOfAQueueWithLimitsThatItHadNoRoomFor(t *testing.T) {
	t.Parallel()
	for name, bound := range map[string]broker.ClaimRequest{"bytes": {Max: 5, Bytes: 1}, "jobs": {Max: 1}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t)
			keyed, limited := aJob("keyed", ofKey("a")), aJob("limited")
			keyed.Queue, limited.Queue = "keyed", "limited"
			f.store(f, keyed, limited)
			_, err := f.Policy(t.Context(), broker.PolicyRequest{Queue: "limited", MaxActive: new(int64(5))})
			f.ok(err)
			_, err = f.Renew(t.Context(), broker.RenewRequest{Worker: "w", Queues: []string{"keyed", "limited"}, Lease: time.Hour, Register: true})
			f.ok(err)
			bound.Worker, bound.Queues = "w", []broker.Share{{Queue: "keyed", Max: 2}, {Queue: "limited", Max: 2}}
			got, err := f.Claim(t.Context(), bound)
			f.ok(err)
			f.wants("no room for the other queue", got.Jobs, "keyed")
			if !got.More {
				t.Error("it says no More, want it for the queue with limits")
			}
		})
	}
}
