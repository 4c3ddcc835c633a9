package engine

import (
	"cmp"
	"math"
	"slices"
	"time"

	"github.com/seed81422ce9/jobs/broker"
)

// mix divides claims among queues. With weights it is stride scheduling: each
// job that a queue gave moves its pass by 1/weight, and the queue with the
// lowest pass is next, so that shares hold over any number of claims, even of
// one job each. The jobs that came count, not those that were asked for.
type mix struct {
	names   []string // highest weight first
	index   map[string]int
	weights []float64
	strict  bool
	pass    []float64
	empty   []bool // queues that gave fewer jobs than they were last asked for

	planned []int  // by queue: jobs in the first shares of the current plan
	left    []int  // by queue, while an answer is counted
	lacked  []bool // queues that the current answer shows empty
	next    []float64
	order   []int
	heap    queueHeap
}

func newMix(names []string, weights map[string]int, strict bool) *mix {
	m := &mix{names: names, index: make(map[string]int, len(names)), strict: strict, weights: make([]float64, len(names)),
		pass: make([]float64, len(names)), empty: make([]bool, len(names)), planned: make([]int, len(names)),
		left: make([]int, len(names)), lacked: make([]bool, len(names)), next: make([]float64, len(names)), order: make([]int, len(names))}
	for i, name := range names {
		m.index[name] = i
		m.weights[i] = float64(weights[name])
	}
	return m
}

// plan appends to dst the shares of a claim of want jobs, at most room[i] of
// each queue. The first shares are by weight, in steps of so many jobs. After them, the
// same queues come again, for the jobs that empty queues leave: no claim needs a second
// round trip.
func (m *mix) plan(dst []broker.Share, want int, room []int, step int) (shares []broker.Share, first int) {
	if m.strict || len(m.names) == 1 {
		for i, name := range m.names {
			if n := min(want, room[i]); n > 0 {
				dst = append(dst, broker.Share{Queue: name, Max: n})
			}
		}
		return dst, len(dst)
	}
	copy(m.next, m.pass)
	clear(m.planned)
	m.heap.fill(m.next, room)
	for left := want; left > 0 && len(m.heap.queues) > 0; {
		best := m.heap.queues[0]
		n := min(step, left, room[best]-m.planned[best])
		left -= n
		m.planned[best] += n
		m.next[best] += float64(n) / m.weights[best]
		m.heap.again(m.next, m.planned[best] < room[best])
	}
	for _, i := range m.by(m.pass) {
		if m.planned[i] > 0 {
			dst = append(dst, broker.Share{Queue: m.names[i], Max: m.planned[i]})
		}
	}
	first = len(dst)
	for _, i := range m.by(m.next) {
		if n := min(want, room[i]) - m.planned[i]; n > 0 {
			dst = append(dst, broker.Share{Queue: m.names[i], Max: n})
		}
	}
	return dst, first
}

// by orders the queues by a pass, lowest first.
func (m *mix) by(pass []float64) []int {
	for i := range m.order {
		m.order[i] = i
	}
	slices.SortStableFunc(m.order, func(a, b int) int { return cmp.Compare(pass[a], pass[b]) })
	return m.order
}

// served counts the jobs that a planned claim gave, by queue. full says that the
// claim gave all that it was asked for. A queue that had fewer jobs than it was asked
// for gets no advantage from that when it has jobs again.
func (m *mix) served(shares []broker.Share, got []int, full bool) {
	if m.strict || len(m.names) == 1 {
		return
	}
	m.note(shares, got, full)
	if !full {
		return // no queue lost a share to another one
	}
	level, lowest := math.Inf(1), math.Inf(1)
	for i, n := range got {
		m.pass[i] += float64(n) / m.weights[i]
		if !m.empty[i] {
			level = min(level, m.pass[i])
		}
	}
	for i := range m.pass {
		if m.lacked[i] && !math.IsInf(level, 1) {
			m.pass[i] = max(m.pass[i], level)
		}
		lowest = min(lowest, m.pass[i])
	}
	for i := range m.pass { // keep the numbers small
		m.pass[i] -= lowest
	}
}

