package redisbroker

import (
	"slices"
	"testing"
	"time"

	"github.com/seed81422ce9/jobs/broker"
)

// One call searches ten thousand leases at most. The next one continues where it stopped,
// or the rest would never be searched.
func TestSteps_ASearchForLeasesGoesOnWhereItStopped(t *testing.T) {
	t.Parallel()
	b := open(t, client(t))
	register(t, b, "dead", "q")
	const others, lost = 24_000, 10
	enqueue(t, b, several("lost", lost, func(_ int, j *broker.NewJob) { j.Queue = "q" })...)
	if got := claimAt(t, b, at(0), "dead", lost, "q"); len(got.Jobs) != lost {
		t.Fatalf("claimed %d of %d jobs", len(got.Jobs), lost)
	}
	if _, err := b.Renew(t.Context(), broker.RenewRequest{Now: at(0), Worker: "w", Queues: []string{"q"}, Lease: time.Hour,
		Register: true}); err != nil {
		t.Fatal(err)
	}
	for part := range slices.Chunk(several("other", others, func(_ int, j *broker.NewJob) { j.Queue = "q" }), 8000) {
		enqueue(t, b, part...)
	}
	for n := 0; n < others; {
		got := claimAt(t, b, at(0), "w", broker.MaxClaim, "q")
		if n += len(got.Jobs); len(got.Jobs) == 0 {
			t.Fatalf("claimed %d of %d jobs", n, others)
		}
	}
	found := 0
	for calls := 1; ; calls++ {
		got, err := b.Reclaim(t.Context(), broker.ReclaimRequest{Now: at(100), Worker: "w", Queues: []string{"q"}, Max: 1000})
		if err != nil {
			t.Fatal(err)
		}
		if found += len(got.Jobs); !got.More {
			break
		}
		if calls > 10 {
			t.Fatalf("%d calls found %d of %d lost jobs among %d, and there is always more", calls, found, lost, others)
		}
	}
	if found != lost {
		t.Errorf("reclaimed %d jobs, want %d", found, lost)
	}
}

// An ended worker that settles the last of its jobs leaves nothing for a reclaim.
func TestSteps_AWorkerThatSettledItsLastJobIsNotWaitedFor(t *testing.T) {
	t.Parallel()
	b := open(t, client(t))
	register(t, b, "late", "q")
	enqueue(t, b, several("q", 3, nil)...)
	held := claimAt(t, b, at(0), "late", 3, "q").Jobs
	renew := broker.RenewRequest{Now: at(100), Worker: "w", Queues: []string{"q"}, Lease: time.Minute, Register: true}
	if _, err := b.Renew(t.Context(), renew); err != nil {
		t.Fatal(err)
	}
	got, err := b.Reclaim(t.Context(), broker.ReclaimRequest{Now: at(100), Worker: "w", Queues: []string{"q"}, Max: 1})
	if err != nil || len(got.Jobs) != 1 || !got.More {
		t.Fatalf("the first reclaim: %d jobs, more %t, %v; want one of three", len(got.Jobs), got.More, err)
	}
	var rest []broker.Job
	for _, j := range held {
		if j.ID != got.Jobs[0].ID {
			rest = append(rest, j)
		}
	}
	l := &life{t: t, b: b, queue: "q"}
	l.settle(at(100), "late", rest, broker.Complete(nil))
	if got, err = b.Reclaim(t.Context(), broker.ReclaimRequest{Now: at(100), Worker: "w", Queues: []string{"q"}, Max: 1}); err != nil ||
		len(got.Jobs) > 0 || got.More {
		t.Errorf("the last reclaim: %d jobs, more %t, %v; want none", len(got.Jobs), got.More, err)
	}
	again, err := b.Renew(t.Context(), renew)
	if err != nil || !again.NextLapse.Equal(at(160)) {
		t.Errorf("when it has settled the rest the next leases are said to run out at %v, %v; want at %v: nothing is left to reclaim",
			again.NextLapse, err, at(160))
	}
}

