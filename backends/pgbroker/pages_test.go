package pgbroker_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/seed81422ce9/jobs/broker"
)

// A job that matches all the time is shown once, also if many have the same time and the one
// at the end of a page is gone when the next page is read.
func TestFind_PagesOfEqualTimesWhoseCursorVanishes(t *testing.T) {
	t.Parallel()
	const n = 7
	now := time.Now().Truncate(time.Second)
	due := func(j *broker.NewJob) { j.RunAt = now.Add(time.Hour) }
	keyed := func(j *broker.NewJob) { j.Body.Key = "k" }
	settled := func(o broker.Outcome) func(*fixture) {
		return func(f *fixture) {
			held := f.claim(n, 0)
			req := broker.SettleRequest{Now: now, Worker: testWorker, Number: 1}
			for i := range held {
				req.Items = append(req.Items, broker.Settlement{Job: &held[i], Outcome: o})
			}
			_, err := f.Settle(t.Context(), req)
			f.ok(err)
		}
	}
	no := broker.Failure{Message: "no"}
	for name, c := range map[string]struct {
		query  broker.Query
		change func(*broker.NewJob)
		do     func(*fixture)
	}{
		"pending":   {query: broker.Query{State: broker.StatePending}},
		"scheduled": {query: broker.Query{State: broker.StateScheduled}, change: due},
		"retry":     {query: broker.Query{State: broker.StateRetry}, do: settled(broker.Retry(time.Hour, no))},
		"dead":      {query: broker.Query{State: broker.StateDead}, do: settled(broker.Die(broker.ReasonRetries, no))},
		"completed": {query: broker.Query{State: broker.StateCompleted}, change: keptFor(time.Hour), do: settled(broker.Complete(nil))},
		"cancelled": {query: broker.Query{State: broker.StateCancelled}, change: keptFor(time.Hour), do: settled(broker.Cancel(no))},
		"active":    {query: broker.Query{State: broker.StateActive}, do: func(f *fixture) { f.claim(n, 0) }},
		"worker":    {query: broker.Query{Worker: testWorker}, do: func(f *fixture) { f.claim(n, 0) }},
		"key":       {query: broker.Query{Key: "k"}, change: keyed},
		"dead, key": {query: broker.Query{Key: "k"}, change: keyed, do: settled(broker.Die(broker.ReasonRetries, no))},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t)
			var changes []func(*broker.NewJob)
			if c.change != nil {
				changes = append(changes, c.change)
			}
			receipts, err := f.Enqueue(t.Context(), broker.EnqueueRequest{Now: now, Jobs: series("j", n, changes...)})
			f.ok(err)
			for _, r := range receipts {
				f.ok(r.Err)
			}
			if c.do != nil {
				c.do(f)
			}
			shown := make(map[string]int)
			q := c.query
			q.Queue, q.Limit = testQueue, 2
			for {
				page, err := f.Find(t.Context(), q)
				f.ok(err)
				for _, j := range page.Jobs {
					shown[j.ID]++
				}
				if q.Cursor = page.Cursor; q.Cursor == "" {
					break
				}
				last := page.Jobs[len(page.Jobs)-1]
				for _, table := range []string{"job", "dead", "history"} {
					f.exec("delete from jobs."+table+" where id = $1", last.ID)
				}
			}
			for i := range n {
				if id := fmt.Sprintf("j%07d", i); shown[id] != 1 {
					t.Errorf("job %s was shown %d times, want once", id, shown[id])
				}
			}
		})
	}
}

// Jobs whose state changes between two pages of a key stay where they are in the listing, or move to its end.
func TestFind_PagesOfAKeyWhoseJobsChangeTheirState(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	now := time.Now().Truncate(time.Second)
	receipts, err := f.Enqueue(t.Context(), broker.EnqueueRequest{Now: now,
		Jobs: series("j", 6, func(j *broker.NewJob) { j.Body.Key = "k" }, keptFor(time.Hour))})
	f.ok(errors.Join(err, receipts[0].Err))
	held := f.claim(6, 0)
	shown := make(map[string]bool)
	q := broker.Query{Queue: testQueue, Key: "k", Now: now, Limit: 1}
	for first := true; first || q.Cursor != ""; first = false {
		page, err := f.Find(t.Context(), q)
		f.ok(err)
		for _, j := range page.Jobs {
			shown[j.ID] = true
		}
		if q.Cursor = page.Cursor; !first {
			continue
		}
		req := broker.SettleRequest{Now: now, Worker: testWorker, Number: 1}
		no := broker.Failure{Message: "no"}
		for i, o := range []broker.Outcome{broker.Snooze(time.Hour, no), broker.Snooze(time.Hour, no), broker.Retry(time.Hour, no),
			broker.Complete(nil), broker.Die(broker.ReasonRetries, no)} {
			req.Items = append(req.Items, broker.Settlement{Job: &held[i], Outcome: o})
		}
		_, err = f.Settle(t.Context(), req)
		f.ok(err)
	}
	for _, j := range held {
		if !shown[j.ID] {
			t.Errorf("job %s was not shown: the pages had %v", j.ID, shown)
		}
	}
}

