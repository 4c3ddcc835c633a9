package shardbroker

import (
	"time"

	"github.com/seed81422ce9/jobs/broker"
)

// lendRatePer bounds the Per of rates whose parts move. A part moves once in each Per, because a shard
// whose part grows may start what its burst allows at once. So a shard waits that long for its own.
const lendRatePer = time.Minute

// rate is a rate of a queue. Only Jobs moves: each shard keeps its part of Burst.
type rate struct {
	rule
	per   func(p *broker.Policy) time.Duration
	waits func(q *broker.QueueInfo) bool // whether the rate may keep jobs back
}

func startsWait(q *broker.QueueInfo) bool { return q.Counts[broker.StatePending] > 0 }

// retriesWait reports whether retries are due: those that may become pending do so in a moment.
func retriesWait(q *broker.QueueInfo) bool {
	return q.Counts[broker.StateRetry] > 0 && !q.Oldest[broker.StateRetry].After(q.AsOf)
}

func (r *rate) lent(p *broker.Policy) bool { return r.Of(p) > 0 && r.per(p) <= lendRatePer }

func (r *rate) next(total int64, infos []*broker.QueueInfo, since time.Duration) []int64 {
	parts, waits := r.parts(infos), make([]bool, len(infos))
	for i, q := range infos {
		waits[i] = r.waits(q)
	}
	wants, left, short := fairRates(total, waits), total, false
	for i := range parts {
		left -= parts[i]
		short = short || waits[i] && wants[i] > parts[i]
	}
	switch {
	case left > 0 && since >= lendOften/2:
		for i := range parts {
			more := max(min(left, wants[i]-parts[i]), 0)
			left -= more
			parts[i] += more
		}
	case left < 0 || left == 0 && short && since >= r.per(&infos[0].Policy):
		for i := range parts {
			parts[i] = min(parts[i], wants[i])
		}
	}
	return parts
}

// fairRates divides a rate evenly among the shards whose jobs wait. The others get one. No part is less than one.
func fairRates(total int64, waits []bool) []int64 {
	hungry, total := 0, max(total, int64(len(waits)))
	for _, w := range waits {
		if w {
			hungry++
		}
	}
	n := len(waits)
	wants, at := make([]int64, n), 0
	for i := range wants {
		switch {
		case hungry == 0:
			wants[i] = int64(portion(int(total), n, i))
		case !waits[i]:
			wants[i] = 1
		default:
			wants[i] = int64(portion(int(total)-(n-hungry), hungry, at))
			at++
		}
	}
	return wants
}
