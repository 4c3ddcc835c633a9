package shardbroker

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed81422ce9/jobs/backends/membroker"
	"github.com/seed81422ce9/jobs/broker"
)

var errLost = errors.New("the answer was lost")

// lossy loses the answer to one of so many calls of Enqueue and of Settle.
func lossy(b broker.Broker, seed uint64, of int) broker.Broker {
	r := rand.New(rand.NewPCG(seed, 0))
	return broker.Wrap(b, func(ctx context.Context, c *broker.Call, next func(context.Context) error) error {
		lose := (c.Method == "Enqueue" || c.Method == "Settle") && r.IntN(of) == 0
		err := next(ctx)
		if lose && err == nil {
			c.Clear()
			return errLost
		}
		return err
	})
}

var switchAt = time.Date(2026, 5, 6, 7, 8, 9, 0, time.UTC)

// moving are stores in memory on the way from some shards to others.
type moving struct {
	t      *testing.T
	stores map[string]*membroker.Store
}

func newMoving(t *testing.T) *moving {
	m := &moving{t, make(map[string]*membroker.Store)}
	for _, name := range []string{"a", "b", "c", "d"} {
		m.stores[name] = membroker.NewStore()
	}
	return m
}

// before is a process that knows the old shards, a and b; both is one that knows the
// change to a, c and d.
func (m *moving) before() *Broker {
	return opened(m.t, Shard{Name: "a", Broker: m.stores["a"].Open()}, Shard{Name: "b", Broker: m.stores["b"].Open()})
}

func (m *moving) both(wrap func(name string, b broker.Broker) broker.Broker) *Broker {
	if wrap == nil {
		wrap = func(_ string, b broker.Broker) broker.Broker { return b }
	}
	open := func(name string) broker.Broker { return wrap(name, m.stores[name].Open()) }
	return opened(m.t, Shard{Name: "a", Broker: open("a")}, Shard{Name: "b", Broker: open("b"), Until: switchAt},
		Shard{Name: "c", Broker: open("c"), From: switchAt}, Shard{Name: "d", Broker: open("d"), From: switchAt})
}

func send(t *testing.T, b *Broker, at time.Time, j broker.NewJob) broker.Receipt {
	t.Helper()
	got, err := b.Enqueue(t.Context(), broker.EnqueueRequest{Now: at, Jobs: []broker.NewJob{j}})
	if err != nil {
		return broker.Receipt{ID: j.ID, Err: err}
	}
	return got[0]
}

// Jobs of keys in an ordered queue are enqueued and run from before the switch until
// all of the old shard are gone, through processes that learn of the change at
// different times, while answers are lost.
func TestMove_LosesNothingAndKeepsTheOrderOfKeys(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) { move(t, func(int) string { return "" }) })
}

// The same holds while an old shard, or a new one, is away for some time.
func TestMove_LosesNothingWhileAShardIsAway(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"a", "b", "c"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				move(t, func(step int) string {
					if step >= 32 && step < 45 || step >= 60 && step < 70 {
						return name
					}
					return ""
				})
			})
		})
	}
}

