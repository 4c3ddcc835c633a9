package engine

import (
	"context"
	"testing"
	"time"

	"github.com/seed81422ce9/jobs/broker"
)

// runFor is a run of w of a job that has crashed so often.
func runFor(s *Server, w *worker, queue, id string, crashes int) *Run {
	r := &Run{worker: w, queue: s.queueOf(queue), started: time.Now()}
	j := &broker.Job{Queue: queue, ID: id}
	j.Crashes = crashes
	r.parent, r.Job = context.Background(), j
	return r
}

func (r *Run) hasEnded() error {
	cause, _ := r.Over(time.Now())
	return cause
}

func TestServer_LosingAWorkerEndsItsOwnRunsAndTheClaimThatWaits(t *testing.T) {
	t.Parallel()
	s, w := still(t, newStore(), Options{})
	other := s.newWorker()
	ours, theirs := runFor(s, w, testQueue, "a", 0), runFor(s, other, testQueue, "b", 0)
	s.slots.running = []*Run{ours, nil, theirs}
	given := 0
	s.fetcher.waiting, s.fetcher.giveUp = true, func() { given++ }
	s.lose(w, "test")
	if ours.hasEnded() != broker.ErrLeaseLost || theirs.hasEnded() != nil {
		t.Errorf("its own run ended with %v, that of another worker with %v; want broker.ErrLeaseLost and not at all", ours.hasEnded(),
			theirs.hasEnded())
	}
	if given != 1 {
		t.Errorf("the claim that waits for the lost worker was given up %d times, want once", given)
	}
}

func TestServer_CancellingEndsTheRunOfThatQueueBegunOrNot(t *testing.T) {
	t.Parallel()
	s, w := still(t, newStore(), Options{Queues: map[string]int{"p": 1, "q": 1}})
	active, elsewhere := runFor(s, w, "p", "a", 0), runFor(s, w, "q", "a", 0)
	ready, careful := runFor(s, w, "p", "b", 0), runFor(s, w, "p", "c", 1)
	s.slots.running = []*Run{active, elsewhere}
	s.slots.ready.push(ready)
	s.slots.guarded.push(careful)
	for _, id := range []string{"a", "b", "c"} {
		s.cancelRunLocked("p", id)
	}
	for name, r := range map[string]*Run{"the active run": active, "the one that waits for a slot": ready,
		"the one that waits for its turn": careful} {
		if r.hasEnded() != ErrCancelled {
			t.Errorf("%s ended with %v, want ErrCancelled", name, r.hasEnded())
		}
	}
	if elsewhere.hasEnded() != nil {
		t.Errorf("the run of the same ID in another queue ended with %v", elsewhere.hasEnded())
	}
}

func TestServer_AGapByEitherClockBeginsTheSteadyTimeAnew(t *testing.T) {
	t.Parallel()
	s, _ := still(t, newStore(), Options{Lease: 12 * time.Second})
	begin := time.Now()
	for _, c := range []struct {
		name         string
		local, store time.Duration // since the renewal before
		anew         bool
	}{
		{"no gap", 9 * time.Second, 9 * time.Second, false},
		{"ours went on", 9*time.Second + 1, 4 * time.Second, true},
		{"the store's went on", 4 * time.Second, 9*time.Second + 1, true},
		{"the store's went back", 4 * time.Second, -9*time.Second - 1, true},
		{"the store's went back a little", 4 * time.Second, -8 * time.Second, false},
	} {
		w := &worker{renewed: begin, stored: begin, steady: begin}
		s.steadiedLocked(w, begin.Add(c.local), begin.Add(c.store))
		if anew := !w.steady.Equal(begin); anew != c.anew {
			t.Errorf("%s: the steady time begins anew is %v, want %v", c.name, anew, c.anew)
		}
		if !w.renewed.Equal(begin.Add(c.local)) || !w.stored.Equal(begin.Add(c.store)) {
			t.Errorf("%s: the renewal is not remembered", c.name)
		}
	}
}

func TestServer_UpkeepIsDueForALiveWorkerAndAnAuditOnce(t *testing.T) {
	t.Parallel()
	now := time.Now()
	for _, c := range []struct {
		name    string
		change  func(w *worker)
		reclaim bool
	}{
		{"steady for a lease", func(*worker) {}, true},
		{"not yet steady", func(w *worker) { w.steady = now.Add(time.Second - broker.DefaultLease) }, false},
		{"nobody lapses", func(w *worker) { w.lapse = now.Add(time.Second) }, false},
		{"somebody has lapsed", func(w *worker) { w.lapse = now }, true},
	} {
		s, w := still(t, newStore(), Options{})
		w.steady = now.Add(-broker.DefaultLease)
		w.audit = true
		c.change(w)
		got, audit, reclaim := s.upkeepDue(now)
		if got != w || !audit || reclaim != c.reclaim {
			t.Errorf("%s: audit %v, reclaim %v; want true, %v", c.name, audit, reclaim, c.reclaim)
		}
		if _, again, _ := s.upkeepDue(now); again {
			t.Errorf("%s: the audit is due twice", c.name)
		}
		w.lost = true
		if got, _, reclaim := s.upkeepDue(now); got != nil || reclaim {
			t.Errorf("%s: there is upkeep under a lost worker", c.name)
		}
	}
}

