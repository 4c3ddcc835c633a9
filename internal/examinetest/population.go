package examinetest

import (
	"testing"
	"time"

	"github.com/seed81422ce9/jobs/broker"
)

var muchLater = Start.Add(48 * time.Hour)

// populated maps the ID of each job of a population to its state.
var populated = map[string]broker.State{
	"pending": broker.StatePending, "second": broker.StatePending, "released": broker.StatePending, "urgent": broker.StatePending,
	"unique": broker.StatePending, "started": broker.StateActive, "scheduled": broker.StateScheduled,
	"moved": broker.StateScheduled, "held": broker.StateWaiting,
	"retry": broker.StateRetry, "active": broker.StateActive, "asked": broker.StateActive,
	"completed": broker.StateCompleted, "cancelled": broker.StateCancelled, "dead": broker.StateDead, "died-unique": broker.StateDead,
}

// unkeyed lists the jobs without a key.
var unkeyed = map[string]bool{"released": true, "pending": true, "window": true, "second": true, "urgent": true, "unique": true}

// Populate stores jobs in every state, most of them with a key and some with unique keys. It also
// leaves a remembered ID, a void entry and marks.
func Populate(tb testing.TB, b broker.Broker) {
	tb.Helper()
	p := population{tb: tb, b: b, held: make(map[string]*broker.Job)}
	p.register(Worker, Start)
	for _, id := range []string{"released", "retry", "active", "asked", "completed", "cancelled", "dead"} {
		p.enqueue(id, nil)
	}
	p.enqueue("died-unique", func(j *broker.NewJob) { j.Body.Unique = broker.Unique{Key: "key-dead"} })
	p.enqueue("started", func(j *broker.NewJob) {
		j.Body.Unique = broker.Unique{Key: "key-started", Mode: broker.UniqueUntilStarted}
	})
	p.enqueue("gone", func(j *broker.NewJob) { j.Body.GivenID, j.Body.Retention = true, 0 })
	p.claim(Worker)
	p.operate(broker.Operation{Kind: broker.OpCancel}, "asked")
	p.settle(map[string]broker.Outcome{
		"released": broker.Release(), "retry": broker.Retry(time.Hour, broker.Failure{Message: "it failed"}),
		"completed": broker.Complete([]byte("result")), "cancelled": broker.Cancel(broker.Failure{}), "gone": broker.Complete(nil),
		"dead": broker.Die(broker.ReasonRetries,
			broker.Failure{Message: "it failed"}), "died-unique": broker.Die(broker.ReasonSkipRetry, broker.Failure{}),
	})
	p.enqueue("window", func(j *broker.NewJob) {
		j.Body.Unique = broker.Unique{Key: "key-window", Mode: broker.UniqueWindow, TTL: 24 * time.Hour}
	})
	p.enqueue("pending", nil)
	p.operate(broker.Operation{Kind: broker.OpDelete}, "window") // leaves a void entry where entries cannot be removed
	p.enqueue("second", nil)
	p.enqueue("keyed", nil)
	p.enqueue("urgent", func(j *broker.NewJob) { j.Body.Priority = broker.PriorityUrgent })
	p.enqueue("unique", func(j *broker.NewJob) { j.Body.Unique = broker.Unique{Key: "key"} })
	p.enqueue("scheduled", func(j *broker.NewJob) { j.Delay = time.Hour })
	p.enqueue("moved", func(j *broker.NewJob) { j.Delay = time.Hour })
	p.operate(broker.Operation{Kind: broker.OpReschedule, Delay: 2 * time.Hour}, "moved")
	p.enqueue("held", func(j *broker.NewJob) {
		j.Body.Unique = broker.Unique{Key: "key-held", Mode: broker.UniqueUntilStarted}
		j.Delay = time.Hour
	})
	p.operate(broker.Operation{Kind: broker.OpHold, Holder: "mover"}, "held")
	if _, err := b.Mark(tb.Context(), broker.MarkRequest{Now: Start, Action: broker.MarkTake, Name: "mark", Owner: "o",
		TTL: time.Hour}); err != nil {
		tb.Fatal(err)
	}
}

type population struct {
	tb     testing.TB
	b      broker.Broker
	held   map[string]*broker.Job
	number int64
}

func (p *population) register(worker string, now time.Time) {
	p.tb.Helper()
	_, err := p.b.Renew(p.tb.Context(), broker.RenewRequest{Now: now, Worker: worker, Queues: []string{Queue}, Lease: time.Minute,
		Register: true,
		Info:     broker.WorkerInfo{Host: "h"}})
	if err != nil {
		p.tb.Fatalf("Renew: %v", err)
	}
}

func (p *population) enqueue(id string, change func(*broker.NewJob)) {
	p.tb.Helper()
	j := broker.NewJob{Queue: Queue, ID: id, Body: broker.Body{Type: "t", Payload: []byte("p"), Priority: broker.PriorityNormal,
		Key: "tenant", Retention: time.Hour}}
	if unkeyed[id] {
		j.Body.Key = ""
	}
	if change != nil {
		change(&j)
	}
	receipts, err := p.b.Enqueue(p.tb.Context(), broker.EnqueueRequest{Now: Start, Jobs: []broker.NewJob{j}})
	if err != nil || receipts[0].Err != nil {
		p.tb.Fatalf("Enqueue of %s: %v %v", id, err, receipts)
	}
}

