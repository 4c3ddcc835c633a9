package shardbroker

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/seed81422ce9/jobs/broker"
)

// waitStep is how long a claim of fewer jobs, in all or of a queue, than there are shards waits in some shards before
// it waits in others. It is short, since a new job in another shard is found only then.
const waitStep = 200 * time.Millisecond

// wait sends one waiting claim to each shard, for a part of Max. So the claims never lease
// more than Max together, and no job has to be released. A claim of fewer jobs than there are
// shards waits in only Max shards at a time, in turn; likewise for a queue whose share is so small.
// The first claim that gives jobs, or ends early, ends the others.
func (b *Broker) wait(ctx context.Context, req broker.ClaimRequest) (got broker.Claimed, err error) {
	end := time.Now().Add(req.Wait)
	m := b.member(req.Worker)
	if leavesOut(&req, len(b.shards)) {
		if got, err = b.claim(ctx, req); err != nil || len(got.Jobs) > 0 {
			return got, err
		}
	}
	for {
		order, step := b.inTurn(m), time.Until(end)
		if len(order) == 0 {
			return b.claim(ctx, req)
		}
		if leavesOut(&req, len(order)) {
			order, step = order[:min(len(order), req.Max)], min(step, waitStep)
		}
		for _, s := range b.shards {
			if away, _ := s.away(); away > 0 {
				step = min(step, away) // then ask it again
			}
		}
		req.Wait = max(step, time.Millisecond)
		over, early := time.Now().Add(req.Wait), false
		if got, early, err = b.waitOnce(ctx, &req, order, over); early || err != nil || len(got.Jobs) > 0 || !time.Now().Before(end) {
			return got, err
		}
	}
}

// leavesOut reports whether a claim that is divided among so many shards waits for one of its queues in some of them only.
func leavesOut(req *broker.ClaimRequest, shards int) bool {
	largest := make(map[string]int, len(req.Queues))
	for _, s := range req.Queues {
		largest[s.Queue] = max(largest[s.Queue], s.Max)
	}
	for _, most := range largest {
		if most > 0 && most < shards {
			return true
		}
	}
	return req.Max < shards
}

// waitOnce waits in shards until one of them ends the wait, which it reports as early, or the
// time is over. While one shard waits, failures of the store in other shards do not end the wait.
func (b *Broker) waitOnce(ctx context.Context, req *broker.ClaimRequest, shards []*shard,
	over time.Time) (got broker.Claimed, early bool, err error) {
	requests := portions(req, shards)
	waiting, end := context.WithCancel(ctx)
	defer end()
	answers := make(chan answer[broker.Claimed], len(shards))
	for _, s := range shards {
		go func() {
			got, err := s.Broker.Claim(waiting, requests[s])
			if err == nil || waiting.Err() == nil || !time.Now().Before(over) { // else the caller, or another shard, ended it
				err = s.note(waiting, err)
			}
			answers <- answer[broker.Claimed]{s, got, err}
		}()
	}
	var errs []error
	failures := 0
	for range shards {
		a := <-answers
		b.noteStrays(req.Worker, a.of, a.got.Jobs)
		gather(&got, &a.got)
		a.of.claimed(a.err == nil && a.got.More)
		switch {
		case a.err != nil && early && ctx.Err() == nil && waiting.Err() != nil && len(a.got.Jobs) == 0: // ended by another
		case a.err != nil:
			failures++
			errs = append(errs, a.err)
			early = early || !broker.StoreFailed(a.err)
		case len(a.got.Jobs) > 0 || time.Now().Before(over):
			early = true
		}
		if early {
			end()
		}
	}
	if err = errors.Join(errs...); failures < len(shards) && len(got.Jobs) == 0 && broker.StoreFailed(err) && ctx.Err() == nil {
		err = nil // other shards waited; the next claim that asks the failed shards returns the error again
	}
	return got, early, err
}

// portions divides a request among shards.
func portions(req *broker.ClaimRequest, shards []*shard) map[*shard]broker.ClaimRequest {
	requests := make(map[*shard]broker.ClaimRequest, len(shards))
	for i, s := range shards {
		own := *req
		own.Max, own.Bytes, own.Queues = portion(req.Max, len(shards), i), max(1, req.ByteLimit()/len(shards)), slices.Clone(req.Queues)
		for n := range own.Queues {
			own.Queues[n].Max = portion(req.Queues[n].Max, len(shards), i)
		}
		requests[s] = own
	}
	return requests
}

// portion returns the i-th of n parts of a number.
func portion(sum, n, i int) int {
	if i < sum%n {
		return sum/n + 1
	}
	return sum / n
}
