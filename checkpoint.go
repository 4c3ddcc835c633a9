package jobs

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"unicode/utf8"

	"github.com/seed81422ce9/jobs/broker"
)

// Progress is how far a handler says that its job is: Done of Total, in the
// handler's own unit, and a note.
type Progress = broker.Progress

// MaxCheckpoint is how many bytes a job can keep: its checkpoint, and the results
// of its steps. It is 64 KiB, since each SetCheckpoint and each Step stores all of
// them.
const MaxCheckpoint = broker.MaxKept

// Checkpoint is what SetCheckpoint stored last, in this run or in an earlier one,
// or nil: where the handler can go on. Treat it as read-only.
//
// The checkpoint stays with the job when it is retried, snoozed or released, when
// its server dies, and when it is dead and redriven. A completed job has none.
func (j *Job) Checkpoint() []byte { return j.keeper().Kept().Checkpoint }

// SetCheckpoint stores p as the job's checkpoint, in place of the last one. It
// returns nil once p is stored: should the server die then, the job comes again
// with it. It costs a round trip to the store, less if several jobs do so at once. Call it
// after work that is worth not doing again. An empty p removes the checkpoint.
//
// If p is too large (MaxCheckpoint), the error is ErrTooLarge and nothing changed.
// ErrLeaseLost says that the job belongs to another server by now: the handler
// should return. If ctx ends first, the error is its cause. Nobody then knows
// whether p is stored, but it becomes the checkpoint when the handler returns an
// error that brings the job back.
//
// If several goroutines call it, the last call counts.
func (j *Job) SetCheckpoint(ctx context.Context, p []byte) error {
	p = bytes.Clone(p)
	err := j.keeper().Keep(ctx, func(k *broker.Kept) { k.Checkpoint = p })
	return broker.About(err, "set checkpoint", j.Queue(), j.ID())
}

// Progress is what SetProgress said last, in this run or in an earlier one.
func (j *Job) Progress() Progress { return j.keeper().Kept().Progress }

// SetProgress says how far the job is, for people: the command line and the
// dashboard show it. A total of zero means that it is not known. A note is cut at 256
// bytes. Negative numbers count as zero.
//
// It returns at once and can be called as often as there is something to tell: a
// second apart at least, the server stores what was said last, and so it does
// when the handler returns. Progress that was not stored yet is lost if the server
// dies. A completed job keeps its progress as long as its record.
func (j *Job) SetProgress(done, total int64, note string) {
	if len(note) > broker.MaxProgressNote {
		end := broker.MaxProgressNote
		for end > broker.MaxProgressNote-utf8.UTFMax && !utf8.RuneStart(note[end]) {
			end--
		}
		note = note[:end]
	}
	j.keeper().Progress(Progress{Done: max(done, 0), Total: max(total, 0), Note: note})
}

// Kept is all that is kept of the job: checkpoint, steps and progress. It must
// not be changed.
func (j *Job) Kept() broker.Kept { return j.keeper().Kept() }

// Step runs fn once in the life of a job, and returns its result. The result is
// stored with the job, as JSON, before Step returns; when the job comes again, Step
// returns the stored result and does not call fn. So a handler that is a
// sequence of steps goes on where it was, after an error as well as after a crash:
//
//	charge, err := jobs.Step(ctx, job, "charge", func(ctx context.Context) (Charge, error) {
//		return payments.Charge(ctx, order)
//	})
//
// If the server dies after the effect of fn and before its result is stored, fn is
// called again when the job comes again. A step is therefore like a small job: at
// least once. Give what it calls an idempotency key, for example the job's ID with
// the name of the step.
//
// A step is known by its name alone, so steps can be added, removed and reordered
// between releases; a step that is renamed is a new one. A name can be used once
// in a run: a second call returns an error and does not call fn. For a loop, put
// what identifies the item into the name.
//
// If fn returns an error, Step returns it and stores nothing. Otherwise an error
// means that the result is not stored, or that nobody knows: return it, and fn is
// called again unless it was stored. Results and names count towards MaxCheckpoint,
// 8 bytes more for each step; if there is no room, the error is ErrTooLarge. If a
// stored result does not fit T any more, the error says so.
//
// Steps may run at once in several goroutines. In a view made by NewJob, results
// stay with the view.
func Step[T any](ctx context.Context, job *Job, name string, fn func(ctx context.Context) (T, error)) (T, error) {
	var result, none T
	fail := func(err error) (T, error) {
		return none, broker.About(fmt.Errorf("step %q: %w", name, err), "run", job.Queue(), job.ID())
	}
	run := job.keeper()
	if err := broker.CheckName("step", name); err != nil {
		return fail(err)
	}
	if !run.BeginStep(name) {
		return fail(broker.Invalid("step", "has a name that this run used before; give each step a name of its own"))
	}
	steps := run.Kept().Steps
	if i := slices.IndexFunc(steps, func(s broker.DoneStep) bool { return s.Name == name }); i >= 0 {
		if err := JSON.Decode(steps[i].Result, &result); err != nil {
			return fail(fmt.Errorf("the stored result does not fit %T: %w; rename the step to run it again", result, err))
		}
		return result, nil
	}
	result, err := fn(ctx)
	if err != nil {
		return none, err
	}
	stored, err := JSON.Encode(result)
	if err != nil {
		return fail(fmt.Errorf("the result cannot be stored: %w", err))
	}
	err = run.Keep(ctx, func(k *broker.Kept) {
		k.Steps = append(slices.Clip(k.Steps), broker.DoneStep{Name: name, Result: stored})
	})
	if err != nil {
		return fail(fmt.Errorf("the result is not stored: %w", err))
	}
	return result, nil
}
