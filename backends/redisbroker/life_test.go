package redisbroker

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/seed81422ce9/jobs/broker"
	"github.com/seed81422ce9/jobs/internal/examinetest"
)

// life runs every method, every outcome and every operation on one queue, in virtual
// time, until no job is left. Tests then check the store.
type life struct {
	t      *testing.T
	b      *Broker
	queue  string
	number int64
}

func (l *life) run() {
	register(l.t, l.b, "w1", l.queue)
	l.policies()
	l.outcomes()
	l.uniqueness()
	l.operations()
	l.moves()
	l.workers()
	l.marks()
	l.flow()
	l.examine()
	l.end()
}

func (l *life) policies() {
	enqueue(l.t, l.b, job(l.queue, "plain")) // before there is a limit
	enqueue(l.t, l.b, job(l.queue, "plain2"), job(l.queue, "plain3"))
	age, depth, paused, count := broker.Retention{Age: time.Hour, Count: 100}, int64(1000), true, broker.Retention{Age: time.Hour, Count: 100}
	for _, req := range []broker.PolicyRequest{
		{MaxDepth: &depth, RetainCompleted: &age, RetainDead: &count},
		{Paused: &paused},
		{Paused: new(bool)},
		{},
	} {
		req.Queue = l.queue
		if _, err := l.b.Policy(l.t.Context(), req); err != nil {
			l.t.Fatal(err)
		}
	}
}

// flow limits keys, changes the limits while they hold back jobs, and removes them.
func (l *life) flow() {
	set := func(r broker.PolicyRequest) {
		r.Queue = l.queue
		if _, err := l.b.Policy(l.t.Context(), r); err != nil {
			l.t.Fatal(err)
		}
	}
	register(l.t, l.b, "flow", l.queue)
	one, none := int64(1), int64(broker.NoLimit)
	rate, noRate := broker.Rate{Jobs: 1, Per: time.Minute}, broker.Rate{Jobs: broker.NoLimit}
	for round, r := range []broker.PolicyRequest{
		{KeyMaxActive: &one}, {KeyMaxActive: &none, KeyRate: &rate}, {KeyRate: &noRate, Ordered: new(broker.OrderStop)},
		{Ordered: new(broker.OrderSkip), Rate: &rate}, {Ordered: new(broker.OrderNone), Rate: &noRate, RetryRate: &rate},
		{Key: "k1", Paused: new(true), Weight: &one}, {Key: "k1", Paused: new(false), Weight: &none}, {RetryRate: &noRate},
	} {
		set(r)
		var jobs []broker.NewJob
		for i := range 6 {
			j := job(l.queue, fmt.Sprintf("flow%d-%d", round, i))
			j.Body.Key = fmt.Sprint("k", i%2)
			if i == 5 {
				j.Delay = time.Second
			}
			jobs = append(jobs, j)
		}
		enqueue(l.t, l.b, jobs...)
		outcomes := []broker.Outcome{broker.Retry(time.Second, broker.Failure{}), broker.Die(broker.ReasonRetries, broker.Failure{}),
			broker.Release()}
		for step, outcome := range outcomes {
			l.settle(at(round+step), "flow", claimAt(l.t, l.b, at(round+step), "flow", 3, l.queue).Jobs, outcome)
		}
	}
	if got, err := l.b.Keys(l.t.Context(), broker.KeysRequest{Now: at(9), Queue: l.queue}); err != nil || len(got.Keys) < 2 {
		l.t.Fatalf("the keys are %+v, %v; want k0 and k1 among them", got.Keys, err)
	}
	for range 20 {
		if _, err := l.b.Renew(l.t.Context(), broker.RenewRequest{Now: at(900), Worker: "flow", Queues: []string{l.queue},
			Lease: time.Hour}); err != nil {
			l.t.Fatal(err)
		}
		l.settle(at(900), "flow", claimAt(l.t, l.b, at(900), "flow", 100, l.queue).Jobs, broker.Complete(nil))
	}
	if _, err := l.b.Retire(l.t.Context(), broker.RetireRequest{Now: at(900), Worker: "flow", Queues: []string{l.queue}}); err != nil {
		l.t.Fatal(err)
	}
}

