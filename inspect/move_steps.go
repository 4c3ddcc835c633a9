package inspect

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/seed81422ce9/jobs/broker"
)

// errSource says that a job is not moved: the destination is shards, one of them is the source, and the job belongs there.
var errSource = broker.Invalid("destination",
	"is several shards, and the job is in one of them already; to move it away, name only the others")

// isSource reports whether a job that was found at the destination is the source's own job, and no copy of it: a copy
// begins with another epoch, and no move holds it.
func isSource(there, source *broker.Job) bool {
	return there != nil && there.State == source.State && there.Holder == source.Holder && there.Epoch == source.Epoch &&
		there.FinishedAt.Equal(source.FinishedAt)
}

// errRemembered says that the destination remembers the ID because another job had it.
var errRemembered = fmt.Errorf("%w: another job with this ID was at the destination, which remembers it", broker.ErrDuplicate)

// holdAndMove moves jobs that a worker could claim: it holds a page of them, moves
// these, and continues with the next page.
func (s Selection) holdAndMove(ctx context.Context, m *mover, report Report) (Report, error) {
	s.query.NoPayload = true
	d := decision{op: broker.Operation{Kind: broker.OpHold, Holder: m.holder}}
	err := s.inSteps(ctx, movePage, &d, &report, func(_ *Page, chosen []*broker.Job) error {
		// This is before the hold: what an earlier move held may be at the destination already.
		if chosen = m.withBlobs(chosen, &report); len(chosen) == 0 {
			return nil
		}
		hold := d.op
		hold.Refs = refsOf(chosen)
		return m.holdAndMove(ctx, hold, &report)
	})
	return report, err
}

// holdAndMove does one step, completely even if ctx ends: an interrupted move leaves no
// job held.
func (m *mover) holdAndMove(ctx context.Context, hold broker.Operation, report *Report) error {
	ctx = context.WithoutCancel(ctx)
	results, err := m.from.insistOn(ctx, hold)
	if err != nil {
		return err
	}
	var ids []string
	for _, r := range results {
		if r.Err == nil {
			ids = append(ids, r.Ref.ID)
			continue
		}
		if r.Holder == "" && !broker.MayHaveApplied(r.Err) {
			report.Newer++ // a worker claimed it, or another decision changed it
			continue
		}
		report.refuse(Refusal{Queue: r.Ref.Queue, ID: r.Ref.ID, Err: r.Err})
	}
	if len(ids) == 0 {
		return nil
	}
	for page, err := range m.from.Select(Query{Queue: m.source, IDs: ids, Suppressed: true}).pages(ctx, movePage, movePage) {
		if err != nil {
			return err
		}
		if err := m.moveHeld(ctx, m.ours(page.Jobs), true, report); err != nil {
			return err
		}
	}
	return nil
}

// ours returns those of the jobs that this move holds.
func (m *mover) ours(found []broker.Job) []broker.Job {
	return slices.DeleteFunc(found, func(j broker.Job) bool { return j.State != broker.StateWaiting || j.Holder != m.holder })
}

// finishHeld moves the jobs that an earlier move left held.
func (m *mover) finishHeld(ctx context.Context, report *Report) error {
	return m.from.eachHeld(ctx, m.source, m.holder, func(held []broker.Job) error {
		report.Matched += len(held)
		return m.moveHeld(ctx, held, false, report)
	})
}

// moveHeld restores held jobs at the destination and deletes them here. fresh says that
// no earlier move can have sent them: if the destination remembers the ID of one of them,
// another job had that ID.
func (m *mover) moveHeld(ctx context.Context, held []broker.Job, fresh bool, report *Report) error {
	ctx = context.WithoutCancel(ctx)
	batch, sent, back := m.batch(held, report)
	answers, sure, err := m.to.restore(ctx, batch)
	if err != nil && !broker.MayHaveApplied(err) {
		back = append(back, sent...) // certainly none of them is at the destination
		sent = nil
	} else if err != nil {
		return errors.Join(err, m.from.unhold(ctx, back, nil))
	}
	for n, a := range answers {
		if a.Err == nil && a.Gone && fresh && sure {
			answers[n].Err = errRemembered
		}
	}
	moved, refused := report.restored(sent, answers)
	return errors.Join(err, m.from.unhold(ctx, append(back, refused...), nil), m.deleteMoved(ctx, moved, report))
}

