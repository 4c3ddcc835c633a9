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
	blockGrace  = 5 * time.Second       // how late the end of a wait may be
	unblockStep = 20 * time.Millisecond // the pause between attempts to end a wait that has not reached the server yet
)

// wait waits once for a wake token of the request's queues, after a claim that found nothing. If one
// call serves all queues, it is sent in the same write, after the wait. The server runs it when the
// token arrives or the time is over, so waking and claiming are one round trip. If there are many
// queues, only the queue whose token arrived is asked after the wait. For queues of several groups
// there is a wait on a connection for each group, and the first token ends all waits. No wait lasts
// beyond the next due time, unless another process watches that time.
//
// If the caller goes away, CLIENT UNBLOCK from another connection ends its waits. It has no effect on
// a wait that has ended. The claim after a wait runs in either case. Its answer is read, and the jobs
// that it leased, usually none, are released at once. If the server does not allow CLIENT UNBLOCK,
// the connection is closed: then the server drops the claim without reading it, unless a token
// arrives at the same moment. The worker's heartbeats report jobs that were leased to a closed
// connection (§7).
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
		switch { // due may be of the other queues, whose tokens did not arrive
		case len(again.Queues) == len(req.Queues) || due.IsZero():
		case due.After(got.Now):
			got.NextDue = sooner(got.NextDue, due)
		default:
			got.More = true
		}
		unused = err != nil
	}
	if err == nil && len(got.Jobs) == 0 {
		err = broker.About(woken.err, "claim", "", "") // otherwise a wait that fails at once would look like one whose time is over
	}
	return got, err
}

// putBack undoes the effects of a wait that its claim does not need: it releases leased jobs, and
// leaves a token for another claim if the wait took one.
func (b *Broker) putBack(to *claimant, w *blocked) {
	if w.then != nil {
		b.giveBack(to, []*step{w.then})
	}
	if w.called != "" && (w.then == nil || errors.Is(w.then.err, broker.ErrUnavailable)) {
		// A claim of no jobs leaves a token if a job can be claimed.
		ctx, cancel := context.WithTimeout(context.Background(), putBackTime)
		defer cancel()
		c := b.newClaim(&broker.ClaimRequest{Worker: to.worker}, true)
		b.rounds(ctx, []*step{c.step(0, 1, w.called)})
	}
}

// blocked is one wait on one connection.
type blocked struct {
	queues  []string
	then    *step         // the claim that is sent after the wait, if any
	unblock chan struct{} // closed to end the wait early
	called  string        // the queue whose token the wait took
	err     error         // the error of the wait itself, not of then
}

// block waits until it gets a token of the queues, the time is over, or unblock is closed.
// With hurry it ends exactly when the time is over. If the wait itself fails, w.then, if any,
// gets the error.
func (b *Broker) block(w *blocked, block time.Duration, hurry bool) {
	ctx, cancel := context.WithTimeout(context.Background(), block+blockGrace)
	defer cancel()
	var over <-chan time.Time
	if hurry {
		timer := time.NewTimer(block)
		defer timer.Stop()
		over = timer.C
	}
	key := b.queue(w.queues[0]).key("t")
	conn, err := b.waiters.get(ctx, &b.store, key)
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
		_, _ = pipe.Exec(ctx) // the commands have their errors
	}()
	select {
	case <-done:
	case <-over:
		conn.hurry(key)
		select {
		case <-done:
		case <-w.unblock:
			conn.unblock(done, key)
		}
	case <-w.unblock:
		conn.unblock(done, key)
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
