package pgbroker

import (
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/seed81422ce9/jobs/broker"
)

// today returns the server's day.
func (f *inside) today() int {
	return int(f.value("select floor(extract(epoch from now()) / 86400)::int"))
}

func (f *inside) prune() broker.Pruned {
	f.t.Helper()
	f.daysTurned.Store(time.Now().Add(time.Hour).UnixNano()) // the host's clock was set back since: it is time to look again
	got, err := f.Prune(f.t.Context(), broker.PruneRequest{Queues: []string{"q"}, Max: 100})
	f.check(err)
	return got
}

// turned prunes until a count is as wanted, and returns how many completed jobs were removed.
// turnDays stops where it would have to wait for a lock, which happens on a busy server; the
// next call goes on.
func (f *inside) turned(want int64, count, what string) (completed int) {
	f.t.Helper()
	for deadline := time.Now().Add(20 * time.Second); ; {
		completed += f.prune().Completed
		n := f.value(count)
		if n == want {
			return completed
		}
		if time.Now().After(deadline) {
			f.t.Fatalf("%d %s, want %d", n, what, want)
		}
	}
}

const daysListed = "select count(*) from jobs.history_day"

func (f *inside) keep(age time.Duration) {
	f.t.Helper()
	_, err := f.Policy(f.t.Context(), broker.PolicyRequest{Queue: "q", RetainCompleted: &broker.Retention{Age: age}})
	f.check(err)
}

func (f *inside) complete(ids ...string) {
	f.t.Helper()
	for _, id := range ids {
		j := job(id)
		j.Body.GivenID = true
		f.accept(f, j)
	}
	f.settle("w", broker.Complete([]byte("result")), f.claimed("w", len(ids))...)
}

func TestDays_RecordsKeptForDaysGoWithTheirDay(t *testing.T) {
	t.Parallel()
	f := open(t)
	f.worker("w")
	f.keep(48 * time.Hour)
	f.complete("before")
	f.turned(4, daysListed, "days have a partition")
	f.complete("a", "b")
	if n := f.value("select count(*) from jobs.history where day <> 0"); n != 2 {
		t.Fatalf("%d records are in partitions of days, want the two that were completed after these were made", n)
	}
	// The day on which they expire is over.
	day := f.value("select max(day) from jobs.history")
	yesterday := f.today() - 1
	f.exec(fmt.Sprintf(`alter table jobs.history detach partition jobs.history_%[1]d; alter table jobs.history_%[1]d rename to history_%[2]d;
		update jobs.history_%[2]d set day = %[2]d; alter table jobs.history attach partition jobs.history_%[2]d for values in (%[2]d);
		update jobs.history_day set day = %[2]d where day = %[1]d`, day, yesterday))
	if got := f.turned(1, "select count(*) from jobs.history", "records are left, of which one is in no day's partition"); got != 2 {
		t.Errorf("pruned %d completed jobs when a day was over, want its two", got)
	}
	info, err := f.Queues(t.Context(), broker.QueuesRequest{})
	f.check(err)
	if n := info.Queues[0].Counts[broker.StateCompleted]; n != 1 {
		t.Errorf("%d completed jobs are counted, want one", n)
	}
	again := job("a")
	again.Body.GivenID = true
	receipts, err := f.Enqueue(t.Context(), broker.EnqueueRequest{Jobs: []broker.NewJob{again}})
	f.check(err)
	if receipts[0].Err == nil {
		t.Error("an ID that its caller gave was forgotten with its day")
	}
}

func TestDays_ShortRetentionNeedsNoDays(t *testing.T) {
	t.Parallel()
	f := open(t)
	f.worker("w")
	f.keep(time.Hour)
	f.prune()
	f.complete("a")
	if n := f.value(daysListed); n != 0 {
		t.Errorf("%d partitions were made for records that are kept for an hour", n)
	}
	if n := f.value("select count(*) from jobs.history where day = 0"); n != 1 {
		t.Errorf("%d records are in the default partition, want one", n)
	}
}

