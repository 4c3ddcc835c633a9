package membroker

import (
	"context"
	"math"
	"time"

	"github.com/seed81422ce9/jobs/broker"
)

// lane is a key of a queue: its rules, and the state of its jobs (§33). The jobs without a
// key share one more lane, which has no limits.
type lane struct {
	name  string
	no    int64         // orders lanes in lists; 0 is the lane without a key
	own   broker.Policy // the key's own
	rules broker.Policy // the rules that apply: the key's own, or else the queue's

	counts counts                  // of its jobs
	spots  [broker.Priorities]spot // by priority
	head   *job                    // of an ordered queue: the other jobs of the key wait for this one (§36)
	starts broker.Bucket           // for its rate
	until  int64                   // when its rate allows the next start, or never; its position in queue.late
	lapse  int64                   // when the lane is dropped
}

// counts says how many jobs are in each state.
type counts [broker.StateWaiting + 1]int64

// spot is the turn of a lane for its pending jobs of one priority. The lane with the first turn starts
// the next job. With each job that a lane starts, its turn moves back by a stride. The turn of a lane
// that may start no job is at never, behind all others.
type spot struct {
	jobs int64
	turn turn // in queue.turns; zero without jobs
}

// stride is by how much a start moves the turn of a lane of weight 1 back; a lane of weight w
// moves by stride/w. It is large, so that the division loses little.
const stride = 1 << 20

// Values of lane.until, lane.lapse and turn.at that are not times.
const (
	atOnce = 1             // before any time: the next claim, or Prune, looks at the lane
	never  = math.MaxInt64 // no time ends the block
)

// named is an entry of queue.lanes.
type named struct {
	key  string
	lane *lane
}

// lane returns the lane of a key, or nil.
func (q *queue) lane(key string) *lane {
	if key == "" {
		return q.keyless
	}
	n, _ := q.lanes.Get(named{key: key})
	return n.lane
}

// laneOf returns the lane of a key, and makes it if there is none.
func (q *queue) laneOf(key string) *lane {
	l := q.lane(key)
	if l == nil {
		q.seq++
		l = &lane{name: key, no: q.seq, rules: q.policy.OfKey(broker.Policy{}), until: never}
		q.lanes.ReplaceOrInsert(named{key, l})
		q.noteLane(l)
	}
	return l
}

// judge returns why a lane may start nothing. If only its rate prevents a start, it also
// returns until when. In a step without a time, it leaves the rate to the next claim.
func (q *queue) judge(l *lane) (why broker.Block, until int64) {
	rules := &l.rules
	switch {
	case rules.Paused:
		return broker.BlockPaused, never
	case l.head != nil && l.head.State != broker.StatePending:
		return broker.BlockOrder, never
	case rules.MaxActive > 0 && l.counts[broker.StateActive] >= rules.MaxActive:
		return broker.BlockActive, never
	case rules.Rate.Jobs == 0:
		return broker.BlockNone, never
	case q.store.at.IsZero():
		return broker.BlockRate, atOnce
	}
	starts := l.starts
	if free, next := starts.Free(rules.Rate, q.store.at.UnixMicro()); free == 0 {
		return broker.BlockRate, next
	}
	return broker.BlockNone, never
}

// place gives a lane its turns after a change. A lane that may start jobs again has its first turn after
// at most one turn of each other lane (§34).
func (q *queue) place(l *lane) {
	block, until := q.judge(l)
	if l.counts[broker.StatePending] == 0 {
		until = never
	}
	if until != l.until {
		q.late.Delete(turn{at: l.until, seq: l.no})
		if l.until = until; until != never {
			q.late.ReplaceOrInsert(turn{at: until, seq: l.no, of: l})
		}
	}
	for i := range l.spots {
		s, turns := &l.spots[i], q.turns[i]
		may := block == broker.BlockNone && (l.head == nil || int(l.head.Priority) == i+1)
		if s.turn.of != nil && (s.jobs == 0 || may != (s.turn.at < never)) { // it loses this turn
			turns.Delete(s.turn)
			s.turn = turn{}
		}
		if s.turn.of != nil || s.jobs == 0 {
			continue
		}
		q.seq++
		s.turn = turn{at: never, seq: q.seq, of: l}
		if may {
			s.turn.at = 0
			if first, ok := turns.Min(); ok && first.at < never {
				s.turn.at = first.at + l.stride()
			}
		}
		turns.ReplaceOrInsert(s.turn)
	}
}

