package shardbroker

import (
	"context"
	"slices"
	"time"

	"github.com/seed81422ce9/jobs/broker"
)

// lendRatePer bounds the Per of rates whose parts move. A part moves once in each Per, because a shard
// whose part grows may start what its burst allows at once. So a shard waits that long for its own.
const lendRatePer = time.Minute

// lentRate is a shard's part of a rate. Only Jobs moves: each shard keeps its part of Burst.
type lentRate struct {
	of      *shard
	rate    broker.Rate
	pending int64
}

// ratesOf returns the parts of a queue's rate, and whether they can be lent.
func ratesOf(queue string, answers []answer[broker.QueuesReply]) (parts []lentRate, ok bool) {
	for _, a := range answers {
		i := slices.IndexFunc(a.got.Queues, func(q broker.QueueInfo) bool { return q.Name == queue })
		if i < 0 {
			return nil, false
		}
		q := &a.got.Queues[i]
		if r := q.Policy.Rate; r.Jobs == 0 || r.Per > lendRatePer {
			return nil, false
		}
		parts = append(parts, lentRate{a.of, q.Policy.Rate, q.Counts[broker.StatePending]})
	}
	return parts, true
}

// balanceRate makes one step: it raises parts if the rate leaves something, or else lowers some.
func (l *lender) balanceRate(ctx context.Context, queue string) {
	total, fence, err := l.b.limit(ctx, rateMark, queue) // first, as in balance
	if err != nil {
		return
	}
	answers, err := l.b.askQueue(ctx, queue)
	if err != nil {
		return
	}
	parts, ok := ratesOf(queue, answers)
	if !ok {
		return
	}
	sum := int64(0)
	for i := range parts {
		sum += parts[i].rate.Jobs
	}
	if total == 0 { // it was set without a mark
		if total = sum; total > 0 {
			fence, err = l.b.noteLimit(ctx, rateMark, queue, total)
		}
		if err != nil {
			return
		}
	}
	if _, known := l.moved[queue]; !known { // another process may just have moved one
		l.moved[queue] = time.Now()
		return
	}
	wants, left := fairRates(total, parts), total-sum
	set := func(i int, jobs int64) {
		rate := parts[i].rate
		rate.Jobs = jobs
		l.moved[queue] = time.Now()
		l.set(ctx, rateMark, fence, parts[i].of, broker.PolicyRequest{Queue: queue, Rate: &rate})
	}
	settled := time.Since(l.moved[queue]) >= parts[0].rate.Per
	for i := range parts {
		switch more := min(left, wants[i]-parts[i].rate.Jobs); {
		case left > 0 && more > 0:
			left -= more
			set(i, parts[i].rate.Jobs+more)
		case left < 0 || sum == total && settled && waitsForMore(wants, parts):
			if wants[i] < parts[i].rate.Jobs {
				set(i, wants[i])
			}
		}
	}
}

// waitsForMore reports whether jobs wait in a shard that is to have more.
func waitsForMore(wants []int64, parts []lentRate) bool {
	for i := range parts {
		if parts[i].pending > 0 && wants[i] > parts[i].rate.Jobs {
			return true
		}
	}
	return false
}

// fairRates divides a rate evenly among the shards whose jobs wait. The others get one.
func fairRates(total int64, parts []lentRate) []int64 {
	idle := 0
	for i := range parts {
		if parts[i].pending == 0 {
			idle++
		}
	}
	hungry := len(parts) - idle
	wants, at := make([]int64, len(parts)), 0
	for i := range wants {
		switch {
		case hungry == 0:
			wants[i] = int64(portion(int(total), len(parts), i))
		case parts[i].pending == 0:
			wants[i] = 1
		default:
			wants[i] = int64(portion(int(total)-idle, hungry, at))
			at++
		}
	}
	return wants
}
