package membroker

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/seed81422ce9/jobs/broker"
)

func TestStore_RandomCallsLeadJobsIntoEveryState(t *testing.T) {
	t.Parallel()
	l := newLife(t)
	seen := make(map[broker.State]bool)
	for range 5000 {
		l.step(t)
		for _, q := range l.b.store.queues {
			for _, state := range broker.States() {
				seen[state] = seen[state] || q.len(state) > 0
			}
		}
	}
	for _, state := range broker.States() {
		if !seen[state] && state != broker.StateWaiting {
			t.Errorf("no job was ever %v: the calls are too few or too uniform to prove anything", state)
		}
	}
}

func TestStore_NothingIsLeftOfWhatIsGoneAndLapsed(t *testing.T) {
	t.Parallel()
	l := newLife(t)
	for range 3000 {
		l.step(t)
	}
	ctx := t.Context()
	for i, name := range []string{"a", "b"} {
		_, err := l.b.Mark(ctx, broker.MarkRequest{Now: l.now, Action: broker.MarkTake, Name: name, Owner: "o",
			TTL: time.Duration(1+i) * time.Hour})
		l.ok(t, err)
	}
	queues := []string{"q", "r"}
	for _, w := range l.names {
		_, err := l.b.Retire(ctx, broker.RetireRequest{Now: l.now, Worker: w, Queues: queues})
		l.ok(t, err)
	}
	l.now = l.now.Add(time.Hour) // everybody else has run out, and their jobs are taken over
	_, err := l.b.Renew(ctx, broker.RenewRequest{Now: l.now, Worker: "last", Queues: queues, Lease: time.Hour, Register: true})
	l.ok(t, err)
	_, err = l.b.Reclaim(ctx, broker.ReclaimRequest{Now: l.now, Worker: "last", Queues: queues, Max: broker.MaxClaim})
	l.ok(t, err)
	_, err = l.b.Retire(ctx, broker.RetireRequest{Now: l.now, Worker: "last", Queues: queues})
	l.ok(t, err)
	for _, q := range queues {
		var refs []broker.Ref
		for id := range l.b.store.queues[q].jobs {
			refs = append(refs, broker.Ref{Queue: q, ID: id, Epoch: broker.AnyEpoch})
		}
		for some := range slices.Chunk(refs, 1000) {
			results, err := l.b.Operate(ctx, broker.Operation{Now: l.now, Kind: broker.OpDelete, Refs: some})
			l.ok(t, err)
			for _, r := range results {
				l.ok(t, r.Err)
			}
		}
	}
	l.now = l.now.Add(100 * 365 * 24 * time.Hour)
	for more := true; more; {
		got, err := l.b.Prune(ctx, broker.PruneRequest{Now: l.now, Queues: queues, Max: 7})
		l.ok(t, err)
		more = got.More
	}
	for name, q := range l.b.store.queues {
		if left := q.leftovers(); len(left) > 0 {
			t.Errorf("queue %s still holds something in %v\n%s", name, left, l.b.store.dump())
		}
	}
	s := l.b.store
	if len(s.marks) > 0 || s.lapses.Len() > 0 || len(s.watchers) > 0 || len(s.touched) > 0 {
		t.Errorf("the store still holds marks %v, %d lapses, %d watchers, %d touched queues", s.marks, s.lapses.Len(), len(s.watchers),
			len(s.touched))
	}
	for _, q := range queues {
		results, err := l.b.Operate(ctx, broker.Operation{Now: l.now, Kind: broker.OpRemoveQueue, Refs: []broker.Ref{{Queue: q}}})
		l.ok(t, err)
		l.ok(t, results[0].Err)
	}
	if len(s.queues) > 0 {
		t.Errorf("the removed queues are still there: %v", s.queues)
	}
}

func TestStore_JobsReleasedTogetherKeepTheirOrder(t *testing.T) {
	t.Parallel()
	b := New()
	defer b.Close()
	register(t, b, "w", "q")
	for _, id := range []string{"a", "b", "c", "d", "e", "f"} {
		enqueue(t, b, newTestJob("q", id))
	}
	order := func(when, want string) []broker.Job {
		t.Helper()
		jobs := claim(t, b, "w", 10, "q")
		if got := strings.Join(ids(jobs), ""); got != want {
			t.Errorf("%s the jobs come in the order %s, want %s", when, got, want)
		}
		return jobs
	}
	jobs := order("at first", "abcdef")
	settleAll(t, b, 1, broker.Release(), &jobs[4], &jobs[1]) // e and b, in this order
	order("after the release of e and b", "eb")
	if _, err := b.Retire(t.Context(), broker.RetireRequest{Worker: "w", Queues: []string{"q"}}); err != nil {
		t.Fatal(err)
	}
	register(t, b, "v", "q")
	if got := strings.Join(ids(claim(t, b, "v", 10, "q")), ""); got != "acdfeb" {
		t.Errorf("after their worker retired, the jobs come in the order %s, want that of their claims, acdfeb", got)
	}
}

