package engine

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/seed81422ce9/jobs/broker"
)

// failing is a broker whose claims fail.
type failing struct {
	broker.Broker
	err error
}

func (b failing) Claim(context.Context, broker.ClaimRequest) (broker.Claimed, error) {
	return broker.Claimed{}, b.err
}

func TestServer_TheEndOfAnOutageOfClaimsIsToldOfOnce(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	s, w := still(t, answering{newStore(), broker.Claimed{}}, Options{})
	s.log = slog.New(slog.NewTextHandler(&log, nil))
	s.fetcher.away.failed(time.Now(), errCut)
	for range 2 {
		s.claim(t.Context(), &claimCall{worker: w, req: broker.ClaimRequest{Worker: w.id, Max: 2}})
	}
	if n := strings.Count(log.String(), "claiming works again"); n != 1 || s.fetcher.away.failures != 0 {
		t.Errorf("after an outage and two claims that worked, its end was told of %d times, and it counts %d failures; want once and none",
			n, s.fetcher.away.failures)
	}
}

func TestServer_AClaimThatWasGivenUpSaysNothingOfTheStore(t *testing.T) {
	t.Parallel()
	s, w := still(t, failing{newStore(), context.Canceled}, Options{})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	s.claim(ctx, &claimCall{worker: w, req: broker.ClaimRequest{Worker: w.id, Max: 2}})
	if f := &s.fetcher; f.away.failures != 0 || !f.notBefore.IsZero() || !f.succeeded.IsZero() {
		t.Errorf("it counts as %d failures, with a pause until %v and a success at %v", f.away.failures, f.notBefore, f.succeeded)
	}
}

// Of the outcomes that a failed claim carried, nobody knows what became of them.
func TestServer_OutcomesThatAFailedClaimCarriedAreRepeated(t *testing.T) {
	t.Parallel()
	s, w := still(t, failing{newStore(), broker.ErrWorkerGone}, Options{})
	j := &broker.Job{Queue: testQueue, ID: "a"}
	s.leaseLocked(w, j)
	s.settler.unsettled = 1
	w.done = []broker.Settlement{{Job: j, Outcome: broker.Complete(nil)}}
	req := s.carryLocked(w)
	s.claim(t.Context(), &claimCall{worker: w, req: broker.ClaimRequest{Worker: w.id, Max: 2, Settle: req}})
	if again := s.batchLocked(w); w.leases != 1 || len(again.Items) != 1 || again.Number != req.Number {
		t.Errorf("%d leases are left, and %d outcomes go out as number %d; want 1 and 1 again as number %d",
			w.leases, len(again.Items), again.Number, req.Number)
	}
}

func TestServer_ClaimsAskForNoMoreBytesThanTheWayCarries(t *testing.T) {
	t.Parallel()
	s, _ := still(t, newStore(), Options{})
	s.fetcher.size.bytes = 12345
	if call, _ := s.planClaimLocked(time.Now()); call.req.Bytes != 12345 {
		t.Errorf("a claim asks for %d bytes, want 12345", call.req.Bytes)
	}
}

func TestServer_TwoClaimsUnderWayShareTheRoom(t *testing.T) {
	t.Parallel()
	s, _ := still(t, newStore(), Options{Concurrency: 8, Prefetch: 4})
	f := &s.fetcher
	f.gave, f.measured, f.took = true, true, time.Microsecond
	call, ok := s.planClaimLocked(time.Now())
	if !ok || !call.ahead || call.req.Max != 4 {
		t.Errorf("where 12 jobs may be held and there are plenty, a claim asks for %d (ahead: %t), want a third", call.req.Max, call.ahead)
	}
	f.flying, f.asked = 1, 4
	for holding, room := range map[int]bool{5: true, 6: false} {
		if s.slots.holding = holding; s.roomAheadLocked() != room {
			t.Errorf("with %d of 12 held and 4 on their way, another claim is worth sending is %t", holding, !room)
		}
	}
}

func TestServer_ASettleIsBoundedInBytes(t *testing.T) {
	t.Parallel()
	s, w := still(t, newStore(), Options{})
	for range 10 {
		w.done = append(w.done, broker.Settlement{Job: &broker.Job{Queue: testQueue}, Outcome: broker.Complete(make([]byte, 1<<20))})
	}
	if n := len(s.batchLocked(w).Items); n != maxSettleBytes>>20 {
		t.Errorf("%d results of 1 MiB go into one settle, want %d", n, maxSettleBytes>>20)
	}
}

func TestServer_AnsweredOutcomesOfTransactionsAreForgotten(t *testing.T) {
	t.Parallel()
	s, w := still(t, newStore(), Options{})
	j := &broker.Job{Queue: testQueue, ID: "a"}
	s.leaseLocked(w, j)
	s.inTx.add(j, true)
	s.endedLocked(w, []broker.Settlement{{Job: j, Outcome: broker.Complete(nil)}}, []broker.Verdict{{State: broker.StateCompleted}},
		time.Now())
	if n := len(s.inTx); n != 0 {
		t.Errorf("%d jobs are remembered for ever", n)
	}
}

