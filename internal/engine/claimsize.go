package engine

import (
	"time"

	"github.com/seed81422ce9/jobs/broker"
)

// claimSize is how much a claim may ask for: what the connection can carry well within the
// timeout of a call, as earlier answers have shown. Guarded by Server.mu.
type claimSize struct {
	jobs  int
	bytes int
	mean  int // bytes of a job in the last answers
}

const (
	// firstClaimBytes takes a second over 10 Mbit/s, a fifth of a call's time.
	firstClaimBytes = 1 << 20
	leastClaimBytes = 16 << 10 // some jobs, also over a connection of 100 kbit/s
	mostClaimBytes  = broker.DefaultClaimBytes

	quickClaim = serverCallTimeout / 8 // after a quicker answer, ask for twice the bytes
	slowClaim  = serverCallTimeout / 2 // after a slower answer, ask for half the bytes
)

func (z *claimSize) init() { *z = claimSize{jobs: broker.MaxClaim, bytes: firstClaimBytes} }

// most returns how many jobs to ask for instead of want: at most twice as many as
// probably fit into the bytes, since a store may lock all jobs that it is asked for.
func (z *claimSize) most(want int) int {
	return min(want, z.jobs, max(1, 2*z.bytes/max(z.mean, 1)))
}

// lost halves the size after the answer to a claim of asked jobs was lost.
func (z *claimSize) lost(asked int) {
	z.jobs = max(1, min(z.jobs, asked)/2)
	z.bytes = max(leastClaimBytes, z.bytes/2)
}

// answered adapts the size to an answer: the bytes that were asked for, the jobs and
// bytes that came, and how long it took.
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

// answerSize returns the bytes of the payloads and headers in an answer.
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