func (l *lane) stride() int64 { return stride / l.rules.Weight }

// rank returns what orders the pending jobs of a queue: by lane, then by priority.
func (l *lane) rank(p broker.Priority) int64 { return l.no*(broker.Priorities+1) + int64(p) }

// nextLane returns the lane that starts the next job of a priority, or nil if none may.
func (q *queue) nextLane(p broker.Priority) *lane {
	if first, ok := q.turns[p-1].Min(); ok && first.at < never {
		return first.of
	}
	return nil
}

// ready reports whether some lane may start a pending job.
func (q *queue) ready() bool {
	for p := range broker.Priority(broker.Priorities) {
		if q.nextLane(p+1) != nil {
			return true
		}
	}
	return false
}

// next returns the job to claim next, and moves the turn of its lane. Call it only if ready
// reports true.
func (q *queue) next() *job {
	p := q.policy.Turn(q.totals.Claimed)
	if p == 0 || q.nextLane(p) == nil {
		for p = 1; q.nextLane(p) == nil; p++ {
		}
	}
	l, turns := q.nextLane(p), q.turns[p-1]
	if s := &l.spots[p-1]; turns.Len() > 1 {
		turns.Delete(s.turn)
		if q.nextLane(p) != nil { // another lane waits for its turn
			q.seq++
			s.turn.at, s.turn.seq = s.turn.at+l.stride(), q.seq
		}
		turns.ReplaceOrInsert(s.turn)
	}
	return q.first(l, p)
}

// first returns the first pending job of a lane and a priority, or nil. That is the head, if it is pending.
func (q *queue) first(l *lane, p broker.Priority) *job {
	if h := l.head; h != nil && h.State == broker.StatePending && h.Priority == p {
		return h
	}
	at := l.rank(p)
	for e := range q.states[broker.StatePending].from(entry{at: at, seq: math.MinInt64}) {
		if e.at == at {
			return e.of
		}
		break
	}
	return nil
}

// oldest returns the next pending job of a priority or, if none may start, one that is kept
// back. It returns nil if there is neither.
func (q *queue) oldest(p broker.Priority) *job {
	if t, ok := q.turns[p-1].Min(); ok {
		return q.first(t.of, p)
	}
	return nil
}

// started counts a claimed job for the rate of its key. In an ordered queue, it makes the job
// the head of the key.
func (q *queue) started(j *job) {
	l := j.lane
	if q.policy.Ordered != broker.OrderNone && l != q.keyless {
		l.head = j
		q.noteLane(l)
	}
	if l.rules.Rate.Jobs > 0 {
		q.take(l.rules.Rate, &l.starts)
		q.noteLane(l)
	}
}

// count adds n to the counts of the queue and of the job's lane for the job's state.
func (q *queue) count(j *job, n int64) {
	l := j.lane
	l.counts[j.State] += n
	switch j.State {
	case broker.StateNone:
		l.counts[j.State] = 0 // a job in no state is not stored, so it is not counted
	case broker.StatePending:
		l.spots[j.Priority-1].jobs += n
	case broker.StateDead:
		if j.Suppressed {
			q.suppressed += n
		}
	}
	if weighs(j.State) {
		q.bytes += n * int64(j.size())
	}
}

// weighs reports whether a job in this state counts for the depth of its key and the
// bytes of its queue.
func weighs(s broker.State) bool {
	switch s {
	case broker.StatePending, broker.StateScheduled, broker.StateWaiting, broker.StateRetry:
		return true
	}
	return false
}

