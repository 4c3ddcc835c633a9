package shardbroker

import (
	"time"

	"github.com/seed81422ce9/jobs/broker"
)

// level is a limit of what a queue has at one time, such as active jobs. A shard that has
// more than its new part keeps what it has.
type level struct {
	rule
	field func(r *broker.PolicyRequest) **int64
	// use returns what a shard has, and what it would have if the limit did not keep jobs back.
	use   func(q *broker.QueueInfo) (used, needs int64)
	waits func(s *share, least int64) bool
}

func activeUse(q *broker.QueueInfo) (used, needs int64) {
	used = q.Counts[broker.StateActive]
	return used, used + q.Counts[broker.StatePending]
}

func depthUse(q *broker.QueueInfo) (used, needs int64) {
	used = q.Counts[broker.StatePending] + q.Counts[broker.StateScheduled] + q.Counts[broker.StateWaiting]
	return used, used // it is not known how many jobs were refused
}

func bytesUse(q *broker.QueueInfo) (used, needs int64) { return q.Bytes, q.Bytes }

// share is a shard's part of a level, and how the shard uses it.
type share struct {
	part, used, needs int64
	wants             int64 // its part if the whole limit were divided anew
	waits             bool  // it needs more than its part
}

// taken returns how much of the limit the shard has: it may use more than its part after that was lowered.
func (s *share) taken() int64 { return max(s.part, s.used) }

// blocked reports whether jobs of the shard wait because its part is used up.
func blocked(s *share, _ int64) bool { return s.needs > s.used && s.used >= s.part }

// nearFull reports whether the shard has less than half the room that it could have. It would soon refuse jobs
// while other shards have room. A gain of less than least is not worth two calls; without that minimum, full
// shards would move parts all the time.
func nearFull(s *share, least int64) bool {
	room, gain := s.part-s.used, s.wants-s.part
	return room < gain && gain >= least
}

func (v *level) lent(p *broker.Policy) bool { return v.Of(p) > 0 }

// shares returns how the shards use their parts, and what the limit leaves.
func (v *level) shares(total int64, infos []*broker.QueueInfo) (shares []share, left int64) {
	shares, left = make([]share, len(infos)), total
	needs, all := make([]int64, len(infos)), int64(0)
	for i, part := range v.parts(infos) {
		used, need := v.use(infos[i])
		shares[i], needs[i] = share{part: part, used: used, needs: need}, need
		left -= shares[i].taken()
		all += used
	}
	least := max(total/int64(16*len(infos)), 1)
	for i, wants := range fairParts(total, needs) {
		s := &shares[i]
		s.wants = max(min(wants, total-(all-s.used)), 1) // other shards may use more than their fair parts
		s.waits = v.waits(s, least)
	}
	return shares, left
}

func (v *level) next(total int64, infos []*broker.QueueInfo, since time.Duration) []int64 {
	shares, left := v.shares(total, infos)
	waiting := false
	for i := range shares {
		waiting = waiting || shares[i].waits
	}
	switch {
	case left > 0 && since >= lendOften/2: // jobs accepted during the last step are counted by now
		return raise(shares, left)
	case left < 0 || left == 0 && waiting:
		return lower(shares)
	}
	return v.parts(infos)
}

// raise gives the shards what is left of the limit.
func raise(shares []share, left int64) []int64 {
	parts := make([]int64, len(shares))
	for i := range shares {
		s := &shares[i]
		parts[i] = s.part
		if more := min(left, s.wants-s.taken()); more > 0 {
			left -= more
			parts[i] = s.taken() + more
		}
	}
	return parts
}

// lower takes from shards what they do not need, or have beyond their fair part.
func lower(shares []share) []int64 {
	parts := make([]int64, len(shares))
	for i := range shares {
		if parts[i] = shares[i].wants; shares[i].part > 0 { // with 0, the shard has no part yet
			parts[i] = min(shares[i].part, shares[i].wants)
		}
	}
	return parts
}

// fairParts divides a limit: each shard gets what it needs, but no shard that needs more gets
// less than another. What nobody needs is divided evenly. No part is less than one.
func fairParts(total int64, needs []int64) []int64 {
	n := int64(len(needs))
	wants, left := make([]int64, n), max(total-n, 0)
	for i := range wants {
		wants[i] = 1
	}
	for left > 0 {
		var hungry []int
		for i := range needs {
			if needs[i] > wants[i] {
				hungry = append(hungry, i)
			}
		}
		each := max(left/int64(max(len(hungry), 1)), 1)
		for _, i := range hungry {
			more := min(each, needs[i]-wants[i], left)
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