// outcomes settles jobs of all kinds with all outcomes.
func (l *life) outcomes() {
	var jobs []broker.NewJob
	for i := range 20 {
		j := job(l.queue, fmt.Sprintf("o%02d", i))
		j.Body.Priority = broker.Priority(1 + i%broker.Priorities)
		j.Body.GivenID = i%3 == 0
		if i%2 == 0 {
			j.Body.Key = "tenant"
		}
		if i%5 == 0 {
			j.Body.Retention = time.Minute
		}
		switch {
		case i%7 == 0:
			j.Delay = time.Second
		case i%7 == 1:
			j.RunAt = at(2)
		}
		jobs = append(jobs, j)
	}
	enqueue(l.t, l.b, jobs...)
	f := broker.Failure{Message: "it failed"}
	endings := []broker.Outcome{broker.Complete([]byte("result")), broker.Retry(time.Second, f), broker.Retry(0, f), broker.Crash(0, f),
		broker.Crash(time.Second, f), broker.Die(broker.ReasonRetries, f), broker.Snooze(time.Second, f), broker.Release(), broker.Cancel(f),
		broker.Complete(nil)}
	for n := range 8 {
		got := claimAt(l.t, l.b, at(5*n), "w1", 20, l.queue)
		l.find()
		if len(got.Jobs) > 2 {
			l.operate(broker.Operation{Kind: broker.OpCancel}, got.Jobs[0].ID, got.Jobs[1].ID)
			l.renew("w1", at(5*n))
		}
		l.settle(at(5*n), "w1", got.Jobs, endings...)
	}
}

func (l *life) uniqueness() {
	for i, mode := range []broker.UniqueMode{broker.UniqueUntilDone, broker.UniqueUntilStarted, broker.UniqueWindow} {
		for n := range 2 {
			j := job(l.queue, fmt.Sprintf("u%d%d", i, n))
			j.Body.Unique = broker.Unique{Key: fmt.Sprint("key", i), Mode: mode, TTL: time.Hour}
			receipts, err := l.b.Enqueue(l.t.Context(), broker.EnqueueRequest{Now: at(50), Jobs: []broker.NewJob{j}})
			if err != nil || (receipts[0].Err != nil) != (n == 1) {
				l.t.Fatalf("Enqueue of %s: %v %v", j.ID, err, receipts)
			}
		}
	}
	got := claimAt(l.t, l.b, at(50), "w1", 10, l.queue)
	l.settle(at(50), "w1", got.Jobs, broker.Die(broker.ReasonRetries, broker.Failure{Message: "it failed"}))
	l.operate(broker.Operation{Kind: broker.OpRedrive}, "u00", "u10", "u20")
	l.operate(broker.Operation{Kind: broker.OpDelete}, "u00", "u10", "u20")
	l.meetings()
}

// meetings enqueues jobs that replace others, postpone them, and wait behind them.
func (l *life) meetings() {
	for i, after := range []time.Duration{0, time.Minute} {
		meet := func(id string, conflict broker.UniqueConflict) {
			j := job(l.queue, fmt.Sprint("meet-", id, i))
			j.Body.Key, j.Delay = "tenant", after
			j.Body.Unique = broker.Unique{Key: "meet", Conflict: conflict}
			if conflict == broker.ConflictDebounce {
				j.Body.Unique.Latest, j.Delay = time.Hour, time.Second
			}
			receipts, err := l.b.Enqueue(l.t.Context(), broker.EnqueueRequest{Now: at(51), Jobs: []broker.NewJob{j}})
			if err != nil || receipts[0].Err != nil {
				l.t.Fatalf("Enqueue of %s: %v %v", j.ID, err, receipts)
			}
		}
		meet("m", broker.ConflictReplace)
		meet("r", broker.ConflictDebounce)
		got := claimAt(l.t, l.b, at(52), "w1", 1, l.queue)
		meet("k", broker.ConflictKeepLast)
		meet("d", broker.ConflictDebounce)
		l.settle(at(52), "w1", got.Jobs, broker.Complete(nil))
		l.operate(broker.Operation{Kind: broker.OpDelete}, fmt.Sprint("meet-k", i))
	}
}

func (l *life) operations() {
	for i := range 8 {
		j := job(l.queue, fmt.Sprintf("p%d", i))
		j.Body.Key, j.Body.GivenID = "tenant", true
		if i%2 == 0 {
			j.Delay = time.Hour
		}
		enqueue(l.t, l.b, j)
	}
	l.operate(broker.Operation{Kind: broker.OpReschedule, Delay: time.Hour}, "p0", "p1")
	l.operate(broker.Operation{Kind: broker.OpReschedule}, "p2", "p3")
	l.operate(broker.Operation{Kind: broker.OpReschedule, RunAt: at(60)}, "p4", "p5")
	l.operate(broker.Operation{Kind: broker.OpCancel}, "p0", "p1", "p2")
	l.find()
	l.settle(at(61), "w1", claimAt(l.t, l.b, at(61), "w1", 10, l.queue).Jobs,
		broker.Die(broker.ReasonSkipRetry, broker.Failure{Message: "no"}))
	l.operate(broker.Operation{Kind: broker.OpSuppress}, "p3", "p5")
	l.operate(broker.Operation{Kind: broker.OpUnsuppress}, "p3")
	l.find()
	l.operate(broker.Operation{Kind: broker.OpDelete}, "p0", "p1", "p2", "p3", "p4", "p5", "p6", "p7")
}

