package membroker

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/seed81422ce9/jobs/broker"
	"github.com/seed81422ce9/jobs/conformance"
	"github.com/seed81422ce9/jobs/internal/examinetest"
	"github.com/seed81422ce9/jobs/internal/journal"
)

// kept is a journal in memory: the records as a disk would have them.
type kept map[string]journal.Record

func (k kept) Append(changed []journal.Record) {
	for _, r := range changed {
		if at := fmt.Sprintf("%d %s", r.Kind, r.Key); r.Value == nil {
			delete(k, at)
		} else {
			k[at] = r
		}
	}
}

func (k kept) Load(read func(journal.Record) error) error {
	for _, at := range slices.Sorted(maps.Keys(k)) {
		if err := read(k[at]); err != nil {
			return err
		}
	}
	return nil
}

// everything is all records of a store, as they are now.
func (s *Store) everything() kept {
	var names []noted
	if s.fence > 0 {
		names = append(names, noted{journal.Fence, "", highest})
	}
	for name := range s.marks {
		names = append(names, noted{journal.Marks, "", name})
	}
	for _, q := range s.queues {
		names = append(names, q.records()...)
	}
	all := make(kept)
	for _, n := range names {
		all.Append([]journal.Record{s.recordOf(n)})
	}
	return all
}

// differences are the records that are not the same in two journals.
func (k kept) differences(other kept) string {
	var b strings.Builder
	all := maps.Clone(k)
	maps.Copy(all, other)
	for _, at := range slices.Sorted(maps.Keys(all)) {
		if !bytes.Equal(k[at].Value, other[at].Value) {
			fmt.Fprintf(&b, "%v %q: kept %q, now %q\n", all[at].Kind, all[at].Key, k[at].Value, other[at].Value)
		}
	}
	return b.String()
}

// reopened checks that a journal has all of a store, and returns the store that it
// makes.
func (k kept) reopened(s *Store) (*Store, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if lacks := k.differences(s.everything()); lacks != "" {
		return nil, fmt.Errorf("a step changed records that it did not note:\n%s", lacks)
	}
	again, err := OpenJournal(maps.Clone(k))
	if err != nil {
		return nil, err
	}
	if other := k.differences(again.everything()); other != "" {
		return nil, fmt.Errorf("opened again, the store has other records:\n%s", other)
	}
	for name, q := range s.queues {
		if was, is := q.counted(), again.queues[name].counted(); was != is {
			return nil, fmt.Errorf("queue %s has\n%s\nopened again, it has\n%s", name, was, is)
		}
		if x, ok := lacks(q.lapses, again.queues[name].lapses); ok {
			return nil, fmt.Errorf("queue %s would never remove %+v", name, x)
		}
	}
	if x, ok := lacks(s.lapses, again.lapses); ok {
		return nil, fmt.Errorf("the store would never remove %+v", x)
	}
	return again, nil
}

// lacks returns a lapse that is missing in l. A key may have one that did nothing, and is gone.
func lacks(l, want lapses) (missing lapse, found bool) {
	want.Ascend(func(x lapse) bool {
		missing, found = x, x.what != lapsedKey && !l.Has(x)
		return !found
	})
	return missing, found
}

// counted is what a queue makes of its records: counts, lists, turns, holders.
func (q *queue) counted() string {
	var b strings.Builder
	fmt.Fprintln(&b, "suppressed", q.suppressed, "bytes", q.bytes, "keyed", q.keyed.Len())
	for _, l := range append(slices.Collect(q.all()), q.keyless) {
		fmt.Fprintln(&b, "key", l.name, l.no, l.counts, l.rules, l.head != nil)
		for i, s := range l.spots {
			turn := "none"
			switch {
			case !q.turns[i].Has(s.turn):
			case l.rules.Rate.Jobs > 0:
				turn = "one" // time alone ends what a rate keeps back, and the next claim sees that
			case s.turn.at < never:
				turn = "ready"
			default:
				turn = "kept"
			}
			fmt.Fprint(&b, s.jobs, " ", turn, " ")
		}
	}
	for _, turns := range q.turns {
		fmt.Fprint(&b, "\nturns ", turns.Len())
	}
	for i, l := range q.states {
		fmt.Fprint(&b, "\n", broker.State(i))
		for e := range l.from(start) {
			fmt.Fprint(&b, " ", e.of.ID, " ", e.at, " ", e.seq)
		}
	}
	for _, id := range slices.Sorted(maps.Keys(q.workers)) {
		fmt.Fprint(&b, "\nworker ", id, " ", q.workers[id].Held)
	}
	return b.String()
}

