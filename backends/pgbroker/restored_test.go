package pgbroker

import (
	"testing"
	"time"

	"github.com/seed81422ce9/jobs/broker"
)

// backup copies jobs and leases. What it returns restores them, while brokers are open.
func (f *inside) backup() (restore func()) {
	f.t.Helper()
	tables := []string{"job", "worker", "pulse"}
	for _, name := range tables {
		f.exec("create table jobs.then_" + name + " as table jobs." + name)
	}
	return func() {
		f.t.Helper()
		f.exec("truncate jobs.job, jobs.worker, jobs.pulse")
		for _, name := range tables {
			f.exec("insert into jobs." + name + " overriding system value table jobs.then_" + name)
		}
	}
}

// A worker ran out and was reclaimed, and then the store was restored from a backup that has it alive. A process that reclaimed it must
// look for it again: there may be no other that does.
func TestRenew_AfterARestoreSaysWhichLeasesRanOutBefore(t *testing.T) {
	t.Parallel()
	f := open(t)
	now := time.Now().Truncate(time.Microsecond)
	renew := func(worker string, lease time.Duration, register bool) broker.Renewed {
		t.Helper()
		got, err := f.Renew(t.Context(), broker.RenewRequest{Now: now, Worker: worker, Queues: []string{"q"}, Lease: lease, Register: register})
		f.check(err)
		return got
	}
	reclaim := func() []broker.Job {
		t.Helper()
		got, err := f.Reclaim(t.Context(), broker.ReclaimRequest{Now: now, Worker: "lives", Queues: []string{"q"}, Max: 5})
		f.check(err)
		return got.Jobs
	}
	f.accept(f, job("a"))
	renew("lives", time.Hour, true)
	renew("dies", time.Minute, true)
	if n := len(f.claimed("dies", 1)); n != 1 {
		t.Fatalf("claimed %d jobs", n)
	}
	restore := f.backup()
	now = now.Add(2 * time.Minute)
	renew("lives", time.Hour, false)
	f.settle("lives", broker.Complete(nil), reclaim()...)
	if got := renew("lives", time.Hour, false); got.NextLapse.Before(now) {
		t.Fatalf("after a Reclaim, leases ran out at %v: before now, %v", got.NextLapse, now)
	}
	restore()
	f.Broker.leases.workers["lives"].looked = time.Now().Add(-trustSearch - time.Second)
	now = now.Add(trustSearch)
	if got := renew("lives", time.Hour, false); got.Lost || got.NextLapse.IsZero() || got.NextLapse.After(now) {
		t.Errorf("a minute after the restore, the next leases run out at %v, want before now, %v", got.NextLapse, now)
	}
	if got := reclaim(); len(got) != 1 || got[0].ID != "a" {
		t.Errorf("reclaimed %v, want the job of the worker that died", got)
	}
}

// After a restore, a worker may get the number of a pulse that another worker had before.
func TestRenew_AfterARestoreDoesNotRenewAnotherWorker(t *testing.T) {
	t.Parallel()
	f := open(t)
	restore := f.backup()
	last := f.value("select coalesce(max(num), 0) from jobs.pulse")
	f.worker("before")
	restore()
	f.exec("select setval(pg_get_serial_sequence('jobs.pulse', 'num'), $1::bigint, false)", last+1)
	f.worker("after")
	if n := f.value("select count(*) from jobs.pulse where num = $1 and worker = 'after'", last+1); n != 1 {
		t.Fatal("the number of the first pulse was not taken again")
	}
	got, err := f.Renew(t.Context(), broker.RenewRequest{Worker: "before", Queues: []string{"q"}, Lease: time.Hour})
	if err != nil || !got.Lost {
		t.Errorf("the worker that the backup does not have is lost: %t, error %v; want that it is", got.Lost, err)
	}
	if n := f.value("select until from jobs.pulse where worker = 'after'"); n > time.Now().Add(2*time.Minute).UnixMicro() {
		t.Error("its renewal has extended the leases of another worker")
	}
}

// What a search for leases found is forgotten after a while.
func TestLeases_ASearchCountsForAMinute(t *testing.T) {
	t.Parallel()
	var l leases
	l.found("w", []string{"a", "b"}, 7)
	if _, searched := l.pulse("w", []string{"a", "b"}); searched != 7 {
		t.Errorf("right after a search, leases up to %d are found, want 7", searched)
	}
	l.workers["w"].looked = time.Now().Add(-trustSearch - time.Second)
	if _, searched := l.pulse("w", []string{"a", "b"}); searched != 0 {
		t.Errorf("later, leases up to %d are found, want none", searched)
	}
}
