package engine

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/seed81422ce9/jobs/broker"
)

func TestServer_ReclaimsAsLongAsThereIsMoreAndItIsNotDraining(t *testing.T) {
	t.Parallel()
	b := &tap{Broker: newStore()}
	calls := 0
	var err error
	b.reclaim = func(context.Context, broker.ReclaimRequest) (broker.Claimed, error) {
		calls++
		return broker.Claimed{More: calls < 3}, err
	}
	s, w := still(t, b, Options{})
	away := outage{failures: 4}
	if s.reclaim(t.Context(), w, &away); calls != 3 || away.failures != 0 {
		t.Errorf("while there is more it asked %d times of 3; %d failures are remembered after success", calls, away.failures)
	}
	calls, err = 0, broker.ErrWorkerGone
	if s.reclaim(t.Context(), w, &away); calls != 1 || len(s.renewNow) != 1 || away.failures != 1 {
		t.Errorf("a store that does not know the worker was asked %d times, and renewals to make at once are %d; want 1 and 1", calls,
			len(s.renewNow))
	}
	calls, err = 0, nil
	s.drain(nil)
	if s.reclaim(t.Context(), w, &away); calls != 1 {
		t.Errorf("while draining it asked %d times, want once", calls)
	}
}

// pruning is a broker with something to prune, so many times.
type pruning struct {
	broker.Broker
	calls, more int
	err         error
}

func (p *pruning) Prune(context.Context, broker.PruneRequest) (broker.Pruned, error) {
	p.calls++
	return broker.Pruned{More: p.calls < p.more}, p.err
}

func TestServer_PrunesABoundedAmountATurn(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ more, calls int }{{1, 1}, {5, 5}, {10 * pruneRounds, pruneRounds}} {
		b := &pruning{Broker: newStore(), more: c.more}
		s, _ := still(t, b, Options{})
		s.pruner.away.failures = 1
		if s.pruner.turn(t.Context()); b.calls != c.calls || s.pruner.away.failures != 0 {
			t.Errorf("with something to do for %d calls it made %d, want %d; %d failures are remembered after success", c.more, b.calls, c.calls,
				s.pruner.away.failures)
		}
	}
	b := &pruning{Broker: newStore(), more: 10, err: errCut}
	s, _ := still(t, b, Options{})
	if s.pruner.turn(t.Context()); b.calls != 1 || s.pruner.away.failures != 1 {
		t.Errorf("a store that fails was asked %d times, %d failures are remembered; want 1 and 1", b.calls, s.pruner.away.failures)
	}
}

func TestServer_OneOfThoseWithTheSameQueuesPrunes(t *testing.T) {
	t.Parallel()
	b := &pruning{Broker: newStore(), more: 1}
	server := func(id string, queues map[string]int) *Server {
		s, _ := still(t, b, Options{Queues: queues})
		s.pruner.owner = id
		return s
	}
	first, second := server("1", map[string]int{"a": 1, "b": 2}), server("2", map[string]int{"a": 2, "b": 1})
	for _, c := range []struct {
		server *Server
		want   int
	}{{first, 1}, {second, 1}, {first, 2}, {server("3", map[string]int{"a": 1}), 3}} {
		if c.server.pruner.turn(t.Context()); b.calls != c.want {
			t.Fatalf("%d calls of Prune, want %d: of two servers with the same queues one prunes", b.calls, c.want)
		}
	}
	held, err := b.Mark(t.Context(), broker.MarkRequest{Action: broker.MarkRead, Name: first.pruner.mark})
	if err != nil || !held.Held || time.Until(held.Until) > pruneTTL {
		t.Fatalf("the mark: %+v, %v; want it held for %v", held, err, pruneTTL)
	}
	if _, err := b.Mark(t.Context(), broker.MarkRequest{Action: broker.MarkDrop, Name: first.pruner.mark, Owner: held.Owner,
		Fence: held.Fence}); err != nil {
		t.Fatal(err)
	}
	if second.pruner.turn(t.Context()); b.calls != 4 {
		t.Error("another server does not prune when the mark is free")
	}
}

