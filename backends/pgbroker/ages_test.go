package pgbroker_test

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/seed81422ce9/jobs/broker"
	"github.com/seed81422ce9/jobs/internal/testenv"
)

// While a snapshot is open, the indexes by which Queues finds the oldest jobs, and counts the
// leases of workers, keep an entry for each job that has gone since.
func TestQueues_OldSnapshotMakesItNoDearer(t *testing.T) {
	t.Parallel()
	sent := new(statements)
	f := newFixture(t, sent.hook)
	f.Dear(time.Nanosecond, 1<<30) // always, for the longest pause
	f.keepDead()
	large := bytes.Repeat([]byte("x"), 1800) // four to a page
	f.churn("a", 10_000, func(j *broker.NewJob) { j.Body.Payload = large })
	f.fallDue("b", 5000, time.Hour, large)
	f.exec("delete from jobs.job")
	f.recordEnds("gone", 5000, 2*time.Hour, large)
	f.exec("delete from jobs.dead")
	f.exec("delete from jobs.history")

	f.register("w2")
	f.store(f, aJob("held"))
	f.claim(1, time.Minute)
	f.store(f, aJob("next"), aJob("later", func(j *broker.NewJob) { j.Delay = time.Hour }))
	f.recordEnds("ended", 1, time.Hour, nil)
	look := func(now time.Time) broker.QueueInfo {
		t.Helper()
		sent.take()
		reply, err := f.Queues(t.Context(), broker.QueuesRequest{Now: now, Names: []string{testQueue}, Workers: true})
		f.ok(err)
		info := reply.Queues[0]
		for _, s := range []broker.State{broker.StatePending, broker.StateScheduled, broker.StateCompleted, broker.StateDead,
			broker.StateCancelled} {
			if info.Oldest[s].IsZero() {
				t.Fatalf("Queues knows no oldest %v job, and there is one", s)
			}
		}
		return info
	}
	// reads returns how many pages the last search read, by statement.
	reads := func() map[string]int64 {
		pages := make(map[string]int64)
		_, all := sent.take()
		for _, s := range all {
			for _, name := range []string{"queues", "queues_workers"} {
				if s.SQL == f.statement(name) {
					pages[name] = f.pagesOf(s.SQL, s.Args...)
				}
			}
		}
		return pages
	}
	look(time.Time{})
	if first := reads(); first["queues"] < 2000 || first["queues_workers"] < 2000 {
		t.Fatalf("the first look reads %v pages, want what the snapshot keeps", first)
	}
	// It takes two seconds until the seqs that were taken are old enough.
	var pages map[string]int64
	testenv.Eventually(t, "that a look reads few pages, want at most 200", func() bool {
		info := look(time.Time{})
		if len(info.Workers) != 2 || info.Workers[0].Held != 1 || info.Workers[1].Held != 0 {
			t.Fatalf("Queues says of the workers %+v, want 1 lease of w1 and none of w2", info.Workers)
		}
		pages = reads()
		return pages["queues"] < 200 && pages["queues_workers"] < 200
	}, func() string { return fmt.Sprint(pages) })

	// A request with a clock of its own always searches.
	f.claim(1, time.Minute)
	f.store(f, aJob("new"))
	f.recordEnds("late", 1, 90*time.Minute, nil)
	if info := look(time.Now()); info.Workers[0].Held != 2 || time.Since(info.Oldest[broker.StateDead]) < 80*time.Minute {
		t.Errorf("a request with a clock of its own is told of %d leases and of %v as the oldest death, want 2 and what came late",
			info.Workers[0].Held, info.Oldest[broker.StateDead])
	}
	// Other requests search when the pause is over.
	f.EndPauses()
	info := look(time.Time{})
	died, completed := time.Since(info.Oldest[broker.StateDead]), time.Since(info.Oldest[broker.StateCompleted])
	if info.Workers[0].Held != 2 || died < 80*time.Minute || completed < 80*time.Minute {
		t.Errorf("after the pause Queues says that w1 has %d leases and that the oldest ends were %v and %v ago: it does not find what came late",
			info.Workers[0].Held, died, completed)
	}
}

// As long as that is fast, Queues searches everything each time.
func TestQueues_LooksAtAllThereIsWhenThatIsQuick(t *testing.T) {
	t.Parallel()
	sent := new(statements)
	f := newFixture(t, sent.hook)
	f.Dear(time.Hour, 1)
	f.store(f, series("a", 3)...)
	for held := 1; held <= 3; held++ {
		f.claim(1, 0)
		f.recordEnds("ended", 1, time.Duration(held)*time.Hour, nil)
		reply, err := f.Queues(t.Context(), broker.QueuesRequest{Workers: true})
		f.ok(err)
		info := reply.Queues[0]
		if dead := time.Since(info.Oldest[broker.StateDead]); info.Workers[0].Held != held || dead < time.Duration(held)*time.Hour {
			t.Errorf("Queues says of the worker %d leases, and that the oldest death was %v ago; want %d and %dh",
				info.Workers[0].Held, dead, held, held)
		}
		f.exec("delete from jobs.dead")
		f.exec("delete from jobs.history")
	}
}

// recordEnds puts dead, completed and cancelled jobs into the store that ended
// some time ago. They are not counted.
func (f *fixture) recordEnds(prefix string, n int, since time.Duration, payload []byte) {
	f.t.Helper()
	body := aJob("").Body
	body.Payload = payload
	form := broker.AppendBody(nil, &body)
	const at = "(extract(epoch from now()) * 1000000)::bigint - $1::bigint"
	f.exec(`insert into jobs.dead (died_at, created_at, epoch, queue, lane, id, body)
		select `+at+`, 1, 1, q.id, 5, $2 || 'dead' || n, $3 from generate_series(1, $4::int) n, jobs.queue q`,
		since.Microseconds(), prefix, form, n)
	for state, name := range map[int]string{5: "completed", 7: "cancelled"} {
		f.exec(strings.ReplaceAll(`insert into jobs.history (expires_at, finished_at, created_at, epoch, queue, day, state, id, body)
			select 1 << 60, `+at+`, 1, 1, q.id, 0, $5::int, $2 || '!' || n, $3 from generate_series(1, $4::int) n, jobs.queue q`, "!", name),
			since.Microseconds(), prefix, form, n, state)
	}
}
