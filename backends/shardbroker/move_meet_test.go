package shardbroker

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed81422ce9/jobs/broker"
)

// meeting returns a job whose unique key changes its shard from b, and whose conflict is not to refuse.
func meeting(b *Broker, id string, conflict broker.UniqueConflict) broker.NewJob {
	for i := 0; ; i++ {
		j := newJob(id)
		j.Body.Unique = broker.Unique{Key: fmt.Sprint("u", i), Conflict: conflict}
		if conflict == broker.ConflictDebounce {
			j.Body.Unique.Latest = time.Hour
		}
		if of := b.routes.of(label(id, &j.Body)); len(of) == 2 && of[1].Name == "b" {
			return j
		}
	}
}

// payloads returns the payloads of the jobs that are not over, by shard and ID.
func (m *moving) payloads(now time.Time) map[string]string {
	m.t.Helper()
	all := make(map[string]string)
	for name, store := range m.stores {
		for _, state := range broker.States() {
			page, err := store.Open().Find(m.t.Context(), broker.Query{Now: now, Queue: "q", State: state})
			if err != nil {
				m.t.Fatal(err)
			}
			for _, j := range page.Jobs {
				if !j.State.Final() {
					all[name+" "+j.ID] = string(j.Payload)
				}
			}
		}
	}
	return all
}

// A job of a new shard replaces the holder of its unique key in the old shard, or waits behind it there. A caller
// that got ErrDuplicate would take its last update for stored.
func TestMove_AJobMeetsTheHolderInItsOldShard(t *testing.T) {
	t.Parallel()
	for _, conflict := range []broker.UniqueConflict{broker.ConflictReplace, broker.ConflictDebounce, broker.ConflictKeepLast} {
		for _, active := range []bool{false, true} {
			t.Run(fmt.Sprintf("conflict %d, active %v", conflict, active), func(t *testing.T) {
				t.Parallel()
				m, now := newMoving(t), switchAt.Add(time.Second)
				b := m.both(nil)
				first := meeting(b, "first", conflict)
				if r := send(t, m.before(), switchAt.Add(-time.Hour), first); r.Err != nil {
					t.Fatal(r.Err)
				}
				w := &runner{t: t, b: b, queue: "q"}
				w.register(switchAt.Add(-time.Minute))
				if active {
					w.turn(now, 1)
				}
				second, third := first, first
				second.ID, second.Body.Payload, third.ID, third.Body.Payload = "second", []byte("2"), "third", []byte("3")
				if active && conflict == broker.ConflictReplace {
					if r := send(t, b, now, second); r.Holder != "first" || r.Replaced || r.Err == nil {
						t.Errorf("a job that may not wait: %+v, want a duplicate of the active one", r)
					}
					return
				}
				stored := "first"
				if active {
					stored = "second"
				}
				r := send(t, b, now, second)
				waits := r.State == broker.StateWaiting
				if r.Err != nil || r.ID != stored || r.Holder != "first" || r.Replaced == active || waits != active {
					t.Errorf("a job that meets the holder: %+v", r)
				}
				for range 2 { // the answer to the first was lost
					if r := send(t, b, now, third); r.Err != nil || !r.Replaced || r.Holder != stored {
						t.Errorf("a later job: %+v, want it to replace %s", r, stored)
					}
				}
				want := map[string]string{"b " + stored: "3"}
				if active {
					want["b first"] = ""
				}
				if got := m.payloads(now); fmt.Sprint(got) != fmt.Sprint(want) {
					t.Errorf("the payloads are %v, want %v", got, want)
				}
				ran := 0
				for more := true; more; more = w.left {
					now = now.Add(time.Second)
					ran += len(w.turn(now, 1))
				}
				if ran != 1 {
					t.Errorf("%d more jobs ran, want the last one", ran)
				}
				if r := send(t, b, now, meeting(b, "fourth", conflict)); r.Err != nil || r.ID != "fourth" {
					t.Errorf("a job after all have ended: %+v, want it stored", r)
				}
				got := m.payloads(now)
				if _, old := got["b fourth"]; old || len(got) != 1 {
					t.Errorf("after the holders have ended, there are %v; want the job in its new shard", got)
				}
			})
		}
	}
}

// The holder in the old shard ends after a job has met it. No job of the same unique key is stored in the new shard
// before the one that met it is stored in the old shard.
func TestMove_AHolderThatEndsMeanwhileLeavesOneHolder(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m, now := newMoving(t), switchAt.Add(time.Second)
		other := m.both(nil)
		first := meeting(other, "first", broker.ConflictKeepLast)
		if r := send(t, m.before(), switchAt.Add(-time.Hour), first); r.Err != nil {
			t.Fatal(r.Err)
		}
		second, third := first, first
		second.ID, third.ID = "second", "third"
		var sent sync.WaitGroup
		b := m.both(func(_ string, b broker.Broker) broker.Broker {
			return broker.Wrap(b, func(ctx context.Context, c *broker.Call, next func(context.Context) error) error {
				if req, ok := c.Request.(*broker.EnqueueRequest); ok && req.Jobs[0].Body.Type != probeType {
					refs := []broker.Ref{{Queue: "q", ID: "first", Epoch: broker.AnyEpoch}}
					if _, err := other.Operate(ctx, broker.Operation{Now: now, Kind: broker.OpCancel, Refs: refs}); err != nil {
						t.Error(err)
					}
					sent.Go(func() {
						if r := send(t, other, now, third); r.Err != nil || !r.Replaced {
							t.Errorf("a job sent meanwhile: %+v, want it to replace the one before", r)
						}
					})
					synctest.Wait()
				}
				return next(ctx)
			})
		})
		if r := send(t, b, now, second); r.Err != nil || r.State != broker.StatePending {
			t.Errorf("a job whose holder ended: %+v, want it stored", r)
		}
		sent.Wait()
		if got := m.payloads(now); len(got) != 1 {
			t.Errorf("there are the jobs %v, want one", got)
		}
	})
}
