package redisbroker

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/seed81422ce9/jobs/broker"
)

const (
	blockGrace  = 5 * time.Second       // by which the end of a wait may be late
	unblockStep = 20 * time.Millisecond // between attempts to end a wait that is still on its way
)

// wait waits once for a wake token of the request's queues, after a claim that found nothing.
// Where one call serves all queues, that call is sent in the same write, behind the wait: the
// server runs it at the moment the token arrives, or when the time is over, so waking and claiming
// are one round trip. Of many queues only the one whose token arrived is asked after the wait.
// Queues of several groups are waited for on a connection for each group, and the first token ends
// all waits. No wait goes past the next due time, unless another process watches that.
//
// When the caller goes away, CLIENT UNBLOCK from another connection ends its waits. It does
// nothing to a wait that has ended. The claim behind a wait runs in either case: its answer is
// read, and what it leased, which is mostly nothing, is put back at once. Where the server does
// not allow CLIENT UNBLOCK, the connection is closed: then the server drops the claim unread,
// unless a token arrives at the same moment. Jobs leased to a closed connection show in the
// worker's heartbeats (§7).
func (b *Broker) wait(ctx context.Context, req *broker.ClaimRequest, got broker.Claimed) (broker.Claimed, error) {
	c := b.newClaim(req, true)
	block, hurry := req.Wait, false
	if due := b.dues.Next(req.Worker, c.queues, got.NextDue); !due.IsZero() && due.Sub(got.Now) < block {
		block, hurry = due.Sub(got.Now), true
	}
	block = max(block, time.Millisecond) // 0 would be for ever
	all := make([]int, len(c.queues))
	for at := range all {
		all[at] = at
	}
	var waits []*blocked
	for _, places := range c.byGroup(all) {
		w := &blocked{}
		for _, at := range places {
			w.queues = append(w.queues, c.queues[at])
		}
		waits = append(waits, w)
	}
	if !c.round.many && !c.spread {
		waits[0].then = c.next(b)[0]
	}
	if err := b.enter(ctx); err != nil {
		return got, broker.About(err, "claim", "", "")
	}
	ended := make(chan *blocked, len(waits))
	for _, w := range waits {
		w.unblock = make(chan struct{})
		b.active.Add(1)
		go func() {
			defer b.leave()
			b.block(w, block, hurry)
			ended <- w
		}()
	}
	var woken *blocked
	var err error
	select {
	case woken = <-ended:
	case <-ctx.Done():
		err = ctx.Err()
	case <-b.ending.Done():
		err = broker.ErrClosed
	}
	for _, w := range waits {
		close(w.unblock)
	}
	if woken != nil && woken.called != "" {
		b.dues.Called(woken.called)
	}
	unused := false
	defer func() {
		go func() {
			defer b.leave()
			if unused {
				b.putBack(&c.request, woken)
			}
			left := len(waits)
			if woken != nil {
				left--
			}
			for range left {
				b.putBack(&c.request, <-ended)
			}
		}()
	}()
	switch {
	case woken == nil:
		return got, broker.About(err, "claim", "", "")
	case woken.then != nil && !errors.Is(woken.then.err, broker.ErrUnavailable):
		got = broker.Claimed{}
		c.readNext(b)
		err = c.answer(b, &got)
	default:
		again := *req
		again.Wait, again.Settle = 0, broker.SettleRequest{}
		if c.request.many > 0 && woken.called != "" {
			again.Queues = slices.DeleteFunc(slices.Clone(req.Queues), func(s broker.Share) bool { return s.Queue != woken.called })
		}
		due := got.NextDue
		got, err = b.claim(ctx, &again)
		if len(again.Queues) < len(req.Queues) && due.After(got.Now) {
			got.NextDue = sooner(got.NextDue, due) // of the others, which called nobody since
		}
		unused = err != nil
	}
	if err == nil && len(got.Jobs) == 0 {
		err = broker.About(woken.err, "claim", "", "") // a wait that fails at once must not look like one that ended
	}
	return got, err
}

// putBack undoes what a wait did for a claim that does not need it: leased jobs are released, and
// a token that was taken is left for another claim.
func (b *Broker) putBack(to *claimant, w *blocked) {
	if w.then != nil {
		b.giveBack(to, []*step{w.then})
	} else if w.called != "" {
		// A claim of nothing leaves a token where something can be claimed.
		ctx, cancel := context.WithTimeout(context.Background(), putBackTime)
		defer cancel()
		c := b.newClaim(&broker.ClaimRequest{Worker: to.worker}, true)
		b.rounds(ctx, []*step{c.step(0, 1, w.called)})
	}
}

// blocked is one wait on one connection.
type blocked struct {
	queues  []string
	then    *step         // sent behind it, if any
	unblock chan struct{} // closed to end it early
	called  string        // the queue whose token it took
	err     error         // of the wait itself; what it leased is not in doubt
}

// block waits until a token of the queues was taken, the time is over, or
// unblock is closed. With hurry it ends right when the time is over. When the wait itself fails,
// its step, if any, says so.
func (b *Broker) block(w *blocked, block time.Duration, hurry bool) {
	ctx, cancel := context.WithTimeout(context.Background(), block+blockGrace)
	defer cancel()
	var over <-chan time.Time
	if hurry {
		timer := time.NewTimer(block)
		defer timer.Stop()
		over = timer.C
	}
	conn, err := b.waiters.get(ctx, &b.store, b.queue(w.queues[0]).key("t"))
	if err != nil {
		w.err = notSent(err)
		if w.then != nil {
			w.then.err = w.err
		}
		return
	}
	args := []any{"blpop"}
	for _, name := range w.queues {
		args = append(args, b.queue(name).key("t"))
	}
	args = append(args, strconv.FormatFloat(block.Seconds(), 'f', 3, 64))
	pipe := conn.client.Pipeline()
	pop := redis.NewCmd(ctx, args...)
	_ = pipe.Process(ctx, pop)
	var claim *call
	if w.then != nil {
		claim = b.newCall(w.then)
		claim.cmd = redis.NewCmd(ctx, claim.args...)
		_ = pipe.Process(ctx, claim.cmd)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		_, _ = pipe.Exec(ctx) // the commands hold their errors
	}()
	select {
	case <-done:
	case <-over:
		conn.hurry()
		select {
		case <-done:
		case <-w.unblock:
			conn.unblock(done)
		}
	case <-w.unblock:
		conn.unblock(done)
	}
	if claim != nil {
		claim.err = classify(claim.cmd.Err())
		w.then.read(claim)
		b.noteLeases(w.then)
	}
	if w.err = classify(pop.Err()); pop.Err() == nil {
		popped, _ := pop.StringSlice()
		at := slices.Index(args, any(append(popped, "")[0]))
		w.called = w.queues[max(0, at-1)]
	}
	if w.called != "" || answered(pop.Err()) {
		b.waiters.put(conn)
	} else {
		conn.close()
	}
}
