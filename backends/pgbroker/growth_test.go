package pgbroker_test

import (
	"testing"
	"time"

	"github.com/seed81422ce9/jobs/broker"
)

// However often a worker settles, only the verdicts of its last request are kept, and none
// when it retires.
func TestSettle_KeepsTheLastVerdictsAlone(t *testing.T) {
	t.Parallel()
	for name, form := range settleForms {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t)
			var changes []func(*broker.NewJob)
			if form.change != nil {
				changes = append(changes, form.change)
			}
			f.store(f, series("j", 6, changes...)...)
			for n := range 3 {
				held := f.claim(2, 0)
				_, err := f.Settle(t.Context(), broker.SettleRequest{Worker: testWorker, Number: int64(n + 1), Items: items(held, form.outcomes...)})
				f.ok(err)
				if kept := f.ask("select count(*) from jobs.settled"); kept != 1 {
					t.Fatalf("the verdicts of %d requests are kept after %d settles, want those of the last", kept, n+1)
				}
			}
			_, err := f.Retire(t.Context(), broker.RetireRequest{Worker: testWorker, Queues: []string{testQueue}})
			f.ok(err)
			if kept := f.ask("select count(*) from jobs.settled"); kept != 0 {
				t.Errorf("the verdicts of %d requests are kept of a worker that retired", kept)
			}
		})
	}
}

// Whatever a store keeps besides jobs is removed when it has lapsed.
func TestPrune_WhatGathersSlowly(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.store(f, aJob("registers the queue"))
	now := time.Now()
	ago := func(d time.Duration) int64 { return now.Add(-d).UnixMicro() }
	for table, plant := range map[string]func(at int64){
		"event": func(at int64) { f.exec("insert into jobs.event (at, payload) values ($1, '')", at) },
		"mark":  func(at int64) { f.exec("insert into jobs.mark values (1, $1, 'm', '', '')", at) },
		"remembered": func(at int64) {
			f.exec("insert into jobs.remembered select id, 'gone', $1 from jobs.queue", at+time.Hour.Microseconds())
		},
		"unique_key": func(at int64) {
			f.exec("insert into jobs.unique_key select id, 'k', 'gone', 2, 1, $1 from jobs.queue", at+time.Hour.Microseconds())
		},
	} {
		left := func() int64 {
			_, err := f.Prune(t.Context(), broker.PruneRequest{Queues: []string{testQueue}, Max: 10})
			f.ok(err)
			return f.ask("select count(*) from jobs." + table)
		}
		plant(ago(50 * time.Minute))
		if n := left(); n != 1 {
			t.Errorf("%d rows of %s are left before their time is over, want the one", n, table)
		}
		f.exec("delete from jobs." + table)
		plant(ago(70 * time.Minute))
		if n := left(); n != 0 {
			t.Errorf("%d rows of %s are left when their time is over", n, table)
		}
	}
	f.exec("insert into jobs.pulse (until, intact, worker) values ($1, false, 'gone'), ($2, false, 'gone')", ago(time.Second),
		ago(-time.Hour))
	f.exec("with p as (insert into jobs.pulse (until, worker) values ($1, 'kept') returning num) "+
		"insert into jobs.worker (queue, id, info, pulse) select q.id, 'kept', '', p.num from p, jobs.queue q", ago(70*time.Minute))
	f.exec("insert into jobs.worker (ended_at, queue, drained, id, info) select $1, id, true, 'gone', '' from jobs.queue",
		ago(25*time.Hour))
	f.exec("insert into jobs.settled select num, 1, '{}' from jobs.worker where id = 'gone'")
	if _, err := f.Prune(t.Context(), broker.PruneRequest{Queues: []string{testQueue}, Max: 10}); err != nil {
		t.Fatal(err)
	}
	if n := f.ask("select count(*) from jobs.worker where id = 'gone'") + f.ask("select count(*) from jobs.settled"); n != 0 {
		t.Errorf("%d rows are left of a worker that ended over a day ago", n)
	}
	if gone, kept := f.ask("select count(*) from jobs.pulse where worker = 'gone'"),
		f.ask("select count(*) from jobs.pulse where worker = 'kept'"); gone != 1 || kept != 1 {
		t.Errorf("%d pulses are left that no worker follows, and %d that one does; want the one that has not run out, and the other",
			gone, kept)
	}
}
