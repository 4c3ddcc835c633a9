package redisbroker

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"time"

	"github.com/seed81422ce9/jobs/broker"
	"github.com/seed81422ce9/jobs/internal/plaintime"
)

// step is one script call and its answer.
type step struct {
	script *script
	plain  []any    // instead: a command, whose answer is the only element of reply
	node   *queue   // whose node is to run that
	queues []string // whose keys it is given, a block each
	keys   *queue   // instead: the keys it is given
	create bool     // makes its queue if there is none
	seen   bool     // this process knew that the queue was there when it was sent
	now    string
	args   []any         // behind those that every script has
	batch  *enqueueBatch // enqueue_plain.lua: enqueue.lua would do instead
	rows   []stretch     // the jobs that it names, where it names all; scripts are given their buckets alone
	shares []int         // claim: which shares it serves …
	places []int         // … and of which of its queues

	reply []any // what follows the status and the time
	at    int64 // the store's time, in microseconds
	code  int64 // why it did nothing; codeDone when it did
	err   error // of the call itself; nil when the script answered
	lag   error // what it did is on fewer replicas than it should
}

// Why a script did nothing: lib/open.lua.
const (
	codeDone    = 0
	codeAbsent  = 1 // no such queue
	codeBuckets = 2 // other number of buckets than the caller thought
	codeNewer   = 3 // a newer layout
	codeGone    = 4 // the worker is over, or was never registered
	codeGap     = 5 // an earlier part of the same settle is missing
	codeBusy    = 6 // keys of something else are in the way
	codeLimited = 7 // the queue needs enqueue.lua, not enqueue_plain.lua
)

const (
	layoutVersion = 1
	maxRounds     = 4 // of calling again what was certainly not applied
)

// nowArg writes the time of a request as scripts read it: µs, with a half for any part of one, or
// 0 for the store's clock.
func nowArg(now time.Time) string {
	if now.IsZero() {
		return "0"
	}
	s := strconv.FormatInt(now.UnixMicro(), 10)
	if now.Nanosecond()%1000 != 0 {
		s += ".5"
	}
	return s
}

// run makes the calls, in one round trip for each node of the store. It repeats those that were
// refused for something that can be repaired: a queue that has to be made first, a number of
// buckets learned from the answer. It returns an error when ctx ended or the broker is closed;
// then the steps must not be read. Otherwise each step has its answer or its own error.
//
// If ctx ends first, late, if given, is called once the steps have been answered.
func (b *Broker) run(ctx context.Context, late func(), steps ...*step) error {
	if err := b.enter(ctx); err != nil {
		return err
	}
	if late == nil && plaintime.OnlyTime(ctx) {
		defer b.leave()
		b.rounds(unwatched{ctx}, steps)
		return nil
	}
	inner, cancel := context.WithTimeout(context.WithoutCancel(ctx), patience(ctx, late != nil))
	stop := func() bool { return true }
	if late == nil {
		stop = context.AfterFunc(ctx, cancel) // what is not sent yet is not sent any more
	}
	var mu sync.Mutex
	done, abandoned := make(chan struct{}), false
	go func() {
		defer b.leave()
		defer cancel()
		b.rounds(inner, steps)
		stop()
		mu.Lock()
		defer mu.Unlock()
		if abandoned && late != nil {
			late()
		}
		close(done)
	}()
	select {
	case <-done:
	case <-ctx.Done():
	}
	mu.Lock()
	defer mu.Unlock()
	select {
	case <-done:
	default:
		abandoned = true
		return ctx.Err()
	}
	if err := ctx.Err(); err != nil {
		for _, s := range steps {
			if errors.Is(s.err, context.Canceled) || errors.Is(s.err, context.DeadlineExceeded) {
				s.err = err
			}
		}
	}
	return nil
}

// unwatched is a context of which the client library sees only the deadline, which it sets on the
// connection without a timer. Nothing waits longer for that: every use of a connection has a
// deadline.
type unwatched struct{ context.Context }

func (unwatched) Done() <-chan struct{} { return nil }

// patience returns how long to wait for an answer: a little longer than the caller does, so that
// the caller's context is always the reason why the call ended; or as long as a call may take, if
// a late answer matters.
func patience(ctx context.Context, late bool) time.Duration {
	if deadline, ok := ctx.Deadline(); ok && !late {
		return min(time.Until(deadline)+time.Second, callTimeout)
	}
	return callTimeout
}

// rounds does the work of run, for a context that needs no goroutine.
func (b *Broker) rounds(ctx context.Context, steps []*step) {
	pending := steps
	for round := range maxRounds {
		if err := b.register(ctx, pending); err != nil {
			for _, s := range pending {
				s.err = err
			}
			return
		}
		calls := b.exchange(ctx, pending)
		for i, s := range pending {
			s.read(calls[i])
			b.noteLeases(s)
		}
		b.createFor(ctx, pending)
		var again []*step
		for _, s := range pending {
			switch {
			case !b.repair(s):
			case round+1 < maxRounds:
				again = append(again, s)
			default:
				s.err = fmt.Errorf("%w: the queue keeps changing its layout", broker.ErrUnavailable)
			}
		}
		if pending = again; len(pending) == 0 {
			return
		}
	}
}

