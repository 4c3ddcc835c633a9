package pgbroker_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/seed81422ce9/jobs/broker"
)

// A renewal writes one row and counts nothing, however many queues an idle worker serves.
func TestRenew_OfManyQueuesWritesOneRow(t *testing.T) {
	t.Parallel()
	sent := new(statements)
	f := newFixture(t, sent.hook)
	var queues []string
	for i := range 100 {
		queues = append(queues, fmt.Sprintf("many%03d", i))
	}
	req := broker.RenewRequest{Worker: "m", Queues: queues, Lease: time.Minute, Register: true}
	renewed := func(how string, want ...string) {
		t.Helper()
		sent.take()
		got, err := f.Renew(t.Context(), req)
		f.ok(err)
		if got.Lost || got.Now.IsZero() || got.NextLapse.IsZero() {
			t.Fatalf("the renewal %s says %+v, want a live worker, the time and when leases run out", how, got)
		}
		_, all := sent.take()
		var ran []string
		for _, s := range all {
			for _, name := range []string{"register_queue", "renew_apart", "renew_register", "renew", "renew_pulse", "renew_held"} {
				if s.SQL == f.statement(name) {
					ran = append(ran, name)
				}
			}
		}
		if fmt.Sprint(ran) != fmt.Sprint(want) {
			t.Errorf("the renewal %s ran %v, want %v", how, ran, want)
		}
	}
	renewed("that registers", "register_queue", "renew_apart", "renew_register", "renew_held")
	req.Register = false
	renewed("after it", "renew_pulse")
	req.Queues = queues[:99]
	renewed("of other queues", "renew_apart", "renew")
	renewed("of these again", "renew_pulse")
}

// A process may remember a pulse that some queues of the worker no longer follow. Its next renewal extends
// the leases in all queues, or says that the worker is lost.
func TestRenew_APulseThatOthersChanged(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	other := f.beside(2)
	now := time.Now().Truncate(time.Microsecond)
	renew := func(b broker.Broker, lease time.Duration, register bool, queues ...string) broker.Renewed {
		t.Helper()
		got, err := b.Renew(t.Context(), broker.RenewRequest{Now: now, Worker: "w2", Queues: queues, Lease: lease, Register: register})
		f.ok(err)
		return got
	}
	until := func(queue string) time.Duration {
		t.Helper()
		return time.Duration(f.ask(`select p.until - $1 from jobs.worker w join jobs.pulse p on p.num = w.pulse
			join jobs.queue q on q.id = w.queue where w.id = 'w2' and q.name = $2`, now.UnixMicro(), queue)) * time.Microsecond
	}
	renew(f, time.Minute, true, "a", "b")
	renew(f, time.Minute, false, "a", "b")
	renew(other, time.Hour, false, "a")
	if a, b := until("a"), until("b"); a != time.Hour || b != time.Minute {
		t.Errorf("a renewal of one queue extends the leases of both to %v and %v, want %v and %v", a, b, time.Hour, time.Minute)
	}
	renew(f, 2*time.Hour, false, "a", "b")
	if a, b := until("a"), until("b"); a != 2*time.Hour || b != 2*time.Hour {
		t.Errorf("a renewal after that of another process extends the leases to %v and %v, want both to %v", a, b, 2*time.Hour)
	}
	_, err := other.Retire(t.Context(), broker.RetireRequest{Now: now, Worker: "w2", Queues: []string{"b"}})
	f.ok(err)
	for range 2 {
		if got := renew(f, time.Hour, false, "a", "b"); !got.Lost {
			t.Error("a worker that one queue has ended is not told so")
		}
	}
}

// Two processes may register the same ID at the same moment by mistake. Then all its queues follow one pulse.
func TestRenew_TwoRegisterAtOnce(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	other := f.beside(2)
	errs := make(chan error)
	for i, b := range []broker.Broker{f, other} {
		go func() {
			for n := range 20 {
				got, err := b.Renew(t.Context(), broker.RenewRequest{Worker: "twice", Queues: []string{"a", "b"}, Lease: time.Hour,
					Register: n%2 == i})
				if err == nil && got.Lost && n > 1 {
					err = fmt.Errorf("renewal %d: the worker is lost", n)
				}
				if err != nil && !strings.Contains(err.Error(), "at the same time") {
					errs <- err
					return
				}
			}
			errs <- nil
		}()
	}
	for range 2 {
		f.ok(<-errs)
	}
	if n := f.ask("select count(distinct pulse) from jobs.worker where id = 'twice'"); n != 1 {
		t.Errorf("the queues of a worker follow %d pulses, want the same", n)
	}
}

// A renewal by which the worker follows another pulse may commit while a Reclaim waits for the old one. Then the
// worker is alive, as its renewal was told.
func TestReclaim_LeavesAWorkerThatFollowsAnotherPulseMeanwhile(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	other := f.beside(2)
	now := time.Now().Truncate(time.Microsecond)
	for worker, lease := range map[string]time.Duration{"late": time.Minute, "reclaimer": time.Hour} {
		_, err := f.Renew(t.Context(), broker.RenewRequest{Now: now, Worker: worker, Queues: []string{"a"}, Lease: lease, Register: true})
		f.ok(err)
	}
	now = now.Add(2 * time.Minute)
	tx := f.begin(pgx.TxOptions{})
	_, err := tx.Exec(t.Context(), f.statement("renew_apart"), "late")
	f.ok(err)
	_, err = tx.Exec(t.Context(), f.statement("renew"), now.UnixMicro(), "late", []string{"a"}, time.Minute.Microseconds(), nil)
	f.ok(err)
	reclaimed := make(chan error)
	go func() {
		_, err := other.Reclaim(t.Context(), broker.ReclaimRequest{Now: now, Worker: "reclaimer", Queues: []string{"a"}, Max: 10})
		reclaimed <- err
	}()
	f.awaitLockWait()
	f.ok(tx.Commit(t.Context()))
	f.ok(<-reclaimed)
	if n := f.ask("select count(*) from jobs.worker where id = 'late' and ended_at is null"); n != 1 {
		t.Errorf("the worker whose renewal was told that it is alive\ngot  ended by the Reclaim\nwant alive")
	}
	if n := f.ask("select count(*) from jobs.pulse p join jobs.worker w on w.pulse = p.num where w.id = 'late' and p.intact"); n != 1 {
		t.Errorf("its new pulse\ngot  %d intact\nwant 1", n)
	}
}