// moves holds, edits and restores jobs, and brings one back.
func (l *life) moves() {
	var jobs []broker.NewJob
	for i := range 8 {
		j := job(l.queue, fmt.Sprintf("m%d", i))
		j.Body.Key, j.Body.GivenID, j.Body.Priority = "tenant", true, broker.Priority(1+i%broker.Priorities)
		if i%2 == 0 {
			j.Body.Unique = broker.Unique{Key: fmt.Sprint("moved", i), Mode: broker.UniqueMode(i % 3), TTL: time.Minute}
		}
		if i >= 5 {
			j.Delay = time.Hour
		}
		jobs = append(jobs, j)
	}
	enqueue(l.t, l.b, jobs...)
	all := []string{"m0", "m1", "m2", "m3", "m4", "m5", "m6", "m7"}
	for _, id := range all {
		l.operate(broker.Operation{Kind: broker.OpEdit, Payload: []byte("edited")}, id)
	}
	l.operate(broker.Operation{Kind: broker.OpHold, Holder: "mover"}, all...)
	l.find()
	l.operate(broker.Operation{Kind: broker.OpUnhold}, "m0", "m5")
	l.operate(broker.Operation{Kind: broker.OpCancel}, "m1", "m6")
	l.operate(broker.Operation{Kind: broker.OpDelete}, "m2", "m7")
	page, err := l.b.Find(l.t.Context(), broker.Query{Queue: l.queue, IDs: []string{"m3", "m4"}})
	if err != nil || len(page.Jobs) != 2 {
		l.t.Fatalf("Find: %v, %v", page.Jobs, err)
	}
	l.operate(broker.Operation{Kind: broker.OpDelete, Holder: "mover"}, "m3", "m4")
	back := []broker.NewJob{page.Jobs[0].Copy(), page.Jobs[1].Copy()}
	for i := range back {
		back[i].Restore.Head.Epoch += 2
	}
	for _, state := range []broker.State{broker.StateScheduled, broker.StateRetry, broker.StateDead, broker.StateCompleted,
		broker.StateCancelled} {
		j := job(l.queue, "restored "+state.String())
		j.Body.Key, j.Restore = "tenant", &broker.Restored{State: state}
		if !state.Final() {
			j.RunAt = at(58)
		}
		back = append(back, j)
	}
	receipts, err := l.b.Enqueue(l.t.Context(), broker.EnqueueRequest{Now: at(55), Jobs: back})
	for _, r := range receipts {
		err = errors.Join(err, r.Err)
	}
	if err != nil {
		l.t.Fatalf("Enqueue of what comes back: %v", err)
	}
	l.operate(broker.Operation{Kind: broker.OpDelete}, append(all, "restored dead")...)
	l.settle(at(59), "w1", claimAt(l.t, l.b, at(59), "w1", 10, l.queue).Jobs, broker.Complete(nil))
}

// workers reclaims and retires.
func (l *life) workers() {
	var jobs []broker.NewJob
	for i := range 6 {
		j := job(l.queue, fmt.Sprintf("w%d", i))
		j.Body.Key = "tenant"
		jobs = append(jobs, j)
	}
	enqueue(l.t, l.b, jobs...)
	register(l.t, l.b, "w2", l.queue)
	claimAt(l.t, l.b, at(50), "w2", 6, l.queue)
	l.operate(broker.Operation{Kind: broker.OpCancel}, "w0", "w1")
	l.renew("w1", at(90))
	got, err := l.b.Reclaim(l.t.Context(), broker.ReclaimRequest{Now: at(100), Worker: "w1", Queues: []string{l.queue}, Max: 4})
	if err != nil || len(got.Jobs) != 4 || !got.More {
		l.t.Fatalf("Reclaim: %d jobs, more %v, %v", len(got.Jobs), got.More, err)
	}
	rest, err := l.b.Reclaim(l.t.Context(), broker.ReclaimRequest{Now: at(100), Worker: "w1", Queues: []string{l.queue}, Max: 4})
	if err != nil || len(rest.Jobs) != 2 || rest.More {
		l.t.Fatalf("Reclaim of the rest: %d jobs, more %v, %v", len(rest.Jobs), rest.More, err)
	}
	l.settle(at(100), "w1", got.Jobs, broker.Crash(0, broker.Failure{Message: "its worker died"}))
	for _, worker := range []string{"w1", "w2"} {
		if _, err := l.b.Retire(l.t.Context(), broker.RetireRequest{Now: at(101), Worker: worker, Queues: []string{l.queue}}); err != nil {
			l.t.Fatal(err)
		}
	}
	register(l.t, l.b, "w3", l.queue)
	l.settle(at(102), "w3", claimAt(l.t, l.b, at(102), "w3", 10, l.queue).Jobs, broker.Complete(nil))
}

