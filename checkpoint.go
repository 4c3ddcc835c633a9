package jobs

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"unicode/utf8"

	"github.com/seed81422ce9/jobs/broker"
)

// Progress is how far a job has come: Done of Total, in the handler's own unit, and
// a text for people.
type Progress = broker.Progress

// MaxCheckpoint is the maximum size in bytes of a job's checkpoint and the results
// of its steps together: 64 KiB, because each SetCheckpoint and each Step stores
// all of them.
const MaxCheckpoint = broker.MaxKept

// Checkpoint returns what SetCheckpoint stored last, in this run or in an earlier
// one, or nil. The handler can continue from there. Treat it as read-only.
//
// The checkpoint stays with the job when it is retried, snoozed or released, when
// its server dies, and when it is dead and redriven. A completed job has none.
func (j *Job) Checkpoint() []byte { return j.keeper().Kept().Checkpoint }

// SetCheckpoint stores p as the job's checkpoint, in place of the last one. It
// returns nil once p is stored: if the server dies after that, the next run gets p.
// It costs a round trip to the store, which jobs that call it at the same time
// share. Call it after work that is too expensive to repeat. An empty p removes
// the checkpoint.
//
// If p is too large (MaxCheckpoint), the error is ErrTooLarge and also SkipRetry, since
// a retry would only repeat the work, and nothing changes.
// ErrLeaseLost means that another server has the job, or may have it: the handler
// should return. If ctx ends first, the error is its cause, and p may or may not be
// stored yet. It is stored at the latest when the handler returns an error that makes
// the job run again.
//
// Several goroutines may call it; the last call counts.
func (j *Job) SetCheckpoint(ctx context.Context, p []byte) error {
	p = bytes.Clone(p)
	err := unretried(j.keeper().Keep(ctx, func(k *broker.Kept) { k.Checkpoint = p }))
	return broker.About(err, "set checkpoint", j.Queue(), j.ID())
}

// unretried makes the refusal of a value that is too large a SkipRetry, too: the next run
// would only make the same value again.
func unretried(err error) error {
	e, ok := errors.AsType[*broker.Error](err)
	if !ok || !errors.Is(e.Err, ErrTooLarge) {
		return err
	}
	c := *e
	c.Err = fmt.Errorf("%w: %w", SkipRetry, e.Err)
	return &c
}

// Progress returns what SetProgress set last, in this run or in an earlier one.
func (j *Job) Progress() Progress { return j.keeper().Kept().Progress }

// SetProgress records how far the job has come, for people: the command line and the
// dashboard show it. A total of zero means that it is unknown. A note is cut off at
// 256 bytes. Negative numbers count as zero.
//
// SetProgress returns at once and can be called any number of times. The server
// stores the last progress about once a second, and when the handler returns.
// Progress that was not stored yet is lost if the server dies. A completed job keeps
// its progress as long as its record.
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

// Kept returns the job's checkpoint, steps and progress. It must not be changed.
func (j *Job) Kept() broker.Kept { return j.keeper().Kept() }

// Step runs fn once in the life of a job, and returns its result. The result is
// stored with the job, as JSON, before Step returns; in later runs, Step returns the
// stored result and does not call fn. So a handler made of steps continues where it
// stopped, after an error as well as after a crash:
//
//	charge, err := jobs.Step(ctx, job, "charge", func(ctx context.Context) (Charge, error) {
//		return payments.Charge(ctx, order)
//	})
//
// If the server dies after the effect of fn and before its result is stored, the
// next run calls fn again: like a job, a step runs at least once. Pass an
// idempotency key to what fn calls, for example the job's ID with the name of the
// step.
//
// The name alone identifies a step, so a release can add, remove and reorder steps;
// a renamed step is a new one. A name can be used once in a run: a second call
// returns ErrInvalid and does not call fn. In a loop, put what identifies the item
// into the name.
//
// If fn returns an error, Step returns it and stores nothing. Any other error means
// that the result is not stored, or may not be: return it, and the next run calls fn
// again unless the result was stored. Names and results count towards MaxCheckpoint,
// with 8 bytes for each step; beyond it the error is ErrTooLarge. That error, and the one if
// JSON cannot encode the result, is also SkipRetry: each retry would only repeat the effect
// of fn. If a stored result does not fit T any more, the error says so.
//
// Steps may run in several goroutines at once. In a view made by NewJob, results
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
		return fail(broker.Invalid("step", "has a name that this run has used; give each step its own name"))
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
	stored, err := encodeResult(result)
	if err != nil {
		return fail(err)
	}
	err = unretried(run.Keep(ctx, func(k *broker.Kept) {
		k.Steps = append(slices.Clip(k.Steps), broker.DoneStep{Name: name, Result: stored})
	}))
	if err != nil {
		return fail(fmt.Errorf("the result is not stored: %w", err))
	}
	return result, nil
}
