package conformance

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/seed81422ce9/jobs/broker"
)

// stressed has the limits of a stressed queue; changes of its policy never go above them. In one kind of
// round usually MaxActive keeps jobs back, in the other the rates.
type stressed struct {
	active, keyActive int64
	rate, keyRate     broker.Rate
}

var stresses = []stressed{
	{6, 2, broker.Rate{Jobs: 200, Per: 200 * time.Millisecond, Burst: 30}, broker.Rate{Jobs: 80, Per: 200 * time.Millisecond, Burst: 10}},
	{60, 20, broker.Rate{Jobs: 30, Per: 200 * time.Millisecond, Burst: 8}, broker.Rate{Jobs: 12, Per: 200 * time.Millisecond, Burst: 3}},
}

const stressLease = 150 * time.Millisecond

// stressLimits runs workers that die, reclaimers on a bad network, a producer and an
// operator who changes policies on a queue with limits, with the store's own clock. It checks every
// answer that starts jobs. Each round has a queue of its own.
func stressLimits(c *check) {
	c.real()
	handles := c.handles()
	for n, seed, end := 0, c.seed(), time.Now().Add(stressing); n < len(stresses) || time.Now().Before(end); n, seed = n+1, seed+1 {
		c.seeded(seed)
		c.q = fmt.Sprint("q", seed)
		l := &limitLedger{check: c, most: stresses[n%len(stresses)], active: map[string]string{}, newest: map[string]int64{},
			starts: map[string][]time.Time{}}
		c.policy(broker.PolicyRequest{MaxActive: &l.most.active, KeyMaxActive: &l.most.keyActive, Rate: &l.most.rate,
			KeyRate: &l.most.keyRate})
		c.together(6, func(i int) error {
			r := rand.New(rand.NewPCG(seed, uint64(i)))
			b := handles[i%3]
			if i%3 > 0 {
				b = onABadNetwork(b, seed+uint64(i))
			}
			switch i {
			case 0:
				return l.produce(b, r)
			case 3:
				return l.operateAt(b, r)
			}
			return l.work(b, r, i)
		})
		l.close()
	}
}

// limitLedger records the answers that workers received. active has the keys of the jobs that are
// certainly active, and newest the epoch of each job's newest lease. starts has when jobs started: of each
// key under "key " and its name, and of all jobs under "all".
type limitLedger struct {
	*check
	most     stressed
	produced atomic.Bool

	mu     sync.Mutex
	active map[string]string
	newest map[string]int64
	starts map[string][]time.Time
}

func (l *limitLedger) produce(b broker.Broker, r *rand.Rand) error {
	defer l.produced.Store(true)
	for turn := range 30 {
		jobs := make([]broker.NewJob, 1+r.IntN(7))
		for i := range jobs {
			jobs[i] = l.keyedJob(fmt.Sprintf("j%d-%d", turn, i), []string{"big", "big", "big", "a", "b", "c", ""}[r.IntN(7)])
		}
		receipts, err := b.Enqueue(l.ctx, broker.EnqueueRequest{Jobs: jobs})
		if err != nil {
			return err
		}
		for _, receipt := range receipts {
			if receipt.Err != nil {
				return receipt.Err
			}
		}
		<-time.After(time.Duration(r.IntN(10)) * time.Millisecond)
	}
	return nil
}

// operateAt pauses and resumes a key, lowers and raises limits, and checks how many
// jobs are active.
func (l *limitLedger) operateAt(b broker.Broker, r *rand.Rand) error {
	for !l.produced.Load() {
		for _, req := range []broker.PolicyRequest{{Key: "big", Paused: new(r.IntN(2) == 0)}, {MaxActive: new(l.most.active - r.Int64N(4))},
			{KeyMaxActive: new(l.most.keyActive - r.Int64N(2))}, {Key: "a", Weight: new(int64(1 + r.IntN(3)))}} {
			req.Queue = l.q
			if _, err := b.Policy(l.ctx, req); err != nil {
				return err
			}
		}
		keys, err := b.Keys(l.ctx, broker.KeysRequest{Queue: l.q})
		if err != nil {
			return err
		}
		for _, k := range keys.Keys {
			if k.Active > l.most.keyActive {
				return fmt.Errorf("Keys shows %d active jobs of the key %s, at most %d may be", k.Active, k.Key, l.most.keyActive)
			}
		}
		<-time.After(5 * time.Millisecond)
	}
	for _, req := range []broker.PolicyRequest{{Key: "big", Paused: new(false)}, {MaxActive: &l.most.active},
		{KeyMaxActive: &l.most.keyActive}} {
		req.Queue = l.q
		if _, err := b.Policy(l.ctx, req); err != nil {
			return err
		}
	}
	return nil
}

// work claims, settles and reclaims, and sometimes dies without retiring.
func (l *limitLedger) work(b broker.Broker, r *rand.Rand, who int) error {
	for life := 0; !l.produced.Load(); life++ {
		w := &worker{c: l.check, b: b, id: fmt.Sprintf("w%d-%d", who, life), queues: []string{l.q}}
		if _, err := b.Renew(l.ctx, broker.RenewRequest{Worker: w.id, Queues: w.queues, Lease: stressLease, Register: true}); err != nil {
			return err
		}
		var held []broker.Job
		for range 3 + r.IntN(20) {
			got, err := b.Claim(l.ctx, w.request(1+r.IntN(5)))
			if err == nil {
				err = l.started(got)
			} else if !broker.MayHaveApplied(err) {
				break // its leases ran out
			}
			if err != nil {
				return err
			}
			held = append(held, got.Jobs...)
			if r.IntN(4) == 0 {
				got, err = b.Reclaim(l.ctx, broker.ReclaimRequest{Worker: w.id, Queues: w.queues, Max: 5})
				if err != nil && broker.MayHaveApplied(err) {
					return err
				}
				if held = append(held, got.Jobs...); err == nil {
					err = l.certain(got.Jobs)
				}
				if err != nil {
					break
				}
			}
			runtime.Gosched()
			if r.IntN(3) == 0 {
				if err := l.settleSome(w, r, held); err != nil {
					return err
				}
				held = nil
			}
			<-time.After(time.Duration(r.IntN(4)) * time.Millisecond)
		}
	}
	return nil
}