func TestDays_ManyServersMayTurnTheDaysAtOnce(t *testing.T) {
	t.Parallel()
	f := open(t)
	f.keep(72 * time.Hour)
	done := make(chan error)
	for range 6 {
		b := openOn(t, f.db, f.config)
		go func() {
			_, err := b.Prune(t.Context(), broker.PruneRequest{Queues: []string{"q"}, Max: 10})
			done <- err
		}()
	}
	for range 6 {
		f.check(<-done)
	}
	f.turned(5, daysListed, "days have a partition after turns at once") // today, three more, and one to spare
}

// A queue that keeps its records for longer than there are partitions uses none, and the
// others keep theirs.
func TestPrune_LongRetentionOfOneQueue(t *testing.T) {
	t.Parallel()
	f := open(t)
	f.worker("w")
	f.keep(48 * time.Hour)
	_, err := f.Policy(t.Context(), broker.PolicyRequest{Queue: "long", RetainCompleted: &broker.Retention{Age: 60 * 24 * time.Hour}})
	f.check(err)
	f.turned(4, daysListed, "days have a partition") // today, two more, and one to spare
	f.complete("a")
	if n := f.value("select count(*) from jobs.history where day <> 0"); n != 1 {
		t.Errorf("%d records are in partitions of days, want the one of the queue that keeps them for two days", n)
	}
}

// dump begins a transaction that reads every table, as a backup does.
func (f *inside) dump() pgx.Tx {
	f.t.Helper()
	tx := f.begin(pgx.TxOptions{IsoLevel: pgx.RepeatableRead})
	_, err := tx.Exec(f.t.Context(), inSchema("lock table jobs.job, jobs.dead, jobs.history, jobs.queue in access share mode", f.schema))
	f.check(err)
	return tx
}

// expired makes n partitions of days that are over.
func (f *inside) expired(n int) {
	f.t.Helper()
	for day := range n {
		f.exec(fmt.Sprintf("create table jobs.history_%[1]d partition of jobs.history for values in (%[1]d); "+
			"insert into jobs.history_day values (%[1]d)", day+1000))
	}
}

// Partitions are made beside a dump, an open transaction and whatever
// else reads records or writes them.
func TestPrune_PartitionsBesideADump(t *testing.T) {
	t.Parallel()
	f := open(t)
	f.keep(48 * time.Hour)
	f.accept(f, job("first of the queue"))
	f.expired(3)
	writing := f.begin(pgx.TxOptions{})
	f.accept(f.Tx(writing), job("open"))
	dump := f.dump()

	f.turned(4, daysListed+" where day > 2000", "days have a partition beside a dump") // today, two more, and one to spare
	if n := f.value(daysListed + " where day < 2000"); n != 3 {
		t.Errorf("%d partitions of days that are over are listed beside a dump, want all 3", n)
	}
	f.check(writing.Commit(t.Context()))
	f.check(dump.Commit(t.Context()))
	f.turned(0, daysListed+" where day < 2000", "days that are over have a partition when the dump has ended")
}

// Servers do not wait for each other: one that finds another at work on the partitions does
// nothing.
func TestPrune_OneServerIsAtThePartitions(t *testing.T) {
	t.Parallel()
	f := open(t)
	f.keep(48 * time.Hour)
	tx := f.begin(pgx.TxOptions{})
	_, err := tx.Exec(t.Context(), "select pg_advisory_xact_lock($1)", lockNumber("days", f.schema))
	f.check(err)
	f.prune()
	if n := f.value(daysListed); n != 0 {
		t.Errorf("%d partitions were made beside another server that is at them", n)
	}
	f.check(tx.Commit(t.Context()))
	f.turned(4, daysListed, "days have a partition when the other server was done")
}

// Queues that keep records for one day to 35 need a partition for each day, one
// for today and one to spare; others need none.
func TestPrune_HowManyPartitions(t *testing.T) {
	t.Parallel()
	const day = 24 * time.Hour
	for keep, want := range map[time.Duration]int64{day - time.Second: 0, day: 3, 35*day + time.Hour: 37, 36 * day: 0} {
		t.Run(keep.String(), func(t *testing.T) {
			t.Parallel()
			f := open(t)
			f.keep(keep)
			f.turned(want, daysListed, "days have a partition")
		})
	}
}