// Whatever path a step takes, what it changes is noted.
func TestJournal_HasAllThatEachStepOfARandomLifeChanged(t *testing.T) {
	t.Parallel()
	l := newLife(t)
	j := make(kept)
	s, err := OpenJournal(j)
	if err != nil {
		t.Fatal(err)
	}
	l.on(t, s.Open())
	for i := range 300 {
		l.step(t)
		again, err := j.reopened(s)
		if err != nil {
			t.Fatalf("after step %d: %v", i, err)
		}
		if found := examinetest.Examine(t, again.Open(), broker.ExamineRequest{Now: l.now}); len(found) > 0 {
			t.Fatalf("after step %d the records contradict each other: %+v", i, found)
		}
		if i%50 == 0 { // go on with the store that was opened again
			s = again
			s.journal = j
			l.b = s.Open()
		}
	}
}

// checked is a handle that compares the journal with the memory after each call, as
// long as they are small.
func (k kept) checked(tb conformance.TB, s *Store) broker.Broker {
	return broker.Wrap(s.Open(), func(ctx context.Context, c *broker.Call, next func(context.Context) error) error {
		err := next(ctx)
		s.mu.Lock()
		defer s.mu.Unlock()
		if len(k) < 100 {
			if lacks := k.differences(s.everything()); lacks != "" {
				tb.Errorf("%s changed records that it did not note:\n%s", c.Method, lacks)
			}
		}
		return err
	})
}

// changing are the groups of the suite that take the paths on which records change.
var changing = []string{"Enqueue", "Claim", "Reclaim", "Order", "Lease", "Settle", "Outcome", "Keep", "Schedule", "Unique", "Policy",
	"Operate",
	"Hold", "Edit", "Restore", "Retention", "Mark", "Durable", "Bound", "Meet", "Follow", "Limit", "Key", "Sequence", "Totals"}

// After each call, and after each rule, the journal has what the memory has.
func TestConformance_WithAJournal(t *testing.T) {
	t.Parallel()
	conformance.Run(t, func(tb conformance.TB) *conformance.Store {
		j := make(kept)
		store, err := OpenJournal(j)
		if err != nil {
			tb.Fatalf("%v", err)
		}
		reopen := func(tb conformance.TB) {
			if store, err = j.reopened(store); err != nil {
				tb.Fatalf("%v", err)
			}
			store.journal = j
		}
		tb.Cleanup(func() {
			if _, err := j.reopened(store); err != nil {
				tb.Errorf("%v", err)
			}
		})
		return &conformance.Store{
			Open:   func(tb conformance.TB) broker.Broker { return j.checked(tb, store) },
			Reopen: reopen,
			Dump:   func() string { return store.dump() },
		}
	}, changing...)
}

// A field that is new in Totals has to be written, too.
func TestForm_HasAllTotals(t *testing.T) {
	t.Parallel()
	q, again := newQueue(nil, "q"), newQueue(nil, "q")
	v := reflect.ValueOf(&q.totals).Elem()
	for i := range v.NumField() {
		v.Field(i).SetInt(int64(i + 1))
	}
	var f form
	q.form(&f)
	f.reads = true
	if again.form(&f); again.totals != q.totals || f.err != nil {
		t.Errorf("written and read, the totals are %+v, %v; want %+v", again.totals, f.err, q.totals)
	}
}
