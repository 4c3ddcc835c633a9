package pgbroker

import (
	"context"
	"maps"

	"github.com/seed81422ce9/jobs/broker"
)

// queueRoom is what queue_room.sql returns about a queue; zero if the queue does not exist.
type queueRoom struct {
	number      int32
	layout      int
	policy      broker.Policy
	bounded     bool  // the policy limits what an enqueue may store
	keyed       bool  // the queue has had jobs with a key
	used, bytes int64 // how much of the depth and byte limits is used
	keys        map[string]keyRoom
}

// keyRoom has how many jobs a key may have, and how many it has.
type keyRoom struct{ limit, used int64 }

func (b *Broker) room(ctx context.Context, s session, queue string) (q queueRoom, err error) {
	deltas := b.deltas.look()
	var rules []byte
	err = s.run(ctx, b.step("queue_room", one(&q.number, &q.layout, &rules, &q.bounded, &q.keyed, &q.used, &q.bytes), queue, deltas.floor),
		deltas.step(b))
	if _, own := s.(*ownPort); own && err == nil && q.number != 0 { // the snapshot of a caller's transaction may be old
		b.deltas.raise(deltas)
	}
	if err == nil && deltas.many && q.bounded {
		b.tasks.start(func(ctx context.Context) { b.foldSome(ctx) }) // so that the next call adds up fewer deltas
	}
	if err == nil && q.layout <= knownLayout {
		q.policy, err = readPolicy(rules)
	}
	return q, err
}

// lookKeys adds the depths of the keys of a run's first jobs, with a step whose plan must use an
// index.
func (b *Broker) lookKeys(f *flush, q *queueRoom, byIndex func(step) error) error {
	q.keys = make(map[string]keyRoom)
	names := make([]string, 0, 8)
	for _, j := range f.jobs[:min(len(f.jobs), broker.MaxBatch)] {
		if j.Body.Key != "" {
			names = append(names, j.Body.Key)
		}
	}
	if len(names) == 0 {
		return nil
	}
	return byIndex(b.step("key_depth", each(func(r rows) error {
		var name string
		var k keyRoom
		err := r.Scan(&name, &k.limit, &k.used)
		q.keys[name] = k
		return err
	}), f.queue, distinct(names)))
}

// full returns why there is no room for a job, or nil.
func (q *queueRoom) full(j *broker.NewJob) error {
	if !j.TakesRoom() {
		return nil
	}
	if p := &q.policy; p.MaxDepth > 0 && q.used >= p.MaxDepth {
		return broker.QueueFull(q.used, p.MaxDepth)
	} else if p.MaxBytes > 0 && q.bytes >= p.MaxBytes {
		return broker.BytesFull(q.bytes, p.MaxBytes)
	}
	if k, ok := q.keys[j.Body.Key]; ok && k.used >= k.limit {
		return broker.KeyFull(j.Body.Key, k.used, k.limit)
	}
	return nil
}

// take counts a job that is stored.
func (q *queueRoom) take(j *broker.NewJob) {
	q.used++
	if q.policy.MaxBytes > 0 {
		q.bytes += int64(len(broker.AppendBody(nil, &j.Body)))
	}
	if k, ok := q.keys[j.Body.Key]; ok {
		k.used++
		q.keys[j.Body.Key] = k
	}
}

// bounded refuses those of rest's first jobs that the queue's policy does not admit. It returns
// how many of the others may be stored now, in order; after these there may be no room.
func (b *Broker) bounded(ctx context.Context, to port, rest *flush) (room int, err error) {
	q, err := b.room(ctx, to, rest.queue)
	if err != nil {
		return 0, err
	}
	if rest.pastLimit = q.bounded; !q.bounded {
		b.limited.Delete(rest.queue)
		return len(rest.jobs), nil
	}
	first := rest.jobs[0]
	var admitted []entry
	for _, j := range rest.jobs {
		if err := q.policy.Admit(j.NewJob); err != nil {
			j.fail(err)
		} else {
			admitted = append(admitted, j)
		}
	}
	rest.jobs = admitted
	if len(rest.jobs) == 0 || rest.jobs[0] != first && rest.jobs[0].Meets() {
		return 0, nil // the first job now may replace another one, which is decided first
	}
	if err := b.lookKeys(rest, &q, func(s step) error { return to.byIndex(ctx, s) }); err != nil {
		return 0, err
	}
	var out, left []entry
	var why []error
	now := q // the room before any of these jobs is stored
	now.keys = maps.Clone(q.keys)
	seen := make(map[string]bool)
	at := 0
	for ; at < len(rest.jobs); at++ {
		j := rest.jobs[at]
		if seen[j.ID] || !sameKind(rest.jobs[0], j) {
			break
		}
		seen[j.ID] = true
		if err := now.full(j.NewJob); err != nil {
			out = append(out, j)
			why = append(why, err)
			continue
		}
		if q.full(j.NewJob) != nil {
			break
		}
		q.take(j.NewJob)
		left = append(left, j)
	}
	room = len(left)
	if len(out) == 0 {
		return room, nil
	}
	rest.jobs = append(left, rest.jobs[at:]...)
	if err := rest.part(out).turnAway(ctx, to, why); err != nil {
		rest.again(out)
		return 0, err
	}
	return room, nil
}

// turnAway refuses jobs for which there is no room: as duplicates if their IDs exist, otherwise
// with the reasons in why.
func (f *flush) turnAway(ctx context.Context, to port, why []error) error {
	if err := to.run(ctx, f.lookKnown(nil)); err != nil {
		return err
	}
	for i, j := range f.jobs {
		if f.known[j.ID] {
			f.refuseKnown(j)
		} else {
			j.fail(why[i])
		}
	}
	return nil
}
