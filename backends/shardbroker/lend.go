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

// lender moves parts of MaxActive and of Rate between shards: to a shard whose jobs wait for its
// part, from one that does not use its own, or has more than its share. Of the processes with the
// same queues one lends, the owner of a mark.
//
// It first lowers the part of one shard, and raises that of another in a later round, by what
// the jobs leave that are active then. So wherever it dies, the sum of the parts is the limit at
// most. The next round repairs it, since a mark holds the limit as it was set.
type lender struct {
	b     *Broker
	owner string

	mu      sync.Mutex
	queues  map[string]bool // that this process claims from
	started bool
	ended   bool
	cancel  context.CancelFunc
	done    chan struct{}

	// By queue, when a part of MaxActive was last lowered, and one of Rate moved; the loop's alone.
	lowered, moved map[string]time.Time
}

func newLender(b *Broker) *lender {
	return &lender{b: b, owner: rand.Text(), queues: make(map[string]bool), done: make(chan struct{}),
		lowered: make(map[string]time.Time), moved: make(map[string]time.Time)}
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
		clear(l.lowered)
		clear(l.moved)
		return lendSeldom
	}
	answers := ask(ctx, l.b.shards, func(s *shard) (broker.QueuesReply, error) {
		return s.Broker.Queues(ctx, broker.QueuesRequest{Names: names})
	})
	if failed(answers) != nil {
		return lendOften // what a shard that is away uses is not known
	}
	next := lendSeldom
	for _, name := range names {
		_, limited := partsOf(name, answers)
		_, rated := ratesOf(name, answers)
		if limited || rated {
			next = lendOften
		}
		lends := (limited || rated) && l.elected(ctx, name) // processes with other queues may have it too
		if limited && lends {
			l.balance(ctx, name)
		} else {
			delete(l.lowered, name)
		}
		if rated && lends {
			l.balanceRate(ctx, name)
		} else {
			delete(l.moved, name)
		}
	}
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

// lent is a shard's part of a limit, and how the shard uses it.
type lent struct {
	of      *shard
	most    int64
	active  int64
	pending int64
}

// used is what the limit must leave to the shard: after its part was lowered, more jobs may be active.
func (p *lent) used() int64 { return max(p.most, p.active) }

// waits reports whether jobs wait for the shard's part.
func (p *lent) waits() bool { return p.pending > 0 && p.active >= p.most }

// partsOf returns the parts of a queue's limit, and whether each shard has one.
func partsOf(queue string, answers []answer[broker.QueuesReply]) (parts []lent, ok bool) {
	for _, a := range answers {
		i := slices.IndexFunc(a.got.Queues, func(q broker.QueueInfo) bool { return q.Name == queue })
		if i < 0 || a.got.Queues[i].Policy.MaxActive == 0 {
			return nil, false
		}
		q := &a.got.Queues[i]
		parts = append(parts, lent{a.of, q.Policy.MaxActive, q.Counts[broker.StateActive], q.Counts[broker.StatePending]})
	}
	return parts, true
}

// readParts asks the shards for the parts of a queue's limit.
func (b *Broker) readParts(ctx context.Context, queue string) (parts []lent, ok bool, err error) {
	answers, err := b.askQueue(ctx, queue)
	if err != nil {
		return nil, false, err
	}
	parts, ok = partsOf(queue, answers)
	return parts, ok, nil
}

// askQueue asks the shards about a queue.
func (b *Broker) askQueue(ctx context.Context, queue string) ([]answer[broker.QueuesReply], error) {
	answers := ask(ctx, b.shards, func(s *shard) (broker.QueuesReply, error) {
		return s.Broker.Queues(ctx, broker.QueuesRequest{Names: []string{queue}})
	})
	return answers, failed(answers)
}

