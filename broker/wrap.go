package broker

import (
	"context"
	"time"
)

// Call is one call to a wrapped broker; see [Wrap].
type Call struct {
	// Method is the name of the method of Broker: "Claim".
	Method string
	// Request points to the request (*ClaimRequest), which may be changed before
	// the call. For Ping it points to an empty struct.
	Request any
	// Reply points to what the method returns besides its error (*Claimed, *[]Receipt,
	// *time.Time for Ping). It is the zero value before the call, and may be changed
	// after the call.
	Reply any

	clear func()
}

// Clear sets the reply to the zero value, like the reply of a call that failed.
func (c *Call) Clear() { c.clear() }

// Wrap returns a broker that calls the function around instead of each method of b that
// has a context. The function calls next to make the call, or does not, and returns the
// error of the method. Any number of goroutines may call it at once. Limits, Reconnect
// and Close go to b directly, and As finds b.
func Wrap(b Broker, around func(ctx context.Context, c *Call, next func(context.Context) error) error) Broker {
	return &wrapped{Broker: b, around: around}
}

type wrapped struct {
	Broker
	around func(context.Context, *Call, func(context.Context) error) error
}

// Unwrap returns the broker inside, see As.
func (w *wrapped) Unwrap() Broker { return w.Broker }

// through calls a method inside around.
func through[Request, Reply any](ctx context.Context, w *wrapped, method string, req Request,
	call func(context.Context, Request) (Reply, error)) (Reply, error) {
	var reply Reply
	c := Call{Method: method, Request: &req, Reply: &reply, clear: func() { reply = *new(Reply) }}
	err := w.around(ctx, &c, func(ctx context.Context) (err error) {
		reply, err = call(ctx, req)
		return err
	})
	return reply, err
}

func (w *wrapped) Enqueue(ctx context.Context, req EnqueueRequest) ([]Receipt, error) {
	return through(ctx, w, "Enqueue", req, w.Broker.Enqueue)
}

func (w *wrapped) Claim(ctx context.Context, req ClaimRequest) (Claimed, error) {
	return through(ctx, w, "Claim", req, w.Broker.Claim)
}

func (w *wrapped) Renew(ctx context.Context, req RenewRequest) (Renewed, error) {
	return through(ctx, w, "Renew", req, w.Broker.Renew)
}

func (w *wrapped) Retire(ctx context.Context, req RetireRequest) (Retired, error) {
	return through(ctx, w, "Retire", req, w.Broker.Retire)
}

func (w *wrapped) Settle(ctx context.Context, req SettleRequest) ([]Verdict, error) {
	return through(ctx, w, "Settle", req, w.Broker.Settle)
}

func (w *wrapped) Reclaim(ctx context.Context, req ReclaimRequest) (Claimed, error) {
	return through(ctx, w, "Reclaim", req, w.Broker.Reclaim)
}

func (w *wrapped) Prune(ctx context.Context, req PruneRequest) (Pruned, error) {
	return through(ctx, w, "Prune", req, w.Broker.Prune)
}

func (w *wrapped) Mark(ctx context.Context, req MarkRequest) (Marked, error) {
	return through(ctx, w, "Mark", req, w.Broker.Mark)
}

func (w *wrapped) Find(ctx context.Context, q Query) (Page, error) {
	return through(ctx, w, "Find", q, w.Broker.Find)
}

func (w *wrapped) Queues(ctx context.Context, req QueuesRequest) (QueuesReply, error) {
	return through(ctx, w, "Queues", req, w.Broker.Queues)
}

func (w *wrapped) Operate(ctx context.Context, op Operation) ([]OperationResult, error) {
	return through(ctx, w, "Operate", op, w.Broker.Operate)
}

func (w *wrapped) Policy(ctx context.Context, req PolicyRequest) (Policy, error) {
	return through(ctx, w, "Policy", req, w.Broker.Policy)
}

func (w *wrapped) Keys(ctx context.Context, req KeysRequest) (KeysReply, error) {
	return through(ctx, w, "Keys", req, w.Broker.Keys)
}

func (w *wrapped) Watch(ctx context.Context, req WatchRequest) (<-chan Event, error) {
	return through(ctx, w, "Watch", req, w.Broker.Watch)
}

func (w *wrapped) Examine(ctx context.Context, req ExamineRequest) (Examined, error) {
	return through(ctx, w, "Examine", req, w.Broker.Examine)
}

func (w *wrapped) Ping(ctx context.Context) (time.Time, error) {
	return through(ctx, w, "Ping", struct{}{}, func(ctx context.Context, _ struct{}) (time.Time, error) { return w.Broker.Ping(ctx) })
}

// As finds what a backend can do beyond Broker. It returns b if that is a T, or else the
// first T among the brokers that b wraps. Every type that wraps a broker has a method
//
//	Unwrap() broker.Broker
//
// so that a program that opened a store by URL can find its *pgbroker.Broker, for
// example, and enqueue in its own transaction.
func As[T any](b Broker) (T, bool) {
	for b != nil {
		if t, ok := b.(T); ok {
			return t, true
		}
		inside, ok := b.(interface{ Unwrap() Broker })
		if !ok {
			break
		}
		b = inside.Unwrap()
	}
	var none T
	return none, false
}
