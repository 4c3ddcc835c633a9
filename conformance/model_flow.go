package conformance

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/seed81422ce9/jobs/broker"
)

// modelFlow is the model of a queue's keys and rates. Rates are only set and removed, and those of
// keys do not change after a sequence has begun: how much a new rate takes over from the old one
// depends on when a store last looked.
type modelFlow struct {
	own    map[string]broker.Policy
	most   map[string]int64 // the highest weight that each key ever had: its advantage lasts after a change
	heads  map[string]*modelJob
	starts broker.Bucket
	ofKey  map[string]*broker.Bucket
	passed map[turnOf]map[string]int64  // how many jobs of each other key were claimed while a key could start one
	fresh  bool                         // the policy changed, and every claim since then has said More
	missed [broker.Priorities + 1]int64 // how many jobs in a row were claimed while one of the priority could be
}

// turnOf is a key that may start a job of a priority.
type turnOf struct {
	priority broker.Priority
	key      string
}

func newModelFlow() modelFlow {
	return modelFlow{own: map[string]broker.Policy{}, heads: map[string]*modelJob{}, ofKey: map[string]*broker.Bucket{},
		passed: map[turnOf]map[string]int64{}}
}

// bucket returns the bucket of a key itself; free works on a copy.
func (f *modelFlow) bucket(key string) *broker.Bucket {
	if f.ofKey[key] == nil {
		f.ofKey[key] = new(broker.Bucket)
	}
	return f.ofKey[key]
}

func (m *model) free(rate broker.Rate, b broker.Bucket) (free bool, next time.Time) {
	if rate.Jobs == 0 {
		return true, next
	}
	n, at := b.Free(rate, m.now.UnixMicro())
	if n == 0 {
		next = broker.FromMicros(at)
	}
	return n > 0, next
}

// full reports whether a queue may start no job, and until when if only time ends that.
func (m *model) full(q *modelQueue) (full bool, until time.Time) {
	if most := q.policy.MaxActive; q.policy.Paused || most > 0 && int64(len(q.list(broker.StateActive))) >= most {
		return true, until
	}
	free, until := m.free(q.policy.Rate, q.flow.starts)
	return !free, until
}

// block returns why a key may start no job, and until when if only time ends that.
func (m *model) block(q *modelQueue, key string) (why broker.Block, until time.Time) {
	if key == "" {
		return broker.BlockNone, until
	}
	rules, active := q.policy.OfKey(q.flow.own[key]), int64(0)
	for _, j := range q.list(broker.StateActive) {
		if j.Key == key {
			active++
		}
	}
	free, until := m.free(rules.Rate, *q.flow.bucket(key))
	switch head := q.flow.heads[key]; {
	case rules.Paused:
		return broker.BlockPaused, time.Time{}
	case head != nil && !head.ready(m.now):
		return broker.BlockOrder, time.Time{}
	case rules.MaxActive > 0 && active >= rules.MaxActive:
		return broker.BlockActive, time.Time{}
	case !free:
		return broker.BlockRate, until
	}
	return broker.BlockNone, time.Time{}
}

// startable returns the ready jobs that the limits and the order of their keys allow.
func (m *model) startable(q *modelQueue) (jobs []*modelJob) {
	why := map[string]broker.Block{}
	for _, j := range q.jobs {
		if _, known := why[j.Key]; !known {
			why[j.Key], _ = m.block(q, j.Key)
		}
		if head := q.flow.heads[j.Key]; j.ready(m.now) && why[j.Key] == broker.BlockNone && (head == nil || head == j) {
			jobs = append(jobs, j)
		}
	}
	return jobs
}

// start counts a claimed job against the rates, and makes it its key's head.
func (m *model) start(q *modelQueue, j *modelJob) {
	j.loose = q.policy.Ordered != broker.OrderNone && j.Key != ""
	if j.loose {
		q.flow.heads[j.Key] = j
	}
	take := func(rate broker.Rate, b *broker.Bucket) {
		if rate.Jobs > 0 {
			b.Free(rate, m.now.UnixMicro())
			b.Take(1)
		}
	}
	if take(q.policy.Rate, &q.flow.starts); j.Key != "" {
		take(q.policy.OfKey(q.flow.own[j.Key]).Rate, q.flow.bucket(j.Key))
	}
}

// wait begins to count passes for the keys that can start a job now, and forgets
// the counts of those that cannot.
func (q *modelQueue) wait(startable []*modelJob) {
	can := map[turnOf]bool{}
	for _, j := range startable {
		t := turnOf{j.Priority, j.Key}
		if can[t] = true; q.flow.passed[t] == nil {
			q.flow.passed[t] = map[string]int64{}
		}
	}
	maps.DeleteFunc(q.flow.passed, func(t turnOf, _ map[string]int64) bool { return !can[t] })
}

