package inspect

import (
	"fmt"

	"github.com/seed81422ce9/jobs/broker"
	"github.com/seed81422ce9/jobs/internal/coding"
)

// ErrClaimCheck means that the payload of a job is a blob of payload.ClaimCheck, which
// payload.CollectBlobs would delete although the copy of the job needs it. It is a kind
// of ErrWrongState.
var ErrClaimCheck = fmt.Errorf("%w: its payload is in a blob store", broker.ErrWrongState)

// claimed returns ErrClaimCheck, with what to do, for a job whose payload is a blob.
func claimed(job *broker.Job, remedy string) error {
	if !coding.Claimed(job.Headers) {
		return nil
	}
	return &broker.Error{Err: ErrClaimCheck, Hint: remedy}
}

// withBlobs refuses the jobs whose blobs the destination may lack, or CollectBlobs may
// delete, and returns the others.
func (m *mover) withBlobs(chosen []*broker.Job, report *Report) []*broker.Job {
	if m.blobs {
		return chosen
	}
	const remedy = "if the other store's workers read these blobs, and CollectBlobs gets both stores, " +
		"set Destination.SharedBlobs (jobsctl move --shared-blobs)"
	rest := chosen[:0]
	for _, job := range chosen {
		if err := claimed(job, remedy); err != nil {
			report.refuse(Refusal{Queue: job.Queue, ID: job.ID, Err: err})
			continue
		}
		rest = append(rest, job)
	}
	return rest
}