// note learns from an answer which queues are empty. A full answer says nothing about
// the last share that gave jobs, nor about those after it.
func (m *mix) note(shares []broker.Share, got []int, full bool) {
	copy(m.left, got)
	clear(m.lacked)
	more := 0
	for _, n := range got {
		more += n
	}
	for _, share := range shares {
		if full && more == 0 {
			return
		}
		i := m.index[share.Queue]
		given := min(share.Max, m.left[i])
		m.left[i] -= given
		more -= given
		m.lacked[i] = given < share.Max && (!full || more > 0)
		m.empty[i] = m.lacked[i]
	}
}

// queueHeap is a heap of the queues that have room, lowest pass first, so that each job
// of a plan costs the logarithm of their number.
type queueHeap struct{ queues []int }

func (l *queueHeap) fill(pass []float64, room []int) {
	l.queues = l.queues[:0]
	for i, n := range room {
		if n > 0 {
			l.queues = append(l.queues, i)
		}
	}
	for at := len(l.queues)/2 - 1; at >= 0; at-- {
		l.sink(pass, at)
	}
}

// again puts the first queue where its new pass belongs, or takes it out when it
// has no more room.
func (l *queueHeap) again(pass []float64, room bool) {
	if !room {
		last := len(l.queues) - 1
		l.queues[0], l.queues = l.queues[last], l.queues[:last]
	}
	l.sink(pass, 0)
}

func (l *queueHeap) sink(pass []float64, at int) {
	before := func(a, b int) bool { return pass[a] < pass[b] || pass[a] == pass[b] && a < b }
	for {
		child := 2*at + 1
		if child >= len(l.queues) {
			return
		}
		if child+1 < len(l.queues) && before(l.queues[child+1], l.queues[child]) {
			child++
		}
		if !before(l.queues[child], l.queues[at]) {
			return
		}
		l.queues[at], l.queues[child] = l.queues[child], l.queues[at]
		at = child
	}
}

// steps lets a busy server of many queues claim in steps, since a store may look at each queue that
// a claim names. While answers are full, claims name only queues that may have jobs, and now and
// then all. Guarded by Server.mu.
type steps struct {
	mix  *mix
	full bool          // the last claim gave all that it asked for
	at   time.Time     // of the last claim that named all queues
	took time.Duration // how long it took
}

const (
	// manyQueues is for how many queues steps are worth it. A store looks at fewer in about a
	// millisecond.
	manyQueues = 64

	// stepJobs is how many jobs quick handlers get from a queue at a time. The store's work for the
	// queue is then small beside that for its jobs.
	stepJobs = 8

	// stepsApart is how many times its own duration passes between claims that name all queues. So
	// these take about a tenth of the time.
	stepsApart = 10
)

// busy reports whether the next claim is one of many in a row. With strict priorities each claim
// names all queues.
func (p *steps) busy() bool { return p.full && len(p.mix.names) > manyQueues && !p.mix.strict }

// narrow takes the room of queues that seem empty, if the next claim need not name them. It reports
// whether it did.
func (p *steps) narrow(room []int, now time.Time) bool {
	if !p.busy() || now.Sub(p.at) >= stepsApart*p.took {
		return false
	}
	others := false
	for i, n := range room {
		others = others || n > 0 && !p.mix.empty[i]
	}
	for i := range room {
		if others && p.mix.empty[i] {
			room[i] = 0
		}
	}
	return others
}

// jobs returns how many jobs to take from a queue before the next queue has its turn.
func (p *steps) jobs(quick bool) int {
	if p.busy() && quick {
		return stepJobs
	}
	return 1
}

// answered notes an answer. A claim that waited says nothing about how long it takes to name all.
func (p *steps) answered(call *claimCall, sent time.Time, took time.Duration, full bool) {
	p.full = full
	if !call.narrow && call.req.Wait == 0 {
		p.at, p.took = sent, took
	}
}
