package conformance

import (
	"cmp"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/seed81422ce9/jobs/broker"
)

// stress runs producers, workers that die, reclaimers and an operator on one queue
// over three handles, in virtual time that all of them advance, and keeps a ledger
// of the answers that each received. It repeats for the time of stressing, each time
// with a new queue. If bad is set, most of the parties are on a bad network.
func stress(c *check, bad bool) {
	handles, start := c.handles(), c.now
	for seed, end := c.seed(), time.Now().Add(stressing); ; seed++ {
		c.seeded(seed)
		c.q, c.now = fmt.Sprint("q", seed), start
		c.keep(1000 * time.Hour)
		l := &ledger{check: c, asked: map[string]*entry{}, settled: map[string]int{}, newest: map[string]int64{}}
		c.together(7, func(i int) error {
			r := rand.New(rand.NewPCG(seed, uint64(i)))
			b := handles[i%3]
			if bad && i%3 > 0 {
				b = onABadNetwork(b, seed+uint64(i)) // one for each party, so that its faults do not depend on the others
			}
			switch i {
			case 0, 1:
				return l.produce(b, r, i)
			case 2:
				return l.decideAt(b, r)
			}
			return l.work(b, r, i)
		})
		l.close()
		if !time.Now().Before(end) {
			return
		}
	}
}

// ledger records the answers that callers received.
type ledger struct {
	*check
	passed atomic.Int64 // virtual time since the start
	clock  atomic.Int64 // the current moment; each call has its own, so that calls have an order

	mu       sync.Mutex
	asked    map[string]*entry
	accepted []string
	settled  map[string]int   // accepted settles by lease
	newest   map[string]int64 // the epoch of the newest lease of a job
}

// entry is one job. It certainly held its unique key from alive, the moment after
// its enqueue, until ending, the moment before the call that ended it, if any.
type entry struct {
	key           string
	alive, ending int64
	deleted       bool
}

// mayEnd records that a call sent after a moment may have ended the job. The earliest such call counts, since
// answers come in another order than the store acted: a record can be deleted before its worker hears that it ended.
func (e *entry) mayEnd(before int64) {
	if e.ending == 0 || before < e.ending {
		e.ending = before
	}
}

// turns is the number of times that each party acts.
const turns = 40

func (l *ledger) time() time.Time { return l.now.Add(time.Duration(l.passed.Load())) }

func (l *ledger) produce(b broker.Broker, r *rand.Rand, who int) error {
	for turn := range turns {
		jobs := make([]broker.NewJob, 1+r.IntN(4))
		for k := range jobs {
			jobs[k] = l.job(fmt.Sprintf("p%d-%d-%d", who, turn, k))
			if r.IntN(4) == 0 {
				jobs[k].Delay = time.Duration(r.IntN(5)) * time.Second
			}
			if r.IntN(3) == 0 && !l.limits.NoUnique {
				jobs[k].Body.Unique.Key = fmt.Sprint("key", r.IntN(4))
			}
		}
		l.mu.Lock()
		for _, j := range jobs {
			l.asked[j.ID] = &entry{key: j.Body.Unique.Key}
		}
		l.mu.Unlock()
		receipts, err := b.Enqueue(l.ctx, broker.EnqueueRequest{Now: l.time(), Jobs: jobs})
		if err != nil {
			return err
		}
		runtime.Gosched()
		moment := l.clock.Add(1)
		l.mu.Lock()
		for _, receipt := range receipts {
			if receipt.Err == nil {
				l.asked[receipt.ID].alive = moment
				l.accepted = append(l.accepted, receipt.ID)
			}
		}
		l.mu.Unlock()
	}
	return nil
}

// work claims, settles and reclaims, and sometimes dies without retiring.
func (l *ledger) work(b broker.Broker, r *rand.Rand, who int) error {
	for life, turn := 0, 0; turn < turns; life++ {
		w := &worker{c: l.check, b: b, id: fmt.Sprintf("w%d-%d", who, life), queues: []string{l.q}}
		if _, err := b.Renew(l.ctx, broker.RenewRequest{Now: l.time(), Worker: w.id, Queues: w.queues, Lease: lease,
			Register: true}); err != nil {
			return err
		}
		var held []broker.Job
		for range 3 + r.IntN(10) {
			turn++
			var got broker.Claimed
			var err error
			now := l.time()
			if r.IntN(4) == 0 {
				got, err = b.Reclaim(l.ctx, broker.ReclaimRequest{Now: now, Worker: w.id, Queues: w.queues, Max: 5})
			} else {
				req := w.request(5)
				req.Now = now
				got, err = b.Claim(l.ctx, req)
			}
			if err != nil && broker.MayHaveApplied(err) {
				return err
			}
			held = append(held, got.Jobs...)
			l.leased(got.Jobs)
			l.passed.Add(int64(time.Duration(r.IntN(12)) * time.Second))
			runtime.Gosched() // otherwise, with a store in memory, one party runs alone
			if err != nil || r.IntN(12) == 0 {
				break // its leases ran out, or it dies; it may settle once more
			}
			if r.IntN(2) == 0 { // otherwise it holds them for a while, and may lose them
				if err := l.settleSome(w, r, held); err != nil {
					return err
				}
				held = nil
			}
		}
		if r.IntN(2) == 0 {
			if err := l.settleSome(w, r, held); err != nil {
				return err
			}
		}
	}
	return nil
}