// move enqueues and runs jobs while the shards change. In each step, a second long, the
// shard that away names is not reached.
func move(t *testing.T, away func(step int) string) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	m, keys, steps := newMoving(t), 12, 90
	old := m.before()
	if _, err := old.Policy(t.Context(), broker.PolicyRequest{Queue: "q", Ordered: new(broker.OrderStop),
		MaxActive: new(int64(9))}); err != nil {
		t.Fatal(err)
	}
	gone := ""
	faulty := func(seed uint64, of int) func(string, broker.Broker) broker.Broker {
		return func(name string, b broker.Broker) broker.Broker {
			return broker.Wrap(lossy(b, seed, of), func(ctx context.Context, _ *broker.Call, next func(context.Context) error) error {
				if name == gone {
					return fmt.Errorf("%w: connection refused", broker.ErrUnavailable)
				}
				return next(ctx)
			})
		}
	}
	first, second := m.both(faulty(seed, 7)), m.both(faulty(seed+1, 9))
	old.Policy(t.Context(), broker.PolicyRequest{Queue: "q", Key: "key 1", Weight: new(int64(3))})
	w := &runner{t: t, b: first, queue: "q"}
	w.register(switchAt.Add(-time.Minute))
	parts, sum := make(map[string]broker.Policy), int64(0)
	for name, store := range m.stores {
		p, err := store.Open().Policy(t.Context(), broker.PolicyRequest{Queue: "q"})
		if err != nil {
			t.Fatal(err)
		}
		parts[name] = p
		sum += p.MaxActive
		if k, err := store.Open().Policy(t.Context(), broker.PolicyRequest{Queue: "q", Key: "key 1"}); err != nil || k.Weight != 3 {
			t.Errorf("shard %s has the weight %d for a key, %v; want 3", name, k.Weight, err)
		}
		if p.MaxActive < 2 || p.Ordered != broker.OrderStop {
			t.Errorf("shard %s has the policy %+v once a worker is registered, want its part of 9, and the order", name, p)
		}
	}
	if sum != 9 {
		t.Errorf("the parts of a limit of 9 add up to %d: %+v", sum, parts)
	}
	sent, waiting := make([]int, keys), make([]bool, keys)
	ran, active := make([]int, keys), 0
	refused, after := 0, 0
	for step := 0; step < steps || active > 0 || w.left; step++ {
		now := switchAt.Add(time.Duration(step-30) * time.Second)
		time.Sleep(time.Second) // shards that failed are asked again by the process's clock
		gone = away(step)
		for k := range keys {
			if step >= steps {
				break
			}
			b := []*Broker{first, second}[(step+k)%2]
			if step < 15 && k%2 == 0 {
				b = old
			}
			j := newJob(fmt.Sprintf("k%d-%d", k, sent[k]))
			j.Body.Key = fmt.Sprint("key ", k)
			j.Body.GivenID = true // what ran is not stored again by a repeat
			r := send(t, b, now, j)
			switch {
			case r.Err == nil, errors.Is(r.Err, broker.ErrDuplicate) && waiting[k]:
				sent[k]++
				waiting[k] = false
			case errors.Is(r.Err, errLost):
				waiting[k] = true // it is sent again under the same ID, before any other of the key
			case errors.Is(r.Err, broker.ErrUnavailable):
				refused++
			default:
				t.Fatalf("job %s at %v: %v", j.ID, now.Sub(switchAt), r.Err)
			}
		}
		for _, j := range w.turn(now, 4) {
			var k, n int
			fmt.Sscanf(j.ID, "k%d-%d", &k, &n)
			if n != ran[k] {
				t.Fatalf("job %s ran at %v after %d others of its key, want it in order", j.ID, now.Sub(switchAt), ran[k])
			}
			if ran[k]++; now.After(switchAt) {
				after++
			}
		}
		if active = len(w.held); active > 9 {
			t.Fatalf("%d jobs are active, the queue's limit is 9", active)
		}
		if step > 2000 {
			t.Fatalf("jobs are left: %v of %v ran", ran, sent)
		}
	}
	for k := range keys {
		if waiting[k] { // stored, and its answer lost at last
			sent[k]++
		}
		if ran[k] != sent[k] {
			t.Errorf("of key %d %d jobs ran, want %d", k, ran[k], sent[k])
		}
	}
	if left, err := first.Left(t.Context()); err != nil || len(left) != 1 || left["b"] != 0 {
		t.Errorf("left are %v, %v; want none in b", left, err)
	}
	stored := 0
	for _, name := range []string{"c", "d"} {
		info, err := m.stores[name].Open().Queues(t.Context(), broker.QueuesRequest{})
		if err != nil {
			t.Fatal(err)
		}
		stored += len(info.Queues)
	}
	if refused == 0 || after == 0 || stored == 0 {
		t.Errorf("%d jobs were refused before the switch, %d ran after it, %d new shards have the queue: the test does not test what it should",
			refused, after, stored)
	}
}

