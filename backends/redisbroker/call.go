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
	plain  []any    // a command instead of a script; its answer is the only element of reply
	node   *queue   // the queue whose node runs the plain command
	queues []string // the queues whose keys the script gets, a block for each
	keys   *queue   // other keys instead of those of queues
	create bool     // creates its queue if it does not exist
	seen   bool     // this process knew that the queue existed when it sent the step
	now    string
	args   []any         // after the arguments that every script has
	batch  *enqueueBatch // for enqueue_plain.lua: its jobs, to call enqueue.lua instead if necessary
	rows   []stretch     // the buckets of its jobs, if it names all its jobs: the script gets only the keys of these
	shares []int         // for a claim: the shares that it serves
	places []int         // for a claim: the queue of each share, by index in queues

	reply []any // the answer after the status and the time
	at    int64 // the store's time, in microseconds
	code  int64 // why the script did nothing; codeDone if it did its work
	err   error // the error of the call itself; nil if the script answered
	lag   error // not nil if too few replicas have the effect
}

// Why a script did nothing, as in lib/why.lua.
const (
	codeDone    = 0
	codeAbsent  = 1 // no such queue
	codeBuckets = 2 // the queue has another number of buckets than the caller assumed
	codeNewer   = 3 // a newer layout
	codeGone    = 4 // the worker has ended, or was never registered
	codeGap     = 5 // an earlier part of the same settle is missing
	codeBusy    = 6 // keys of another program have the queue's names
	codeLimited = 7 // the queue needs enqueue.lua, not enqueue_plain.lua
)

const (
	layoutVersion = 1
	maxRounds     = 4 // how often a call that was certainly not applied is sent
)

var errEarlierPart = fmt.Errorf("%w: an earlier part of the same request failed", broker.ErrUnavailable)

// nowArg writes the time of a request as scripts read it: in µs, plus .5 for any fraction of a
// µs; 0 for the store's clock.
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

// run makes the calls, in one round trip for each node of the store. It repeats calls that were
// refused for a reason that it can repair: a queue that must be created first, or another number
// of buckets, which the answer has. It returns an error if ctx has ended or the broker is closed;
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
	inner, cancel := context.WithTimeout(context.WithoutCancel(ctx), b.patience(ctx, late != nil, len(steps)))
	stop := func() bool { return true }
	if late == nil {
		stop = context.AfterFunc(ctx, cancel) // do not send what is not sent yet
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

// unwatched hides the end of a context from the client library, which sees only the deadline. The
// library sets that on the connection, without a timer. Every use of a connection has a deadline,
// so no call takes longer for that.
type unwatched struct{ context.Context }

func (unwatched) Done() <-chan struct{} { return nil }

// patience returns how long to wait for answers. That is a little longer than the caller waits, so that a
// call ends because of the caller's context. If a late answer matters, it is as long as a call may take.
// In a Cluster, the answers to several steps may come from several nodes. Then it is a little shorter than
// the caller waits, so that a node that hangs does not withhold the answers of the others.
func (b *Broker) patience(ctx context.Context, late bool, steps int) time.Duration {
	deadline, ok := ctx.Deadline()
	left := time.Until(deadline)
	switch {
	case ok && b.store.cluster != nil && steps > 1:
		return min(left*4/5, callTimeout)
	case ok && !late:
		return min(left+time.Second, callTimeout)
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

// createFor creates missing queues, because of which steps were refused.
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

// longName is at least the length of most names in keyNames; it sizes buffers.
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
	keys := keyList{texts{buf: make([]byte, 0, n*(len(queues[0].base)+longName)), ends: make([]int, 0, n)}}
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
	c.args = pointers(c.args, keys.split(make([]piece, 0, n)))
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
	if code, ok := c.cmd.Val().(int64); ok { // the short answer of enqueue_plain.lua
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
		return s.create // createFor has created the queue
	case codeLimited:
		b.queue(s.queues[0]).limit(s.seen)
		s.batch.careful(s)
		return true
	case codeNewer:
		version, _ := first(s.reply).(int64)
		s.err = newerLayout(version)
	case codeGap:
		s.err = errEarlierPart
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
