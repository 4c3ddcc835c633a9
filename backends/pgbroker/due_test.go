package pgbroker_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/seed81422ce9/jobs/broker"
)

var dueStart = time.Date(2040, 1, 1, 0, 0, 0, 0, time.UTC)

// at claims as if the time were after seconds past dueStart.
func (f *fixture) at(b broker.Broker, after, n int) []broker.Job {
	f.t.Helper()
	got, err := b.Claim(f.t.Context(), broker.ClaimRequest{Now: dueStart.Add(time.Duration(after) * time.Second), Worker: testWorker, Max: n,
		Queues: []broker.Share{{Queue: testQueue, Max: n}}})
	f.ok(err)
	if len(got.Jobs) > n {
		f.t.Errorf("a claim of at most %d jobs gave %v", n, names(got.Jobs))
	}
	return got.Jobs
}

// dueAfter is a job that is due seconds after dueStart.
func dueAfter(id string, after int, changes ...func(*broker.NewJob)) broker.NewJob {
	return aJob(id, append(changes, func(j *broker.NewJob) { j.RunAt = dueStart.Add(time.Duration(after) * time.Second) })...)
}

// plant stores jobs at dueStart, and has a claim learn when they are due.
func (f *fixture) plant(jobs ...broker.NewJob) {
	f.t.Helper()
	receipts, err := f.Enqueue(f.t.Context(), broker.EnqueueRequest{Now: dueStart, Jobs: jobs})
	f.ok(err)
	for _, r := range receipts {
		f.ok(r.Err)
	}
	f.at(f, 0, 1)
}

// If they became pending first, each would be written once more.
func TestDue_ManyDueJobsAreLeasedAsTheyAre(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.plant(series("a", 1000, func(j *broker.NewJob) { j.RunAt = dueStart.Add(time.Minute) })...)
	for i := range 10 {
		got := f.at(f, 60, 100)
		want := names(nil)
		for n := range 100 {
			want = append(want, fmt.Sprintf("a%07d", i*100+n))
		}
		if !slices.Equal(names(got), want) {
			t.Fatalf("claim %d gave %v, want %v", i, names(got), want)
		}
		counts := f.counts()
		if left := int64(900 - 100*i); counts[broker.StateScheduled] != left || counts[broker.StatePending] != 0 ||
			counts[broker.StateActive] != 1000-left {
			t.Fatalf("after claim %d: %v, want %d scheduled, none pending, and the rest active", i, counts, left)
		}
	}
	if n := f.ask("select count(*) from jobs.job where state <> 3 or run_at is not null or worker is null"); n != 0 {
		t.Errorf("%d jobs are not as leased jobs are", n)
	}
}

func TestDue_DueJobsKeepTheirOrderHoweverTheyAreLeased(t *testing.T) {
	t.Parallel()
	urgent := func(j *broker.NewJob) { j.Body.Priority = broker.PriorityUrgent }
	for name, test := range map[string]struct {
		jobs     []broker.NewJob
		pending  bool // there is a pending job from the start
		paused   bool
		want     []string
		together int // how many a claim takes
	}{
		"by due time": {jobs: []broker.NewJob{dueAfter("c", 3), dueAfter("a", 1), dueAfter("b", 2)}, want: []string{"a", "b", "c"},
			together: 3},
		"one by one": {jobs: []broker.NewJob{dueAfter("c", 3), dueAfter("a", 1), dueAfter("b", 2)}, want: []string{"a", "b", "c", "new"},
			together: 1},
		"by priority": {jobs: []broker.NewJob{dueAfter("a", 1), dueAfter("b", 2, urgent), dueAfter("c", 3, urgent)},
			want: []string{"b", "c", "a"}, together: 3},
		"by priority, singly": {jobs: []broker.NewJob{dueAfter("a", 1), dueAfter("b", 2, urgent)}, want: []string{"b", "a", "new"}, together: 1},
		"behind pending ones": {jobs: []broker.NewJob{dueAfter("a", 1), dueAfter("b", 2)}, pending: true, want: []string{"old", "a", "b", "new"},
			together: 1},
		"not when paused": {jobs: []broker.NewJob{dueAfter("a", 1)}, paused: true, together: 3},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t)
			f.plant(test.jobs...)
			if test.pending {
				f.store(f, aJob("old"))
			}
			if test.paused {
				yes := true
				_, err := f.Policy(t.Context(), broker.PolicyRequest{Queue: testQueue, Paused: &yes})
				f.ok(err)
			}
			got := names(f.at(f, 60, test.together))
			if test.together == 1 {
				f.store(f, aJob("new"))
			}
			for len(got) < len(test.want) {
				more := names(f.at(f, 60, test.together))
				if got = append(got, more...); len(more) == 0 {
					break
				}
			}
			if !slices.Equal(got, test.want) {
				t.Errorf("got %v, want %v", got, test.want)
			}
		})
	}
}