// A record that is pruned before its time leaves no entry in the set of lapses: that would
// apply to a later record with the same ID.
func TestSteps_ARecordThatIsPrunedEarlyLeavesNoNote(t *testing.T) {
	t.Parallel()
	c := client(t)
	b := open(t, c)
	register(t, b, "w", "q")
	if _, err := b.Policy(t.Context(), broker.PolicyRequest{Queue: "q",
		RetainCompleted: &broker.Retention{Count: 1, Age: 24 * time.Hour}}); err != nil {
		t.Fatal(err)
	}
	enqueue(t, b, several("q", 3, nil)...)
	l := &life{t: t, b: b, queue: "q"}
	l.settle(at(0), "w", claimAt(t, b, at(0), "w", 3, "q").Jobs, broker.Complete(nil))
	got, err := b.Prune(t.Context(), broker.PruneRequest{Now: at(1), Queues: []string{"q"}, Max: 10})
	if err != nil || got.Completed != 2 {
		t.Fatalf("%+v was pruned, %v; want two records", got, err)
	}
	if notes := c.ZRange(t.Context(), b.queue("q").key("l"), 0, -1).Val(); len(notes) != 1 {
		t.Errorf("%q are noted to lapse, want the record that is left", notes)
	}
}

// Prune looks for void entries in one slice of a ready list after the other, also if the
// first slices have none.
func TestSteps_VoidTurnsAreFoundBehindManyThatAreValid(t *testing.T) {
	t.Parallel()
	b := open(t, client(t))
	enqueue(t, b, several("valid", 2000, func(_ int, j *broker.NewJob) { j.Queue = "q" })...)
	enqueue(t, b, several("void", 4000, func(_ int, j *broker.NewJob) { j.Queue = "q" })...)
	op := broker.Operation{Kind: broker.OpDelete, Now: at(0)}
	for i, id := range names("void", 4000) {
		op.Refs = append(op.Refs, broker.Ref{Queue: "q", ID: id, Epoch: broker.AnyEpoch})
		if i%500 == 499 {
			if _, err := b.Operate(t.Context(), op); err != nil {
				t.Fatal(err)
			}
			op.Refs = nil
		}
	}
	left := func() int {
		n, err := b.store.single.HGet(t.Context(), b.queue("q").key("m"), "void").Int()
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	if n := left(); n != 4000 {
		t.Fatalf("%d turns are void, want those of 4000 deleted jobs", n)
	}
	for calls := 1; pruned(t, b, 500).More; calls++ {
		if calls > 50 {
			t.Fatalf("%d calls left %d void turns of 4000, and there is always more", calls, left())
		}
	}
	if n := left(); n > 2000 {
		t.Errorf("%d void turns are left beside 2000 that are valid, want at most as many", n)
	}
}

// A call of Prune removes no more than Max, whichever limit removes records.
func TestSteps_PruningByCountKeepsToItsMax(t *testing.T) {
	t.Parallel()
	for state, outcome := range map[broker.State]broker.Outcome{broker.StateCompleted: broker.Complete(nil),
		broker.StateDead: broker.Die(broker.ReasonRetries, broker.Failure{})} {
		b := open(t, client(t))
		register(t, b, "w", "q")
		keep := &broker.Retention{Count: 1, Age: 24 * time.Hour}
		if _, err := b.Policy(t.Context(), broker.PolicyRequest{Queue: "q", RetainCompleted: keep, RetainDead: keep}); err != nil {
			t.Fatal(err)
		}
		enqueue(t, b, several("q", 8, nil)...)
		l := &life{t: t, b: b, queue: "q"}
		l.settle(at(0), "w", claimAt(t, b, at(0), "w", 8, "q").Jobs, outcome)
		for i, want := range []int{3, 3, 1, 0} {
			got, err := b.Prune(t.Context(), broker.PruneRequest{Now: at(1), Queues: []string{"q"}, Max: 3})
			if n := got.Completed + got.Dead; err != nil || n != want || got.More != (want == 3) {
				t.Errorf("%v: call %d removed %d records and says there are more: %t, %v; want %d", state, i, n, got.More, err, want)
			}
		}
	}
}

// A job with the ID of a deleted one may be in a ready list twice, until the entry of the
// deleted job is dropped.
func TestSteps_AJobThatStandsInLineTwiceIsListedOnce(t *testing.T) {
	t.Parallel()
	b := open(t, client(t))
	enqueue(t, b, job("q", "a"))
	l := &life{t: t, b: b, queue: "q"}
	l.operate(broker.Operation{Kind: broker.OpDelete}, "a")
	enqueue(t, b, job("q", "a"))
	page, err := b.Find(t.Context(), broker.Query{Queue: "q", State: broker.StatePending, Limit: 10})
	if err != nil || len(page.Jobs) != 1 {
		t.Errorf("%d pending jobs are listed, %v; want the one", len(page.Jobs), err)
	}
}