func (p *population) claim(worker string) {
	p.tb.Helper()
	got, err := p.b.Claim(p.tb.Context(), broker.ClaimRequest{Now: Start, Worker: worker, Queues: []broker.Share{{Queue: Queue,
		Max: 100}}, Max: 100})
	if err != nil {
		p.tb.Fatalf("Claim: %v", err)
	}
	for i := range got.Jobs {
		p.held[got.Jobs[i].ID] = &got.Jobs[i]
	}
}

func (p *population) settle(outcomes map[string]broker.Outcome) {
	p.tb.Helper()
	p.number++
	req := broker.SettleRequest{Now: Start, Worker: Worker, Number: p.number}
	for id, o := range outcomes {
		if p.held[id] == nil {
			p.tb.Fatalf("job %s was not claimed", id)
		}
		req.Items = append(req.Items, broker.Settlement{Job: p.held[id], Outcome: o})
	}
	verdicts, err := p.b.Settle(p.tb.Context(), req)
	if err != nil {
		p.tb.Fatalf("Settle: %v", err)
	}
	for _, v := range verdicts {
		if v.Err != nil {
			p.tb.Fatalf("Settle of %s: %v", v.ID, v.Err)
		}
	}
}

func (p *population) operate(op broker.Operation, ids ...string) {
	p.tb.Helper()
	op.Now = Start
	for _, id := range ids {
		op.Refs = append(op.Refs, broker.Ref{Queue: Queue, ID: id, Epoch: broker.AnyEpoch})
	}
	results, err := p.b.Operate(p.tb.Context(), op)
	if err != nil {
		p.tb.Fatalf("%v: %v", op.Kind, err)
	}
	for _, r := range results {
		if r.Err != nil {
			p.tb.Fatalf("%v: %v", op.Kind, r.Err)
		}
	}
}

// drain lets all leases run out, redrives dead jobs, and completes every job that has not ended, each
// exactly once.
func drain(tb testing.TB, b broker.Broker) {
	tb.Helper()
	ctx := tb.Context()
	left := make(map[string]bool)
	refs := make(map[broker.State][]broker.Ref)
	for _, s := range broker.States() {
		page, err := b.Find(ctx, broker.Query{Now: Later, Queue: Queue, State: s, Suppressed: true, Limit: 1000})
		if err != nil {
			tb.Fatal(err)
		}
		for _, j := range page.Jobs {
			refs[s] = append(refs[s], j.Ref())
			left[j.ID] = left[j.ID] || !s.Final() || s == broker.StateDead
		}
	}
	for kind, state := range map[broker.OperationKind]broker.State{broker.OpRedrive: broker.StateDead,
		broker.OpUnhold: broker.StateWaiting} {
		if len(refs[state]) == 0 {
			continue
		}
		results, err := b.Operate(ctx, broker.Operation{Now: Later, Kind: kind, Refs: refs[state]})
		if err != nil {
			tb.Fatal(err)
		}
		for _, r := range results {
			if r.Err != nil {
				tb.Errorf("%v of %s: %v", kind, r.Ref.ID, r.Err)
			}
		}
	}
	p := population{tb: tb, b: b, held: make(map[string]*broker.Job)}
	p.register("last", muchLater)
	share := []broker.Share{{Queue: Queue, Max: 100}}
	for _, take := range []func() (broker.Claimed, error){
		func() (broker.Claimed, error) {
			return b.Reclaim(ctx, broker.ReclaimRequest{Now: muchLater, Worker: "last", Queues: []string{Queue}, Max: 100})
		},
		func() (broker.Claimed, error) {
			return b.Claim(ctx, broker.ClaimRequest{Now: muchLater, Worker: "last", Queues: share, Max: 100})
		},
	} {
		for range 3 {
			got, err := take()
			if err != nil {
				tb.Fatal(err)
			}
			p.number++
			req := broker.SettleRequest{Now: muchLater, Worker: "last", Number: p.number}
			for i := range got.Jobs {
				if !left[got.Jobs[i].ID] {
					tb.Errorf("job %s was handed out twice, or was not there to be", got.Jobs[i].ID)
				}
				delete(left, got.Jobs[i].ID)
				req.Items = append(req.Items, broker.Settlement{Job: &got.Jobs[i], Outcome: broker.Complete(nil)})
			}
			verdicts, err := b.Settle(ctx, req)
			if err != nil {
				tb.Fatal(err)
			}
			for _, v := range verdicts {
				if v.Err != nil {
					tb.Errorf("completing %s: %v", v.ID, v.Err)
				}
			}
		}
	}
	for id, due := range left {
		if due {
			tb.Errorf("job %s was never handed out", id)
		}
	}
}
