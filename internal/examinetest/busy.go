package examinetest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/seed81422ce9/jobs/broker"
)

// A test of a busy store ends when each party has made this many rounds and this many examinations
// have ended.
const (
	busyTurns  = 150
	busyPasses = 4
)

// smallestStep is the smallest step of an examination. With one or two records in a step, an
// examination of a busy store takes minutes.
const smallestStep = 10

// Busy examines a store repeatedly, with repairs, while producers, workers that die, reclaimers and an
// operator use it in real time. It fails the test if anything is found.
func Busy(t *testing.T, open func(testing.TB) broker.Broker) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	var parties sync.WaitGroup
	failed := make(chan error, 6)
	var passes atomic.Int64
	for i, act := range []func(*party) error{(*party).produce, (*party).produce, (*party).work, (*party).work, (*party).work,
		(*party).decide} {
		p := &party{Rand: rand.New(rand.NewPCG(seed, uint64(i))), ctx: ctx, b: open(t), who: i, passes: &passes}
		parties.Go(func() {
			if err := act(p); err != nil {
				failed <- fmt.Errorf("party %d: %w", i, err)
			}
		})
	}
	over := make(chan struct{})
	go func() {
		parties.Wait()
		close(over)
	}()
	b := open(t)
	for busy := true; busy; passes.Add(1) {
		select {
		case <-over:
			busy = false // a last examination follows, of an idle store
		default:
		}
		req := broker.ExamineRequest{Limit: smallestStep + rand.IntN(100), Fix: passes.Load()%3 == 0}
		findings, err := All(ctx, b, req, nil)
		if err != nil {
			t.Fatalf("Examine: %v", err)
		}
		for _, f := range findings {
			if !ofTestServers[f.Code] {
				t.Errorf("pass %d, in steps of %d, found in a healthy store: %+v", passes.Load(), req.Limit, f)
			}
		}
	}
	<-over
	select {
	case err := <-failed:
		t.Fatal(err)
	default:
	}
}

type party struct {
	*rand.Rand
	ctx    context.Context
	b      broker.Broker
	who    int
	number int64
	passes *atomic.Int64
}

// goesOn reports whether a party makes another round.
func (p *party) goesOn(turn int) bool { return turn < busyTurns || p.passes.Load() < busyPasses }

func (p *party) produce() error {
	for turn := 0; p.goesOn(turn); turn++ {
		news := make([]broker.NewJob, 1+p.IntN(5))
		for i := range news {
			j := broker.NewJob{Queue: Queue, ID: fmt.Sprintf("%d-%d-%d", p.who, turn, i), Body: broker.Body{Type: "t", Payload: []byte("p"),
				Priority: broker.Priority(1 + p.IntN(broker.Priorities)), GivenID: p.IntN(3) == 0,
				Retention: time.Duration(p.IntN(3)) * 50 * time.Millisecond}}
			if p.IntN(8) == 0 {
				j.ID = fmt.Sprint("again-", p.IntN(5)) // enqueued, deleted and enqueued again
				j.Body.GivenID = false
			} else if turn >= busyTurns { // a starved examination shall meet changes, not an ever larger store
				j.ID = fmt.Sprint("late-", p.IntN(200))
				j.Body.GivenID = false
			}
			if p.IntN(3) == 0 {
				j.Delay = time.Duration(p.IntN(100)) * time.Millisecond
			}
			if p.IntN(2) == 0 {
				j.Body.Key = fmt.Sprint("tenant-", p.IntN(3))
			}
			if p.IntN(3) == 0 {
				j.Body.Unique = broker.Unique{Key: fmt.Sprint("key-", p.IntN(10)), Mode: broker.UniqueMode(p.IntN(3)),
					TTL: time.Duration(1+p.IntN(300)) * time.Millisecond}
			}
			news[i] = j
		}
		if _, err := p.b.Enqueue(p.ctx, broker.EnqueueRequest{Jobs: news}); err != nil {
			return err
		}
	}
	return nil
}