func TestServer_ALostLeaseMeansACommitOnlyIfNobodyElseCanHaveTheJob(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		committed, lost bool
		age             time.Duration // of the last renewal
		completed       bool
	}{
		"the handler says so":                             {true, true, time.Hour, true},
		"the worker has its leases":                       {false, false, broker.DefaultLease - time.Second, true},
		"the leases of the worker may have run out":       {false, false, broker.DefaultLease + time.Second, false},
		"the worker was lost, and its commit rolled back": {false, true, time.Second, false},
	} {
		s, w := still(t, newStore(), Options{})
		now := time.Now()
		w.lost, w.renewed = c.lost, now.Add(-c.age)
		j := &broker.Job{Queue: testQueue, ID: "a"}
		s.inTx.add(j, c.committed)
		items, verdicts := []broker.Settlement{{Job: j, Outcome: broker.Retry(0, broker.Failure{})}}, []broker.Verdict{{Err: broker.ErrLeaseLost}}
		s.excuseLocked(w, items, verdicts, now)
		if got := verdicts[0].Err == nil && verdicts[0].State == broker.StateCompleted; got != c.completed {
			t.Errorf("%s: the verdict is %+v, want completed: %t", name, verdicts[0], c.completed)
		}
	}
}

func TestRun_TheDeadlineIsTheSoonest(t *testing.T) {
	t.Parallel()
	now := time.Now()
	soon, cancel := context.WithDeadline(t.Context(), now.Add(time.Minute))
	defer cancel()
	for _, c := range []struct {
		parent context.Context
		end    time.Time
		want   time.Time
	}{
		{soon, now.Add(time.Hour), now.Add(time.Minute)},
		{soon, now.Add(time.Second), now.Add(time.Second)},
		{soon, time.Time{}, now.Add(time.Minute)},
		{t.Context(), now.Add(time.Hour), now.Add(time.Hour)},
	} {
		ctx := &lazyContext{parent: c.parent, end: c.end}
		if got, ok := ctx.Deadline(); !ok || !got.Equal(c.want) {
			t.Errorf("a run that ends at %v has the deadline %v, want %v", c.end, got, c.want)
		}
	}
}

func TestRun_ABoundInsideAShorterOneChangesNothing(t *testing.T) {
	t.Parallel()
	s, w := still(t, newStore(), Options{})
	r := runFor(s, w, testQueue, "a", 0)
	r.server = s
	now := time.Now()
	outer, releaseOuter := WithBound(r, now.Add(time.Minute), 0)
	_, releaseInner := WithBound(outer, now.Add(time.Hour), 0)
	if at := r.overdueAt(0); !at.Equal(now.Add(time.Minute)) {
		t.Errorf("the run is overdue at %v, want after the shorter bound", at)
	}
	releaseInner()
	if at := r.overdueAt(0); !at.Equal(now.Add(time.Minute)) {
		t.Errorf("when the inner bound is over, the run is overdue at %v, want after the outer one", at)
	}
	releaseOuter()
	if at := r.overdueAt(0); !at.IsZero() {
		t.Errorf("without a bound the run is overdue at %v", at)
	}
}

func TestOutage_IsToldOfEveryTenMinutesAtLeast(t *testing.T) {
	t.Parallel()
	var o outage
	began := time.Now()
	last := began
	for at := began; at.Sub(began) < 5*time.Hour; at = at.Add(time.Minute) {
		if o.failed(at, errCut) {
			last = at
		}
		if silent := at.Sub(last); silent > outageLoggedMax {
			t.Fatalf("after %v nothing was said for %v", at.Sub(began), silent)
		}
	}
}

func TestUnanswered_AreAllItemsOfAQueueInWhichTheStoreFailed(t *testing.T) {
	t.Parallel()
	item := func(queue, id string) broker.Settlement {
		return broker.Settlement{Job: &broker.Job{Queue: queue, ID: id}, Outcome: broker.Complete(nil)}
	}
	items := []broker.Settlement{item("a", "1"), item("b", "2"), item("c", "3"), item("b", "4")}
	verdicts := []broker.Verdict{{}, {Err: broker.ErrUnavailable}, {Err: broker.ErrLeaseLost}, {}}
	ids := func(items []broker.Settlement) (ids string) {
		for i := range items {
			ids += items[i].Job.ID
		}
		return ids
	}
	sorted, answers, left, err := unanswered(items, verdicts)
	if left != 2 || err == nil || ids(sorted) != "2413" || answers[3].Err != broker.ErrLeaseLost {
		t.Errorf("%d items are sent again (%v), in the order %s with the last verdict %v; want both of b first, and then the others with theirs",
			left, err, ids(sorted), answers[3].Err)
	}
	if order := ids(items); order != "1234" {
		t.Errorf("what was sent, which others may be reading, became %s", order)
	}
	if _, _, left, err := unanswered(items[:1], []broker.Verdict{{Err: broker.ErrLeaseLost}}); left != 0 || err != nil {
		t.Errorf("%d items are sent again (%v) although the store has answered", left, err)
	}
}

// Outcomes wait for a claim that takes them along; without one they go out on their own.
func TestServer_OutcomesGoOutOnTheirOwnWhenNoClaimIsMade(t *testing.T) {
	t.Parallel()
	for name, act := range map[string]func(*Server){
		"the loop of claims has ended": func(s *Server) { s.claimNoMore() },
		"it sleeps in a drain": func(s *Server) {
			s.drainLocked(nil)
			s.nextClaimLocked(t.Context(), time.Now())
		},
		"it pauses after a failure": func(s *Server) {
			s.fetcher.notBefore = time.Now().Add(time.Hour)
			s.nextClaimLocked(t.Context(), time.Now())
		},
	} {
		s, w := still(t, newStore(), Options{})
		s.fetcher.state, s.settler.parked = fetchAwake, true
		w.done = []broker.Settlement{{Job: &broker.Job{Queue: testQueue, ID: "a"}, Outcome: broker.Complete(nil)}}
		act(s)
		if len(s.settler.poke) != 1 || s.fetcher.state != fetchOff {
			t.Errorf("%s: the settler was woken %d times, and the claims are in state %d; want once and %d",
				name, len(s.settler.poke), s.fetcher.state, fetchOff)
		}
	}
}
