package shardbroker

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/seed81422ce9/jobs/broker"
)

const (
	lendSeldom = 15 * time.Second // between two looks for queues with a limit, and for a lender that died
	lendOften  = time.Second      // between two looks at queues with a limit
	lendTTL    = 20 * time.Second // of the mark of the process that lends
	lendCall   = 10 * time.Second
)

// lender moves parts of limits between shards: to a shard that needs more than its part, from one
// that does not use its own, or has more than its share. Of the processes with the same queues one
// lends, the owner of a mark.
//
// It first lowers the part of one shard, and raises that of another in a later round, by what
// the shards leave then. So wherever it dies, the sum of the parts is the limit at most. The next
// round repairs it, since a mark holds the limit as it was set.
type lender struct {
	b     *Broker
	owner string

	mu      sync.Mutex
	queues  map[string]bool // that this process claims from
	started bool
	ended   bool
	cancel  context.CancelFunc
	done    chan struct{}

	moved map[queueLimit]time.Time // when a part last moved; the loop's alone
}

// queueLimit is a limit of one queue.
type queueLimit struct {
	limit
	queue string
}

func newLender(b *Broker) *lender {
	return &lender{b: b, owner: rand.Text(), queues: make(map[string]bool), done: make(chan struct{}), moved: make(map[queueLimit]time.Time)}
}

// lends reports whether parts of limits can be moved.
func (b *Broker) lends() bool { return !b.limits.NoMark && !b.limits.NoFlow && b.parts > 1 }

// serve says that this process claims from queues. The first call starts the loop.
func (l *lender) serve(shares []broker.Share) {
	if !l.b.lends() {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, s := range shares {
		l.queues[s.Queue] = true
	}
	if l.started || l.ended || len(shares) == 0 {
		return
	}
	l.started = true
	ctx, cancel := context.WithCancel(context.Background())
	l.cancel = cancel
	go l.run(ctx)
}

// end ends the loop, and waits until it has.
func (l *lender) end() {
	l.mu.Lock()
	started := l.started
	l.ended = true
	l.mu.Unlock()
	if started {
		l.cancel()
		<-l.done
	}
}

func (l *lender) run(ctx context.Context) {
	defer close(l.done)
	timer := time.NewTimer(lendOften)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		}
		timer.Reset(l.round(ctx))
	}
}

// round looks at the queues once. It returns when to look again.
func (l *lender) round(ctx context.Context) time.Duration {
	ctx, cancel := context.WithTimeout(ctx, lendCall)
	defer cancel()
	l.mu.Lock()
	names := slices.Sorted(maps.Keys(l.queues))
	l.mu.Unlock()
	if !l.elected(ctx, fmt.Sprintf("%q", names)) {
		clear(l.moved)
		return lendSeldom
	}
	queues, err := l.b.lookAt(ctx, names...)
	if err != nil {
		return lendOften // what a shard that is away uses is not known
	}
	next, moved := lendSeldom, make(map[queueLimit]time.Time)
	for _, name := range names {
		lends := slices.DeleteFunc(slices.Clone(limits), func(which limit) bool { return !lent(which, queues[name]) })
		if len(lends) > 0 {
			next = lendOften
		}
		if len(lends) == 0 || !l.elected(ctx, name) { // processes with other queues may have it too
			continue
		}
		for _, which := range lends {
			of := queueLimit{which, name}
			since, known := l.moved[of]
			if !known { // another process may just have moved one
				since = time.Now()
			}
			moved[of] = l.step(ctx, of, since)
		}
	}
	l.moved = moved
	return next
}

// elected reports whether this process holds a mark, for longer than a round takes.
func (l *lender) elected(ctx context.Context, what string) bool {
	mark, err := l.b.Mark(ctx, broker.MarkRequest{Action: broker.MarkTake, Name: markOf("lend", what), Owner: l.owner, TTL: lendTTL})
	return err == nil && mark.Held
}

// markOf returns the name of a mark, which is shorter than what it is for may be.
func markOf(purpose, what string) string {
	sum := sha256.Sum256([]byte(what))
	return purpose + "/" + hex.EncodeToString(sum[:16])
}

// lookAt asks the shards about queues. It returns for each queue what each shard says; nothing, if that has no such queue.
func (b *Broker) lookAt(ctx context.Context, queues ...string) (map[string][]*broker.QueueInfo, error) {
	answers := ask(ctx, b.shards, func(s *shard) (broker.QueuesReply, error) {
		return s.Broker.Queues(ctx, broker.QueuesRequest{Names: queues})
	})
	all := make(map[string][]*broker.QueueInfo, len(queues))
	for i, a := range answers {
		for _, queue := range queues {
			all[queue] = append(all[queue], new(broker.QueueInfo))
		}
		for n := range a.got.Queues {
			q := &a.got.Queues[n]
			all[q.Name][i] = q
		}
	}
	return all, failed(answers)
}

// lent reports whether each shard has a part of a limit that can be lent.
func lent(which limit, infos []*broker.QueueInfo) bool {
	return !slices.ContainsFunc(infos, func(q *broker.QueueInfo) bool { return !which.lent(&q.Policy) })
}

// step raises parts if the limit leaves something, or else lowers some. It returns when a part last moved.
func (l *lender) step(ctx context.Context, of queueLimit, moved time.Time) time.Time {
	total, fence, err := l.b.limit(ctx, of) // first: a limit that is set after this is noticed before a part changes
	if err != nil {
		return moved
	}
	queues, err := l.b.lookAt(ctx, of.queue)
	infos := queues[of.queue]
	if err != nil || !lent(of, infos) {
		return moved
	}
	if total == 0 { // it was set without a mark
		for _, q := range infos {
			total += of.Of(&q.Policy)
		}
		if fence, err = l.b.noteLimit(ctx, of, total); err != nil {
			return moved
		}
	}
	for i, part := range of.next(total, infos, time.Since(moved)) {
		if p := infos[i].Policy; part != of.Of(&p) {
			of.Set(&p, part)
			moved = time.Now()
			l.set(ctx, of, fence, l.b.shards[i], broker.PolicyFrom(of.queue, "", infos[i].Policy, p))
		}
	}
	return moved
}

// set changes a shard's part, unless the limit was changed meanwhile. If that fails, the next round finds out.
func (l *lender) set(ctx context.Context, of queueLimit, fence int64, s *shard, req broker.PolicyRequest) {
	if _, current, err := l.b.limit(ctx, of); err != nil || current != fence {
		return
	}
	_, err := s.Broker.Policy(ctx, req)
	_ = s.note(ctx, err)
}