func TestServer_LastCallsHaveTheirTimeHoweverLateItIs(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name   string
		began  time.Duration // ago
		forced bool
		want   time.Duration
	}{
		{"in time", 5 * time.Second, false, 20*time.Second + LastCalls},
		{"late", time.Minute, false, LastCalls},
		{"forced", 5 * time.Second, true, LastCalls},
	} {
		s, _ := still(t, newStore(), Options{ShutdownTimeout: 25 * time.Second})
		if c.forced {
			s.Hurry()
		}
		if left := time.Until(s.lastDeadline(time.Now().Add(-c.began))); left > c.want || left < c.want-time.Second {
			t.Errorf("%s: the last calls have %v, want %v", c.name, left, c.want)
		}
	}
}

func TestServer_RetiringIsRepeatedForAWorkerThatTheStoreKnows(t *testing.T) {
	bubble(t, func(t *testing.T) {
		for _, c := range []struct {
			registered bool
			err        error
			once       bool
		}{{true, errCut, false}, {false, errCut, true}, {true, broker.ErrInvalid, true}, {true, nil, true}} {
			b := &tap{Broker: newStore()}
			calls := 0
			b.retire = func(context.Context, broker.RetireRequest) (broker.Retired, error) {
				calls++
				return broker.Retired{}, c.err
			}
			s, w := still(t, b, Options{})
			w.registered = c.registered
			ctx, cancel := context.WithTimeout(t.Context(), LastCalls)
			s.retire(ctx, nil)
			cancel()
			if calls == 0 || (calls == 1) != c.once {
				t.Errorf("registered %v, error %v: %d calls, want one alone is %v", c.registered, c.err, calls, c.once)
			}
		}
	})
}

func TestServer_AStuckHandlerThatReturnsIsToldOfWithHowLate(t *testing.T) {
	t.Parallel()
	s, w := still(t, newStore(), Options{Concurrency: 1})
	r := runFor(s, w, testQueue, "a", 0)
	s.leaseLocked(w, r.Job)
	p := &s.slots
	p.running, p.active, p.holding, s.stuck.count = []*Run{r}, 1, 1, 1
	p.held[0] = 1
	r.stuck = &StuckEvent{Job: r.Job, since: time.Now().Add(-time.Minute)}
	s.leaveLocked(0, r, broker.Complete(nil))
	if s.stuck.count != 0 || len(s.stuck.unstuck) != 1 || s.stuck.unstuck[0].Overdue < time.Minute {
		t.Errorf("%d handlers are stuck, %+v have returned; want none, and one after a minute", s.stuck.count, s.stuck.unstuck)
	}
	if p.active != 0 || p.holding != 0 || p.held[0] != 0 || p.running[0] != nil {
		t.Errorf("the slot is not free: %d active, %d and %d held", p.active, p.holding, p.held[0])
	}
}

func TestServer_OnlyWhatWasClaimedBeforeIsGivenBack(t *testing.T) {
	t.Parallel()
	s, w := still(t, newStore(), Options{})
	now := time.Now()
	other := s.newWorker()
	for i, c := range []struct {
		w  *worker
		at time.Duration
	}{{w, -1}, {w, 1}, {other, -1}} {
		r := runFor(s, c.w, testQueue, string(rune('a'+i)), 0)
		s.leaseLocked(c.w, r.Job)
		r.claimed = now.Add(c.at)
		s.slots.ready.push(r)
		s.slots.holding++
		s.slots.held[0]++
	}
	if refs := s.releaseQueuedLocked(&s.slots.ready, w, now); len(refs) != 1 || refs[0].ID != "a" || s.slots.ready.len() != 2 {
		t.Errorf("given back are %v, %d jobs stay; want the first of three", refs, s.slots.ready.len())
	}
}