// turn checks that a job may be claimed before those of other waiting keys, and counts it. Another key
// may pass a waiting key as often as the highest weight that it ever had, and twice more: once because
// keys need not be in step, and once for rounding.
func (q *modelQueue) turn(j *modelJob) error {
	for t, passed := range q.flow.passed {
		if t.priority != j.Priority || t.key == j.Key {
			continue
		}
		passed[j.Key]++
		if most := max(1, q.flow.most[j.Key]) + 2; passed[j.Key] > most {
			return fmt.Errorf("claim of %s, the %d-th job of the key %q since the key %q can start one, want at most %d", j.ID,
				passed[j.Key], j.Key, t.key, most)
		}
	}
	delete(q.flow.passed, turnOf{j.Priority, j.Key})
	return nil
}

// round checks that a claimed job leaves every priority with startable jobs its turn of a round (§16).
func (q *modelQueue) round(j *modelJob, startable []*modelJob) error {
	missed, round := &q.flow.missed, q.policy.PriorityRound
	var can [broker.Priorities + 1]bool
	for _, o := range startable {
		can[o.Priority] = true
	}
	for p := range missed {
		if missed[p]++; round == 0 || q.flow.fresh || !can[p] || int(j.Priority) == p {
			missed[p] = 0
		}
		if missed[p] > 0 && missed[p] >= round {
			return fmt.Errorf("claim of %s, the %d-th job in a row without one of the priority %d, want less than a round of %d", j.ID,
				missed[p], p, round)
		}
	}
	return nil
}

// let ends a job's time as the head of its key. In a queue with OrderStop, a dead job
// stays the head.
func (q *modelQueue) let(j *modelJob) {
	if q.flow.heads[j.Key] == j && (j.State != broker.StateDead || q.policy.Ordered != broker.OrderStop) {
		delete(q.flow.heads, j.Key)
	}
}

// reorder applies a change of a queue's order to the heads.
func (q *modelQueue) reorder() {
	for _, head := range q.flow.heads {
		if q.policy.Ordered == broker.OrderNone || head.State == broker.StateDead {
			q.let(head)
		}
	}
	if q.policy.Ordered == broker.OrderNone {
		clear(q.flow.heads)
	}
}

// keyDepth returns how many jobs count towards the depth of a key.
func (q *modelQueue) keyDepth(key string) (n int64) {
	for _, j := range q.jobs {
		if j.Key == key && key != "" && !j.State.Final() && j.State != broker.StateActive {
			n++
		}
	}
	return n
}

// opens returns when a queue that has just given nothing may give a job only because time has passed, or
// zero for never. A claim must report it as NextDue.
func (m *model) opens(q *modelQueue) (first time.Time) {
	full, at := m.full(q)
	if full && at.IsZero() {
		return first
	}
	for _, j := range q.jobs {
		why, until := m.block(q, j.Key)
		head := q.flow.heads[j.Key]
		switch {
		case head != nil && head != j:
			continue
		case j.waits() && !j.ready(m.now):
			if head == j && why == broker.BlockOrder { // it ends when the head is due
				why, until = broker.BlockNone, time.Time{}
			}
			if until.Before(j.RunAt) {
				until = j.RunAt
			}
		case !j.ready(m.now):
			continue
		}
		if why != broker.BlockNone && why != broker.BlockRate {
			continue
		}
		if until.Before(at) {
			until = at
		}
		if first.IsZero() || until.Before(first) {
			first = until
		}
	}
	return first
}

// compareKeys compares the answer of Keys with the model.
func (m *model) compareKeys(q *modelQueue, got []broker.KeyInfo) error {
	want := map[string]bool{}
	for key := range q.flow.own {
		want[key] = true
	}
	for _, j := range q.jobs {
		if j.Key != "" && !j.State.Final() {
			want[j.Key] = true
		}
	}
	var names []string
	for _, k := range got {
		names = append(names, k.Key)
	}
	if sorted := slices.Sorted(maps.Keys(want)); !slices.Equal(names, sorted) {
		return fmt.Errorf("the keys of %s are %q, want %q", q.name, names, sorted)
	}
	for _, k := range got {
		var active, surely, due int64
		for _, j := range q.jobs {
			switch {
			case j.Key != k.Key:
			case j.State == broker.StateActive:
				active++
			case j.State == broker.StatePending:
				surely++
			case j.ready(m.now):
				due++
			}
		}
		head, id := q.flow.heads[k.Key], ""
		if head != nil {
			id = head.ID
		}
		why, until := m.block(q, k.Key)
		if head != nil && head.waits() && head.ready(m.now) {
			why, until = k.Block, k.Until // some call may have seen that it is due
		}
		if k.Active != active || k.Depth != q.keyDepth(k.Key) || k.Pending < surely || k.Pending > surely+due || k.Policy != q.flow.own[k.Key] ||
			k.Head != id || k.Block != why || !k.Until.Equal(until) {
			return fmt.Errorf("key %q of %s: %+v, want %d active, depth %d, %d to %d pending, policy %+v, head %q, blocked %v until %v",
				k.Key, q.name, k,
				active, q.keyDepth(k.Key), surely, surely+due, q.flow.own[k.Key], id, why, until)
		}
	}
	return nil
}