func TestStore_AJobFreesItsKeyOnlyIfItStillHoldsIt(t *testing.T) {
	t.Parallel()
	b := New()
	defer b.Close()
	now := time.Unix(1_800_000_000, 0)
	add := func(id string) broker.Receipt {
		n := newTestJob("q", id)
		n.Body.Unique = broker.Unique{Key: "k", TTL: time.Minute}
		receipts, err := b.Enqueue(t.Context(), broker.EnqueueRequest{Now: now, Jobs: []broker.NewJob{n}})
		if err != nil {
			t.Fatal(err)
		}
		return receipts[0]
	}
	add("first")
	now = now.Add(time.Minute)
	if r := add("second"); r.Err != nil {
		t.Fatalf("the key was not free after its time: %v", r.Err)
	}
	operate(t, b, broker.OpDelete, now, "first")
	if r := add("third"); !errors.Is(r.Err, broker.ErrDuplicate) || r.Holder != "second" {
		t.Errorf("after the former holder's end the key was given to a third job: %v, holder %q; want second to hold it", r.Err, r.Holder)
	}
}

func TestStore_PruneKeepsWhatWasTakenAgainSinceItLapsed(t *testing.T) {
	t.Parallel()
	b := New()
	defer b.Close()
	start := time.Unix(1_800_000_000, 0)
	at := func(d time.Duration) time.Time { return start.Add(d) }
	add := func(id string, now time.Time) error {
		n := newTestJob("q", id)
		n.Body.GivenID = true
		n.Body.Unique = broker.Unique{Key: "k", Mode: broker.UniqueWindow, TTL: broker.DefaultDuplicateSpan}
		receipts, err := b.Enqueue(t.Context(), broker.EnqueueRequest{Now: now, Jobs: []broker.NewJob{n}})
		if err != nil {
			t.Fatal(err)
		}
		return receipts[0].Err
	}
	for _, now := range []time.Time{at(0), at(time.Hour)} { // an hour is what is remembered
		if err := add("a", now); err != nil {
			t.Fatalf("enqueueing at %v: %v", now, err)
		}
		operate(t, b, broker.OpDelete, now, "a")
	}
	got, err := b.Prune(t.Context(), broker.PruneRequest{Now: at(time.Hour), Queues: []string{"q"}, Max: 10})
	if err != nil || got.Other != 0 {
		t.Errorf("pruning removed %+v, %v; both the ID and the key are in use", got, err)
	}
	if add("a", at(time.Hour)) == nil {
		t.Error("after pruning, an ID was accepted that is remembered")
	}
	if add("b", at(time.Hour)) == nil {
		t.Error("after pruning, a key was given away that is held")
	}
}

func TestStore_ALateSettleOfALongEndedWorkerStillApplies(t *testing.T) {
	t.Parallel()
	b := New()
	defer b.Close()
	now := time.Unix(1_800_000_000, 0)
	queues := []string{"q"}
	for _, w := range []string{"ends", "finds"} {
		lease := map[string]time.Duration{"ends": time.Second, "finds": 1000 * time.Hour}[w]
		if _, err := b.Renew(t.Context(), broker.RenewRequest{Now: now, Worker: w, Queues: queues, Lease: lease, Register: true}); err != nil {
			t.Fatal(err)
		}
	}
	enqueue(t, b, newTestJob("q", "a"), newTestJob("q", "b"))
	jobs := claim(t, b, "ends", 2, "q")
	now = now.Add(time.Minute)
	got, err := b.Reclaim(t.Context(), broker.ReclaimRequest{Now: now, Worker: "finds", Queues: queues, Max: 1})
	if err != nil || len(got.Jobs) != 1 || !got.More {
		t.Fatalf("reclaiming gave %v, more %v, %v", ids(got.Jobs), got.More, err)
	}
	now = now.Add(2 * broker.EndedWorkerSpan)
	if _, err := b.Prune(t.Context(), broker.PruneRequest{Now: now, Queues: queues, Max: 10}); err != nil {
		t.Fatal(err)
	}
	left := &jobs[0]
	if left.ID == got.Jobs[0].ID {
		left = &jobs[1]
	}
	settleAll(t, b, 1, broker.Complete(nil), left)
}

// leftovers names what a queue's record still holds.
func (q *queue) leftovers() (all []string) {
	for name, n := range map[string]int{"jobs": len(q.jobs), "keys": q.keyed.Len(), "workers": len(q.workers),
		"unique": len(q.unique), "remembered": len(q.remembered), "lapses": q.lapses.Len(), "waiters": len(q.waiters)} {
		if n > 0 {
			all = append(all, name)
		}
	}
	for s, l := range q.states {
		if l.Len() > 0 {
			all = append(all, broker.State(s).String())
		}
	}
	return all
}