// work claims, settles and reclaims. Now and then its worker dies.
func (p *party) work() error {
	for life, turn := 0, 0; p.goesOn(turn); life++ {
		worker := fmt.Sprintf("w%d-%d", p.who, life)
		if _, err := p.b.Renew(p.ctx, broker.RenewRequest{Worker: worker, Queues: []string{Queue}, Lease: 20 * time.Millisecond,
			Register: true}); err != nil {
			return err
		}
		p.number = 0
		for n := 3 + p.IntN(20); n > 0; n-- {
			turn++
			var got broker.Claimed
			var err error
			if p.IntN(4) == 0 {
				got, err = p.b.Reclaim(p.ctx, broker.ReclaimRequest{Worker: worker, Queues: []string{Queue}, Max: 10})
			} else {
				got, err = p.b.Claim(p.ctx, broker.ClaimRequest{Worker: worker, Queues: []broker.Share{{Queue: Queue, Max: 10}}, Max: 10,
					Wait: time.Duration(p.IntN(2)) * 5 * time.Millisecond})
			}
			if errors.Is(err, broker.ErrWorkerGone) {
				break
			}
			if err != nil {
				return err
			}
			if err := p.settle(worker, got.Jobs); err != nil {
				return err
			}
		}
		if p.IntN(2) == 0 {
			if _, err := p.b.Retire(p.ctx, broker.RetireRequest{Worker: worker, Queues: []string{Queue}}); err != nil {
				return err
			}
		}
	}
	return nil
}

func (p *party) settle(worker string, held []broker.Job) error {
	var items []broker.Settlement
	f := broker.Failure{Message: "x"}
	for i := range held {
		if p.IntN(10) == 0 {
			continue // it keeps it until it dies
		}
		o := []broker.Outcome{broker.Complete(nil), broker.Complete(nil), broker.Retry(time.Duration(p.IntN(20))*time.Millisecond, f),
			broker.Release(),
			broker.Die(broker.ReasonRetries, f), broker.Crash(0, f), broker.Cancel(f), broker.Snooze(time.Millisecond, f)}[p.IntN(8)]
		items = append(items, broker.Settlement{Job: &held[i], Outcome: o})
	}
	if len(items) == 0 {
		return nil
	}
	p.number++
	_, err := p.b.Settle(p.ctx, broker.SettleRequest{Worker: worker, Number: p.number, Items: items})
	return err
}

// decide applies operations to the jobs that it finds, pauses and resumes the queue, and prunes it.
func (p *party) decide() error {
	for turn := 0; p.goesOn(turn); turn++ {
		page, err := p.b.Find(p.ctx, broker.Query{Queue: Queue, State: broker.States()[p.IntN(len(broker.States()))], Limit: 20,
			NoPayload: true})
		if err != nil {
			return err
		}
		kinds := []broker.OperationKind{broker.OpCancel, broker.OpDelete, broker.OpRedrive, broker.OpReschedule, broker.OpHold,
			broker.OpUnhold}
		op := broker.Operation{Kind: kinds[p.IntN(len(kinds))],
			Delay: time.Duration(p.IntN(2)*p.IntN(50)) * time.Millisecond}
		if op.Kind == broker.OpHold {
			op.Holder = "mover"
		}
		for _, j := range page.Jobs {
			op.Refs = append(op.Refs, broker.Ref{Queue: Queue, ID: j.ID, Epoch: broker.AnyEpoch})
		}
		if len(op.Refs) > 0 {
			if _, err := p.b.Operate(p.ctx, op); err != nil {
				return err
			}
		}
		paused := p.IntN(5) == 0
		if _, err := p.b.Policy(p.ctx, broker.PolicyRequest{Queue: Queue, Paused: &paused}); err != nil {
			return err
		}
		if _, err := p.b.Prune(p.ctx, broker.PruneRequest{Queues: []string{Queue}, Max: 100}); err != nil {
			return err
		}
	}
	running := false
	_, err := p.b.Policy(p.ctx, broker.PolicyRequest{Queue: Queue, Paused: &running})
	return err
}
