package membroker

import (
	"errors"
	"math/rand/v2"
	"strconv"
	"testing"
	"time"

	"github.com/seed81422ce9/jobs/broker"
)

// Jobs that stay where they are must be shown whatever happens to others
// between two pages, in each kind of index.
func TestFind_AJobThatStaysIsShownWhateverOthersDoBetweenPages(t *testing.T) {
	t.Parallel()
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	start := time.Unix(1_800_000_000, 0)
	for name, query := range map[string]broker.Query{
		"pending":   {State: broker.StatePending},
		"scheduled": {State: broker.StateScheduled},
		"cancelled": {State: broker.StateCancelled},
		"key":       {Key: "k"},
	} {
		for range 50 {
			b := New()
			next := 0
			stays := make(map[string]bool)
			add := func(stay bool) {
				next++
				n := newTestJob("q", strconv.Itoa(next))
				n.Body.Key, n.Body.Retention = "k", time.Hour
				if query.State == broker.StateScheduled {
					n.RunAt = start.Add(time.Duration(1+random.IntN(20)) * time.Second)
				}
				if _, err := b.Enqueue(t.Context(), broker.EnqueueRequest{Now: start, Jobs: []broker.NewJob{n}}); err != nil {
					t.Fatal(err)
				}
				if query.State == broker.StateCancelled {
					operate(t, b, broker.OpCancel, start.Add(time.Duration(random.IntN(20))*time.Second), n.ID)
				}
				if stay {
					stays[n.ID] = true
				}
			}
			for range random.IntN(60) {
				add(random.IntN(2) == 0)
			}
			shown := make(map[string]bool)
			query.Queue, query.Limit, query.Cursor = "q", 1+random.IntN(9), ""
			for {
				page, err := b.Find(t.Context(), query)
				if err != nil || len(page.Jobs) > query.Limit {
					t.Fatalf("%s: a page of %d for a limit of %d, %v", name, len(page.Jobs), query.Limit, err)
				}
				for _, j := range page.Jobs {
					shown[j.ID] = true
				}
				if query.Cursor = page.Cursor; query.Cursor == "" {
					break
				}
				for range random.IntN(6) {
					if id := strconv.Itoa(1 + random.IntN(next)); random.IntN(2) == 0 && next < 500 {
						add(false)
					} else if stays[id] && query.State == broker.StatePending {
						operate(t, b, broker.OpReschedule, start, id) // at once: it stays pending
					} else if !stays[id] {
						operate(t, b, broker.OpDelete, start, id)
					}
				}
			}
			for id := range stays {
				if !shown[id] {
					t.Fatalf("listing by %s, limit %d: job %s, which stayed all the time, was on no page", name, query.Limit, id)
				}
			}
		}
	}
}

func operate(t *testing.T, b *Broker, kind broker.OperationKind, now time.Time, id string) {
	t.Helper()
	_, err := b.Operate(t.Context(), broker.Operation{Now: now, Kind: kind, Refs: []broker.Ref{{Queue: "q", ID: id, Epoch: broker.AnyEpoch}}})
	if err != nil {
		t.Fatalf("%v of %s: %v", kind, id, err)
	}
}

func TestFind_ACursorOfNoPageIsRefused(t *testing.T) {
	t.Parallel()
	b := New()
	defer b.Close()
	enqueue(t, b, newTestJob("q", "a"))
	late := broker.Query{Queue: "q", State: broker.StatePending, Cursor: "1.0"} // of a page when there were more jobs
	if page, err := b.Find(t.Context(), late); err != nil || len(page.Jobs) != 1 {
		t.Errorf("a cursor from before other jobs left gave %v, %v; want the job that is left", ids(page.Jobs), err)
	}
	for _, query := range []broker.Query{
		{State: broker.StatePending, Cursor: "x"},
		{State: broker.StatePending, Cursor: "1"},
		{State: broker.StatePending, Cursor: "1.1.1"},
		{State: broker.StateDead, Cursor: "1"},
		{State: broker.StateDead, Cursor: "1.1x"},
		{State: broker.StateDead, Cursor: "1. 1"},
	} {
		query.Queue = "q"
		if _, err := b.Find(t.Context(), query); !errors.Is(err, broker.ErrInvalid) {
			t.Errorf("cursor %q of %v: error %v, want ErrInvalid", query.Cursor, query.State, err)
		}
	}
}