// createFor makes the queues that steps need and were refused for.
func (b *Broker) createFor(ctx context.Context, steps []*step) {
	var refused []*step
	var names []string
	for _, s := range steps {
		if s.err == nil && s.code == codeAbsent && s.create {
			refused, names = append(refused, s), append(names, s.queues[0])
			b.queue(s.queues[0]).absent()
		}
	}
	for i, err := range b.create(ctx, names) {
		refused[i].err = err
	}
}

// exchange sends steps and returns their calls.
func (b *Broker) exchange(ctx context.Context, steps []*step) []*call {
	calls := make([]*call, len(steps))
	for i, s := range steps {
		calls[i] = b.newCall(s)
	}
	b.exec(ctx, calls)
	return calls
}

// longName is the length of most names in keyNames, or more.
const longName = 3

// newCall writes out a step for the queues as this process knows them.
func (b *Broker) newCall(s *step) *call {
	if s.plain != nil {
		return &call{key: s.node.key("m"), args: s.plain}
	}
	queues := make([]*queue, 0, 4)
	if s.keys != nil {
		queues = append(queues, s.keys)
	}
	for _, name := range s.queues {
		queues = append(queues, b.queue(name))
	}
	n := len(s.rows)
	for _, q := range queues {
		n += len(s.script.keys) + s.script.lists*(priorities-1)
		if s.script.bodies {
			n += q.buckets
		}
	}
	few := s.script.short || len(s.rows) == 1
	s.seen = queues[0].seen.Load()
	c := &call{key: queues[0].key("m"), await: b.awaited(s.script), args: make([]any, 3, 3+n+2+len(queues)+len(s.args))}
	keys := keyList{text: make([]byte, 0, n*(len(queues[0].base)+longName)), ends: make([]int, 0, n)}
	for _, q := range queues {
		for _, at := range s.script.keys {
			if name := keyNames[at]; name == "b*" && few {
				for _, row := range s.rows {
					keys.add(q.base, q.bucketName(row.slot))
				}
			} else {
				keys.addAll(q, name)
			}
		}
	}
	c.args = keys.appendTo(c.args)
	c.args[0], c.args[1], c.args[2] = "evalsha", s.script.sha, len(c.args)-3
	if !s.script.short {
		c.args = append(c.args, s.now, len(queues))
		for _, q := range queues {
			c.args = append(c.args, q.buckets)
		}
	}
	c.args = append(c.args, s.args...)
	return c
}

// read reads the answer of a call.
func (s *step) read(c *call) {
	s.code, s.reply, s.err, s.lag = codeDone, nil, c.err, c.lag
	if s.err != nil {
		return
	}
	if s.plain != nil {
		s.reply = []any{c.cmd.Val()}
		return
	}
	if code, ok := c.cmd.Val().(int64); ok { // enqueue_plain.lua, with nothing to tell
		s.code, s.at = code, 0
		return
	}
	reply, err := c.cmd.Slice()
	if err != nil || len(reply) == 0 {
		s.err = fmt.Errorf("script %s: unexpected reply: %w", s.script.name, errors.Join(err, broker.ErrMalformed))
		return
	}
	s.code, _ = reply[0].(int64)
	if s.code != codeDone {
		s.reply = reply[1:]
		return
	}
	if len(reply) > 1 {
		s.at, _ = reply[1].(int64)
		s.reply = reply[2:]
	}
}

// repair repairs the reason why a step was refused, and reports whether to send it again.
func (b *Broker) repair(s *step) bool {
	if s.err != nil {
		return false
	}
	switch s.code {
	case codeDone:
		if s.create && len(s.queues) == 1 {
			b.queue(s.queues[0]).see()
		}
	case codeBuckets:
		if n, ok := first(s.reply).(int64); ok && n > 0 {
			b.learn(s.queues[0], int(n))
			return true
		}
		s.err = fmt.Errorf("the number of buckets in the queue's record: %w", broker.ErrMalformed)
	case codeAbsent:
		return s.create // createFor has made it
	case codeLimited:
		b.queue(s.queues[0]).limit(s.seen)
		s.batch.careful(s)
		return true
	case codeNewer:
		version, _ := first(s.reply).(int64)
		s.err = newerLayout(version)
	case codeGap:
		s.err = fmt.Errorf("%w: an earlier part of the same request failed", broker.ErrUnavailable)
	}
	return false
}

func newerLayout(version int64) error {
	return &broker.Error{Err: broker.ErrNewerForm, Field: "layout",
		Hint: fmt.Sprintf("version %d, this program knows up to %d; update it", version, layoutVersion)}
}

func first(reply []any) any {
	if len(reply) == 0 {
		return nil
	}
	return reply[0]
}
