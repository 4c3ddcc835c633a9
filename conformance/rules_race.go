package conformance

import (
	"errors"
	"fmt"
	"runtime"
	"sync"
	"time"

	"github.com/seed81422ce9/jobs/broker"
)

var raceRules = []Rule{
	{"Race/ClaimsGiveEachJobOnce", "§26", "However many workers claim at once, each job is given to one of them, and none is left.",
		nil, func(c *check) {
			const n = 200
			c.addMany("j", n)
			c.givenOnce(n, func(w *worker) (broker.Claimed, error) { return w.b.Claim(c.ctx, w.request(7)) })
		}},
	{"Race/OneSettleOfALease", "§10", "If several settles of one lease are made at once, one applies.", nil, func(c *check) {
		const n = 40
		c.addMany("j", n)
		w := c.worker("w")
		held := w.claim(n)
		handles := c.handles()
		applied := make([]int, n)
		var mu sync.Mutex
		c.together(racers, func(i int) error {
			items := make([]broker.Settlement, n)
			for k := range items {
				items[k] = broker.Settlement{Job: &held[(k+i*5)%n], Outcome: broker.Retry(time.Hour, failure("x"))}
			}
			verdicts, err := handles[i%3].Settle(c.ctx, broker.SettleRequest{Now: c.now, Worker: "w", Number: int64(i + 1), Items: items})
			if err != nil {
				return err
			}
			mu.Lock()
			defer mu.Unlock()
			for k, v := range verdicts {
				if v.Err == nil {
					applied[(k+i*5)%n]++
				} else if !errors.Is(v.Err, broker.ErrLeaseLost) {
					return v.Err
				}
			}
			return nil
		})
		for k, times := range applied {
			c.that(times == 1, "settles of %s that applied\ngot  %d\nwant 1", held[k].ID, times)
			c.same("failures", c.must(held[k].ID, broker.StateRetry).Failures, 1)
		}
	}},
	{"Race/OneHolderOfAKey", "§19", "Of jobs with one unique key enqueued at once, one is accepted, and the others are told its ID.",
		unique, func(c *check) {
			handles := c.handles()
			for round := range 5 {
				key := fmt.Sprint("key", round)
				receipts := c.enqueueAtOnce(handles, func(i int) broker.NewJob {
					return c.uniqueJob(fmt.Sprintf("%s-%d", key, i), key, untilDone, 0)
				})
				c.oneAccepted(receipts)
			}
		}},
	{"Race/OneJobOfAnID", "§1", "Of jobs with one ID enqueued at once, one is accepted.", nil, func(c *check) {
		handles := c.handles()
		for round := range 5 {
			receipts := c.enqueueAtOnce(handles, func(i int) broker.NewJob {
				j := c.job(fmt.Sprint("j", round))
				j.Body.Payload = []byte(fmt.Sprint(i))
				return j
			})
			winner := c.oneAccepted(receipts)
			c.same("payload", string(c.must(fmt.Sprint("j", round), broker.StatePending).Payload), fmt.Sprint(winner))
		}
	}},
	{"Race/ReclaimsGiveEachJobOnce", "§8", "However many workers reclaim at once, each job goes to one of them, under one lease.", nil,
		func(c *check) {
			const n = 60
			c.addMany("j", n)
			for i := range 6 {
				c.worker(fmt.Sprint("dead", i)).claim(n / 6)
			}
			c.pass(2 * lease)
			c.givenOnce(n, func(w *worker) (broker.Claimed, error) {
				return w.b.Reclaim(c.ctx, broker.ReclaimRequest{Now: c.now, Worker: w.id, Queues: w.queues, Max: 7})
			})
		}},
	{"Race/SettleOrReclaim", "§8", "If a late settle and a reclaim come at once, one of them gets the job, and the other is told.", nil,
		func(c *check) {
			const n = 40
			c.addMany("j", n)
			w := c.workerOn(c.open(), "w")
			held := w.claim(n)
			c.pass(2 * lease)
			r := c.worker("r")
			var taken []broker.Job
			settled := make(map[string]bool)
			c.together(2, func(i int) error {
				if i == 0 {
					for len(taken) < n {
						got, err := r.b.Reclaim(c.ctx, broker.ReclaimRequest{Now: c.now, Worker: "r", Queues: []string{c.q}, Max: 5})
						if err != nil {
							return err
						}
						taken = append(taken, got.Jobs...)
						runtime.Gosched()
						if len(got.Jobs) == 0 && !got.More {
							return nil
						}
					}
					return nil
				}
				for k := range held {
					at := n - 1 - k
					verdicts, err := w.b.Settle(c.ctx, broker.SettleRequest{Now: c.now, Worker: "w", Number: int64(k + 1),
						Items: []broker.Settlement{{Job: &held[at], Outcome: broker.Complete(nil)}}})
					if err != nil {
						return err
					}
					settled[held[at].ID] = verdicts[0].Err == nil
					runtime.Gosched()
				}
				return nil
			})
			reclaimed := make(map[string]bool)
			for _, j := range taken {
				reclaimed[j.ID] = true
			}
			for _, j := range held {
				c.that(settled[j.ID] != reclaimed[j.ID], "job %s\ngot  settled %t, reclaimed %t\nwant one of both", j.ID, settled[j.ID],
					reclaimed[j.ID])
			}
			r.settle(broker.Complete(nil), refs(taken)...)
		}},
	{"Race/ClaimOrRetire", "§6", "A claim and the retirement of its worker at once: nothing stays leased to the ended worker.", nil,
		func(c *check) {
			c.addMany("j", 20)
			handles := c.handles()
			for round := range 10 {
				w := c.workerOn(handles[0], fmt.Sprint("w", round))
				c.together(4, func(i int) error {
					if i < 3 {
						_, err := handles[i].Claim(c.ctx, w.request(5))
						if errors.Is(err, broker.ErrWorkerGone) {
							return nil
						}
						return err
					}
					_, err := handles[2].Retire(c.ctx, broker.RetireRequest{Now: c.now, Worker: w.id, Queues: w.queues})
					return err
				})
				c.same("held by the ended worker", len(c.list(broker.Query{Worker: w.id})), 0)
			}
			c.same("claimed by another", len(c.worker("v").claim(99)), 20)
		}},
	{"Race/ClaimOrCancel", "§22", "A claim and a cancel at once: each job is cancelled, or claimed and asked to cancel.", nil,
		func(c *check) {
			c.keep(time.Hour)
			w, claimed, done := c.claimWhile(broker.Operation{Kind: broker.OpCancel})
			held := make(map[string]bool)
			for _, j := range claimed {
				c.that(!held[j.ID], "job %s\ngot  claimed twice\nwant once", j.ID)
				held[j.ID] = true
				c.that(c.must(j.ID, broker.StateActive).CancelRequested, "job %s\ngot  active and not asked to cancel\nwant asked", j.ID)
			}
			for id, cancelled := range done {
				c.that(cancelled, "cancel of %s\ngot  refused\nwant done", id)
				if !held[id] {
					c.must(id, broker.StateCancelled)
				}
			}
			w.nothing()
		}},
	{"Race/ClaimOrDelete", "§22", "A claim and a delete at once: each job is deleted, or claimed and not deleted.", nil, func(c *check) {
		c.claimOr(broker.Operation{Kind: broker.OpDelete})
	}},
	{"Race/ClaimOrHold", "§27", "A claim and a hold at once: each job is held, or claimed and not held.", moves, func(c *check) {
		c.claimOr(broker.Operation{Kind: broker.OpHold, Holder: holder})
	}},
	{"Race/ClaimOrEdit", "§28",
		"A claim and an edit at once: the worker is given the new payload if the edit was done, else the old one.", moves, func(c *check) {
			claimed, edited := c.raceClaims(broker.Operation{Kind: broker.OpEdit, Payload: []byte("edited")})
			c.same("claimed", len(claimed), raced)
			for id, j := range claimed {
				want := "payload of " + id
				if edited[id] {
					want = "edited"
				}
				c.same("payload of "+id, string(j.Payload), want)
			}
		}},
	{"Race/OneRedrive", "§22", "Of redrives of one job made at once, one applies.", nil, func(c *check) {
		ids := c.addMany("j", 10)
		w := c.worker("w")
		w.settle(broker.Die(broker.ReasonRetries, failure("x")), refs(w.claim(10))...)
		handles := c.handles()
		done := make(map[string]int)
		var mu sync.Mutex
		c.together(racers, func(i int) error {
			op := broker.Operation{Now: c.now, Kind: broker.OpRedrive}
			for _, id := range ids {
				op.Refs = append(op.Refs, c.ref(id))
			}
			results, err := handles[i%3].Operate(c.ctx, op)
			mu.Lock()
			defer mu.Unlock()
			for _, r := range results {
				if r.Err == nil {
					done[r.Ref.ID]++
				} else if !errors.Is(r.Err, broker.ErrWrongState) {
					return r.Err
				}
			}
			return err
		})
		for _, id := range ids {
			c.that(done[id] == 1, "redrives of %s that applied\ngot  %d\nwant 1", id, done[id])
			c.same("epoch", c.must(id, broker.StatePending).Epoch, int64(2))
		}
		c.same("claimed", len(w.claim(99)), 10)
	}},
	{"Race/OneOwnerOfAMark", "§24", "Of owners that take a mark at once, one holds it, and fences rise from one holder to the next.",
		marks, func(c *check) {
			handles := c.handles()
			last := int64(0)
			for range 5 {
				got := make([]broker.Marked, racers)
				c.together(racers, func(i int) (err error) {
					got[i], err = handles[i%3].Mark(c.ctx, broker.MarkRequest{Now: c.now, Action: broker.MarkTake, Name: "m",
						Owner: fmt.Sprint("o", i), TTL: time.Minute})
					return err
				})
				var holder broker.Marked
				held := 0
				for _, m := range got {
					if m.Held {
						holder = m
						held++
					}
				}
				c.same("owners that hold the mark", held, 1)
				c.that(holder.Fence > last, "fence\ngot  %d\nwant more than %d", holder.Fence, last)
				last = holder.Fence
				for _, m := range got {
					c.same("holder, as each is told", m.Owner, holder.Owner)
				}
				c.mark(broker.MarkRequest{Action: broker.MarkDrop, Name: "m", Owner: holder.Owner, Fence: holder.Fence})
			}
		}},
	{"Race/PrunesRemoveOnce", "§23", "However many servers prune at once, each record is removed, and counted, once.", nil, func(c *check) {
		const n = 60
		c.keep(time.Minute)
		c.addMany("j", n)
		w := c.worker("w")
		w.settle(broker.Complete(nil), refs(w.claim(n))...)
		c.pass(time.Hour)
		handles := c.handles()
		sums := make([]int, racers)
		c.together(racers, func(i int) error {
			for range 20 {
				p, err := handles[i%3].Prune(c.ctx, broker.PruneRequest{Now: c.now, Queues: []string{c.q}, Max: 10})
				if err != nil {
					return err
				}
				if sums[i] += p.Completed; !p.More {
					break
				}
			}
			return nil
		})
		sum := c.prune().Completed
		for _, s := range sums {
			sum += s
		}
		c.same("records removed", sum, n)
	}},
	{"Race/OneConsumerSeesTheOrder", "§16", "While many producers enqueue, one worker sees the jobs of each producer in their order.", nil,
		func(c *check) {
			const producers, each = 4, 40
			handles := c.handles()
			w := c.workerOn(c.open(), "w")
			var got []broker.Job
			c.together(producers+1, func(i int) error {
				if i < producers {
					for n := range each {
						if _, err := handles[i%3].Enqueue(c.ctx,
							broker.EnqueueRequest{Now: c.now, Jobs: []broker.NewJob{c.job(fmt.Sprintf("%d %d", i, n))}}); err != nil {
							return err
						}
					}
					return nil
				}
				for end := time.Now().Add(patience); len(got) < producers*each; {
					claimed, err := w.b.Claim(c.ctx, w.request(3))
					if err != nil {
						return err
					}
					if got = append(got, claimed.Jobs...); time.Now().After(end) {
						return fmt.Errorf("%d of %d jobs claimed in %v", len(got), producers*each, patience)
					}
				}
				return nil
			})
			var last [producers]int
			for _, j := range got {
				var producer, n int
				fmt.Sscan(j.ID, &producer, &n)
				c.that(n >= last[producer], "job %d of producer %d\ngot  after its job %d\nwant in order", n, producer, last[producer])
				last[producer] = n
			}
		}},
	{"Race/Stress", "§26", "Under all calls at once, no job is lost or doubled, no lease is settled twice, and no key is held twice.",
		nil, func(c *check) {
			stress(c, false)
		}},
	{"Race/StressOnABadNetwork", "§26",
		"The same holds when calls do not arrive, and answers are lost or cut: clients repeat what may be repeated.", nil, func(c *check) {
			stress(c, true)
		}},
	{"Race/NoLimitIsExceeded", "§37",
		"While workers die, answers are lost and policies change, no window has more starts than a rate allows, and no more jobs are ever " +
			"active than a limit allows; after the last settle no slot is lost.", flow, func(c *check) {
			stressLimits(c)
		}},
}
