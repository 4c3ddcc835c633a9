package pgbroker

import (
	"testing"
	"time"

	"github.com/seed81422ce9/jobs/broker"
	"github.com/seed81422ce9/jobs/internal/testenv"
)

// waiting is a broker that receives wake-ups, with a pool of its own, and a worker that has
// just taken all jobs.
type waiting struct {
	*Broker
	t     *testing.T
	other *inside
}

func newWaiting(t *testing.T) *waiting {
	other := open(t)
	other.worker("w")
	b, err := New(t.Context(), connect(t, testenv.Postgres(t), 4), Config{Schema: other.schema})
	other.check(err)
	t.Cleanup(func() { b.Close() })
	other.check(b.listener.await(t.Context()))
	w := &waiting{b, t, other}
	w.hear(0, func() {})      // that the listener began
	w.waker.grace = time.Hour // it does not pass wake-ups on while it claims nothing
	w.other.check(b.enterWaiters(t.Context(), []string{"q"}))
	w.hear(w.waker.sofar().all, func() { other.accept(other, job("a")) })
	w.take("a", w.claim(0))
	return w
}

// hear does something and waits until a wake-up after those before has come.
func (w *waiting) hear(before uint64, f func()) {
	w.t.Helper()
	f()
	testenv.Eventually(w.t, "a wake-up", func() bool { return w.waker.sofar().all > before })
}

func (w *waiting) claim(wait time.Duration) broker.Claimed {
	w.t.Helper()
	got, err := w.Claim(w.t.Context(), broker.ClaimRequest{Worker: "w", Max: 10, Wait: wait, Queues: []broker.Share{{Queue: "q", Max: 10}}})
	w.other.check(err)
	return got
}

func (w *waiting) take(id string, got broker.Claimed) {
	w.t.Helper()
	if len(got.Jobs) != 1 || got.Jobs[0].ID != id {
		w.t.Fatalf("claimed %v, want %s alone", got.Jobs, id)
	}
}

// looks returns how often f used a connection.
func (w *waiting) looks(f func()) int64 {
	before := w.pool.Stat().AcquireCount()
	f()
	return w.pool.Stat().AcquireCount() - before
}

// A worker that takes jobs one by one as they come makes one look for each.
func TestLastClaim_AClaimThatWaitsDoesNotLookTwiceForNothing(t *testing.T) {
	t.Parallel()
	w := newWaiting(t)
	if n := w.looks(func() { w.claim(50 * time.Millisecond) }); n != 0 {
		t.Errorf("a claim that waited without result after one that took all used a connection %d times, want none", n)
	}
}

// A claim finds what came after the last claim, and what falls due.
func TestLastClaim_AClaimThatWaitsLooksAtOnceWhenThereMayBeSomething(t *testing.T) {
	t.Parallel()
	w := newWaiting(t)
	w.hear(w.waker.sofar().all, func() { w.other.accept(w.other, job("b")) })
	w.poll = time.Hour // so that it looks by itself only at the end of its time
	began := time.Now()
	w.take("b", w.claim(time.Minute))
	if took := time.Since(began); took > 50*time.Second {
		t.Errorf("a job that was there already was claimed after %v", took)
	}

	due := job("c")
	due.Delay = 500 * time.Millisecond // long enough for the claim before it, on a busy machine
	w.hear(w.waker.sofar().all, func() { w.other.accept(w.other, due) })
	if got := w.claim(0); len(got.Jobs) > 0 || got.NextDue.IsZero() {
		t.Fatalf("claimed %+v, want the due time of c", got)
	}
	began = time.Now()
	w.take("c", w.claim(time.Minute))
	if took := time.Since(began); took > 50*time.Second {
		t.Errorf("a job due in %v was claimed after %v", due.Delay, took)
	}

	w.listener.set(false) // as when the connection breaks
	if n := w.looks(func() { w.claim(time.Second) }); n < 2 {
		t.Errorf("a claim that waits and cannot hear used a connection %d times, want one more than at its end", n)
	}
}

// A wake-up for pending jobs says that nothing else changed: a claim that it wakes takes them
// and relies on what is known about the rest, for as long as a claim may go without a look.
// Any other wake-up makes it look at everything.
func TestLastClaim_AClaimThatIsWokenForPendingJobsLooksForNothingElse(t *testing.T) {
	t.Parallel()
	w := newWaiting(t)
	hour, minute := job("in an hour"), job("in a minute")
	hour.Delay, minute.Delay = time.Hour, time.Minute
	w.hear(w.waker.sofar().all, func() { w.other.accept(w.other, hour) })
	later := w.claim(0).NextDue
	looked := func() time.Time {
		w.last.mu.Lock()
		defer w.last.mu.Unlock()
		return w.last.last.at
	}

	at := looked()
	w.hear(w.waker.sofar().all, func() { w.other.accept(w.other, job("b")) })
	got := w.claim(time.Minute)
	w.take("b", got)
	if looked() != at || !got.NextDue.Equal(later) {
		t.Errorf("a claim that was woken for a pending job looked at the queue again: %v, then %v; next due %v, want %v", at, looked(),
			got.NextDue, later)
	}
	if n := w.looks(func() { w.claim(50 * time.Millisecond) }); n != 0 {
		t.Errorf("the claim after it, which waited without result, used a connection %d times, want none", n)
	}

	at = looked()
	w.hear(w.waker.sofar().all, func() { w.other.accept(w.other, minute) })
	w.hear(w.waker.sofar().all, func() { w.other.accept(w.other, job("c")) })
	got = w.claim(time.Minute)
	w.take("c", got)
	if looked() == at || !got.NextDue.Before(later) {
		t.Errorf("a claim that was woken for a scheduled and for a pending job says that %v is the next due time, want a minute from now",
			got.NextDue)
	}

	w.last.mu.Lock()
	w.last.last.at = w.last.last.at.Add(-2 * pollListening)
	w.last.mu.Unlock()
	at = looked()
	w.hear(w.waker.sofar().all, func() { w.other.accept(w.other, job("d")) })
	w.take("d", w.claim(time.Minute))
	if looked() == at {
		t.Errorf("a queue that was looked at %v ago was not looked at again", 2*pollListening)
	}
}

