package pgbroker

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"testing"
	"time"

	"github.com/seed81422ce9/jobs/broker"
)

// settle.sql stores one head for both outcomes of a job that may have been
// asked to cancel: they must differ in the charge alone, which it leaves out.
func TestLife_CancelledOutcomeDiffersInItsChargeOnly(t *testing.T) {
	t.Parallel()
	at := time.Now().UTC().Truncate(time.Microsecond)
	failure := broker.Failure{At: at, Message: "failed"}
	head := broker.Head{Epoch: 4, Deliveries: 3, Failures: 2, Crashes: 1, Snoozes: 7,
		Errors: broker.ErrorLog{Entries: []broker.Failure{{Message: "before"}}}}
	for _, o := range []broker.Outcome{broker.Retry(0, failure), broker.Retry(time.Hour, failure), broker.Crash(0, failure),
		broker.Crash(time.Second, failure), broker.Snooze(time.Second, failure), broker.Snooze(0, broker.Failure{}), broker.Release()} {
		want := o.IfCancelRequested().Apply(head, at, 0)
		got := o.Apply(head, at, 0)
		got.Failures, got.Crashes, got.Snoozes, got.FinishedAt = head.Failures, head.Crashes, head.Snoozes, at
		if !reflect.DeepEqual(got, want) {
			t.Errorf("%v without its charge is stored as %+v, cancelled it is %+v", o.Kind(), got, want)
		}
	}
}

// When everything has ended and lapsed, only the queue is left.
func TestLife_NothingIsLeftWhenEverythingIsGone(t *testing.T) {
	t.Parallel()
	f := open(t)
	now := time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)
	ctx := t.Context()
	count := func(table string) int64 { return f.value("select count(*) from jobs." + table) }
	check := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	given, window, keyed, kept, moved := job("given"), uniqueJob("window", "w"), job("keyed"), job("kept"), uniqueJob("moved", "m")
	given.Body.GivenID, moved.Body.GivenID = true, true
	window.Body.Unique.Mode, window.Body.Unique.TTL = broker.UniqueWindow, time.Hour
	keyed.Body.Key = "tenant"
	kept.Body.Retention = time.Hour
	started := uniqueJob("started", "s")
	started.Body.Unique.Mode = broker.UniqueUntilStarted
	receipts, err := f.Enqueue(ctx, broker.EnqueueRequest{Now: now, Jobs: []broker.NewJob{
		job("completed"), given, window, keyed, kept, moved, started, uniqueJob("settled", "u"), job("dies"), job("retried"), job("released"),
		job("cancelled")}})
	check(err)
	for _, r := range receipts {
		check(r.Err)
	}
	queues := []string{"q"}
	_, err = f.Renew(ctx, broker.RenewRequest{Now: now, Worker: "w", Queues: queues, Lease: time.Minute, Register: true})
	check(err)
	_, err = f.Operate(ctx, broker.Operation{Now: now, Kind: broker.OpCancel,
		Refs: []broker.Ref{{Queue: "q", ID: "cancelled", Epoch: broker.AnyEpoch}}})
	check(err)
	for _, kind := range []broker.OperationKind{broker.OpHold, broker.OpUnhold, broker.OpHold, broker.OpDelete} {
		results, err := f.Operate(ctx, broker.Operation{Now: now, Kind: kind, Holder: "mover",
			Refs: []broker.Ref{{Queue: "q", ID: "moved", Epoch: broker.AnyEpoch}}})
		check(err)
		check(results[0].Err)
	}
	outcomes := map[string]broker.Outcome{
		"dies":     broker.Die(broker.ReasonRetries, broker.Failure{Message: "x"}),
		"retried":  broker.Retry(time.Second, broker.Failure{Message: "x"}),
		"released": broker.Release(),
	}
	for number := int64(1); number <= 3; number++ {
		now = now.Add(time.Minute / 2)
		got, err := f.Claim(ctx, broker.ClaimRequest{Now: now, Worker: "w", Max: 20, Queues: []broker.Share{{Queue: "q", Max: 20}}})
		check(err)
		req := broker.SettleRequest{Now: now, Worker: "w", Number: number}
		for i := range got.Jobs {
			o, ok := outcomes[got.Jobs[i].ID]
			if !ok || number > 1 {
				o = broker.Complete([]byte("result"))
			}
			req.Items = append(req.Items, broker.Settlement{Job: &got.Jobs[i], Outcome: o})
		}
		_, err = f.Settle(ctx, req)
		check(err)
	}
	if n := count("dead"); n != 1 {
		t.Fatalf("%d jobs are dead, want one", n)
	}
	_, err = f.Operate(ctx, broker.Operation{Now: now, Kind: broker.OpDelete,
		Refs: []broker.Ref{{Queue: "q", ID: "dies", Epoch: broker.AnyEpoch}}})
	check(err)
	m, err := f.Mark(ctx, broker.MarkRequest{Now: now, Action: broker.MarkTake, Name: "m", Owner: "o", TTL: time.Second})
	check(err)
	if !m.Held {
		t.Fatal("the mark is not held")
	}
	_, err = f.Retire(ctx, broker.RetireRequest{Now: now, Worker: "w", Queues: queues})
	check(err)
	now = now.Add(48 * time.Hour)
	pruned, err := f.Prune(ctx, broker.PruneRequest{Now: now, Queues: queues, Max: 100})
	check(err)
	if pruned.Completed != 1 || pruned.Other != 5 { // kept; the given IDs, the window, the worker, the mark
		t.Errorf("pruned %+v, want one completed record and five others", pruned)
	}
	for _, table := range []string{"job", "dead", "history", "unique_key", "remembered", "worker", "settled", "count_delta", "mark", "event"} {
		if n := count(table); n != 0 {
			t.Errorf("%d rows are left in %s", n, table)
		}
	}
	if n := f.value(`select pending + scheduled + active + retry + completed + dead + cancelled + waiting from jobs.count_total`); n != 0 {
		t.Errorf("the counts add up to %d when nothing is left", n)
	}
	results, err := f.Operate(ctx, broker.Operation{Now: now, Kind: broker.OpRemoveQueue, Refs: []broker.Ref{{Queue: "q"}}})
	check(err)
	check(results[0].Err)
	for _, table := range []string{"queue", "count_total"} {
		if n := count(table); n != 0 {
			t.Errorf("%d rows are left in %s after the queue was removed", n, table)
		}
	}
	_, err = f.Enqueue(ctx, broker.EnqueueRequest{Now: now, Jobs: []broker.NewJob{job("again")}}) // this process knows the old queue's number
	check(err)
	if n := f.value("select count(*) from jobs.job j join jobs.queue q on q.id = j.queue where j.id = 'again' and q.name = 'q'"); n != 1 {
		t.Error("a job that was enqueued after its queue was removed is in no queue")
	}
}