func TestServer_AJumpOfTheStoresClockIsSeenBeforeOthersAreJudged(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		jump time.Duration
		err  error
		held bool
	}{{0, nil, true}, {time.Second, nil, true}, {-time.Second, nil, true}, {time.Minute, nil, false}, {-time.Minute, nil, false},
		{0, errCut, false}} {
		b := &tap{Broker: newStore()}
		b.ping = func(context.Context) (time.Time, error) {
			if c.err != nil {
				return time.Time{}, c.err
			}
			return time.Now().Add(c.jump), nil
		}
		s, w := still(t, b, Options{})
		w.stored = w.renewed
		if held := s.clockHeld(t.Context(), w, new(outage)); held != c.held {
			t.Errorf("after a jump of %v (error %v) the clock is held to go on is %v, want %v", c.jump, c.err, held, c.held)
		}
		if anew := !w.steady.IsZero(); anew != (c.jump.Abs() > time.Second) {
			t.Errorf("after a jump of %v everybody gets a new lease's time is %v", c.jump, anew)
		}
	}
}

func TestServer_ALostReclaimIsAuditedAndHalvesTheNext(t *testing.T) {
	t.Parallel()
	b := &tap{Broker: newStore()}
	var asked []broker.ReclaimRequest
	b.reclaim = func(_ context.Context, req broker.ReclaimRequest) (broker.Claimed, error) {
		asked = append(asked, req)
		return broker.Claimed{More: true}, errCut
	}
	s, w := still(t, b, Options{})
	s.reclaim(t.Context(), w, new(outage))
	if w.suspect != auditsAfterLoss || s.fetcher.size.jobs != reclaimMax/2 {
		t.Errorf("after a lost answer %d audits are to be made and claims ask for %d; want %d and %d", w.suspect, s.fetcher.size.jobs,
			auditsAfterLoss, reclaimMax/2)
	}
	s.reclaim(t.Context(), w, new(outage))
	if len(asked) != 2 || asked[0].Max != reclaimMax || asked[1].Max != reclaimMax/2 || asked[1].Bytes != asked[0].Bytes/2 ||
		asked[1].Bytes == 0 {
		t.Errorf("the reclaims asked for %+v; want one each, the second for half", asked)
	}
}

// renewing makes renewals of w with these answers.
func renewing(t *testing.T, opts Options) (s *Server, w *worker, renew func(broker.Renewed) time.Duration) {
	b := &tap{Broker: newStore()}
	s, w = still(t, b, opts)
	return s, w, func(answer broker.Renewed) (timeout time.Duration) {
		b.renew = func(ctx context.Context, _ broker.RenewRequest) (broker.Renewed, error) {
			end, _ := ctx.Deadline()
			timeout = time.Until(end)
			return answer, nil
		}
		if _, _, err := s.renew(t.Context(), w, nil); err != nil {
			t.Fatal(err)
		}
		return timeout
	}
}

func TestServer_DoubtsAboutLeasesLeadToAudits(t *testing.T) {
	t.Parallel()
	_, w, renew := renewing(t, Options{})
	answer := func(n int) broker.Renewed {
		return broker.Renewed{Now: time.Now(), Held: map[string]int{testQueue: n}}
	}
	audited := func() bool {
		audit := w.audit
		w.audit = false
		return audit
	}
	if renew(answer(1)); audited() {
		t.Error("one renewal that counts another lease is doubted; the lease may be on its way")
	}
	renew(answer(0))
	if renew(answer(1)); audited() {
		t.Error("two renewals that differ are doubted although one between them agreed")
	}
	if renew(answer(1)); !audited() {
		t.Error("two renewals in a row that differ lead to no audit")
	}
	renew(broker.Renewed{Now: time.Now()})
	w.suspect = auditsAfterLoss
	for i := range auditsAfterLoss {
		if renew(answer(0)); !audited() {
			t.Errorf("renewal %d after a lost answer leads to no audit", i+1)
		}
	}
	if renew(answer(0)); audited() {
		t.Error("the audits after a lost answer do not end")
	}
}

func TestServer_ARenewalLeavesTimeForAnotherAndKnowsTheNextLapseByItsOwnClock(t *testing.T) {
	t.Parallel()
	_, w, renew := renewing(t, Options{Lease: 6 * time.Second})
	ahead := time.Now().Add(24 * time.Hour) // the store's clock
	if timeout := renew(broker.Renewed{Now: ahead, NextLapse: ahead.Add(time.Hour)}); timeout > 3*time.Second {
		t.Errorf("a renewal may take %v of a lease of 6s, want half of it at most", timeout)
	}
	if left := time.Until(w.lapse); left > time.Hour || left < 59*time.Minute {
		t.Errorf("the next lease runs out in %v, want an hour", left)
	}
	if renew(broker.Renewed{Now: ahead}); !w.lapse.IsZero() {
		t.Errorf("a lapse is remembered that the store does not tell of: %v", w.lapse)
	}
}