// A claim that waits for many queues, in any order, asks only those for which it is woken. Its next look at
// all queues finds a job whose wake-up was lost.
func TestLastClaim_AClaimOfManyQueuesAsksThoseThatCalled(t *testing.T) {
	t.Parallel()
	w := newWaiting(t)
	queues := []string{"q", "r"}
	_, err := w.other.Renew(t.Context(), broker.RenewRequest{Worker: "w", Queues: queues, Lease: time.Minute, Register: true})
	w.other.check(err)
	w.other.check(w.enterWaiters(t.Context(), queues))
	request := func(wait time.Duration, names ...string) broker.ClaimRequest {
		req := broker.ClaimRequest{Worker: "w", Max: 10, Wait: wait}
		for _, name := range names {
			req.Queues = append(req.Queues, broker.Share{Queue: name, Max: 5})
		}
		return req
	}
	claim := func(req broker.ClaimRequest) broker.Claimed {
		t.Helper()
		got, err := w.Claim(t.Context(), req)
		w.other.check(err)
		return got
	}
	claim(request(0, "q", "r", "q"))
	quiet := job("quiet")
	quiet.Queue = "r"
	w.other.accept(w.other, quiet)
	w.hear(w.waker.sofar().all, func() { w.other.accept(w.other, job("calls")) })
	testenv.Eventually(t, "the wake-up for r", func() bool { some, _ := w.waker.calledSince(request(0, "r").Queues, 0); return len(some) > 0 })
	w.waker.mu.Lock()
	w.waker.calls["r"] = 0 // as if it had been lost
	w.waker.mu.Unlock()

	w.poll = time.Hour
	w.take("calls", claim(request(time.Minute, "r", "q")))

	both := job("second")
	both.Queue = "r"
	before := w.waker.sofar().all
	w.hear(before+1, func() { w.other.accept(w.other, job("first"), both) })
	got := claim(request(time.Minute, "q", "r"))
	for _, j := range got.Jobs {
		if of := map[string]string{"first": "q", "second": "r", "quiet": "r"}[j.ID]; j.Queue != of {
			t.Errorf("job %q of queue %q was claimed as one of %q", j.ID, of, j.Queue)
		}
	}
	if len(got.Jobs) != 3 { // with quiet, which stands before the second
		t.Errorf("claimed %d jobs of two queues that called, want 3", len(got.Jobs))
	}

	quiet.ID = "quiet again"
	w.other.accept(w.other, quiet)
	testenv.Eventually(t, "the wake-up for r", func() bool {
		some, _ := w.waker.calledSince(request(0, "r").Queues, before+2)
		return len(some) > 0
	})
	w.waker.mu.Lock()
	w.waker.calls["r"] = 0
	w.waker.mu.Unlock()
	w.last.mu.Lock()
	w.last.last.at = w.last.last.at.Add(-3 * w.poll)
	w.last.mu.Unlock()
	w.hear(w.waker.sofar().all, func() { w.other.accept(w.other, job("b")) })
	if got := claim(request(time.Minute, "q", "r")); len(got.Jobs) != 2 {
		t.Errorf("a claim long after the last look at all queues took %d jobs, want that of the queue that called and the other", len(got.Jobs))
	}
}

// A process that is woken while none of its claims waits stays known to others, if no other one waits: the next claim looks for
// what it was woken for, and not at all of its queues.
func TestLastClaim_TheOnlyProcessStaysKnown(t *testing.T) {
	t.Parallel()
	w := newWaiting(t)
	w.waker.grace = 0
	for _, id := range []string{"b", "c"} {
		w.hear(w.waker.sofar().all+1, func() { w.other.accept(w.other, job(id)) }) // it comes, and is passed on
		if !w.waker.known([]string{"q"}) || w.other.value("select count(*) from jobs.waiter") != 1 {
			t.Error("others do not know the process any more")
		}
		looks := w.looks(func() { w.take(id, w.claim(time.Second)) })
		if looks != 1 {
			t.Errorf("a claim used a connection %d times, want once", looks)
		}
	}
}
