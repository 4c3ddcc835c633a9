package broker

import (
	"bytes"
	"cmp"
	"math"
	"time"
)

// Restored is the past of a job from another queue or store, or from an export. With it,
// Enqueue stores the job as it was there.
type Restored struct {
	State     State     // pending, scheduled, retry, dead, completed or cancelled
	CreatedAt time.Time // zero means now
	Head      Head      // it is stored with the next epoch
}

// Bounds of a Restored, which may come from a file.
const (
	MaxEpoch = 1 << 52 // of a restored head: every store counts exactly up to it
	MaxHead  = 4 << 20 // bytes of the stored form of a restored head
)

// Copy returns what to enqueue for a copy of j with its past: in another store as it is,
// in another queue after setting Queue. A held job is copied in the state that it had
// before. Enqueue refuses the copy of an active job.
func (j *Job) Copy() NewJob {
	state := j.State
	if state == StateWaiting {
		state = j.HeldFrom
	}
	return NewJob{Queue: j.Queue, ID: j.ID, Body: j.Body, RunAt: j.RunAt,
		Restore: &Restored{State: state, CreatedAt: j.CreatedAt, Head: j.Head}}
}

// Copyable returns nil if a copy of j is complete. Otherwise it returns ErrMalformed or
// ErrNewerForm: this program cannot read all of j.
func (j *Job) Copyable() error {
	if j.Broken == nil && j.Newer() {
		return ErrNewerForm
	}
	return j.Broken
}

// Same reports whether two bodies are of one job, which may have been copied and edited:
// their payloads, GivenID and DueAfter may differ. With a unique key, all that a replacing
// job brings (§39) may differ.
func (b *Body) Same(other *Body) bool {
	x, y := *b, *other
	x.Payload, y.Payload = nil, nil
	if b.Unique.Key != "" {
		x.CopyContent(&Body{})
		y.CopyContent(&Body{})
	}
	x.GivenID, y.GivenID, x.DueAfter, y.DueAfter = false, false, 0, 0
	return bytes.Equal(AppendBody(nil, &x), AppendBody(nil, &y))
}

// NewHead returns the head with which a restored job begins: with the next epoch, and
// without what does not belong to its state. A job that ended at an unknown time gets
// now as its end.
func (r *Restored) NewHead(now time.Time) Head {
	h := r.Head
	h.Epoch++
	if !r.State.Final() {
		h.FinishedAt = time.Time{}
	} else if h.FinishedAt.IsZero() {
		h.FinishedAt = now
	}
	if r.State != StateDead {
		h.Reason, h.Suppressed = ReasonNone, false
	}
	if r.State != StateCompleted {
		h.Result = nil
	} else {
		h.Kept = h.Kept.done()
	}
	return h
}

// TakesKey reports whether accepting j takes its unique key. A restored job takes it if
// its past says that it held it.
func (j *NewJob) TakesKey() bool {
	r := j.Restore
	return j.Body.Unique.Key != "" &&
		(r == nil || !r.State.Final() && (j.Body.Unique.Mode != UniqueUntilStarted || r.Head.Deliveries == 0))
}

// TakesRoom reports whether Policy.MaxDepth can refuse j.
func (j *NewJob) TakesRoom() bool {
	return j.Restore == nil || j.Restore.State == StatePending || j.Restore.State == StateScheduled
}

func (j *NewJob) checkRestore() error {
	r := j.Restore
	h := &r.Head
	switch {
	case !Legal(StateNone, OnRestore, r.State):
		return Invalid("restored state", "is %v; restore a pending, scheduled, retry, dead, completed or cancelled job", r.State)
	case r.State.Final() && (j.Delay > 0 || !j.RunAt.IsZero()):
		return Invalid("run at", "is set although the job is %v; leave it out", r.State)
	case h.Epoch < 0 || h.Epoch > MaxEpoch:
		return Invalid("restored epoch", "is %d; use 0 to %d", h.Epoch, int64(MaxEpoch))
	case len(h.Result) > MaxResult:
		return tooLarge("result", len(h.Result), MaxResult, "store it elsewhere")
	}
	counts := []int{h.Deliveries, h.Failures, h.Crashes, h.Snoozes, h.Errors.Dropped}
	for _, p := range h.PutOffs {
		counts = append(counts, p.Times, p.Charged)
	}
	for _, n := range counts {
		if n < 0 || n > math.MaxInt32 {
			return Invalid("restored counts", "has %d; use 0 to %d", n, math.MaxInt32)
		}
	}
	if size := len(AppendTail(nil, h)); size > MaxHead {
		return tooLarge("restored head", size, MaxHead, "drop its oldest errors")
	}
	return cmp.Or(h.Kept.Check(), CheckTime("created at", r.CreatedAt), CheckTime("finished at", h.FinishedAt))
}
