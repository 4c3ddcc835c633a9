package inspect

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"

	"github.com/seed81422ce9/jobs/broker"
)

// undoneSuffix ends the name of the queue through which jobs become dead again.
const undoneSuffix = ".undone"

func undoneQueue(queue string) string {
	if name := queue + undoneSuffix; len(name) <= broker.MaxNameLen {
		return name
	}
	return fmt.Sprintf("%x%s", sha256.Sum256([]byte(queue)), undoneSuffix)
}

// UndoRedrive makes redriven jobs of a queue dead again, with the errors, counts and
// times that they had. Pass the jobs in was, as List or Job returned them before the
// redrive. Of each only ID, CreatedAt and Head are needed, and of Head neither Errors nor
// Kept: the redriven job still has them. A job that a worker has claimed since, or that
// changed otherwise, is refused with ErrWrongState and left alone.
//
// No job is lost, even if the process dies. No store can make a pending job dead, so
// each job is held, restored as a dead job in another queue, whose name ends with
// ".undone", and moved back from there. If the process dies, a job may stay held; UndoMove
// finds it. Or it may stay dead in the other queue; the next undo moves it back. The error
// is ErrUnsupported if the store cannot move jobs.
func (i *Inspector) UndoRedrive(ctx context.Context, queue string, was []broker.Job) (report Report, err error) {
	if err := i.check(ctx); err != nil {
		return report, err
	}
	m, err := i.mover(ctx, queue, Destination{Broker: i.broker, Queue: undoneQueue(queue)}, true)
	if err != nil {
		return report, err
	}
	for len(was) > 0 {
		n := min(movePage, len(was))
		if err := m.bury(context.WithoutCancel(ctx), was[:n], &report); err != nil {
			return report, err
		}
		if err := ctx.Err(); err != nil {
			return report, err
		}
		was = was[n:]
	}
	return report, nil
}

// bury does one step of an undo; its caller passes a context that does not end.
func (m *mover) bury(ctx context.Context, was []broker.Job, report *Report) error {
	before := make(map[string]*broker.Job, len(was))
	ids := make([]string, 0, len(was))
	for n := range was {
		before[was[n].ID] = &was[n]
		ids = append(ids, was[n].ID)
	}
	report.Matched += len(ids)
	page, err := m.from.List(ctx, Query{Queue: m.source, IDs: ids, NoPayload: true})
	if err != nil {
		return err
	}
	hold := broker.Operation{Kind: broker.OpHold, Holder: m.holder}
	there := newNames(ids)
	there.seen(page.Jobs)
	for id := range there {
		report.refuse(Refusal{Queue: m.source, ID: id, Err: broker.ErrNotFound})
	}
	for n := range page.Jobs {
		if j := &page.Jobs[n]; j.State == broker.StatePending && j.Epoch == before[j.ID].Redriven().Epoch {
			hold.Refs = append(hold.Refs, j.Ref())
		} else {
			report.refuse(Refusal{Queue: m.source, ID: j.ID, Err: broker.ErrWrongState})
		}
	}
	if len(hold.Refs) == 0 {
		return nil
	}
	results, err := m.from.operate(ctx, hold)
	if err != nil {
		return err
	}
	ids = ids[:0]
	for _, r := range results {
		if r.Err != nil {
			report.refuse(Refusal{Queue: m.source, ID: r.Ref.ID, Err: broker.ErrWrongState})
			continue
		}
		ids = append(ids, r.Ref.ID)
	}
	if len(ids) == 0 {
		return nil
	}
	page, err = m.from.List(ctx, Query{Queue: m.source, IDs: ids})
	if err != nil {
		return err
	}
	var part Report
	if err := m.buryHeld(ctx, m.ours(page.Jobs), before, &part); err != nil {
		return errors.Join(err, ctx.Err())
	}
	for _, f := range part.Refusals {
		report.refuse(f)
	}
	back, err := m.to.Select(Query{Queue: m.queue, State: broker.StateDead, Suppressed: true}).
		Move(ctx, Destination{Broker: m.from.broker, Queue: m.source})
	if err != nil || back.Refused > 0 { // otherwise all are back, although another undo of this queue may have moved some
		part.Done = min(back.Done, part.Done)
	}
	report.Done += part.Done
	if err == nil {
		err = m.to.RemoveQueue(ctx, m.queue)
		if errors.Is(err, broker.ErrWrongState) || errors.Is(err, broker.ErrNotFound) { // another undo uses the queue
			err = nil
		}
	}
	return err
}

// buryHeld restores held jobs as dead ones in the other queue and deletes them here.
func (m *mover) buryHeld(ctx context.Context, held []broker.Job, before map[string]*broker.Job, report *Report) error {
	batch, sent, back := m.batch(held, report)
	for n := range batch {
		was := before[batch[n].ID]
		head := sent[n].Head // its epoch goes on, so that no earlier lease of the job is valid
		head.Failures, head.Crashes, head.Snoozes = was.Failures, was.Crashes, was.Snoozes
		head.Reason, head.Suppressed, head.FinishedAt, head.Result = was.Reason, was.Suppressed, was.FinishedAt, was.Result
		batch[n].Restore = &broker.Restored{State: broker.StateDead, CreatedAt: was.CreatedAt, Head: head}
	}
	answers, _, err := m.to.restore(ctx, batch)
	if err != nil {
		return err // they stay held: some may be in the other queue
	}
	moved, refused := report.restored(sent, answers)
	return errors.Join(m.from.unhold(ctx, append(back, refused...), nil), m.deleteMoved(ctx, moved, report))
}

// undoBatch is how many jobs of a queue are collected before they are made dead again: it
// bounds the memory of an undo.
const undoBatch = 1000

// UndoExported is UndoRedrive for the jobs that Export wrote to r before they were
// redriven, in all their queues. Jobs that were not dead then, or are still dead, are
// refused with ErrWrongState. A line that cannot be read ends the undo; the report is
// valid even with an error.
func (i *Inspector) UndoExported(ctx context.Context, r io.Reader) (report Report, err error) {
	was := make(map[string][]broker.Job) // by queue
	undo := func(queue string) error {
		part, err := i.UndoRedrive(ctx, queue, was[queue])
		delete(was, queue)
		report.Add(part)
		return err
	}
	_, err = readJobs(r, func(line int, job broker.NewJob, err error) error {
		switch {
		case err != nil:
			return fmt.Errorf("line %d: %w", line, err)
		case job.Restore.State != broker.StateDead:
			report.Matched++
			report.refuse(Refusal{Queue: job.Queue, ID: job.ID, Err: broker.ErrWrongState})
			return nil
		}
		was[job.Queue] = append(was[job.Queue], broker.Job{Queue: job.Queue, ID: job.ID, State: broker.StateDead,
			CreatedAt: job.Restore.CreatedAt, Head: job.Restore.Head})
		if len(was[job.Queue]) < undoBatch {
			return nil
		}
		return undo(job.Queue)
	})
	for queue := range was {
		if err == nil {
			err = undo(queue)
		}
	}
	return report, err
}
