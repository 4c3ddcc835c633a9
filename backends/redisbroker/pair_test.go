package redisbroker

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/seed81422ce9/jobs/broker"
	"github.com/seed81422ce9/jobs/internal/testenv"
)

// bodies is how many are stored, whether their jobs are in a list or not. The
// guard of the hash is none.
func bodies(t *testing.T, c redis.Cmdable, b *Broker, queue string) int64 {
	t.Helper()
	n, err := c.HLen(t.Context(), b.queue(queue).key("b*")).Result()
	if err != nil {
		t.Fatal(err)
	}
	return n - 1
}

func threeFresh() broker.EnqueueRequest {
	return broker.EnqueueRequest{Now: at(0), Jobs: []broker.NewJob{firstSend(job("q", "a")), firstSend(job("q", "b")), firstSend(job("q", "c"))}}
}

func TestJobsThatAreRefusedLeaveNoBodies(t *testing.T) {
	t.Parallel()
	c := client(t)
	for name, set := range map[string]struct {
		up     func(t *testing.T, b *Broker)
		stored int64
		check  func(receipts []broker.Receipt, err error) bool
	}{
		"the queue is full": {stored: 1,
			up: func(t *testing.T, b *Broker) {
				one := int64(1)
				if _, err := b.Policy(t.Context(), broker.PolicyRequest{Queue: "q", MaxDepth: &one}); err != nil {
					t.Fatal(err)
				}
			},
			check: func(receipts []broker.Receipt, err error) bool {
				return err == nil && receipts[0].Err == nil && errors.Is(receipts[1].Err, broker.ErrQueueFull) && errors.Is(receipts[2].Err, broker.ErrQueueFull)
			}},
		"something else stands where the list should": {stored: 0,
			up: func(t *testing.T, b *Broker) {
				enqueue(t, b, job("q", "first"))
				claimed := claimAt(t, b, at(0), "w", 1, "q")
				if _, err := b.Settle(t.Context(), broker.SettleRequest{Now: at(0), Worker: "w", Number: 1,
					Items: []broker.Settlement{{Job: &claimed.Jobs[0], Outcome: broker.Complete(nil)}}}); err != nil {
					t.Fatal(err)
				}
				if err := c.Set(t.Context(), b.queue("q").key("r2"), "not a list", 0).Err(); err != nil {
					t.Fatal(err)
				}
			},
			check: func(receipts []broker.Receipt, err error) bool {
				return err == nil && strings.Contains(fmt.Sprint(receipts[0].Err), "WRONGTYPE")
			}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := open(t, c)
			register(t, b, "w", "q")
			set.up(t, b)
			receipts, err := b.Enqueue(t.Context(), threeFresh())
			if !set.check(receipts, err) {
				t.Errorf("Enqueue: %v, %v", receipts, err)
			}
			if n := bodies(t, c, b, "q"); n != set.stored {
				t.Errorf("%d bodies are stored, want %d", n, set.stored)
			}
		})
	}
}

// A user who lacks MULTI must not leave bodies behind which nobody finds, and
// which would have the next attempt taken for a repeat.
func TestUsersWhoLackTheRightToTransactions(t *testing.T) {
	t.Parallel()
	o, err := redis.ParseURL(testenv.Redis(t))
	if err != nil {
		t.Fatal(err)
	}
	for _, can := range []struct {
		right  string
		stored int64
	}{{"+eval", 3}, {"-eval", 0}} {
		t.Run(can.right, func(t *testing.T) {
			t.Parallel()
			admin, name := client(t), testenv.Name(t)
			if err := admin.Do(t.Context(), "ACL", "SETUSER", name, "on", ">secret", "~"+name+":*", "&"+name+":*",
				"+@read", "+@write", "+@connection", "+@pubsub", can.right, "+evalsha", "+script|load", "+time", "+info").Err(); err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { admin.Do(context.Background(), "ACL", "DELUSER", name) })
			as := *o
			as.Username, as.Password = name, "secret"
			limited := redis.NewClient(&as)
			t.Cleanup(func() { _ = limited.Close() })
			b := openAs(t, limited, Config{Prefix: name})
			register(t, b, "w", "q")
			receipts, err := b.Enqueue(t.Context(), threeFresh())
			if err != nil {
				t.Fatal(err)
			}
			for _, r := range receipts {
				if can.stored > 0 && r.Err != nil || can.stored == 0 && !errors.Is(r.Err, broker.ErrUnavailable) {
					t.Errorf("Enqueue of %s: %v", r.ID, r.Err)
				}
			}
			if n := bodies(t, admin, b, "q"); n != can.stored {
				t.Errorf("%d bodies are stored, want %d", n, can.stored)
			}
			if got := claimAt(t, b, at(0), "w", 10, "q"); int64(len(got.Jobs)) != can.stored {
				t.Errorf("%d jobs can be claimed, want %d", len(got.Jobs), can.stored)
			}
		})
	}
}

// The caller writes into a body what it takes the store's time to be. A clock
// that was set back or forth meanwhile makes it wrong, which a single job does
// not notice for a second.
func TestTheTimeOfCreationIsTheStoresOwn(t *testing.T) {
	t.Parallel()
	for _, n := range []int{1, 3} {
		for _, off := range []time.Duration{0, time.Hour, -time.Hour} {
			t.Run(fmt.Sprint(n, " jobs, ", off), func(t *testing.T) {
				t.Parallel()
				c := client(t)
				b := open(t, c)
				var jobs []broker.NewJob
				for i := range n {
					jobs = append(jobs, firstSend(job("q", fmt.Sprint("j", i))))
				}
				first := firstSend(job("q", "first")) // tells the time, after which a guess can be made
				if _, err := b.Enqueue(t.Context(), broker.EnqueueRequest{Jobs: []broker.NewJob{first}}); err != nil {
					t.Fatal(err)
				}
				q := b.queue("q")
				if _, recent := q.time(); !recent {
					t.Fatal("no time is known after an answer")
				}
				q.ahead.Add(off.Microseconds())
				if off != 0 {
					q.heard.Add(-hearsay.Microseconds())
				}
				before, err := c.Time(t.Context()).Result()
				if err != nil {
					t.Fatal(err)
				}
				if _, err := b.Enqueue(t.Context(), broker.EnqueueRequest{Jobs: jobs}); err != nil {
					t.Fatal(err)
				}
				after, err := c.Time(t.Context()).Result()
				if err != nil {
					t.Fatal(err)
				}
				page, err := b.Find(t.Context(), broker.Query{Queue: "q", State: broker.StatePending, Limit: 10})
				if err != nil || len(page.Jobs) != n+1 {
					t.Fatalf("Find: %d jobs, %v", len(page.Jobs), err)
				}
				for _, j := range page.Jobs {
					if j.ID == "first" {
						continue
					}
					if at := j.CreatedAt; at.Before(before.Add(-10*time.Millisecond)) || at.After(after) {
						t.Errorf("%s was created at %v, which is not between %v, less 10 ms, and %v", j.ID, at, before, after)
					}
					if string(j.Body.Payload) != "payload of "+j.ID {
						t.Errorf("%s has the payload %q", j.ID, j.Body.Payload)
					}
				}
			})
		}
	}
}
