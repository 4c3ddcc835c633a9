package engine

import (
	"cmp"
	"math"
	"slices"

	"github.com/seed81422ce9/jobs/broker"
)

// mix divides claims among queues. With weights it is stride scheduling: each
// job that a queue gave moves its pass by 1/weight, and the queue with the
// lowest pass is next, so that shares hold over any number of claims, single
// slots included. What counts is what came, not what was asked for.
type mix struct {
	names   []string // highest weight first
	weights []float64
	strict  bool
	pass    []float64

	planned []int // of the plan being made
	next    []float64
	order   []int
}

func newMix(names []string, weights map[string]int, strict bool) *mix {
	m := &mix{names: names, strict: strict, weights: make([]float64, len(names)), pass: make([]float64, len(names)),
		planned: make([]int, len(names)), next: make([]float64, len(names)), order: make([]int, len(names))}
	for i, name := range names {
		m.weights[i] = float64(weights[name])
	}
	return m
}

// plan appends to dst the shares of a claim of want jobs, at most room[i] of
// each queue. After the first shares, those by weight, stand the same queues
// again for what empty ones leave: no claim needs a second round trip.
func (m *mix) plan(dst []broker.Share, want int, room []int) (shares []broker.Share, first int) {
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
	for range want {
		best := -1
		for i := range m.names {
			if m.planned[i] < room[i] && (best < 0 || m.next[i] < m.next[best]) {
				best = i
			}
		}
		if best < 0 {
			break
		}
		m.planned[best]++
		m.next[best] += 1 / m.weights[best]
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

// served accounts for the jobs that a claim by a plan gave, by queue; full
// says that it gave all it was asked for. A queue that had less than its first
// share starts level with the others when it has jobs again: it cannot save up
// turns.
func (m *mix) served(shares []broker.Share, first int, got []int, full bool) {
	if m.strict || len(m.names) == 1 {
		return
	}
	if !full {
		return // nobody went without
	}
	level, lowest := math.Inf(1), math.Inf(1)
	for i, name := range m.names {
		m.pass[i] += float64(got[i]) / m.weights[i]
		if at := indexShare(shares, name); at >= first || at >= 0 && got[i] >= shares[at].Max {
			level = min(level, m.pass[i])
		}
	}
	for i, name := range m.names {
		if at := indexShare(shares[:first], name); at >= 0 && got[i] < shares[at].Max && !math.IsInf(level, 1) {
			m.pass[i] = max(m.pass[i], level)
		}
		lowest = min(lowest, m.pass[i])
	}
	for i := range m.pass { // keep the numbers small
		m.pass[i] -= lowest
	}
}

// indexShare is where a queue stands first, or -1.
func indexShare(shares []broker.Share, name string) int {
	return slices.IndexFunc(shares, func(s broker.Share) bool { return s.Queue == name })
}