// restored divides the jobs that were sent to restore into those that are at the destination and
// those that were refused, and counts both.
func (r *Report) restored(sent []broker.Job, answers []restoredJob) (there, refused []broker.Job) {
	for n, a := range answers {
		if isSource(a.There, &sent[n]) || a.Holder != "" && a.Holder == sent[n].Holder && errors.Is(a.Err, broker.ErrWrongState) {
			a.Err = errSource
		}
		if a.Err != nil {
			r.refuse(Refusal{Queue: sent[n].Queue, ID: sent[n].ID, Holder: a.Holder, Err: a.Err})
			refused = append(refused, sent[n])
			continue
		}
		if a.Repeated {
			r.Repeated++
		}
		there = append(there, sent[n])
	}
	return there, refused
}

// batch returns copies for the destination, the jobs from which they were made, and in
// back the jobs that cannot be copied.
func (m *mover) batch(found []broker.Job, report *Report) (batch []broker.NewJob, sent, back []broker.Job) {
	for n := range found {
		j := &found[n]
		if err := j.Copyable(); err != nil {
			report.refuse(Refusal{Queue: j.Queue, ID: j.ID, Err: err})
			back = append(back, *j)
			continue
		}
		c := j.Copy()
		c.Queue, c.Body.GivenID = m.queue, true
		batch, sent = append(batch, c), append(sent, *j)
	}
	return batch, sent, back
}

// remembered returns the IDs of those jobs that the destination has no record of and
// remembers: they ran there. It asks by restoring completed copies whose retention is
// over, which a store checks like all jobs and then does not store (§29).
func (m *mover) remembered(ctx context.Context, gone []broker.Job) (map[string]bool, error) {
	ids := make(map[string]bool)
	if len(gone) == 0 {
		return ids, nil
	}
	batch := make([]broker.NewJob, len(gone))
	for n := range gone {
		c := gone[n].Copy()
		c.Queue, c.Body.GivenID, c.RunAt = m.queue, true, time.Time{}
		c.Body.Payload, c.Body.Retention = nil, time.Microsecond
		c.Restore.State = broker.StateCompleted
		c.Restore.Head = broker.Head{Epoch: c.Restore.Head.Epoch, FinishedAt: time.Unix(1, 0)}
		batch[n] = c
	}
	_, err := insist(ctx, func() error {
		receipts, err := call(ctx, m.to, broker.Broker.Enqueue, broker.EnqueueRequest{Jobs: batch})
		for _, r := range receipts {
			ids[r.ID] = errors.Is(r.Err, broker.ErrDuplicate) && r.Holder == r.ID
			if err == nil && broker.StoreFailed(r.Err) {
				err = r.Err
			}
		}
		return err
	})
	return ids, err
}

// deleteMoved deletes jobs here that are at the destination.
func (m *mover) deleteMoved(ctx context.Context, moved []broker.Job, report *Report) error {
	if len(moved) == 0 {
		return nil
	}
	refs := make([]broker.Ref, len(moved))
	for n := range moved {
		refs[n] = moved[n].Ref()
	}
	results, err := m.from.insistOn(ctx, broker.Operation{Kind: broker.OpDelete, Refs: refs, Holder: m.holder})
	if err != nil {
		return err
	}
	var taken []broker.Ref
	for _, r := range results {
		if r.Err == nil || errors.Is(r.Err, broker.ErrNotFound) { // deleted by a repeated call or another mover
			report.Done++
			continue
		}
		report.refuse(Refusal{Queue: r.Ref.Queue, ID: r.Ref.ID, Holder: r.Holder, Err: r.Err})
		taken = append(taken, broker.Ref{Queue: m.queue, ID: r.Ref.ID, Epoch: r.Ref.Epoch + 1})
	}
	if len(taken) > 0 { // the originals changed meanwhile: dead jobs that were redriven or edited
		_, err = m.to.insistOn(ctx, broker.Operation{Kind: broker.OpDelete, Refs: taken, Holder: m.holder})
	}
	return err
}

// copyTo copies jobs. In a move it also deletes the originals, which are in a final state:
// they need no hold, because no worker can claim them.
func (s Selection) copyTo(ctx context.Context, m *mover) (report Report, err error) {
	s.query.NoPayload = false
	err = s.inSteps(ctx, movePage, new(decision), &report, func(_ *Page, chosen []*broker.Job) error {
		chosen = m.withBlobs(chosen, &report)
		found := make([]broker.Job, len(chosen))
		for n, job := range chosen {
			found[n] = *job
		}
		return m.copyPage(ctx, found, &report)
	})
	return report, err
}

func (m *mover) copyPage(ctx context.Context, chosen []broker.Job, report *Report) error {
	ctx = context.WithoutCancel(ctx)
	batch, sent, _ := m.batch(chosen, report)
	answers, _, err := m.to.restore(ctx, batch)
	if err != nil {
		return err
	}
	copied, _ := report.restored(sent, answers)
	if m.copies {
		report.Done += len(copied)
		return nil
	}
	return m.deleteMoved(ctx, copied, report)
}
