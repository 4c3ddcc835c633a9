package pgbroker_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/seed81422ce9/jobs/broker"
)

// Whoever waits for several unique keys or IDs takes them in the same order as
// everybody else, whatever order its caller put them in: two batches that share
// some can then not wait for each other in a circle. The places of the rows in
// their table tell in which order they were taken.
func TestEnqueue_TakesKeysAndIDsInTheirOrder(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	restored := func(j *broker.NewJob) {
		j.Restore = &broker.Restored{State: broker.StatePending, CreatedAt: time.Unix(1_700_000_000, 0)}
	}
	for n, kind := range [][]func(*broker.NewJob){{given}, {given, restored}} {
		var jobs []broker.NewJob
		for _, i := range []int{2, 0, 3, 1} {
			jobs = append(jobs, aJob(fmt.Sprintf("id%d%d", n, i), append(kind, withKey(fmt.Sprintf("key%d%d", n, i), broker.UniqueUntilDone))...))
		}
		f.store(f, jobs...)
	}
	for _, column := range []string{"id from jobs.job", "key from jobs.unique_key"} {
		var taken []string
		rows, err := f.direct.Query(t.Context(), f.in("select "+column+" order by ctid"))
		f.ok(err)
		for rows.Next() {
			var name string
			f.ok(rows.Scan(&name))
			taken = append(taken, name)
		}
		f.ok(rows.Err())
		if len(taken) != 8 || !slices.IsSorted(taken) {
			t.Errorf("%s were taken in the order %v, want all 8 in their own", column, taken)
		}
	}
}

// IDs are taken in their own order; jobs run in that of the batch.
func TestEnqueue_BatchOfGivenIDsKeepsItsOrder(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	want := []string{"m", "c", "z", "a", "q"}
	var jobs []broker.NewJob
	for _, id := range want {
		jobs = append(jobs, aJob(id, given))
	}
	f.store(f, jobs...)
	if got := names(f.claim(10, 0)); !slices.Equal(got, want) {
		t.Errorf("claimed %v, want the order of the batch, %v", got, want)
	}
}

// A unique key is held from the instant at which its job is created: were it
// held from earlier, it would run out while the job still has a right to it.
func TestEnqueue_KeyIsHeldFromTheJobsCreation(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	const ttl = time.Hour
	job := aJob("a", withKey("k", broker.UniqueUntilDone))
	job.Body.Unique.TTL = ttl
	f.store(f, job)
	short := f.ask("select j.created_at + $1 - u.until from jobs.job j join jobs.unique_key u on u.job = j.id", ttl.Microseconds())
	if short != 0 {
		t.Errorf("the key is free %d µs before its time since the job's creation is over", short)
	}
}
