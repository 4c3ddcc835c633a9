package storedtest

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/seed81422ce9/jobs/broker"
	"github.com/seed81422ce9/jobs/internal/examinetest"
)

// lastNumber is the number of the last settle of mail in Write.
const lastNumber = 2

// today is the worker that this release registers.
const today = "today"

// Work goes on with a store that Write filled, ten minutes later. It expects that leases, keys and limits still hold,
// that each job runs once, and that nothing is left at the end.
func Work(tb testing.TB, b broker.Broker) {
	tb.Helper()
	w := &work{step: step{tb: tb, b: b, now: Start.Add(10 * time.Minute), leased: make(map[string]*broker.Job),
		numbers: map[string]int64{patient: 100}}, ran: make(map[string]int)}
	w.examine()
	w.register(today, time.Hour)
	w.duplicates()
	w.limits()
	w.oldLeases()
	w.lostWorker()
	w.order()
	w.markHolders()
	w.drain()
	w.prune()
	w.examine()
}

type work struct {
	step
	ran map[string]int
}

func (w *work) examine() {
	w.tb.Helper()
	for _, f := range examinetest.Examine(w.tb, w.b, broker.ExamineRequest{Now: w.now}) {
		w.tb.Errorf("an examination found %+v", f)
	}
}

// duplicates expects that unique keys and IDs are still held.
func (w *work) duplicates() {
	for key, holder := range map[string]string{"done": "unique until done", "started": "unique until started",
		"window": "unique in a window", "debounce": "debounced", "user:7": "every field", "latest": "in front"} {
		r := w.try("a second one", func(j *broker.NewJob) { j.Body.Unique.Key = key })
		if !errors.Is(r.Err, broker.ErrDuplicate) || r.Holder != holder {
			w.tb.Errorf("a second job with the unique key %q: %v, holder %q; want ErrDuplicate, holder %q", key, r.Err, r.Holder, holder)
		}
	}
	for _, id := range []string{"gone, its ID is remembered", "moved away", "scheduled"} {
		if r := w.try(id, nil); !errors.Is(r.Err, broker.ErrDuplicate) {
			w.tb.Errorf("a second job with the ID %q: %v, want ErrDuplicate", id, r.Err)
		}
	}
	w.enqueue("moved away", func(j *broker.NewJob) { // it comes back
		j.Body.GivenID, j.Restore = true, &broker.Restored{State: broker.StatePending, Head: broker.Head{Epoch: 7}}
	})
	w.enqueue("in place of a dead one", func(j *broker.NewJob) { j.Body.Unique.Key = "of a dead job" })
	w.operate(broker.Operation{Kind: broker.OpDelete}, mail, "in place of a dead one") // so that the dead one can be redriven
}

// held returns the jobs that a worker holds.
func (w *work) held(worker, queue string) []string {
	w.tb.Helper()
	page, err := w.b.Find(w.tb.Context(), broker.Query{Now: w.now, Queue: queue, Worker: worker})
	if err != nil {
		w.tb.Fatal(err)
	}
	return w.hold(page.Jobs)
}

// limits expects that old leases count for limits.
func (w *work) limits() {
	was := w.held(patient, limits)
	if len(was) != 3 {
		w.tb.Fatalf("%s holds %q of %s, want 3 jobs", patient, was, limits)
	}
	if got := w.claim(today, limits, 10); len(got) > 0 {
		w.tb.Errorf("%q are claimed, although %q are active and 3 may be", got, was)
	}
	w.end(patient, map[string]broker.Outcome{was[0]: broker.Complete(nil)})
	if got := w.claim(today, limits, 10); len(got) != 1 {
		w.tb.Errorf("%q are claimed, although there is room for one", got)
	} else {
		w.end(today, map[string]broker.Outcome{got[0]: broker.Complete(nil)})
	}
	w.end(patient, map[string]broker.Outcome{was[1]: broker.Complete(nil), was[2]: broker.Complete(nil)})
}

// end settles jobs and expects that they have ended.
func (w *work) end(worker string, outcomes map[string]broker.Outcome) {
	w.tb.Helper()
	w.settle(worker, outcomes)
	for id := range outcomes {
		w.ran[id]++
	}
}

// oldLeases settles old leases, as their old worker.
func (w *work) oldLeases() {
	if got := w.held(patient, mail); !slices.Equal(got, []string{"active", "active and kept", "active and to cancel", "in front"}) {
		w.tb.Fatalf("%s holds %q of %s", patient, got, mail)
	}
	verdicts, err := w.b.Settle(w.tb.Context(), broker.SettleRequest{Now: w.now, Worker: patient, Number: lastNumber,
		Items: []broker.Settlement{{Job: w.leased["active and kept"], Outcome: broker.Release()}}})
	if err != nil || verdicts[0].Err != nil {
		w.tb.Errorf("the last settle of %s, sent again since its answer was lost: %v, %v; want the first answer", patient, err, verdicts)
	}
	if k := w.leased["active and kept"].Head.Kept; k == nil || string(k.Checkpoint) != "row 7" || len(k.Steps) != 1 {
		w.tb.Errorf("what a job kept is %v", k)
	}
	w.end(patient, map[string]broker.Outcome{"active": broker.Complete(nil), "active and kept": broker.Complete(nil),
		"active and to cancel": broker.Retry(0, broker.Failure{}), "in front": broker.Complete(nil)})
}