// countedPort counts flushes.
type countedPort struct {
	ownPort
	flushes int
}

func (p *countedPort) flush(ctx context.Context, f *flush) error {
	p.flushes++
	return p.ownPort.flush(ctx, f)
}

func TestLife_ABatchOfJobsThatRepeatEachOtherIsDecidedInFewRoundTrips(t *testing.T) {
	t.Parallel()
	f := open(t)
	f.accept(f, job("exists"))
	var req broker.EnqueueRequest
	for i := range 200 {
		req.Jobs = append(req.Jobs, uniqueJob(fmt.Sprint("u", i), "key"), job("same"))
	}
	req.Jobs = append(req.Jobs, uniqueJob("exists", "key"), job("last"))
	port := &countedPort{ownPort: ownPort{f.Broker, f.Broker}}
	receipts, err := f.enqueue(t.Context(), port, req)
	f.check(err)
	for i, r := range receipts {
		holder := ""
		switch {
		case r.ID == "exists":
			holder = "exists" // the ID is looked at before the key
		case r.ID == "same" && i > 1:
			holder = "same"
		case r.ID[0] == 'u' && i > 0:
			holder = "u0"
		}
		if r.Holder != holder || (holder != "") != errors.Is(r.Err, broker.ErrDuplicate) {
			t.Errorf("receipt %d, of %s: holder %q, error %v; want holder %q", i, r.ID, r.Holder, r.Err, holder)
		}
	}
	if port.flushes > 3 {
		t.Errorf("%d flushes for %d jobs of two IDs and one key", port.flushes, len(req.Jobs))
	}
}