// rates sets the rates and rounds with which a sequence's queues begin.
func (s *sequence) rates() {
	if s.limits.NoFlow {
		return
	}
	for _, name := range s.names {
		q, req := s.m.queue(name), broker.PolicyRequest{Queue: name}
		if s.chance(40) {
			req.Rate = s.rate()
		}
		if s.chance(50) {
			req.KeyRate = s.rate()
		}
		if s.chance(50) && !s.limits.NoPriority {
			req.PriorityRound = new(int64(4 + s.r.IntN(3)))
		}
		req.Apply(&q.policy)
		s.same("policy of "+name, s.policy(req), q.policy)
		if s.chance(50) {
			own := broker.Policy{Rate: *s.rate()}
			q.flow.own["tenant0"] = own
			s.same("policy of tenant0", s.policy(broker.PolicyRequest{Queue: name, Key: "tenant0", Rate: &own.Rate}), own)
		}
	}
}

func (s *sequence) rate() *broker.Rate {
	return &broker.Rate{Jobs: int64(1 + s.r.IntN(5)), Per: time.Duration(1+s.r.IntN(30)) * time.Second, Burst: int64(s.r.IntN(4))}
}

func (s *sequence) key() string { return fmt.Sprint("tenant", s.r.IntN(s.tenants)) }

// limit returns a limit of at most most, or sometimes none.
func (s *sequence) limit(most int) *int64 {
	if s.chance(40) {
		return new(int64(broker.NoLimit))
	}
	return new(int64(1 + s.r.IntN(most)))
}

// changeFlow changes limits, of a queue or of a key, or the order.
func (s *sequence) changeFlow() {
	if s.limits.NoFlow {
		return
	}
	q := s.m.queue(s.name())
	clear(q.flow.passed) // turns may start again (§34)
	q.flow.fresh = true
	req := broker.PolicyRequest{Queue: q.name}
	switch s.r.IntN(7) {
	case 0:
		req.MaxActive = s.limit(6)
	case 1:
		req.KeyMaxActive = s.limit(3)
	case 2:
		req.KeyMaxDepth = s.limit(6)
	case 3, 4:
		req.Ordered = new([]broker.Order{broker.OrderNone, broker.OrderNone, broker.OrderStop, broker.OrderSkip}[s.r.IntN(4)])
	case 5:
		if req.Rate = s.rate(); q.policy.Rate.Jobs > 0 {
			req.Rate = &broker.Rate{Jobs: broker.NoLimit}
		}
	default:
		req.Key = s.key()
		switch s.r.IntN(4) {
		case 0, 1:
			req.Paused = new(!q.flow.own[req.Key].Paused)
		case 2:
			req.MaxActive = s.limit(3)
		case 3:
			req.MaxDepth, req.Weight = s.limit(6), s.limit(5)
		}
	}
	if req.Key != "" {
		own := q.flow.own[req.Key]
		if req.Apply(&own); req.Weight != nil {
			if q.flow.most == nil {
				q.flow.most = map[string]int64{}
			}
			q.flow.most[req.Key] = max(q.flow.most[req.Key], own.Weight)
		}
		if q.flow.own[req.Key] = own; own == (broker.Policy{}) {
			delete(q.flow.own, req.Key)
		}
		s.same(fmt.Sprintf("policy of %s, key %s", q.name, req.Key), s.policy(req), own)
		return
	}
	if req.Apply(&q.policy); req.Ordered != nil {
		q.reorder()
	}
	if q.policy.Rate.Jobs == 0 {
		q.flow.starts = broker.Bucket{}
	}
	s.same("policy of "+q.name, s.policy(req), q.policy)
}

// lookAtKeys compares the keys of each queue with the model.
func (s *sequence) lookAtKeys() {
	s.tb.Helper()
	if s.limits.NoFlow {
		return
	}
	for _, name := range s.names {
		var keys []broker.KeyInfo
		req := broker.KeysRequest{Now: s.m.now, Queue: name, Limit: 1 + s.r.IntN(4)}
		for more := true; more; more = req.Cursor != "" {
			reply, err := s.b.Keys(s.ctx, req)
			s.ok("Keys", err)
			keys, req.Cursor = append(keys, reply.Keys...), reply.Cursor
		}
		s.agree(s.m.compareKeys(s.m.queue(name), keys))
	}
}
