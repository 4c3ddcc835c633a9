package redisbroker

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/seed81422ce9/jobs/broker"
)

// A worker that claims a job whose stored form was damaged while it was pending can end it:
// as undecodable, with its history as far as that can be read.
func TestRecord_AJobDamagedInLineCanBeEnded(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		damage  func(c *redis.Client, b *Broker) error
		history int
	}{
		"body lost": {func(c *redis.Client, b *Broker) error {
			return c.HDel(t.Context(), b.queue("q").bucket(0), "a").Err()
		}, 1},
		"head lost": {func(c *redis.Client, b *Broker) error { return c.HDel(t.Context(), b.queue("q").key("h"), "a").Err() }, 0},
		"head garbage": {func(c *redis.Client, b *Broker) error {
			return c.HSet(t.Context(), b.queue("q").key("h"), "a", "x,y").Err()
		}, 0},
		"a number of the head garbage": {func(c *redis.Client, b *Broker) error {
			return c.HSet(t.Context(), b.queue("q").key("h"), "a", "1,4,0,x,1,0,0;").Err()
		}, 0},
	} {
		for _, reclaimed := range []bool{false, true} {
			t.Run(fmt.Sprint(name, ", reclaimed ", reclaimed), func(t *testing.T) {
				t.Parallel()
				c := client(t)
				b := open(t, c)
				enqueue(t, b, job("q", "a"))
				register(t, b, "w", "q")
				l := &life{t: t, b: b, queue: "q"}
				l.settle(at(0), "w", claimAt(t, b, at(0), "w", 1, "q").Jobs, broker.Retry(0, broker.Failure{Message: "failed"}))
				if reclaimed {
					claimAt(t, b, at(0), "w", 1, "q")
				}
				if err := test.damage(c, b); err != nil {
					t.Fatal(err)
				}
				worker, now := "w", at(0)
				var jobs []broker.Job
				if reclaimed {
					worker, now = "r", at(3600)
					renewal := broker.RenewRequest{Now: now, Worker: worker, Queues: []string{"q"}, Lease: time.Minute, Register: true}
					if _, err := b.Renew(t.Context(), renewal); err != nil {
						t.Fatal(err)
					}
					got, err := b.Reclaim(t.Context(), broker.ReclaimRequest{Now: now, Worker: worker, Queues: []string{"q"}, Max: 5})
					if err != nil {
						t.Fatal(err)
					}
					jobs = got.Jobs
				} else {
					jobs = claimAt(t, b, now, worker, 1, "q").Jobs
				}
				if len(jobs) != 1 || !errors.Is(jobs[0].Broken, broker.ErrMalformed) {
					t.Fatalf("got %+v, want the job, and that it is malformed", jobs)
				}
				l.settle(now, worker, jobs, broker.Die(broker.ReasonUndecodable, broker.Failure{Message: "cannot be read"}))
				page, err := b.Find(t.Context(), broker.Query{Queue: "q", State: broker.StateDead, Limit: 9, Now: now})
				if err != nil || len(page.Jobs) != 1 {
					t.Fatalf("the dead jobs are %+v, %v; want this one", page.Jobs, err)
				}
				j := &page.Jobs[0]
				if len(j.Errors.Entries) != test.history+1 || j.Reason != broker.ReasonUndecodable {
					t.Errorf("the dead job has reason %v and errors %+v; want undecodable, and %d of before", j.Reason, j.Errors, test.history)
				}
				if results, err := b.Operate(t.Context(), broker.Operation{Kind: broker.OpDelete, Now: now,
					Refs: []broker.Ref{{Queue: "q", ID: "a", Epoch: j.Epoch}}}); err != nil || results[0].Err != nil {
					t.Errorf("deleting it: %+v, %v", results, err)
				}
				if left := c.HLen(t.Context(), b.queue("q").key("h")).Val(); left != 1 { // the guard
					t.Errorf("%d heads are left", left-1)
				}
			})
		}
	}
}

// A worker that holds a job whose body was lost or cut short, at any epoch, can end it, and
// it is found in the state in which it ended.
func TestRecord_AJobThatLostItsBodyCanBeEnded(t *testing.T) {
	t.Parallel()
	for name, lose := range map[string]func(b *Broker, key string) []any{
		"no body":        func(b *Broker, key string) []any { return []any{"hdel", key, "a"} },
		"an empty body":  func(b *Broker, key string) []any { return []any{"hset", key, "a", ""} },
		"a cut body":     func(b *Broker, key string) []any { return []any{"hset", key, "a", "1234567"} },
		"no more than t": func(b *Broker, key string) []any { return []any{"hset", key, "a", "12345678"} },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := client(t)
			b := open(t, c)
			enqueue(t, b, job("q", "a"))
			register(t, b, "w", "q")
			end := func(worker string, j *broker.Job, o broker.Outcome, number int64, now time.Time) {
				t.Helper()
				req := broker.SettleRequest{Now: now, Worker: worker, Number: number, Items: []broker.Settlement{{Job: j, Outcome: o}}}
				if v, err := b.Settle(t.Context(), req); err != nil || v[0].Err != nil {
					t.Fatalf("settling at epoch %d: %v, %v", j.Epoch, v, err)
				}
			}
			held := claimAt(t, b, at(0), "w", 1, "q").Jobs
			end("w", &held[0], broker.Retry(0, broker.Failure{Message: "failed"}), 1, at(0))
			held = claimAt(t, b, at(0), "w", 1, "q").Jobs
			if err := c.Do(t.Context(), lose(b, b.queue("q").bucket(0))...).Err(); err != nil {
				t.Fatal(err)
			}
			late := at(3600)
			if _, err := b.Renew(t.Context(), broker.RenewRequest{Now: late, Worker: "r", Queues: []string{"q"}, Lease: time.Minute,
				Register: true}); err != nil {
				t.Fatal(err)
			}
			got, err := b.Reclaim(t.Context(), broker.ReclaimRequest{Now: late, Worker: "r", Queues: []string{"q"}, Max: 5})
			if err != nil || len(got.Jobs) != 1 {
				t.Fatalf("reclaimed %d jobs, %v, want 1", len(got.Jobs), err)
			}
			j := &got.Jobs[0]
			if !errors.Is(j.Broken, broker.ErrMalformed) || j.Epoch != held[0].Epoch+1 || j.Failures != 1 {
				t.Errorf("the reclaimed job: broken %v, epoch %d, failures %d; want malformed, %d, 1", j.Broken, j.Epoch, j.Failures, held[0].Epoch+1)
			}
			end("r", j, broker.Die(broker.ReasonUndecodable, broker.Failure{Message: "cannot be read"}), 1, late)
			page, err := b.Find(t.Context(), broker.Query{Queue: "q", State: broker.StateDead, Limit: 9, Now: late})
			if err != nil || len(page.Jobs) != 1 {
				t.Fatalf("the dead jobs are %+v, %v; want this one", page.Jobs, err)
			}
			if j := &page.Jobs[0]; j.Reason != broker.ReasonUndecodable || len(j.Errors.Entries) != 2 ||
				j.Errors.Last().Message != "cannot be read" {
				t.Errorf("the dead job has reason %v and errors %+v", j.Reason, j.Errors)
			}
			if counts, err := b.Queues(t.Context(), broker.QueuesRequest{Names: []string{"q"}, Now: late}); err != nil ||
				counts.Queues[0].Counts[broker.StateActive] != 0 {
				t.Errorf("counts: %v, %v; nothing is active any more", counts.Queues[0].Counts, err)
			}
		})
	}
}