// Scheduled and retried jobs are found by different searches.
func TestDue_ScheduledAndRetriedJobsFallDueTogether(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.plant(dueAfter("s1", 1), dueAfter("s3", 3), dueAfter("s5", 5))
	f.store(f, aJob("r2"), aJob("r4"))
	f.number++
	req := broker.SettleRequest{Now: dueStart, Worker: testWorker, Number: f.number}
	for i, j := range f.at(f, 0, 10) {
		req.Items = append(req.Items, broker.Settlement{Job: &j,
			Outcome: broker.Retry(time.Duration(2*i+2)*time.Second, broker.Failure{Message: "again"})})
	}
	verdicts, err := f.Settle(t.Context(), req)
	f.ok(err)
	for _, v := range verdicts {
		f.ok(v.Err)
	}
	f.at(f, 0, 1)
	if got, want := names(f.at(f, 60, 4)), []string{"s1", "r2", "s3", "r4"}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	if counts := f.counts(); counts[broker.StateActive] != 4 || counts[broker.StateRetry] != 0 ||
		counts[broker.StateScheduled]+counts[broker.StatePending] != 1 {
		t.Errorf("the counts are %v, want 4 active and 1 left", counts)
	}
}

func TestDue_ADueJobFreesTheKeyThatItHoldsUntilItStarts(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	key := withKey("k", broker.UniqueUntilStarted)
	f.plant(dueAfter("a", 1, key), dueAfter("b", 2, withKey("kept", broker.UniqueUntilDone)))
	if got := names(f.at(f, 60, 2)); !slices.Equal(got, []string{"a", "b"}) {
		t.Fatalf("got %v, want a and b", got)
	}
	f.ok(f.try(f, aJob("next", key)).Err)
	if f.try(f, aJob("refused", withKey("kept", broker.UniqueUntilDone))).Err == nil {
		t.Error("the key that b holds until it is settled is free")
	}
}

func TestDue_DueJobsThatOthersHoldAreNotWaitedFor(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.plant(dueAfter("a", 1), dueAfter("b", 2), dueAfter("c", 3), dueAfter("d", 4))
	tx := f.begin(pgx.TxOptions{})
	_, err := tx.Exec(t.Context(), f.in("select from jobs.job where id in ('a', 'c') for update"))
	f.ok(err)
	if got, want := names(f.at(f, 60, 4)), []string{"b", "d"}; !slices.Equal(got, want) {
		t.Errorf("got %v while others hold a and c, want %v", got, want)
	}
	f.ok(tx.Rollback(t.Context()))
	if got, want := names(f.at(f, 60, 4)), []string{"a", "c"}; !slices.Equal(got, want) {
		t.Errorf("got %v when they are free, want %v", got, want)
	}
}

// Concurrent claims take different jobs, and together all of them.
func TestDue_DueJobsAreLeasedOnce(t *testing.T) {
	t.Parallel()
	const n, size = 2000, 150
	f := newFixture(t)
	f.plant(series("a", n, func(j *broker.NewJob) { j.RunAt = dueStart.Add(time.Second) })...)
	other := f.beside(4)
	f.at(other, 0, 1) // learns, too
	got := make(chan []string)
	for _, b := range []broker.Broker{f, f, other, other} {
		go func() {
			var all []string
			for empty := 0; empty < 3; {
				jobs := f.at(b, 60, size)
				if len(jobs) == 0 {
					empty++
				}
				all = append(all, names(jobs)...)
			}
			got <- all
		}()
	}
	seen := make(map[string]int)
	for range 4 {
		for _, id := range <-got {
			seen[id]++
		}
	}
	for id, times := range seen {
		if times != 1 {
			t.Errorf("job %s was leased %d times", id, times)
		}
	}
	if len(seen) != n || f.counts()[broker.StateActive] != n {
		t.Errorf("%d jobs were leased and %d are counted, want %d", len(seen), f.counts()[broker.StateActive], n)
	}
}

// However many queues a claim has, the number of due jobs that become pending with it is
// bounded, since each is a write; the others follow with the next claims.
func TestDue_AClaimOfManyQueuesMakesFewDueJobsPending(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	const queues, each = 8, 500
	var req broker.ClaimRequest
	var names []string
	for i := range queues {
		name := fmt.Sprint("of-many-", i)
		names = append(names, name)
		f.plant(series("a", each, func(j *broker.NewJob) { j.Queue, j.RunAt = name, dueStart.Add(time.Minute) })...)
		req.Queues = append(req.Queues, broker.Share{Queue: name, Max: 10})
	}
	late := dueStart.Add(time.Hour)
	_, err := f.Renew(t.Context(), broker.RenewRequest{Now: late, Worker: "of-many", Queues: names, Lease: time.Minute, Register: true})
	f.ok(err)
	req.Now, req.Worker, req.Max = late, "of-many", 10
	got, err := f.Claim(t.Context(), req)
	f.ok(err)
	if n := f.ask("select count(*) from jobs.job where run_at is null"); len(got.Jobs) != 10 || n > 2000 || !got.More {
		t.Errorf("a claim of 10 leased %d, more %t, and %d of %d due jobs are not scheduled any more; want 2,000 at most", len(got.Jobs),
			got.More, n, queues*each)
	}
	all := len(got.Jobs)
	for len(got.Jobs) > 0 {
		req.Max = 1000
		for i := range req.Queues {
			req.Queues[i].Max = 1000
		}
		got, err = f.Claim(t.Context(), req)
		f.ok(err)
		all += len(got.Jobs)
	}
	if all != queues*each {
		t.Errorf("%d of %d due jobs were claimed", all, queues*each)
	}
}
