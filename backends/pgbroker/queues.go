package pgbroker

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/seed81422ce9/jobs/broker"
)

// Queues describes queues. The counts are exact: totals plus the deltas that are not folded
// yet. As long as it is fast, each call searches for the oldest jobs and counts the leases of
// each worker. It is slow while the database has an old snapshot. Then a job that appeared
// late may not count as the oldest, and the count of a worker's leases may be some seconds
// old, at most a minute. A request with its own Now always searches. §23.
func (b *Broker) Queues(ctx context.Context, req broker.QueuesRequest) (reply broker.QueuesReply, err error) {
	defer about(&err, "queues", "")
	var names []string
	if len(req.Names) > 0 {
		names = slices.DeleteFunc(distinct(req.Names), func(name string) bool { return broker.CheckName("queue", name) != nil })
	}
	now, own := time.Now(), !req.Now.IsZero()
	look := agesLook{now: now}
	var known map[int64]int
	if !own {
		look.queues, look.from = b.ages.start(now)
		known = b.held.known(now)
	}
	deltas := b.deltas.look()
	steps := []step{b.byIndex(true), b.step("clock", one(&look.at), clockOf(req.Now).micros),
		deltas.step(b),
		b.step("queues", each(func(r rows) error {
			info, err := look.scan(r)
			reply.Queues = append(reply.Queues, info)
			return err
		}), names, deltas.floor, look.queues, look.from)}
	w := workersLook{known: known, counted: make(map[int64]int), of: make(map[string][]broker.WorkerInfo)}
	if req.Workers {
		steps = append(steps, b.step("queues_workers", each(w.scan), names, slices.Collect(maps.Keys(known))))
	}
	if err := b.run(ctx, steps...); err != nil {
		return broker.QueuesReply{}, err
	}
	b.deltas.raise(deltas)
	if !own {
		b.ages.raise(&look)
		b.held.counted(w.counted, now, w.took)
	}
	reply.Now = broker.FromMicros(look.at)
	for i := range reply.Queues {
		q := &reply.Queues[i]
		q.AsOf, q.Workers = reply.Now, w.of[q.Name]
	}
	if deltas.many {
		_, err = b.foldSome(ctx)
	}
	return reply, err
}

// counted are the states whose jobs are counted, in the order of the columns.
var counted = [...]broker.State{broker.StatePending, broker.StateScheduled, broker.StateActive, broker.StateRetry,
	broker.StateCompleted, broker.StateDead, broker.StateCancelled, broker.StateWaiting}

// timed are the states whose oldest jobs are searched for by time, in the order of their
// positions behind the lanes.
var timed = [places - lanes]broker.State{broker.StateScheduled, broker.StateRetry, broker.StateCompleted, broker.StateDead,
	broker.StateCancelled}

// scan reads a row of queues.sql.
func (l *agesLook) scan(r rows) (broker.QueueInfo, error) {
	var rules []byte
	var counts [len(counted)]int64
	var created []*int64
	var oldest agesSeen
	info := broker.QueueInfo{Counts: make(map[broker.State]int64), Oldest: make(map[broker.State]time.Time)}
	layout := 0
	columns := []any{&info.Name, &layout, &rules}
	for i := range counts {
		columns = append(columns, &counts[i])
	}
	var folded, since []*int64 // nil or nulls for a queue without totals
	columns = append(columns, &info.Suppressed, &info.Bytes, &folded, &since, &created, &oldest.first, &l.drawn, &l.took)
	if err := r.Scan(columns...); err != nil {
		return info, err
	}
	info.Totals = totalsOf(folded).Plus(totalsOf(since))
	if err := checkLayout(layout); err != nil {
		return info, broker.About(err, "queues", info.Name, "")
	}
	if len(created) != lanes || len(oldest.first) != places {
		return info, broker.ErrMalformed
	}
	var err error
	if info.Policy, err = readPolicy(rules); err != nil {
		return info, broker.About(err, "queues", info.Name, "")
	}
	for i, s := range timed {
		if at := oldest.first[lanes+i]; at != nil {
			info.Oldest[s] = broker.FromMicros(*at)
		}
	}
	for i := 0; i < lanes; i += 2 {
		next := created[i] // the front lane goes first
		if next == nil {
			next = created[i+1]
		}
		if next != nil {
			info.SetOldestPending(broker.Priority(i/2+1), broker.FromMicros(*next))
		}
	}
	for i, s := range counted {
		info.Counts[s] = counts[i]
		ages := s != broker.StateActive && s != broker.StateWaiting
		oldest.missed = oldest.missed || ages && counts[i] > 0 && info.Oldest[s].IsZero()
	}
	oldest.queue = info.Name
	l.seen = append(l.seen, oldest)
	return info, nil
}

// totalsOf reads totals in the order of the columns of count_total.
func totalsOf(column []*int64) (t broker.Totals) {
	for i, to := range t.Numbers() {
		if i < len(column) && column[i] != nil {
			*to = *column[i]
		}
	}
	return t
}

// workersLook is a search of Queues for workers.
type workersLook struct {
	known map[int64]int // by the number of the worker: leases that need not be counted again

	// The answer.
	of      map[string][]broker.WorkerInfo // by queue
	counted map[int64]int
	took    int64 // µs
}

// scan reads a row of queues_workers.sql.
func (l *workersLook) scan(r rows) error {
	var queue, id string
	var until, number int64
	var held *int
	var said []byte
	if err := r.Scan(&queue, &id, &until, &said, &number, &held, &l.took); err != nil {
		return err
	}
	n := l.known[number]
	if held != nil {
		n, l.counted[number] = *held, *held
	}
	info, err := broker.ParseWorkerInfo(said, id, broker.FromMicros(until), n)
	if err == nil {
		l.of[queue] = append(l.of[queue], info)
	}
	return err
}