// runner claims jobs and completes them a while later.
type runner struct {
	t      *testing.T
	b      *Broker
	queue  string
	number int64
	held   []broker.Job
	again  *broker.SettleRequest
	left   bool // something is there still
}

func (w *runner) register(now time.Time) {
	w.t.Helper()
	_, err := w.b.Renew(w.t.Context(), broker.RenewRequest{Now: now, Worker: "w", Queues: []string{w.queue}, Lease: 24 * time.Hour,
		Register: true})
	if err != nil {
		w.t.Fatal(err)
	}
}

// turn ends jobs, claims others, and returns those that were claimed. Jobs whose
// settle has an unclear answer are settled again, under the same number.
func (w *runner) turn(now time.Time, most int) []broker.Job {
	w.t.Helper()
	ctx := w.t.Context()
	if w.again == nil && len(w.held) > 0 {
		req := &broker.SettleRequest{Worker: "w"}
		var held []broker.Job
		for i := range w.held {
			if len(w.held[i].ID)%2 == int(now.Unix())%2 || i < 2 {
				j := w.held[i]
				req.Items = append(req.Items, broker.Settlement{Job: &j, Outcome: broker.Complete(nil)})
			} else {
				held = append(held, w.held[i])
			}
		}
		w.held = held
		if len(req.Items) > 0 {
			w.number++
			req.Number = w.number
			w.again = req
		}
	}
	if w.again != nil {
		w.again.Now = now
		verdicts, err := w.b.Settle(ctx, *w.again)
		var left []broker.Settlement
		for i, v := range verdicts {
			switch {
			case errors.Is(v.Err, errLost), errors.Is(v.Err, broker.ErrUnavailable):
				left = w.again.Items
			case v.Err != nil || v.State != broker.StateCompleted:
				w.t.Fatalf("settle of %s: %+v", w.again.Items[i].Job.ID, v)
			}
		}
		if err == nil && left == nil {
			w.again = nil
		} else if err != nil && !errors.Is(err, errLost) && !errors.Is(err, broker.ErrUnavailable) {
			w.t.Fatal(err)
		}
	}
	got, err := w.b.Claim(ctx, broker.ClaimRequest{Now: now, Worker: "w", Max: most, Queues: []broker.Share{{Queue: w.queue, Max: most}}})
	if err != nil && !errors.Is(err, broker.ErrUnavailable) {
		w.t.Fatal(err)
	}
	w.held = append(w.held, got.Jobs...)
	w.left = len(got.Jobs) > 0 || w.again != nil || len(w.held) > 0 || err != nil
	return got.Jobs
}

