package engine

import (
	"context"
	"testing"
	"time"

	"github.com/seed81422ce9/jobs/broker"
)

func TestServer_BatchesGrowAgainAfterOneThatWasRefused(t *testing.T) {
	t.Parallel()
	s, w := still(t, newStore(), Options{})
	settled := func(verdicts []broker.Verdict, err error) int {
		j := &broker.Job{Queue: testQueue, ID: "a"}
		s.leaseLocked(w, j)
		s.settleLocked(w, j, broker.Complete(nil))
		s.batchLocked(w)
		return s.answered(w, verdicts, err, time.Millisecond)
	}
	w.batchLimit = 10
	for _, want := range []int{20, 40} {
		if failures := settled([]broker.Verdict{{State: broker.StateCompleted}}, nil); failures != 0 || w.batchLimit != want || w.leases != 0 {
			t.Errorf("after an answer batches have %d items at most, %d failures, %d leases; want %d, none, none", w.batchLimit, failures, w.leases,
				want)
		}
	}
	if w.batchLimit = maxSettleItems; settled([]broker.Verdict{{State: broker.StateCompleted}}, nil) != 0 || w.batchLimit != maxSettleItems {
		t.Errorf("batches grow to %d items, want %d at most", w.batchLimit, maxSettleItems)
	}
	if failures := settled(nil, errCut); failures != 1 || len(w.items) != 1 || w.calling {
		t.Errorf("after a lost answer there are %d failures and %d items to repeat, want 1 and 1", failures, len(w.items))
	}
}

// An audit may come when an answer was sorted and is not yet applied: all its items still count.
func TestServer_AnAuditBesideAnAnswerInPartReleasesNothing(t *testing.T) {
	t.Parallel()
	listed := make(map[string][]broker.Job)
	b := &tap{Broker: newStore()}
	b.find = func(_ context.Context, q broker.Query) (broker.Page, error) {
		return broker.Page{Jobs: listed[q.Queue]}, nil
	}
	s, w := still(t, b, Options{Queues: map[string]int{"p": 1, "q": 1}})
	for _, j := range []*broker.Job{{Queue: "q", ID: "answered"}, {Queue: "p", ID: "again"}, {Queue: "p", ID: "too"}} {
		s.leaseLocked(w, j)
		s.settleLocked(w, j, broker.Complete(nil))
		listed[j.Queue] = append(listed[j.Queue], *j)
	}
	s.batchLocked(w)
	audits := 0
	s.opts.Hooks.Settle = func(SettleEvent) {
		audits++
		s.audit(t.Context(), w)
	}
	s.answered(w, []broker.Verdict{{State: broker.StateCompleted}, {Err: broker.ErrUnavailable}, {}}, nil, time.Millisecond)
	if audits != 1 || len(w.items) != 2 || len(w.done) > 0 {
		t.Errorf("after %d audits %d outcomes are to be sent again, and %d jobs were released; want one, 2 and none",
			audits, len(w.items), len(w.done))
	}
}

func TestServer_AnAuditKnowsWhatWaitsAndWhatIsToBeSettled(t *testing.T) {
	t.Parallel()
	for _, draining := range []bool{false, true} {
		var listed []broker.Job
		b := &tap{Broker: newStore()}
		b.find = func(context.Context, broker.Query) (broker.Page, error) { return broker.Page{Jobs: listed}, nil }
		s, w := still(t, b, Options{})
		at := time.Now().Add(-time.Minute)
		active, ready, careful, gone := runFor(s, w, testQueue, "active", 0), runFor(s, w, testQueue, "ready", 0),
			runFor(s, w, testQueue, "careful", 1), runFor(s, w, testQueue, "gone", 0)
		for _, r := range []*Run{active, ready, careful, gone} {
			r.claimed = at
		}
		s.slots.running = []*Run{active, gone}
		s.slots.ready.push(ready)
		s.slots.guarded.push(careful)
		sent, done := &broker.Job{Queue: testQueue, ID: "sent"}, &broker.Job{Queue: testQueue, ID: "done"}
		w.items, w.done = []broker.Settlement{{Job: sent}}, []broker.Settlement{{Job: done}}
		for _, j := range []*broker.Job{active.Job, ready.Job, careful.Job, sent, done, {Queue: testQueue, ID: "unknown"}} {
			listed = append(listed, *j)
		}
		if draining {
			s.drain(nil)
		}
		s.audit(t.Context(), w)
		if draining {
			if len(w.done) != 1 || gone.hasEnded() != nil {
				t.Errorf("an audit during a drain released %d jobs, and ended a run with %v; want none and no", len(w.done)-1, gone.hasEnded())
			}
			continue
		}
		if len(w.done) != 2 || w.done[1].Job.ID != "unknown" || w.done[1].Outcome.Kind() != broker.OutcomeRelease {
			t.Errorf("after the audit there is to settle %+v, want the release of the one that nobody knows", w.done)
		}
		if gone.hasEnded() != broker.ErrLeaseLost || active.hasEnded() != nil || ready.hasEnded() != nil || careful.hasEnded() != nil {
			t.Errorf("runs ended with %v, %v, %v and %v; want broker.ErrLeaseLost for what the store does not hold, alone", gone.hasEnded(),
				active.hasEnded(), ready.hasEnded(), careful.hasEnded())
		}
	}
}