// started records the jobs that a claim gave.
func (l *limitLedger) started(got broker.Claimed) error {
	l.mu.Lock()
	for _, j := range got.Jobs {
		l.starts["all"] = append(l.starts["all"], got.Now)
		l.starts["key "+j.Key] = append(l.starts["key "+j.Key], got.Now)
	}
	l.mu.Unlock()
	return l.certain(got.Jobs)
}

// certain records jobs that are active until their worker settles them, and checks
// that there are not too many.
func (l *limitLedger) certain(jobs []broker.Job) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, j := range jobs {
		if j.Epoch < l.newest[j.ID] {
			continue // reclaimed before this answer was recorded, and perhaps ended
		}
		l.newest[j.ID], l.active[j.ID] = j.Epoch, j.Key
	}
	ofKey := map[string]int64{}
	for _, key := range l.active {
		ofKey[key]++
	}
	for key, n := range ofKey {
		if key != "" && n > l.most.keyActive {
			return fmt.Errorf("%d jobs of the key %s are active, at most %d may be: %v", n, key, l.most.keyActive, l.active)
		}
	}
	if n := int64(len(l.active)); n > l.most.active {
		return fmt.Errorf("%d jobs are active, at most %d may be: %v", n, l.most.active, l.active)
	}
	return nil
}

// ending forgets jobs that the settle now sent may end.
func (l *limitLedger) ending(jobs []broker.Job) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, j := range jobs {
		delete(l.active, j.ID)
	}
}

func (l *limitLedger) settleSome(w *worker, r *rand.Rand, jobs []broker.Job) error {
	if len(jobs) == 0 {
		return nil
	}
	var items []broker.Settlement
	for i := range jobs {
		o := []broker.Outcome{broker.Complete(nil), broker.Complete(nil), broker.Complete(nil), broker.Release(),
			broker.Retry(10*time.Millisecond, failure("x")),
			broker.Crash(0, failure("x"))}[r.IntN(6)]
		items = append(items, broker.Settlement{Job: &jobs[i], Outcome: o})
	}
	l.ending(jobs)
	w.number++
	_, err := w.b.Settle(l.ctx, broker.SettleRequest{Worker: w.id, Number: w.number, Items: items})
	return err
}

// close drains the queue, checks the rates of all starts, and checks that no room
// was lost.
func (l *limitLedger) close() {
	c := l.check
	c.tb.Helper()
	<-time.After(stressLease + 10*time.Millisecond) // until the leases of all workers have run out
	w := c.worker(fmt.Sprint("last of ", c.q))
	for end := time.Now().Add(patience); ; {
		reclaimed := w.reclaim(100)
		got := ask(c, "Claim", w.b.Claim, w.request(100))
		c.ok("what the last worker was told", l.started(got))
		all := append(reclaimed, got.Jobs...)
		l.ending(all)
		if len(all) > 0 {
			w.settle(broker.Complete(nil), refs(all)...)
		}
		if len(all) == 0 && !got.More && got.NextDue.IsZero() {
			break
		}
		if time.Now().After(end) {
			c.failf("draining a queue with limits\ngot  %v after %v\nwant an end", summary(c.counted(c.q).Counts), patience)
		}
		<-time.After(time.Millisecond)
	}
	for _, state := range broker.States() {
		c.same(fmt.Sprintf("%v jobs after the last settle", state), jobList(c.list(broker.Query{State: state, NoPayload: true})),
			jobList(nil))
	}
	for what, starts := range l.starts {
		rate := l.most.rate
		switch what {
		case "key ":
			continue // KeyRate does not apply to jobs without a key
		case "all":
		default:
			rate = l.most.keyRate
		}
		slices.SortFunc(starts, time.Time.Compare)
		for i, from := range starts {
			n, _ := slices.BinarySearchFunc(starts, from.Add(rate.Per), time.Time.Compare)
			c.that(int64(n-i) <= rate.Jobs+rate.Burst, "%s: starts within %v from %v\ngot  %d\nwant at most %d", what, rate.Per, from,
				n-i, rate.Jobs+rate.Burst)
		}
	}
	for _, key := range []string{"big", "a", "b", "c"} {
		c.same("active jobs of the key "+key+" after the last settle", c.key(key).Active, int64(0))
		c.addTo(key, "after "+key+" 1", "after "+key+" 2", "after "+key+" 3")
	}
	c.policy(broker.PolicyRequest{MaxActive: new(int64(6)), KeyMaxActive: new(int64(2))})
	none := &broker.Rate{Jobs: broker.NoLimit}
	c.policy(broker.PolicyRequest{Rate: none, KeyRate: none})
	held := w.claim(20)
	c.same("jobs claimed when all is over: as many as may be active", len(held), 6)
	w.settle(broker.Complete(nil), refs(held)...)
	c.policy(broker.PolicyRequest{MaxActive: new(int64(broker.NoLimit))})
	held = w.claim(20)
	c.same("jobs claimed without a limit of the queue", len(held), 6)
	w.settle(broker.Complete(nil), refs(held)...)
}