func TestMove_UniqueKeysAndGivenIDsHoldAcross(t *testing.T) {
	t.Parallel()
	m, n := newMoving(t), 40
	old, b := m.before(), m.both(nil)
	long := switchAt.Add(-time.Hour)
	unique := func(id string, i int) broker.NewJob {
		j := newJob(id)
		j.Body.Unique = broker.Unique{Key: fmt.Sprint("u", i)}
		return j
	}
	given := func(i int) broker.NewJob {
		j := newJob(fmt.Sprint("given ", i))
		j.Body.GivenID = true
		return j
	}
	for i := range n {
		for _, j := range []broker.NewJob{unique(fmt.Sprint("first ", i), i), given(i), newJob(fmt.Sprint("again ", i))} {
			if r := send(t, old, long, j); r.Err != nil {
				t.Fatal(r.Err)
			}
		}
	}
	quiet, moved := switchAt.Add(-quietTime), 0
	for i := range n {
		if r := send(t, b, quiet, unique(fmt.Sprint("quiet ", i), n+i)); errors.Is(r.Err, broker.ErrUnavailable) {
			moved++
		} else if r.Err != nil {
			t.Fatal(r.Err)
		}
	}
	if moved == 0 || moved == n {
		t.Errorf("%d of %d unique keys change their shard, want some", moved, n)
	}
	now := switchAt.Add(time.Second)
	for i := range n {
		for _, j := range []broker.NewJob{unique(fmt.Sprint("second ", i), i), given(i), newJob(fmt.Sprint("again ", i))} {
			want := j.ID
			if j.Body.Unique.Key != "" {
				want = fmt.Sprint("first ", i)
			}
			if r := send(t, b, now, j); !errors.Is(r.Err, broker.ErrDuplicate) || r.Holder != want {
				t.Errorf("%s after the switch: %v, holder %q; want a duplicate, holder %q", j.ID, r.Err, r.Holder, want)
			}
		}
	}
	// When the holders are gone, the keys are free, in the new shards.
	for i := range n {
		refs := []broker.Ref{{Queue: "q", ID: fmt.Sprint("first ", i), Epoch: broker.AnyEpoch}, {Queue: "q", ID: fmt.Sprint("given ", i),
			Epoch: broker.AnyEpoch}, {Queue: "q", ID: fmt.Sprint("again ", i), Epoch: broker.AnyEpoch}}
		results, err := b.Operate(t.Context(), broker.Operation{Now: now, Kind: broker.OpDelete, Refs: refs})
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range results {
			if r.Err != nil {
				t.Fatal(r.Err)
			}
		}
		if r := send(t, b, now, unique(fmt.Sprint("third ", i), i)); r.Err != nil {
			t.Errorf("a unique key whose holder is gone: %v", r.Err)
		}
		if r := send(t, b, now, unique(fmt.Sprint("fourth ", i), i)); r.Holder != fmt.Sprint("third ", i) {
			t.Errorf("a unique key that is held in its new shard: %v, holder %q", r.Err, r.Holder)
		}
		if r := send(t, b, now, given(i)); !errors.Is(r.Err, broker.ErrDuplicate) {
			t.Errorf("a given ID whose job is gone, after the switch: %v, want it remembered", r.Err)
		}
	}
	info, err := m.stores["b"].Open().Queues(t.Context(), broker.QueuesRequest{Now: now})
	if err != nil || len(info.Queues) != 1 || total(info.Queues[0].Counts) != 0 {
		t.Errorf("the old shard has %+v, %v; want nothing, probes neither", info.Queues, err)
	}
}

// A process that dies between its probe and its job leaves the probe. The job can be
// sent again, and a job with the same unique key after a while.
func TestMove_AProbeThatIsLeftHoldsNobodyUp(t *testing.T) {
	t.Parallel()
	m, now := newMoving(t), switchAt.Add(time.Minute)
	b := m.both(nil)
	var j broker.NewJob
	for i := 0; ; i++ {
		j = newJob(fmt.Sprint("j", i))
		j.Body.Unique = broker.Unique{Key: fmt.Sprint("u", i)}
		if len(b.routes.of(label(j.ID, &j.Body))) == 2 {
			break
		}
	}
	of := b.routes.of(label(j.ID, &j.Body))
	mv := &mover{b: b, sent: now, former: of[1], job: &j}
	if r := mv.probe(t.Context()); r.Err != nil {
		t.Fatal(r.Err)
	}
	other := j
	other.ID = "another"
	ctx, cancel := context.WithTimeout(t.Context(), 5*probeStep)
	defer cancel()
	got, err := b.Enqueue(ctx, broker.EnqueueRequest{Now: now, Jobs: []broker.NewJob{other}})
	if err != nil || !errors.Is(got[0].Err, broker.ErrUnavailable) {
		t.Errorf("a job of the same unique key: %v, %v; want it to wait for who is at it", got, err)
	}
	if r := send(t, b, now.Add(probeTime), other); r.Err != nil {
		t.Errorf("a job of the same unique key after %v: %v, want it stored", probeTime, r.Err)
	}
	if r := send(t, b, now, j); r.Holder != "another" {
		t.Errorf("the first job again: %v, holder %q; want the duplicate of the other", r.Err, r.Holder)
	}
}