func (l *ledger) leased(jobs []broker.Job) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, j := range jobs {
		l.newest[j.ID] = max(l.newest[j.ID], j.Epoch)
	}
}

func (l *ledger) settleSome(w *worker, r *rand.Rand, jobs []broker.Job) error {
	if len(jobs) == 0 {
		return nil
	}
	var items []broker.Settlement
	for i := range jobs {
		o := broker.Complete(nil)
		switch r.IntN(6) {
		case 0:
			o = broker.Retry(time.Duration(r.IntN(3))*time.Second, failure("x"))
		case 1:
			o = broker.Release()
		case 2:
			o = broker.Die(broker.ReasonRetries, failure("x"))
		}
		items = append(items, broker.Settlement{Job: &jobs[i], Outcome: o})
	}
	w.number++
	before := l.clock.Add(1)
	void := make([]bool, len(jobs))
	l.mu.Lock()
	for i := range jobs {
		void[i] = jobs[i].Epoch < l.newest[jobs[i].ID]
	}
	l.mu.Unlock()
	verdicts, err := w.b.Settle(l.ctx, broker.SettleRequest{Now: l.time(), Worker: w.id, Number: w.number, Items: items})
	if err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for i, v := range verdicts {
		if errors.Is(v.Err, errUnsure) {
			l.asked[v.ID].mayEnd(before)
		}
		if v.Err != nil {
			continue
		}
		if void[i] {
			return fmt.Errorf("settle of %s by %s at epoch %d was accepted, after a lease at epoch %d was given", v.ID, w.id,
				jobs[i].Epoch, l.newest[v.ID])
		}
		l.settled[fmt.Sprintf("%s at epoch %d", v.ID, jobs[i].Epoch)]++
		if v.State.Final() {
			l.asked[v.ID].mayEnd(before)
		}
	}
	return nil
}

// decideAt cancels, deletes, redrives and reschedules random jobs.
func (l *ledger) decideAt(b broker.Broker, r *rand.Rand) error {
	for range turns {
		l.mu.Lock()
		id := ""
		if len(l.accepted) > 0 {
			id = l.accepted[r.IntN(len(l.accepted))]
		}
		l.mu.Unlock()
		if id == "" {
			continue
		}
		before := l.clock.Add(1)
		kind := []broker.OperationKind{broker.OpCancel, broker.OpDelete, broker.OpRedrive, broker.OpReschedule}[r.IntN(4)]
		results, err := b.Operate(l.ctx, broker.Operation{Now: l.time(), Kind: kind, Refs: []broker.Ref{{Queue: l.q, ID: id,
			Epoch: broker.AnyEpoch}}})
		if err != nil {
			return err
		}
		runtime.Gosched()
		if results[0].Err != nil {
			continue
		}
		l.mu.Lock()
		e := l.asked[id]
		if kind == broker.OpDelete || kind == broker.OpCancel && results[0].State != broker.StateActive {
			e.mayEnd(before)
		}
		e.deleted = e.deleted || kind == broker.OpDelete
		if kind == broker.OpRedrive {
			e.key = "" // it may have held its key twice, but not in between
		}
		l.mu.Unlock()
	}
	return nil
}

// close drains the queue and balances the ledger.
func (l *ledger) close() {
	c := l.check
	c.tb.Helper()
	c.now = l.time().Add(time.Hour)
	for _, e := range l.asked {
		if e.ending == 0 {
			e.ending = l.clock.Add(1) // it ends from here on
		}
	}
	w := c.worker("last")
	for _, take := range []func(int) []broker.Job{w.reclaim, w.claim} {
		for {
			jobs := take(100)
			if len(jobs) == 0 {
				break
			}
			w.settle(broker.Complete(nil), refs(jobs)...)
			for _, j := range jobs {
				l.settled[fmt.Sprintf("%s at epoch %d", j.ID, j.Epoch)]++
			}
		}
	}
	for lease, times := range l.settled {
		c.that(times == 1, "settles of the lease of %s\ngot  %d accepted\nwant 1", lease, times)
	}
	kept := make(map[string]bool)
	for _, state := range broker.States() {
		for _, j := range c.list(broker.Query{State: state, NoPayload: true, Limit: 1000}) {
			c.that(state.Final(), "job %s after everything was claimed\ngot  %v\nwant it finished", j.ID, state)
			kept[j.ID] = true
		}
	}
	for _, id := range l.accepted {
		e := l.asked[id]
		c.that(kept[id] != e.deleted, "job %s\ngot  a record: %t, deleted: %t\nwant one of both", id, kept[id], e.deleted)
		delete(kept, id)
	}
	c.same("records of jobs that were refused", len(kept), 0)
	byKey := make(map[string][]string)
	for _, id := range l.accepted {
		if e := l.asked[id]; e.key != "" && e.ending > e.alive {
			byKey[e.key] = append(byKey[e.key], id)
		}
	}
	for key, ids := range byKey {
		slices.SortFunc(ids, func(a, b string) int { return cmp.Compare(l.asked[a].alive, l.asked[b].alive) })
		for i, id := range ids[1:] {
			earlier := ids[i]
			c.that(l.asked[earlier].ending <= l.asked[id].alive, "key %s\ngot  held by %s and by %s at one moment\nwant by one", key,
				earlier, id)
		}
	}
}