// depth returns how many jobs count for the depth limit of the key.
func (l *lane) depth() (n int64) {
	for s, count := range l.counts {
		if weighs(broker.State(s)) {
			n += count
		}
	}
	return n
}

// passes reports whether a head in this state no longer keeps back the other jobs of its key (§36).
func (q *queue) passes(head *job) bool {
	switch head.State {
	case broker.StateNone, broker.StateCompleted, broker.StateCancelled:
		return true
	case broker.StateDead:
		return q.policy.Ordered == broker.OrderSkip
	}
	return false
}

// rule updates the rules that apply to a lane.
func (q *queue) rule(l *lane) {
	now := q.policy.OfKey(l.own)
	freed := l.head != nil && (q.policy.Ordered == broker.OrderNone || q.passes(l.head))
	if now == l.rules && !freed {
		return
	}
	if l.rules = now; freed {
		l.head = nil
	}
	if now.Rate.Jobs == 0 {
		l.starts = broker.Bucket{}
	}
	q.noteLane(l)
	q.place(l)
}

// forget drops a lane without jobs and policy once its earlier starts no longer matter, that
// is, when its rate has saved up a full burst.
func (q *queue) forget(l *lane) {
	if l == q.keyless || l.counts != (counts{}) || l.own != (broker.Policy{}) {
		return
	}
	q.noteLane(l)
	rate, at := l.rules.Rate, q.store.at // without a time, the next Prune looks again
	matter := rate.Jobs > 0
	if matter && !at.IsZero() {
		free, _ := q.free(rate, l.starts)
		matter = free <= rate.Burst
		at = later(at, rate.Per/time.Duration(rate.Jobs)*time.Duration(rate.Burst+2))
	}
	before := l.lapse
	if l.lapse = max(broker.Micros(at), atOnce); !matter {
		l.lapse = 0
		q.lanes.Delete(named{key: l.name})
	}
	q.lapses.set(lapsedKey, l.name, before, l.lapse)
}

// Keys describes keys as of now. §33.
func (b *Broker) Keys(ctx context.Context, req broker.KeysRequest) (broker.KeysReply, error) {
	now, err := b.begin(ctx, "keys", req.Now, req.Check(b.Limits()))
	if err != nil {
		return broker.KeysReply{}, err
	}
	defer b.end()
	reply := broker.KeysReply{Now: now}
	q := b.store.queues[req.Queue]
	if q == nil {
		return reply, nil
	}
	for _, name := range req.Names {
		l := q.lane(name)
		if l == nil {
			l = &lane{name: name, rules: q.policy.OfKey(broker.Policy{})}
		}
		reply.Keys = append(reply.Keys, q.describeLane(l))
	}
	if len(req.Names) > 0 {
		return reply, nil
	}
	q.lanes.AscendGreaterOrEqual(named{key: req.Cursor}, func(n named) bool {
		switch l := n.lane; {
		case l.name == req.Cursor || l.depth()+l.counts[broker.StateActive] == 0 && l.own == broker.Policy{}:
		case len(reply.Keys) == req.Limit:
			reply.Cursor = reply.Keys[req.Limit-1].Key
			return false
		default:
			reply.Keys = append(reply.Keys, q.describeLane(l))
		}
		return true
	})
	return reply, nil
}

func (q *queue) describeLane(l *lane) broker.KeyInfo {
	info := broker.KeyInfo{Key: l.name, Pending: l.counts[broker.StatePending], Active: l.counts[broker.StateActive], Depth: l.depth(),
		Policy: l.own}
	var until int64
	if info.Block, until = q.judge(l); info.Block == broker.BlockRate {
		info.Until = broker.FromMicros(until)
	}
	if l.head != nil {
		info.Head = l.head.ID
	}
	if info.Pending == 0 {
		return info
	}
	next := l.head
	for p := broker.Priority(1); next == nil || next.State != broker.StatePending; p++ {
		next = q.first(l, p)
	}
	info.Oldest = next.CreatedAt
	return info
}
