package pgbroker_test

import (
	"bytes"
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/seed81422ce9/jobs/broker"
)

// While a snapshot is open, the entries of jobs that have ended since stay in the indexes. A
// claim that began at their front would visit 20,000 rows.
func TestFloor_AnOldSnapshotMakesClaimsNoDearer(t *testing.T) {
	t.Parallel()
	sent := new(statements)
	f := newFixtureAlone(t, sent.hook)
	f.keepDead()
	f.churn("a", 20_000, func(j *broker.NewJob) { j.Body.Payload = bytes.Repeat([]byte("x"), 1800) }) // four to a page
	f.store(f, series("b", 1000)...)

	var pages []int64
	for len(pages) < 15 {
		sent.take()
		f.settle(f.claim(10, time.Minute), broker.Complete(nil))
		_, claims := sent.take()
		pages = append(pages, f.pages(claims))
	}
	slices.Sort(pages)
	// A few of the claims were sweeps, which are rare by design.
	if median := pages[len(pages)/2]; median > 300 {
		t.Errorf("a claim of 10 jobs reads %d pages after 20,000 jobs that an old snapshot keeps, want at most 300 (all: %v)", median, pages)
	}
	// The test would prove nothing if the entries were gone.
	if all := f.pagesOf(f.statement("claim"), testWorker, 10, []string{testQueue}, []int32{10}, make([]int64, 8), 1<<30); all < 4000 {
		t.Errorf("a claim from the front of the index reads only %d pages: the snapshot keeps nothing", all)
	}
}

// The same holds for jobs that fell due, whether they are leased directly or become pending
// first.
func TestClaim_OldSnapshotMakesDueJobsNoDearer(t *testing.T) {
	t.Parallel()
	sent := new(statements)
	f := newFixtureAlone(t, sent.hook)
	f.keepDead()
	claim := func(n int) {
		for got := 0; got < n; {
			jobs := f.claim(min(n-got, 1000), 0)
			f.settle(jobs, broker.Complete(nil))
			got += len(jobs)
		}
	}
	f.fallDue("a", 10_000, time.Hour, bytes.Repeat([]byte("x"), 1800)) // four to a page
	f.fallDue("b", 2000, time.Hour, nil)
	claim(10_000)
	pages := make(map[string][]int64)
	for range 15 {
		sent.take()
		claim(50)
		_, all := sent.take()
		for _, s := range all {
			switch {
			case strings.Contains(s.SQL, "jobs_claim.bytes', sum"):
				pages["lease_due"] = append(pages["lease_due"], f.pagesOf(s.SQL, s.Args...))
			case strings.Contains(s.SQL, "promoted"):
				pages["claim_due"] = append(pages["claim_due"], f.pagesOf(s.SQL, s.Args...))
			}
		}
	}
	for _, name := range []string{"lease_due", "claim_due"} {
		slices.Sort(pages[name])
		// A few of the claims were sweeps, which are rare by design.
		if n := len(pages[name]); n == 0 || pages[name][n/2] > 300 {
			t.Errorf("%s.sql reads %v pages in claims of 50 jobs after 10,000 due jobs that an old snapshot keeps, want at most 300 in most", name,
				pages[name])
		}
	}
	none := []int64{math.MinInt64}
	if all := f.pagesOf(f.statement("claim_due"), nil, testWorker, []string{testQueue}, 1000, 2000, none, none); all < 2500 {
		t.Errorf("a claim from the front of the index reads only %d pages: the snapshot keeps nothing", all)
	}
}

// fallDue puts jobs into the store that have been due for some time.
func (f *fixture) fallDue(prefix string, n int, since time.Duration, payload []byte) {
	f.t.Helper()
	body := aJob("").Body
	body.Payload = payload
	f.exec(`insert into jobs.job (seq, created_at, run_at, queue, state, lane, id, body)
		select nextval('jobs.job_seq'), 1, (extract(epoch from now()) * 1000000)::bigint - $1::bigint, q.id, 2, 5, $2 || n, $3
		from generate_series(1, $4::int) n, jobs.queue q where q.name = $5`,
		since.Microseconds(), prefix, broker.AppendBody(nil, &body), n, testQueue)
}

// This process gets no wake-up for jobs that become visible after their due time. There are
// more of them than one claim makes pending.
func TestClaim_FindsDueJobsThatComeLate(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	for i := range 3 { // each is worth a look at the floors
		f.fallDue(fmt.Sprintf("before%d_", i), 1000, 0, nil)
		for left := 1000; left > 0; {
			left -= len(f.claim(500, time.Minute))
		}
	}
	const late = 2500
	f.fallDue("late", late, 2*time.Hour, nil)
	began, got := time.Now(), 0
	for got < late && time.Since(began) < sweepPatience {
		got += len(f.claim(500, sweepPatience))
	}
	if got != late {
		t.Errorf("claimed %d jobs within %v, want the %d whose time had passed", got, sweepPatience, late)
	}
}

// keepDead opens a snapshot: until the end of the test nothing that ends can be
// removed from any table or index.
func (f *fixture) keepDead() {
	f.t.Helper()
	old := f.begin(pgx.TxOptions{IsoLevel: pgx.RepeatableRead})
	_, err := old.Exec(f.t.Context(), "select count(*) from "+f.schema+".job")
	f.ok(err)
}

