package membroker

import (
	"math/rand/v2"
	"strconv"
	"testing"
	"time"

	"github.com/seed81422ce9/jobs/broker"
)

// life drives a store with random calls at virtual times, by several workers
// some of which die.
type life struct {
	*rand.Rand
	b      *Broker
	now    time.Time
	next   int
	names  []string // of live workers
	number int64
	leases map[string][]broker.Job
}

func (l *life) ok(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func (l *life) step(t *testing.T) {
	ctx := t.Context()
	queues := []string{"q", "r"}
	q := queues[l.IntN(2)]
	switch l.IntN(14) {
	case 0, 1, 2:
		news := make([]broker.NewJob, l.IntN(10))
		for i := range news {
			l.next++
			n := newTestJob(q, strconv.Itoa(l.next-l.IntN(2)))
			n.Body.Priority = broker.Priority(1 + l.IntN(broker.Priorities))
			n.Body.GivenID = l.IntN(3) == 0
			n.Body.Retention = time.Duration(l.IntN(2)*l.IntN(50)) * time.Second
			n.Delay = time.Duration(l.IntN(2)*l.IntN(20_000)) * time.Millisecond
			if l.IntN(2) == 0 {
				n.Body.Key = strconv.Itoa(l.IntN(3))
			}
			if l.IntN(2) == 0 {
				n.Body.Unique = broker.Unique{Key: strconv.Itoa(l.IntN(5)), Mode: broker.UniqueMode(l.IntN(3)),
					TTL: time.Duration(l.IntN(60)) * time.Second}
				if n.Body.Unique.Mode == broker.UniqueWindow {
					n.Body.Unique.TTL += time.Second
				}
			}
			news[i] = n
		}
		_, err := l.b.Enqueue(ctx, broker.EnqueueRequest{Now: l.now, Jobs: news})
		l.ok(t, err)
	case 3, 4:
		w := l.names[l.IntN(len(l.names))]
		req := claimRequest(w, 1+l.IntN(10), 0, queues...)
		req.Now = l.now
		got, err := l.b.Claim(ctx, req)
		if err == nil {
			l.leases[w] = append(l.leases[w], got.Jobs...)
		}
	case 5, 6:
		w := l.names[l.IntN(len(l.names))]
		l.number++
		req := broker.SettleRequest{Now: l.now, Worker: w, Number: l.number}
		n := min(l.IntN(10), len(l.leases[w]))
		for i := range n {
			req.Items = append(req.Items, broker.Settlement{Job: &l.leases[w][i], Outcome: l.outcome()})
		}
		_, err := l.b.Settle(ctx, req)
		l.ok(t, err)
		l.leases[w] = l.leases[w][n:]
	case 7: // somebody runs out, or comes anew
		l.names[l.IntN(len(l.names))] = "w" + strconv.Itoa(l.next)
		for _, w := range l.names {
			_, err := l.b.Renew(ctx, broker.RenewRequest{Now: l.now, Worker: w, Queues: queues, Lease: 10 * time.Second, Register: true})
			l.ok(t, err)
		}
	case 8:
		w := l.names[l.IntN(len(l.names))]
		got, _ := l.b.Reclaim(ctx, broker.ReclaimRequest{Now: l.now, Worker: w, Queues: queues, Max: 1 + l.IntN(5)})
		l.leases[w] = append(l.leases[w], got.Jobs...)
	case 9:
		op := broker.Operation{Now: l.now, Kind: broker.OpCancel + broker.OperationKind(l.IntN(6)),
			Delay: time.Duration(l.IntN(2)*l.IntN(20)) * time.Second}
		for range l.IntN(20) {
			op.Refs = append(op.Refs, broker.Ref{Queue: q, ID: strconv.Itoa(l.IntN(l.next + 1)), Epoch: broker.AnyEpoch})
		}
		_, err := l.b.Operate(ctx, op)
		l.ok(t, err)
	case 10:
		i := l.IntN(len(l.names))
		_, err := l.b.Retire(ctx, broker.RetireRequest{Now: l.now, Worker: l.names[i], Queues: queues})
		l.ok(t, err)
	case 11:
		_, err := l.b.Prune(ctx, broker.PruneRequest{Now: l.now, Queues: queues, Max: 1 + l.IntN(20)})
		l.ok(t, err)
	case 13:
		_, err := l.b.Policy(ctx, l.rule(q))
		l.ok(t, err)
	case 12:
		_, err := l.b.Mark(ctx, broker.MarkRequest{Now: l.now, Action: broker.MarkTake, Name: q,
			Owner: l.names[l.IntN(len(l.names))], TTL: time.Duration(1+l.IntN(20)) * time.Second})
		l.ok(t, err)
	}
	l.now = l.now.Add(time.Duration(l.IntN(2000)) * time.Millisecond)
	if l.IntN(200) == 0 {
		l.now = l.now.Add(2 * broker.EndedWorkerSpan)
	}
}

// rule changes one rule, of a queue or of a key, and removes it as often.
func (l *life) rule(q string) broker.PolicyRequest {
	count, rate, order := new(int64(broker.NoLimit)), &broker.Rate{Jobs: broker.NoLimit}, new(broker.OrderNone)
	if l.IntN(2) == 0 {
		*count, *order = int64(1+l.IntN(4)), broker.Order(1+l.IntN(2))
		*rate = broker.Rate{Jobs: int64(1 + l.IntN(5)), Per: 10 * time.Second, Burst: int64(l.IntN(3))}
	}
	key := strconv.Itoa(l.IntN(3))
	return []broker.PolicyRequest{{Queue: q, MaxActive: count}, {Queue: q, Rate: rate}, {Queue: q, KeyMaxActive: count},
		{Queue: q, KeyRate: rate},
		{Queue: q, RetryRate: rate}, {Queue: q, Ordered: order}, {Queue: q, KeyMaxDepth: count},
		{Queue: q, Key: key, Rate: rate, MaxActive: count},
		{Queue: q, Key: key, Weight: count}, {Queue: q, Key: key, Paused: new(*count > 2)}}[l.IntN(10)]
}

func (l *life) outcome() broker.Outcome {
	f := broker.Failure{At: l.now, Message: "failed"}
	delay := time.Duration(l.IntN(2)*l.IntN(20)) * time.Second
	switch l.IntN(7) {
	case 0:
		return broker.Retry(delay, f)
	case 1:
		return broker.Crash(delay, f)
	case 2:
		return broker.Die(broker.ReasonRetries, f)
	case 3:
		return broker.Snooze(delay, f)
	case 4:
		return broker.Release()
	case 5:
		return broker.Cancel(f)
	}
	return broker.Complete([]byte("result"))
}

func newLife(t *testing.T) *life {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	l := &life{Rand: rand.New(rand.NewPCG(seed, 0)), now: time.Unix(1_800_000_000, 0), leases: make(map[string][]broker.Job)}
	t.Cleanup(func() { l.b.Close() })
	l.on(t, New())
	return l
}

// on begins the life on a store.
func (l *life) on(t *testing.T, b *Broker) {
	l.b, l.names = b, []string{"a", "b", "c"}
	for _, w := range l.names {
		_, err := l.b.Renew(t.Context(), broker.RenewRequest{Now: l.now, Worker: w, Queues: []string{"q", "r"}, Lease: 10 * time.Second,
			Register: true})
		l.ok(t, err)
	}
}