func (l *life) marks() {
	var fence int64
	for _, action := range []broker.MarkAction{broker.MarkTake, broker.MarkRead, broker.MarkKeep, broker.MarkSet, broker.MarkDrop,
		broker.MarkTake} {
		got, err := l.b.Mark(l.t.Context(), broker.MarkRequest{Now: at(0), Action: action, Name: "m", Owner: "o", Fence: fence, TTL: time.Minute,
			Value: []byte("v")})
		if err != nil || !got.Held {
			l.t.Fatalf("Mark %d: %+v, %v", action, got, err)
		}
		fence = got.Fence
	}
}

// examine checks that an examination of the whole store finds nothing.
func (l *life) examine() {
	l.t.Helper()
	for _, f := range examinetest.Examine(l.t, l.b, broker.ExamineRequest{Now: at(105)}) {
		if f.Queue != "" {
			l.t.Errorf("an examination found %+v", f)
		}
	}
}

// end lets everything lapse, and retires the last worker.
func (l *life) end() {
	if _, err := l.b.Queues(l.t.Context(), broker.QueuesRequest{Workers: true}); err != nil {
		l.t.Fatal(err)
	}
	if _, err := l.b.Retire(l.t.Context(), broker.RetireRequest{Now: at(110), Worker: "w3", Queues: []string{l.queue}}); err != nil {
		l.t.Fatal(err)
	}
	for _, days := range []int{100, 200} { // IDs removed in the first round are remembered until the second
		idle := 0
		for n := 1; idle <= markSlots; n++ { // marks are pruned slot by slot
			got, err := l.b.Prune(l.t.Context(), broker.PruneRequest{Now: at(days * 24 * 3600), Queues: []string{l.queue}, Max: 10})
			if err != nil || n > 1000 {
				l.t.Fatalf("Prune: %+v, %v", got, err)
			}
			if idle++; got != (broker.Pruned{}) {
				idle = 0
			}
		}
	}
}

// removal returns the removal of a queue, at a time when it has no workers.
func removal(queue string) broker.Operation {
	return broker.Operation{Kind: broker.OpRemoveQueue, Now: at(200 * 24 * 3600), Refs: []broker.Ref{{Queue: queue}}}
}

func (l *life) settle(now time.Time, worker string, jobs []broker.Job, outcomes ...broker.Outcome) {
	l.t.Helper()
	l.number++
	req := broker.SettleRequest{Now: now, Worker: worker, Number: l.number}
	for i := range jobs {
		req.Items = append(req.Items, broker.Settlement{Job: &jobs[i], Outcome: outcomes[i%len(outcomes)]})
	}
	verdicts, err := l.b.Settle(l.t.Context(), req)
	for _, v := range verdicts {
		err = errors.Join(err, v.Err)
	}
	if err != nil {
		l.t.Fatalf("Settle: %v", err)
	}
}

func (l *life) operate(op broker.Operation, ids ...string) {
	l.t.Helper()
	op.Now = at(55)
	for _, id := range ids {
		op.Refs = append(op.Refs, broker.Ref{Queue: l.queue, ID: id, Epoch: broker.AnyEpoch})
	}
	if _, err := l.b.Operate(l.t.Context(), op); err != nil {
		l.t.Fatalf("Operate %v: %v", op.Kind, err)
	}
}

func (l *life) renew(worker string, now time.Time) {
	l.t.Helper()
	got, err := l.b.Renew(l.t.Context(), broker.RenewRequest{Now: now, Worker: worker, Queues: []string{l.queue}, Lease: time.Minute})
	if err != nil || got.Lost {
		l.t.Fatalf("Renew: %+v, %v", got, err)
	}
}

// find queries in every way that Find supports.
func (l *life) find() {
	l.t.Helper()
	queries := []broker.Query{{IDs: []string{"o01", "p1"}}, {Worker: "w1"}, {Key: "tenant"}}
	for _, state := range broker.States() {
		queries = append(queries, broker.Query{State: state, Limit: 3, NoPayload: state == broker.StatePending})
	}
	for _, q := range queries {
		q.Queue = l.queue
		for {
			page, err := l.b.Find(l.t.Context(), q)
			if err != nil {
				l.t.Fatalf("Find %+v: %v", q, err)
			}
			if q.Cursor = page.Cursor; q.Cursor == "" {
				break
			}
		}
	}
}