// pages returns how many pages the claim among the sent statements reads when it is sent
// again.
func (f *fixture) pages(sent []pgx.TraceBatchQueryData) int64 {
	f.t.Helper()
	for _, s := range sent {
		if strings.Contains(s.SQL, "skip locked") && strings.Contains(s.SQL, "set state = 3") {
			return f.pagesOf(s.SQL, s.Args...)
		}
	}
	f.t.Fatalf("no claim is among %d statements", len(sent))
	return 0
}

func (f *fixture) pagesOf(claim string, args ...any) int64 {
	f.t.Helper()
	ctx := f.t.Context()
	tx, err := f.direct.Begin(ctx)
	f.ok(err)
	defer tx.Rollback(context.WithoutCancel(ctx))
	_, err = tx.Exec(ctx, f.statement("settings"), nil, nil)
	f.ok(err)
	var shown []byte
	f.ok(tx.QueryRow(ctx, "explain (analyze, buffers, format json) "+claim, args...).Scan(&shown))
	root := parsePlan(f, shown).nodes[0]
	return int64(root["Shared Hit Blocks"].(float64) + root["Shared Read Blocks"].(float64))
}

// A job gets its seq when it is enqueued, and becomes visible when the transaction commits: by
// then, claims may be far past it.
func TestFloor_AJobThatCommitsLateIsNotPassedOver(t *testing.T) {
	t.Parallel()
	// Few later jobs, and then so many that claims no longer wait for the oldest one.
	for _, later := range []int{100, 2500, 25_000} {
		t.Run(fmt.Sprint(later), func(t *testing.T) {
			t.Parallel()
			f := newFixture(t)
			f.churn("before", 1500)
			tx := f.begin(pgx.TxOptions{})
			f.store(f.Tx(tx), aJob("late"), aJob("urgent", func(j *broker.NewJob) { j.Body.Priority = broker.PriorityUrgent }))
			f.churn("after", later)
			f.ok(tx.Commit(t.Context()))
			began := time.Now()
			var got []string
			for len(got) < 2 && time.Since(began) < sweepPatience {
				got = append(got, names(f.claim(10, sweepPatience))...)
			}
			if slices.Sort(got); !slices.Equal(got, []string{"late", "urgent"}) {
				t.Errorf("claimed %v within %v after the commit, want late and urgent", got, sweepPatience)
			}
		})
	}
}

// While a floor lags, a look is told the oldest transaction that has not been open for long.
func TestFloor_ALookLearnsTheOldestYoungTransaction(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	writer := int64(0)
	f.ok(f.begin(pgx.TxOptions{}).QueryRow(t.Context(), "select pg_current_xact_id()::text::bigint").Scan(&writer))
	young := func(old int64) (oldest, young int64) {
		f.ok(f.direct.QueryRow(t.Context(), f.statement("floor"), []string{testQueue}, make([]int64, 8), old, []int64{0}, []int64{0}).
			Scan(&oldest, &young, nil, nil, nil, nil, nil, nil))
		return oldest, young
	}
	if oldest, got := young(0); got != oldest || oldest > writer {
		t.Errorf("the oldest young transaction is %d if none is old, and the oldest one %d, want the same, at most %d", got, oldest, writer)
	}
	if _, got := young(writer - 1); got != writer {
		t.Errorf("the oldest young transaction is %d if those before %d are old, want that one", got, writer)
	}
	if _, got := young(writer); got <= writer {
		t.Errorf("the oldest young transaction is %d if those up to %d are old, want a later one", got, writer)
	}
}

// sweepPatience is how long tests wait for a claim to sweep: at most a minute lies between two
// sweeps, on a machine where one takes long. TestFloors_ClaimsSweepNowAndThen says how often
// they happen.
const sweepPatience = 2 * time.Minute

// At every moment some transaction is open that has taken a seq, and never the same one for
// long: a floor must wait for each of them.
func TestFloor_JobsOfOverlappingTransactionsAreNotPassedOver(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	const chain = 8
	var open []pgx.Tx
	want := make(map[string]bool)
	commit := func() {
		f.ok(open[0].Commit(t.Context()))
		open = open[1:]
	}
	for i := range chain {
		tx := f.begin(pgx.TxOptions{})
		id := fmt.Sprintf("late%d", i)
		want[id] = true
		f.store(f.Tx(tx), aJob(id))
		if open = append(open, tx); len(open) == 3 {
			commit()
		}
		// Each batch is worth a look at the floors.
		f.store(f, series(fmt.Sprintf("after%d_", i), 1000)...)
		for left := 1000; left > 0; {
			jobs := f.claim(500, time.Minute)
			for _, j := range jobs {
				if want[j.ID] {
					delete(want, j.ID)
				} else {
					left--
				}
			}
			f.settle(jobs, broker.Complete(nil))
		}
	}
	for len(open) > 0 {
		commit()
	}
	began := time.Now()
	for len(want) > 0 && time.Since(began) < sweepPatience {
		for _, j := range f.claim(chain, sweepPatience) {
			delete(want, j.ID)
		}
	}
	if len(want) > 0 {
		t.Errorf("%v were not claimed within %v after they committed", want, sweepPatience)
	}
}