func TestServer_PrefetchIsForQuickHandlersAndNeverBesideACarefulJob(t *testing.T) {
	t.Parallel()
	s, w := still(t, newStore(), Options{Concurrency: 10})
	f := &s.fetcher
	for i, c := range []struct{ took, want time.Duration }{
		{800 * time.Microsecond, 800 * time.Microsecond}, {1600 * time.Microsecond, 900 * time.Microsecond},
		{100 * time.Microsecond, 875 * time.Microsecond},
	} {
		if f.measure(c.took); f.took != c.want {
			t.Errorf("after the handler %d the time of one is taken to be %v, want %v", i, f.took, c.want)
		}
	}
	if s.allowanceLocked() == 0 {
		t.Error("quick handlers allow for no prefetch")
	}
	if want, free := s.wantLocked(); want <= 10 || free != 10 {
		t.Errorf("with 10 free slots and quick handlers %d are wanted for %d", want, free)
	}
	s.slots.guardedActive = 1
	if n := s.allowanceLocked(); n != 0 {
		t.Errorf("beside a careful job %d may be prefetched", n)
	}
	s.slots.guardedActive = 0
	s.settler.unsettled = maxUnsettled + 1
	if want, _ := s.wantLocked(); want != 0 {
		t.Errorf("although outcomes cannot be recorded %d jobs are wanted", want)
	}
	s.settler.unsettled = 0
	s.slots.guarded.push(runFor(s, w, testQueue, "careful", 1))
	if want, _ := s.wantLocked(); want != 0 {
		t.Errorf("although a careful job waits for its turn %d others are wanted", want)
	}
}

func TestServer_OutcomesEndLeasesAndLeaveRoomForMore(t *testing.T) {
	t.Parallel()
	s, w := still(t, newStore(), Options{})
	s.limits.NoWait = true
	items := make([]broker.Settlement, 2)
	for i := range items {
		items[i] = broker.Settlement{Job: &broker.Job{Queue: testQueue, ID: string(rune('a' + i))},
			Outcome: broker.Retry(time.Minute, broker.Failure{})}
		s.leaseLocked(w, items[i].Job)
	}
	traffic, now := w.traffic, time.Now()
	s.settler.unsettled = maxUnsettled + 2
	s.endedLocked(w, slices.Clone(items), []broker.Verdict{{State: broker.StateRetry}, {Err: broker.ErrLeaseLost}}, now)
	if w.leases != 0 || w.held[0] != 0 || w.traffic == traffic {
		t.Errorf("%d leases are left, %d of the queue; traffic %d, was %d", w.leases, w.held[0], w.traffic, traffic)
	}
	if s.settler.unsettled != maxUnsettled || len(s.fetcher.poke) != 1 {
		t.Errorf("%d outcomes wait, the claims were woken %d times; want %d and once", s.settler.unsettled, len(s.fetcher.poke), maxUnsettled)
	}
	if !s.fetcher.due.Equal(now.Add(time.Minute)) {
		t.Errorf("the retry is awaited at %v, want in a minute", s.fetcher.due)
	}
	if len(s.logLater) != 1 {
		t.Errorf("%d lines tell of the outcome that was refused, want one", len(s.logLater))
	}
}

func TestServer_ClaimsCarryOutcomesExceptAfterOneThatFailed(t *testing.T) {
	t.Parallel()
	s, w := still(t, newStore(), Options{})
	done := broker.Settlement{Job: &broker.Job{Queue: testQueue, ID: "a"}, Outcome: broker.Complete(nil)}
	if n := len(s.carryLocked(w).Items); n != 0 {
		t.Errorf("%d outcomes are carried where there is none", n)
	}
	w.done = []broker.Settlement{done}
	s.fetcher.alone = time.Now().Add(time.Hour)
	if n := len(s.carryLocked(w).Items); n != 0 {
		t.Errorf("%d outcomes are carried right after a claim that failed", n)
	}
	s.fetcher.alone = time.Time{}
	req := s.carryLocked(w)
	if len(req.Items) != 1 || !w.calling {
		t.Errorf("%d outcomes are carried, want 1", len(req.Items))
	}
	w.calling = false
	if n := len(s.carryLocked(w).Items); n != 0 {
		t.Error("a claim carries outcomes whose first answer is unknown")
	}
	if again := s.batchLocked(w); again.Number != req.Number || len(again.Items) != 1 {
		t.Errorf("they are repeated as number %d with %d items, want %d and 1", again.Number, len(again.Items), req.Number)
	}
}
