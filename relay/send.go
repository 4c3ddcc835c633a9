package relay

import (
	"errors"
	"fmt"
	"time"

	"github.com/seed81422ce9/jobs"
	"github.com/seed81422ce9/jobs/broker"
	"github.com/seed81422ce9/jobs/inspect"
	"github.com/seed81422ce9/jobs/internal/coding"
	"github.com/seed81422ce9/jobs/internal/putoff"
	"github.com/seed81422ce9/jobs/internal/sleep"
)

// Bounds of one call to the target; a single job may exceed callBytes. Stores apply
// a call of this size in one atomic step. They split a larger call, and then a later
// part can succeed after an earlier one failed.
const (
	callJobs  = 500
	callBytes = 2 << 20
)

// send sends the batch to the target, in order. It moves decided jobs to done. Jobs
// that must be sent again stay in the batch, and the error says why. It stops after
// the first call that leaves jobs.
func (t *term) send() error {
	rest := t.batch
	t.batch = nil
	for len(rest) > 0 {
		n, size := 0, 0
		for n < min(len(rest), callJobs) && (n == 0 || size < callBytes) {
			size += sizeOf(rest[n].job)
			n++
		}
		kept, err := t.offer(rest[:n])
		t.tellRefused()
		if rest = rest[n:]; len(kept) > 0 {
			t.batch = append(kept, rest...)
			return err
		}
	}
	return nil
}

func sizeOf(j *broker.Job) int {
	size := len(j.Payload)
	for name, value := range j.Headers {
		size += len(name) + len(value)
	}
	return size
}

// offer makes one call to the target and decides each job. It returns the jobs to
// send again, and why.
func (t *term) offer(items []item) (kept []item, why error) {
	req := broker.EnqueueRequest{Jobs: make([]broker.NewJob, 0, len(items))}
	sent := make([]item, 0, len(items))
	var again []item // jobs that may have been sent before
	for _, it := range items {
		_, cancelled := t.cancels.Load(it.job.ID)
		err := it.job.Copyable()
		switch {
		case cancelled && it.fresh:
			t.decide(it.job, broker.Cancel(broker.Failure{}))
		case errors.Is(err, broker.ErrNewerForm): // leave it to a relay of a newer version
			f := t.failure(it.job, RefusedUnreadable, err)
			f.Class = jobs.ClassUnreadable
			t.decide(it.job, putoff.Recorded(it.job, broker.ReasonUndecodable.String(), sleep.Jitter(newerPause, 0.5), f))
		case err != nil:
			t.refuse(it.job, broker.ReasonUndecodable, RefusedUnreadable, err)
		case t.ownBlob(it.job) && it.fresh:
			t.refuse(it.job, broker.ReasonSkipRetry, RefusedClaimCheck, errBlob)
		case t.ownBlob(it.job): // a relay with other settings may have sent it
			again = append(again, it)
		default:
			n := broker.NewJob{Queue: t.cfg.ToQueue, ID: it.job.ID, Body: it.job.Body}
			n.Body.GivenID = true // so that the target remembers the ID when the job has left
			n.Body.DueAfter = 0   // at the target it waits from now on
			req.Jobs, sent = append(req.Jobs, n), append(sent, it)
		}
	}
	if len(sent) == 0 {
		return t.compare(again)
	}
	receipts, err := call(t.alive, t.cfg.To.Enqueue, req)
	if err != nil {
		for i := range sent {
			sent[i].fresh = sent[i].fresh && !broker.MayHaveApplied(err)
		}
		return append(sent, again...), err
	}
	for i, r := range receipts {
		it := sent[i]
		switch {
		case r.Err == nil:
			t.decide(it.job, broker.Complete(nil))
		case errors.Is(r.Err, broker.ErrDuplicate) && r.Holder == it.job.ID && !it.fresh:
			again = append(again, it)
		case errors.Is(r.Err, broker.ErrDuplicate) && r.Holder == it.job.ID:
			t.refuse(it.job, broker.ReasonSkipRetry, RefusedID, r.Err)
		case errors.Is(r.Err, broker.ErrDuplicate):
			t.refuse(it.job, broker.ReasonSkipRetry, RefusedKey, r.Err)
		case errors.Is(r.Err, broker.ErrTooLarge) || errors.Is(r.Err, broker.ErrInvalid) || errors.Is(r.Err, broker.ErrUnsupported):
			t.refuse(it.job, broker.ReasonSkipRetry, RefusedInvalid, r.Err)
		default: // the store is unavailable, the queue is full, or the layout is newer
			it.fresh = it.fresh && !broker.MayHaveApplied(r.Err)
			kept, why = append(kept, it), r.Err
		}
	}
	if unknown, err := t.compare(again); err != nil {
		return append(kept, unknown...), err
	}
	return kept, why
}