func (w *work) lostWorker() {
	got, err := w.b.Reclaim(w.tb.Context(), broker.ReclaimRequest{Now: w.now, Worker: today, Queues: Queues, Max: 10})
	if err != nil {
		w.tb.Fatalf("Reclaim: %v", err)
	}
	if ids := w.hold(got.Jobs); !slices.Equal(ids, []string{"active, its worker ran out"}) {
		w.tb.Fatalf("Reclaim of a worker that ran out gives %q", ids)
	}
	w.settle(today, map[string]broker.Outcome{"active, its worker ran out": broker.Crash(0, broker.Failure{Message: "lost"})})
}

// order expects that ordered keys continue where they stopped.
func (w *work) order() {
	if got := w.held(patient, ordered); !slices.Equal(got, []string{"other first"}) {
		w.tb.Fatalf("%s holds %q of %s", patient, got, ordered)
	}
	if got := w.claim(today, ordered, 10); len(got) > 0 {
		w.tb.Errorf("%q are claimed: one key is stopped by a dead job, the other by an active one", got)
	}
	w.end(patient, map[string]broker.Outcome{"other first": broker.Complete(nil)})
	w.operate(broker.Operation{Kind: broker.OpRedrive}, ordered, "first")
	for _, want := range [][]string{{"first", "other second"}, {"second"}} {
		got := w.claim(today, ordered, 10)
		if !slices.Equal(got, want) {
			w.tb.Fatalf("%q are claimed in order, want %q", got, want)
		}
		outcomes := make(map[string]broker.Outcome)
		for _, id := range got {
			outcomes[id] = broker.Complete(nil)
		}
		w.end(today, outcomes)
	}
}

func (w *work) markHolders() {
	take := broker.MarkRequest{Now: w.now, Action: broker.MarkTake, Owner: today, TTL: time.Minute}
	take.Name = "taken"
	taken := w.mark(take)
	if taken.Held || taken.Owner != "owner of taken" || string(taken.Value) != "\x00 value \xff" {
		w.tb.Errorf("a mark that somebody holds: %+v", taken)
	}
	for _, name := range []string{"lapsed", "dropped"} {
		take.Name = name
		if got := w.mark(take); !got.Held || got.Fence <= taken.Fence {
			w.tb.Errorf("a mark that %s is taken as %+v; want it held, with a fence above %d", name, got, taken.Fence)
		}
	}
}

// drain unholds, redrives and resumes what is blocked, and completes all jobs.
func (w *work) drain() {
	w.policy(broker.PolicyRequest{Queue: limits, Key: "paused", Paused: new(false)})
	w.operate(broker.Operation{Kind: broker.OpUnhold}, mail, "held")
	w.operate(broker.Operation{Kind: broker.OpUnsuppress}, mail, "dead and suppressed")
	w.operate(broker.Operation{Kind: broker.OpRedrive}, mail, "dead", "dead and suppressed")
	for range 20 {
		w.now = w.now.Add(time.Minute)
		outcomes := make(map[string]broker.Outcome)
		for _, queue := range Queues {
			for _, id := range w.claim(today, queue, 50) {
				outcomes[id] = broker.Complete([]byte("done"))
			}
		}
		if len(outcomes) > 0 {
			w.end(today, outcomes)
		}
	}
	want := []string{"active", "active and kept", "active and to cancel", "active, its worker ran out", "behind", "dead",
		"dead and suppressed", "debounced", "every field", "first", "held", "in front", "moved away", "other first", "other second",
		"priority 1", "priority 2", "priority 3", "priority 4", "released", "scheduled", "second", "to retry", "to snooze",
		"unique until done", "unique until started", ulid}
	for _, key := range []string{"small", "large", "paused", "other"} {
		for n := range 3 {
			want = append(want, fmt.Sprint(key, " ", n+1))
		}
	}
	for _, id := range want {
		if w.ran[id] != 1 {
			w.tb.Errorf("job %q ended %d times", id, w.ran[id])
		}
		delete(w.ran, id)
	}
	if len(w.ran) > 0 {
		w.tb.Errorf("jobs ended that should not have been there: %v", w.ran)
	}
}

// prune expects that the retention of all records ends.
func (w *work) prune() {
	ended := 0
	for range 50 { // a bounded number of records at a time
		w.now = w.now.Add(20 * 24 * time.Hour)
		got, err := w.b.Prune(w.tb.Context(), broker.PruneRequest{Now: w.now, Queues: Queues, Max: 100})
		if err != nil {
			w.tb.Fatalf("Prune: %v", err)
		}
		ended += got.Completed + got.Cancelled
	}
	info, err := w.b.Queues(w.tb.Context(), broker.QueuesRequest{Now: w.now, Names: Queues})
	if err != nil {
		w.tb.Fatal(err)
	}
	for _, q := range info.Queues {
		for state, n := range q.Counts {
			if n != 0 {
				w.tb.Errorf("%d jobs of %s are left in state %v", n, q.Name, state)
			}
		}
	}
	if ended == 0 {
		w.tb.Error("no record was pruned")
	}
}