// A claim that is under way when its worker is ended leases nothing, neither pending jobs nor
// due ones: whatever ended the worker has already listed its jobs.
func TestClaim_LateClaimOfAnEndedWorker(t *testing.T) {
	t.Parallel()
	now := time.Now()
	for name, change := range map[string]func(*broker.NewJob){
		"pending": func(*broker.NewJob) {},
		"due":     func(j *broker.NewJob) { j.Delay = time.Minute },
	} {
		for when, wait := range map[string]bool{"after": false, "during": true} {
			t.Run(name+" "+when, func(t *testing.T) {
				t.Parallel()
				f := newFixture(t)
				claim := func(at time.Time) (broker.Claimed, error) {
					return f.Claim(t.Context(), broker.ClaimRequest{Now: at, Worker: testWorker, Max: 10,
						Queues: []broker.Share{{Queue: testQueue, Max: 10}}})
				}
				receipts, err := f.Enqueue(t.Context(), broker.EnqueueRequest{Now: now.Add(time.Second),
					Jobs: series("d", 3, func(j *broker.NewJob) { j.Delay = time.Minute })})
				f.ok(errors.Join(err, receipts[0].Err))
				if name == "due" {
					_, err = claim(now) // so that the process knows when jobs fall due, and asks for them
					f.ok(err)
				}
				f.exec("delete from jobs.job")
				receipts, err = f.Enqueue(t.Context(), broker.EnqueueRequest{Now: now, Jobs: series("j", 3, change)})
				f.ok(errors.Join(err, receipts[0].Err))

				tx := f.begin(pgx.TxOptions{})
				_, err = tx.Exec(t.Context(), f.in("select from jobs.worker for update"))
				f.ok(err)
				_, err = tx.Exec(t.Context(), f.in("update jobs.worker set ended_at = 1"))
				f.ok(err)
				if !wait {
					f.ok(tx.Commit(t.Context()))
				}
				done := make(chan struct{})
				var got broker.Claimed
				go func() {
					defer close(done)
					got, err = claim(now.Add(time.Hour))
				}()
				if wait {
					f.awaitLockWait()
					f.ok(tx.Commit(t.Context()))
				}
				<-done
				if len(got.Jobs) != 0 || err != nil && !errors.Is(err, broker.ErrWorkerGone) {
					t.Errorf("a claim of a worker that was ended got %v, %v; want no jobs", names(got.Jobs), err)
				}
				if n := f.ask("select count(*) from jobs.job where worker is not null"); n != 0 {
					t.Errorf("%d jobs are leased to a worker that was ended", n)
				}
			})
		}
	}
}

