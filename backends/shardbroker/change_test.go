package shardbroker

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed81422ce9/jobs/broker"
)

// keyOf returns a key whose jobs the switch moves from b.
func keyOf(b *Broker) string {
	for i := 0; ; i++ {
		key := fmt.Sprint("key ", i)
		if of := b.routes.of(label("", &broker.Body{Key: key})); len(of) == 2 && of[1].Name == "b" {
			return key
		}
	}
}

func keyedJob(id, key string) broker.NewJob {
	j := newJob(id)
	j.Body.Key = key
	return j
}

// The old shard hangs. Jobs that must ask it first do not hold up the jobs of other shards in the same call, and no other
// shard is taken for one that hangs.
func TestChange_AnOldShardThatHangsHoldsUpNoOtherJobs(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m, now := newMoving(t), switchAt.Add(time.Minute)
		b := m.both(func(name string, b broker.Broker) broker.Broker {
			return broker.Wrap(b, func(ctx context.Context, _ *broker.Call, next func(context.Context) error) error {
				if name == "b" {
					<-ctx.Done()
					return ctx.Err()
				}
				return next(ctx)
			})
		})
		for call := range 4 {
			var batch []broker.NewJob
			for i := range 20 {
				id := fmt.Sprint(call, " ", i)
				plain := newJob("plain " + id)
				plain.FirstSend = true
				batch = append(batch, keyedJob("moved "+id, keyOf(b)), plain)
			}
			ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
			began := time.Now()
			receipts, err := b.Enqueue(ctx, broker.EnqueueRequest{Now: now, Jobs: batch})
			cancel()
			if err != nil {
				t.Fatal(err)
			}
			for i, r := range receipts {
				if keyed := batch[i].Body.Key != ""; (r.Err != nil) != keyed || keyed && !broker.StoreFailed(r.Err) {
					t.Fatalf("call %d: the job %q: %v", call, batch[i].ID, r.Err)
				}
			}
			if took := time.Since(began); call > 1 && took > 0 {
				t.Errorf("call %d took %v, although it is known that the shard hangs", call, took)
			}
		}
		for _, s := range b.shards {
			if wait, _ := s.away(); wait > 0 != (s.Name == "b") {
				t.Errorf("shard %s is left alone for %v", s.Name, wait)
			}
		}
	})
}

// The old shard hangs when an enqueue has stored its job and would tidy up there. The caller gets its answer.
func TestChange_AnOldShardThatHangsAtTheEndHoldsUpNobody(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m, now := newMoving(t), switchAt.Add(time.Minute)
		var hangs atomic.Bool
		b := m.both(func(name string, b broker.Broker) broker.Broker {
			return broker.Wrap(b, func(ctx context.Context, c *broker.Call, next func(context.Context) error) error {
				if name == "b" && hangs.Load() {
					<-ctx.Done()
					return ctx.Err()
				}
				err := next(ctx)
				if name != "b" && c.Method == "Enqueue" {
					hangs.Store(true)
				}
				return err
			})
		})
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		began := time.Now()
		receipts, err := b.Enqueue(ctx, broker.EnqueueRequest{Now: now, Jobs: []broker.NewJob{keyedJob("j", keyOf(b))}})
		if took := time.Since(began); err != nil || receipts[0].Err != nil || took > 5*time.Second {
			t.Errorf("the enqueue: %v, %v, after %v", receipts, err, took)
		}
	})
}

// Keys of the framework's own queues only find jobs. Schedules never end, and there may always be some workflow: if new
// ones followed them, a shard that leaves would never be empty.
func TestChange_TheFrameworksJobsDoNotFollowTheirKey(t *testing.T) {
	t.Parallel()
	m, now := newMoving(t), switchAt.Add(time.Minute)
	b := m.both(nil)
	key := keyOf(b)
	for i, of := range []*Broker{m.before(), b} {
		j := keyedJob(fmt.Sprint("j", i), key)
		j.Queue = broker.ReservedPrefix + "own"
		if r := send(t, of, now, j); r.Err != nil {
			t.Fatal(r.Err)
		}
	}
	left, err := b.Left(t.Context())
	if err != nil || left["b"] != 1 {
		t.Errorf("left are %v, %v; want the first job", left, err)
	}
	page, err := b.Find(t.Context(), broker.Query{Now: now, Queue: broker.ReservedPrefix + "own", Key: key, Limit: 10})
	if err != nil || len(page.Jobs) != 2 {
		t.Errorf("by their key %d jobs are found, %v; want both", len(page.Jobs), err)
	}
}

// The clock of a process is wrong by an hour. It changes the shards at the same time as the others: when the shards say so.
func TestChange_TheClockOfAProcessDoesNotMatter(t *testing.T) {
	t.Parallel()
	for name, ahead := range map[string]time.Duration{"behind": time.Hour, "ahead": -time.Hour} { // of the shards
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m, at := newMoving(t), time.Now().Add(ahead/2)
			open := func(name string) broker.Broker {
				return broker.Wrap(m.stores[name].Open(), func(ctx context.Context, c *broker.Call, next func(context.Context) error) error {
					err := next(ctx)
					if now, ok := c.Reply.(*time.Time); ok {
						*now = now.Add(ahead)
					}
					return err
				})
			}
			b := opened(t, Shard{Name: "a", Broker: open("a")}, Shard{Name: "b", Broker: open("b"), Until: at},
				Shard{Name: "c", Broker: open("c"), From: at})
			got, err := b.Enqueue(t.Context(), broker.EnqueueRequest{Jobs: []broker.NewJob{keyedJob("j", keyOf(b))}})
			if err != nil || got[0].Err != nil {
				t.Fatal(got, err)
			}
			left, err := b.Left(t.Context())
			if want := map[bool]int64{true: 0, false: 1}[ahead > 0]; err != nil || left["b"] != want {
				t.Errorf("shard b has %v, %v; want %d jobs", left, err, want)
			}
		})
	}
}
