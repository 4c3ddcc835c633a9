package shardbroker

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed81422ce9/jobs"
	"github.com/seed81422ce9/jobs/backends/membroker"
	"github.com/seed81422ce9/jobs/broker"
	"github.com/seed81422ce9/jobs/inspect"
	"github.com/seed81422ce9/jobs/schedule"
)

// mixed returns jobs that wait, and jobs that are dead.
func mixed(n int) []broker.NewJob {
	var all []broker.NewJob
	for i := range n {
		waits, dead, keyed := newJob(fmt.Sprint("waits", i)), newJob(fmt.Sprint("dead", i)), newJob(fmt.Sprint("keyed", i))
		end := time.Unix(1_700_000_000, 0)
		dead.Restore = &broker.Restored{State: broker.StateDead, CreatedAt: end, Head: broker.Head{Reason: broker.ReasonRetries, FinishedAt: end}}
		keyed.Body.Key = fmt.Sprint("k", i)
		all = append(all, waits, dead, keyed)
	}
	return all
}

// moveTo moves all jobs of the queue, and returns how many were done and how many refused.
func moveTo(t *testing.T, from broker.Broker, to *Broker) (done, refused int) {
	t.Helper()
	for _, state := range []broker.State{broker.StatePending, broker.StateDead} {
		r, err := inspect.New(from).Select(inspect.Query{Queue: "q", State: state}).Move(t.Context(), inspect.Destination{Broker: to})
		if err != nil {
			t.Fatal(err)
		}
		for _, refusal := range r.Refusals {
			if !errors.Is(refusal.Err, broker.ErrInvalid) || !strings.Contains(refusal.Err.Error(), "name only the others") {
				t.Errorf("job %s was refused: %v; want the remedy", refusal.ID, refusal.Err)
			}
		}
		done, refused = done+r.Done, refused+r.Refused
	}
	return done, refused
}

func count(t *testing.T, b broker.Broker) (n int64) {
	t.Helper()
	info, err := b.Queues(t.Context(), broker.QueuesRequest{Names: []string{"q"}})
	if err != nil {
		t.Fatal(err)
	}
	for _, q := range info.Queues {
		n += total(q.Counts)
	}
	return n
}

// The jobs of a store are moved to shards of which the store is one: to spread them, or to empty a shard that leaves. Those
// that belong into that store are found at the destination. They are no copies, so they must not be deleted.
func TestMoved_ToShardsWithTheSourceAmongThem(t *testing.T) {
	t.Parallel()
	for name, until := range map[string]time.Time{"spread": {}, "leaving": time.Now().Add(-time.Hour)} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, other := range []string{"a", "b", "c", "d"} { // one of them has the mark that names the store
				source, n := membroker.NewStore(), 20
				all := mixed(n)
				if _, err := source.Open().Enqueue(t.Context(), broker.EnqueueRequest{Jobs: all}); err != nil {
					t.Fatal(err)
				}
				to := opened(t, Shard{Name: "source", Broker: source.Open(), Until: until}, Shard{Name: other, Broker: membroker.New()})
				if id, err := inspect.New(to).StoreID(t.Context()); err != nil || id == storeID(t, source.Open()) {
					continue // the whole move is refused
				}
				done, refused := moveTo(t, source.Open(), to)
				if left := count(t, to); left != int64(len(all)) {
					t.Errorf("of %d jobs %d are left", len(all), left)
				}
				if here := count(t, source.Open()); done+refused != len(all) || here != int64(refused) || refused == 0 {
					t.Errorf("%d jobs were moved and %d refused, and %d are in the source", done, refused, here)
				}
				return
			}
			t.Error("in no case the stores had different names: the test does not test what it should")
		})
	}
}

func storeID(t *testing.T, b broker.Broker) string {
	t.Helper()
	id, err := inspect.New(b).StoreID(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return id
}

// The process that moves the jobs of a store to shards with that store died while it held them. They are put back.
func TestMoved_IsUndoneWithTheSourceAmongTheShards(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		source, to := membroker.NewStore(), (*Broker)(nil)
		all := mixed(20)
		if _, err := source.Open().Enqueue(t.Context(), broker.EnqueueRequest{Jobs: all}); err != nil {
			t.Fatal(err)
		}
		for _, other := range []string{"a", "b", "c", "d"} {
			to = opened(t, Shard{Name: "source", Broker: source.Open()}, Shard{Name: other, Broker: membroker.New()})
			if storeID(t, to) != storeID(t, source.Open()) {
				break
			}
		}
		dying := broker.Wrap(to, func(ctx context.Context, c *broker.Call, next func(context.Context) error) error {
			if c.Method == "Enqueue" {
				return errLost
			}
			return next(ctx)
		})
		some := inspect.New(source.Open()).Select(inspect.Query{Queue: "q", State: broker.StatePending}).Limit(5)
		if _, err := some.Move(t.Context(), inspect.Destination{Broker: dying}); err == nil {
			t.Fatal("the move did not fail")
		}
		r, err := inspect.New(source.Open()).UndoMove(t.Context(), "q", inspect.Destination{Broker: to})
		if left := count(t, source.Open()); err != nil || r.Done != 5 || left != int64(len(all)) {
			t.Errorf("of %d jobs %d are left after an undo: %+v, %v", len(all), left, r, err)
		}
	})
}

// Schedules never end. They are moved from a shard that leaves to the shards that remain.
func TestMoved_SchedulesLeaveTheirShard(t *testing.T) {
	t.Parallel()
	m := newMoving(t)
	if _, err := schedule.New(m.before(), "test").Put(t.Context(), "s", schedule.Every(time.Hour), jobs.NewTask("work", nil)); err != nil {
		t.Fatal(err)
	}
	leaving, stays := "a", "b"
	for name := range m.stores {
		if info, err := m.stores[name].Open().Queues(t.Context(), broker.QueuesRequest{Names: []string{schedule.Queue}}); err != nil {
			t.Fatal(err)
		} else if len(info.Queues) > 0 && total(info.Queues[0].Counts) > 0 && name == "b" {
			leaving, stays = "b", "a"
		}
	}
	open := func(name string) broker.Broker { return m.stores[name].Open() }
	last := opened(t, Shard{Name: stays, Broker: open(stays)}, Shard{Name: "c", Broker: open("c"), NoMarks: true})
	r, err := inspect.New(open(leaving)).Select(inspect.Query{Queue: schedule.Queue, State: broker.StatePending}).Move(t.Context(),
		inspect.Destination{Broker: last})
	if err != nil || r.Done != 1 {
		t.Errorf("the move: %+v, %v", r, err)
	}
	changing := opened(t, Shard{Name: stays, Broker: open(stays)}, Shard{Name: leaving, Broker: open(leaving), Until: switchAt},
		Shard{Name: "c", Broker: open("c"), From: switchAt})
	for _, b := range []*Broker{changing, last} {
		if info, err := schedule.New(b, "test").Get(t.Context(), "s"); err != nil || info.Type != "work" {
			t.Errorf("the schedule is %+v, %v", info, err)
		}
	}
	if left, err := changing.Left(t.Context()); err != nil || left[leaving] != 0 {
		t.Errorf("left are %v, %v", left, err)
	}
}