// One call for several queues does in each of them what it does in one.
func TestPages_SeveralQueuesInOneCall(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	queues := []string{"b", "a", "c"}
	const each = 4
	register := func(worker string, now time.Time) {
		got, err := f.Renew(t.Context(), broker.RenewRequest{Now: now, Worker: worker, Queues: queues, Lease: time.Hour, Register: true})
		f.ok(err)
		if got.Lost {
			t.Fatalf("worker %s was not registered in all queues", worker)
		}
	}
	register("w", time.Time{})
	var jobs []broker.NewJob
	for i := range each * len(queues) {
		jobs = append(jobs, aJob(fmt.Sprintf("j%02d", i), keptFor(time.Minute), func(j *broker.NewJob) { j.Queue = queues[i%len(queues)] }))
	}
	f.store(f, jobs...)
	var shares []broker.Share
	for _, q := range queues {
		shares = append(shares, broker.Share{Queue: q, Max: each})
	}
	got, err := f.Claim(t.Context(), broker.ClaimRequest{Worker: "w", Max: each*len(queues) - 1, Queues: shares})
	f.ok(err)
	if n := len(got.Jobs); n != each*len(queues)-1 || !got.More {
		t.Fatalf("a claim over three queues got %d jobs, more: %v; want its Max and more", n, got.More)
	}
	for i, j := range got.Jobs {
		if j.Queue != queues[i/each] {
			t.Errorf("job %d of the claim is of queue %q, want the order of its shares", i, j.Queue)
		}
	}
	renewed, err := f.Renew(t.Context(), broker.RenewRequest{Worker: "w", Queues: queues, Lease: time.Hour})
	f.ok(err)
	if renewed.Held["a"] != each || renewed.Held["b"] != each || renewed.Held["c"] != each-1 {
		t.Errorf("the store counts leases %v", renewed.Held)
	}
	// One job of each queue ends, by one settle that travels with a claim of the last job.
	var ends []broker.Settlement
	for i := range queues {
		ends = append(ends, broker.Settlement{Job: &got.Jobs[i*each], Outcome: broker.Complete(nil)})
	}
	next, err := f.Claim(t.Context(), broker.ClaimRequest{Worker: "w", Max: 10, Queues: shares,
		Settle: broker.SettleRequest{Worker: "w", Number: 1, Items: ends}})
	f.ok(errors.Join(err, next.SettleErr))
	for _, v := range next.Verdicts {
		if v.Err != nil || v.State != broker.StateCompleted {
			t.Errorf("job %s of queue %s was settled %v, %v; want completed", v.ID, v.Queue, v.State, v.Err)
		}
	}
	if len(next.Jobs) != 1 || len(next.Verdicts) != len(queues) {
		t.Fatalf("claimed %v with %d verdicts; want the last job, and a verdict for each queue", names(next.Jobs), len(next.Verdicts))
	}
	// The leases of the worker run out: another one takes over its jobs in all queues and is
	// retired, and then they are pending in all of them.
	later := time.Now().Add(2 * time.Hour)
	register("heir", later)
	reclaimed, err := f.Reclaim(t.Context(), broker.ReclaimRequest{Now: later, Worker: "heir", Queues: queues, Max: 100})
	f.ok(err)
	of := make(map[string]int)
	for _, j := range reclaimed.Jobs {
		of[j.Queue]++
	}
	if of["a"] != each-1 || of["b"] != each-1 || of["c"] != each-1 || reclaimed.More {
		t.Errorf("reclaimed %v, more: %v; want %d of each queue and no more", of, reclaimed.More, each-1)
	}
	retired, err := f.Retire(t.Context(), broker.RetireRequest{Now: later, Worker: "heir", Queues: queues})
	f.ok(err)
	if len(retired.Released) != (each-1)*len(queues) {
		t.Errorf("%d jobs were released, want %d", len(retired.Released), (each-1)*len(queues))
	}
	pruned, err := f.Prune(t.Context(), broker.PruneRequest{Now: later, Queues: queues, Max: 100})
	f.ok(err)
	if pruned.Completed != len(queues) {
		t.Errorf("%d records were pruned, want one of each queue", pruned.Completed)
	}
	reply, err := f.Queues(t.Context(), broker.QueuesRequest{Names: queues})
	f.ok(err)
	for _, q := range reply.Queues {
		if q.Counts[broker.StatePending] != each-1 || q.Counts[broker.StateActive] != 0 || q.Counts[broker.StateCompleted] != 0 {
			t.Errorf("queue %s counts %v at the end, want %d pending jobs alone", q.Name, q.Counts, each-1)
		}
	}
}

// A claim that got as many jobs as it may, in all or of a queue, says that there may be more.
func TestClaim_SaysThatThereIsMore(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	queues := []string{"a", "b"}
	_, err := f.Renew(t.Context(), broker.RenewRequest{Worker: "w", Queues: queues, Lease: time.Hour, Register: true})
	f.ok(err)
	for _, q := range queues {
		f.store(f, series(q, 2, func(j *broker.NewJob) { j.Queue = q })...)
	}
	for n, c := range []struct {
		max, share, jobs int
		more             bool
	}{
		{2, 3, 2, true},  // as many as it may in all
		{9, 1, 1, true},  // as many as it may of a queue
		{9, 3, 1, false}, // what was left
		{9, 3, 0, false},
	} {
		got, err := f.Claim(t.Context(), broker.ClaimRequest{Worker: "w", Max: c.max,
			Queues: []broker.Share{{Queue: "a", Max: c.share}, {Queue: "b", Max: c.share}}})
		f.ok(err)
		if len(got.Jobs) != c.jobs || got.More != c.more {
			t.Errorf("claim %d, of %d jobs and %d of each queue, got %v, more: %v; want %d jobs, more: %v", n, c.max, c.share, names(got.Jobs),
				got.More, c.jobs, c.more)
		}
	}
}
