package pgbroker_test

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/seed81422ce9/jobs/broker"
)

// While a snapshot is open no entry of a job that ended since can leave the
// indexes. A claim that began at their front would visit 20,000 rows.
func TestAnOldSnapshotMakesClaimsNoDearer(t *testing.T) {
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

// keepDead opens a snapshot: until the end of the test nothing that ends can be
// removed from any table or index.
func (f *fixture) keepDead() {
	f.t.Helper()
	old := f.begin(pgx.TxOptions{IsoLevel: pgx.RepeatableRead})
	_, err := old.Exec(f.t.Context(), "select count(*) from "+f.schema+".job")
	f.ok(err)
}

// pages is what the claim among statements that were sent reads when it is
// sent again.
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

// A job takes its turn when it is enqueued, and can be seen when the
// transaction commits: by then, claims may have gone far past it.
func TestAJobThatCommitsLateIsNotPassedOver(t *testing.T) {
	t.Parallel()
	// Few later jobs, and so many that claims no longer wait for the oldest.
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
			for len(got) < 2 && time.Since(began) < sweepPromise {
				got = append(got, names(f.claim(10, sweepPromise))...)
			}
			if slices.Sort(got); !slices.Equal(got, []string{"late", "urgent"}) {
				t.Errorf("claimed %v within %v after the commit, want late and urgent", got, sweepPromise)
			}
		})
	}
}

// sweepPromise is half a default lease: claims look at the very front of a
// queue that often.
const sweepPromise = 7500 * time.Millisecond

// At every moment some transaction is open that has taken a turn, and never the
// same one for long: a floor must wait for each of them.
func TestJobsOfOverlappingTransactionsAreNotPassedOver(t *testing.T) {
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
	for len(want) > 0 && time.Since(began) < sweepPromise {
		for _, j := range f.claim(chain, sweepPromise) {
			delete(want, j.ID)
		}
	}
	if len(want) > 0 {
		t.Errorf("%v were not claimed within %v after they committed", want, sweepPromise)
	}
}