// ownBlob reports whether the payload of a job is a blob that the target's workers may not have.
func (t *term) ownBlob(j *broker.Job) bool { return !t.cfg.SharedBlobs && coding.Claimed(j.Headers) }

// compare decides jobs that may have been sent before. They were relayed, unless the
// target has a record that differs, or the relay's own job. A missing record means that the job there was
// completed or deleted, since the target knows the ID. But nobody asked it for the ID of a
// job whose blob is not shared. It returns the jobs that it could not decide.
func (t *term) compare(sent []item) (unknown []item, err error) {
	if len(sent) == 0 {
		return nil, nil
	}
	q := broker.Query{Queue: t.cfg.ToQueue, NoPayload: true, Suppressed: true, Limit: callJobs}
	for i := range sent {
		q.IDs = append(q.IDs, sent[i].job.ID)
	}
	there := make(map[string]*broker.Job)
	for first := true; first || q.Cursor != ""; first = false {
		page, err := call(t.alive, t.cfg.To.Find, q)
		if err != nil {
			return sent, err
		}
		for i := range page.Jobs {
			there[page.Jobs[i].ID] = &page.Jobs[i]
		}
		q.Cursor = page.Cursor
	}
	for i := range sent {
		ours := sent[i].job
		switch theirs := there[ours.ID]; {
		case theirs != nil && (!ours.Body.Same(&theirs.Body) || theirs.Worker == t.worker): // the target includes the source
			t.refuse(ours, broker.ReasonSkipRetry, RefusedID, broker.Duplicate(ours.ID, ours.ID))
		case theirs == nil && t.ownBlob(ours):
			t.refuse(ours, broker.ReasonSkipRetry, RefusedClaimCheck, errBlob)
		default:
			t.decide(ours, broker.Complete(nil))
		}
	}
	return nil, nil
}

// errBlob refuses a job whose blob CollectBlobs could delete before the job runs.
var errBlob = &broker.Error{Err: inspect.ErrClaimCheck, Hint: "if the target's workers read these blobs, and CollectBlobs gets both " +
	"stores, set relay.Config.SharedBlobs (jobsctl relay --shared-blobs) and redrive the job"}

// newerPause is how long the relay snoozes a job that only a newer program can read.
const newerPause = time.Minute

// refusedPrefix begins the codes of refusals: see Refusal.
const refusedPrefix = "relay_"

// decide adds the outcome with which the job's lease is to end.
func (t *term) decide(j *broker.Job, o broker.Outcome) {
	t.done = append(t.done, broker.Settlement{Job: j, Outcome: o})
}

// refuse makes the job dead at the source.
func (t *term) refuse(j *broker.Job, reason broker.DeadReason, why Refusal, err error) {
	if t.refused++; t.refused == 1 {
		t.refusal = []any{"queue", j.Queue, "id", j.ID, "code", string(why), "error", err}
	}
	t.decide(j, broker.Die(reason, t.failure(j, why, err)))
}

// tellRefused logs the refusals of one call.
func (t *term) tellRefused() {
	if t.refused > 0 {
		t.cfg.Logger.Warn("jobs: the target of the relay refused jobs, which are now dead; this is the first",
			append(t.refusal, "jobs", t.refused)...)
		t.refused = 0
	}
}

func (t *term) failure(j *broker.Job, why Refusal, err error) broker.Failure {
	return broker.Failure{At: time.Now().Add(t.offset), Attempt: j.Failures, Worker: t.worker,
		Code: string(why), Class: jobs.ClassPermanent,
		Message: fmt.Sprintf("the target %q of the relay: %v", t.cfg.ToQueue, err)}
}
