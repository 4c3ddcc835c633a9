package engine

import (
	"time"

	"github.com/seed81422ce9/jobs/broker"
)

// claimSize is how much a claim asks for at most: what the way to the store has
// shown to carry well within the time of a call. Guarded by Server.mu.
type claimSize struct {
	jobs  int
	bytes int
	mean  int // bytes of a job in the last answers
}

const (
	// firstClaimBytes takes a second over 10 Mbit/s, a fifth of a call's time.
	firstClaimBytes = 1 << 20
	leastClaimBytes = 16 << 10
	mostClaimBytes  = broker.DefaultClaimBytes

	quickClaim = serverCallTimeout / 8 // twice the bytes would still come in time
	slowClaim  = serverCallTimeout / 2 // a little more would not
)

func (z *claimSize) init() { *z = claimSize{jobs: broker.MaxClaim, bytes: firstClaimBytes} }

// most is how many jobs to ask for instead of want. It is twice as many as
// probably have the bytes, since a store may have to lock all that it is asked for.
func (z *claimSize) most(want int) int {
	return min(want, z.jobs, max(1, 2*z.bytes/max(z.mean, 1)))
}

// lost takes note that the answer to a claim of so many jobs did not come.
func (z *claimSize) lost(asked int) {
	z.jobs = max(1, min(z.jobs, asked)/2)
	z.bytes = max(leastClaimBytes, z.bytes/2)
}

// answered takes in an answer of so many jobs with so many bytes in all, and how
// long it took.
func (z *claimSize) answered(asked, jobs, size int, took time.Duration) {
	z.jobs = min(2*z.jobs, broker.MaxClaim)
	if jobs == 0 {
		return
	}
	z.mean += (size/jobs - z.mean) / 2
	switch {
	case took > slowClaim:
		z.bytes = max(leastClaimBytes, z.bytes/2)
	case took < quickClaim && size >= asked:
		z.bytes = min(max(z.bytes, 2*asked), mostClaimBytes)
	}
}

// answerSize is about how many bytes of an answer are jobs.
func answerSize(jobs []broker.Job) int {
	size := 0
	for i := range jobs {
		size += len(jobs[i].Payload)
		for k, v := range jobs[i].Headers {
			size += len(k) + len(v)
		}
	}
	return size
}