// balance makes one step: it raises parts if the limit leaves something, or else lowers some.
func (l *lender) balance(ctx context.Context, queue string) {
	total, fence, err := l.b.limit(ctx, maxActiveMark, queue) // first: a limit that is set after this is noticed before a part changes
	if err != nil {
		return
	}
	parts, ok, err := l.b.readParts(ctx, queue)
	if err != nil || !ok {
		return
	}
	if total == 0 { // it was set without a mark
		for i := range parts {
			total += parts[i].most
		}
		if fence, err = l.b.noteLimit(ctx, maxActiveMark, queue, total); err != nil {
			return
		}
	}
	left, waiting := total, false
	for i := range parts {
		left -= parts[i].used()
		waiting = waiting || parts[i].waits()
	}
	since, known := l.lowered[queue]
	if !known { // another process may just have lowered one
		since = time.Now()
		l.lowered[queue] = since
	}
	wants := fairParts(total, parts)
	switch {
	case left > 0 && waiting && time.Since(since) >= lendOften/2:
		for i := range parts {
			if more := min(left, wants[i]-parts[i].most); more > 0 && parts[i].waits() {
				left -= more
				most := parts[i].most + more
				l.set(ctx, maxActiveMark, fence, parts[i].of, broker.PolicyRequest{Queue: queue, MaxActive: &most})
			}
		}
	case left < 0 || left == 0 && waiting:
		for i := range parts {
			if wants[i] < parts[i].most {
				l.lowered[queue] = time.Now()
				l.set(ctx, maxActiveMark, fence, parts[i].of, broker.PolicyRequest{Queue: queue, MaxActive: &wants[i]})
			}
		}
	}
}

// set changes a shard's part, unless the limit was changed meanwhile. If that fails, the next round finds out.
func (l *lender) set(ctx context.Context, mark string, fence int64, s *shard, req broker.PolicyRequest) {
	if _, current, err := l.b.limit(ctx, mark, req.Queue); err != nil || current != fence {
		return
	}
	_, err := s.Broker.Policy(ctx, req)
	_ = s.note(ctx, err)
}

// fairParts divides a limit: each shard gets what its jobs need, but no shard that needs more gets
// less than another. What nobody needs is divided evenly. No part is less than one.
func fairParts(total int64, parts []lent) []int64 {
	n := int64(len(parts))
	wants, left := make([]int64, n), max(total-n, 0)
	for i := range wants {
		wants[i] = 1
	}
	for left > 0 {
		var hungry []int
		for i := range parts {
			if parts[i].active+parts[i].pending > wants[i] {
				hungry = append(hungry, i)
			}
		}
		each := max(left/int64(max(len(hungry), 1)), 1)
		for _, i := range hungry {
			more := min(each, parts[i].active+parts[i].pending-wants[i], left)
			wants[i] += more
			left -= more
		}
		if len(hungry) == 0 {
			for i := range wants {
				wants[i] += int64(portion(int(left), int(n), i))
			}
			break
		}
	}
	return wants
}

// newParts returns the parts with which a limit is set: even ones. If parts were lent, one grows only
// by what the limit leaves beside the jobs that are active now, and the lender goes on.
func (b *Broker) newParts(ctx context.Context, queue string, total int64) ([]int64, error) {
	parts, limited, err := b.readParts(ctx, queue)
	if err != nil {
		return nil, err
	}
	sum, n := 0, len(b.shards)
	for i := range parts {
		sum += int(parts[i].most)
	}
	even, grown, left := make([]int64, n), make([]int64, n), total
	uneven := false
	for i := range even {
		even[i] = int64(portion(int(total), n, i))
		if limited {
			uneven = uneven || parts[i].most != int64(portion(sum, n, i))
			parts[i].most = min(parts[i].most, even[i])
			left -= parts[i].used()
		}
	}
	if !uneven {
		return even, nil
	}
	for i := range grown {
		more := max(min(left, even[i]-parts[i].most), 0)
		grown[i] = parts[i].most + more
		left -= more
	}
	return grown, nil
}
