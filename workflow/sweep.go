package workflow

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/seed81422ce9/jobs"
	"github.com/seed81422ce9/jobs/broker"
	"github.com/seed81422ce9/jobs/internal/parked"
	"github.com/seed81422ce9/jobs/internal/reserved"
	"github.com/seed81422ce9/jobs/internal/sleep"
)

const typeSweep = "sweep"

// sweepLetter says which workflow to remove, or which jobs of one that was removed.
type sweepLetter struct {
	ID        string            `json:"id"`
	Birth     string            `json:"birth"`
	Refs      []broker.Ref      `json:"refs,omitempty"`
	Retention reserved.Duration `json:"retention,omitzero"` // of these jobs
}

// planSweep schedules the removal of a workflow and its nodes for the end of its
// retention.
func (s store) planSweep(ctx context.Context, id string, g *graph) error {
	text, err := json.Marshal(sweepLetter{ID: id, Birth: g.Birth})
	if err == nil {
		err = put(ctx, s, broker.NewJob{ID: g.jobID(":sweep"), Delay: time.Duration(g.Retention),
			Body: broker.Body{Type: typeSweep, Payload: text}})
	}
	if errors.Is(err, broker.ErrDuplicate) {
		return nil
	}
	return err
}

// planRest schedules the removal of jobs that a sweep left, for when they have ended.
func (s store) planRest(ctx context.Context, w *stored, refs []broker.Ref) error {
	for some := range slices.Chunk(refs, maxOperate) {
		l := sweepLetter{ID: w.job.ID, Birth: w.graph.Birth, Refs: some, Retention: max(w.graph.Retention, minRest)}
		text, err := json.Marshal(l)
		if err == nil {
			sum := sha256.Sum256(text)
			err = put(ctx, s, broker.NewJob{ID: w.graph.jobID(":sweep:" + hex.EncodeToString(sum[:8])), Delay: time.Duration(l.Retention),
				Body: broker.Body{Type: typeSweep, Payload: text}})
		}
		if err != nil && !errors.Is(err, broker.ErrDuplicate) {
			return err
		}
	}
	return nil
}

// minRest is the shortest pause between two looks at jobs that a sweep left.
const minRest = reserved.Duration(time.Hour)

// sweepRest removes jobs that have ended since a sweep left them.
func (x *runner) sweepRest(ctx context.Context, l *sweepLetter) error {
	var over []broker.Ref
	left := 0
	err := x.look(ctx, l.Refs, false, func(job *broker.Job) {
		if left++; hasEnded(job.State) {
			over = append(over, job.Ref())
		}
	})
	if err == nil {
		err = x.remove(ctx, over)
	}
	switch {
	case err != nil:
		return jobs.Snooze(sleep.Jitter(brokenPause, 0.5))
	case left > len(over):
		return jobs.Snooze(time.Duration(l.Retention))
	}
	return nil
}

// sweep removes a workflow that was completed or cancelled, with its nodes. Dead nodes stay for an
// operator's decision.
func (x *runner) sweep(ctx context.Context, job *jobs.Job) error {
	var l sweepLetter
	if err := json.Unmarshal(job.Payload(), &l); err != nil {
		return jobs.Cancel(err)
	}
	if len(l.Refs) > 0 {
		return x.sweepRest(ctx, &l)
	}
	w, err := x.load(ctx, l.ID)
	switch {
	case errors.Is(err, broker.ErrNotFound), err == nil && (w.graph.Birth != l.Birth || w.job.State == broker.StateDead):
		return nil
	case err == nil && !w.job.State.Final(): // its last run is not settled
		return jobs.Snooze(reserved.FailedPause)
	case err == nil:
		err = x.removeWhole(ctx, w, false)
	}
	switch {
	case errors.Is(err, broker.ErrMalformed): // no repetition can remove it: an operator sees a dead job
		return fmt.Errorf("%w: the workflow %s cannot be removed: %w", jobs.SkipRetry, l.ID, err)
	case err != nil:
		if ctx.Err() == nil {
			x.log.Warn("jobs: a workflow could not be removed and is tried again", "workflow", l.ID, "error", err)
		}
		return jobs.Snooze(sleep.Jitter(brokenPause, 0.5))
	}
	return nil
}

// removeWhole removes a workflow with everything in it; see empty. The workflow's own job goes last, so
// that a repetition finds the rest. It stops if another workflow has the ID by now: the letters and the job
// are that one's.
func (s store) removeWhole(ctx context.Context, w *stored, all bool) error {
	err := s.empty(ctx, w, all)
	if err == nil {
		err = s.forget(ctx, w)
	}
	if err == nil {
		err = s.removeLetters(ctx, w.job.ID)
	}
	if err == nil {
		var refused error // it has changed meanwhile
		err = s.operate(ctx, broker.Operation{Kind: broker.OpDelete}, []broker.Ref{w.job.Ref()},
			func(_ int, r broker.OperationResult) { refused = r.Err })
		err = cmp.Or(err, refused)
	}
	if errors.Is(err, broker.ErrNotFound) {
		err = nil
	}
	return err
}

// forget removes the state of a workflow. Of one that has ended it leaves the outcome for as long again as the
// workflow was kept: a signal that comes late must not reach the next workflow with the ID.
func (s store) forget(ctx context.Context, w *stored) error {
	if w.graph.Parent != "" || w.state.Outcome == "" { // the ID of a nested one has its birth
		return s.drop(ctx, w.job.ID, w.graph.Birth)
	}
	return reserved.Repeat(ctx, reserved.ErrOvertaken, func() error {
		h, err := s.take(ctx, w.job.ID, w.graph.Birth, phaseAborted)
		if err != nil {
			return err
		}
		h.state = state{Version: stateVersion, Birth: w.graph.Birth, Phase: phaseAborted, Outcome: w.state.Outcome}
		return s.save(ctx, h, min(max(time.Duration(w.graph.Retention), time.Minute), letterSpan))
	})
}

// drop deletes the state of a workflow with that birth, or of any birth.
func (s store) drop(ctx context.Context, id, birth string) error {
	var st state
	return s.states().Remove(ctx, id, &st, func() bool { return birth == "" || st.Birth == birth })
}

// removed reports whether a workflow that has ended had the ID not long ago.
func (s store) removed(ctx context.Context, id string) (bool, error) {
	var st state
	ok, err := s.states().Peek(ctx, id, &st)
	return ok && st.Phase == phaseAborted && st.Outcome != "", err
}

// stored is a workflow as the store has it.
type stored struct {
	job   *broker.Job
	graph *graph
	state state
	mail  letters
	added []string        // the additions that are merged into graph, in order
	taken map[string]bool // the same
}

// load reads a workflow with its letters. The error is ErrNotFound if it does not
// exist.
func (s store) load(ctx context.Context, id string) (*stored, error) {
	w := &stored{}
	var err error
	if w.job, err = reserved.Find(ctx, s, Queue, id); err != nil {
		return nil, err
	}
	if w.job.Type != typeWorkflow {
		return nil, broker.ErrNotFound
	}
	if w.graph, err = decode(w.job.Payload); err == nil {
		err = w.graph.link()
	}
	if err != nil {
		return nil, err
	}
	ok := false
	if w.state, ok, err = s.peek(ctx, id, w.graph.Birth); err != nil {
		return nil, err
	}
	if !ok {
		w.state = state{Birth: w.graph.Birth, Phase: w.graph.first()}
	}
	if w.mail, err = s.letters(ctx, id, w.graph.Birth, nil); err != nil {
		return nil, err
	}
	if w.state.Phase == phaseStarting && w.mail.begun {
		w.state.Phase = phaseRunning // its first run will see the same
	}
	w.taken = make(map[string]bool)
	if w.added, err = w.mail.grow(w.graph, w.state.Added, w.taken); err != nil {
		return nil, err
	}
	w.state.fit(len(w.graph.Nodes))
	return w, nil
}

// empty removes the jobs of a workflow. If all is set, it removes every job that is not
// active, otherwise only those that were completed or cancelled, or are parked for ever. The others are removed some
// time after they have ended.
func (s store) empty(ctx context.Context, w *stored, all bool) error {
	g := w.graph
	var refs []broker.Ref
	for i := range g.Nodes {
		switch {
		case g.nested(i):
			if err := s.removeNested(ctx, g.jobID(g.Nodes[i].Name), all); err != nil {
				return err
			}
		case g.Nodes[i].Queue > 0:
			refs = append(refs, g.ref(i))
		}
		if g.Nodes[i].Undo > 0 {
			refs = append(refs, g.undoRef(i))
		}
	}
	for _, c := range g.Calls {
		refs = append(refs, broker.Ref{Queue: g.Queues[c.Queue-1], ID: g.jobID(c.When)})
	}
	if !all {
		var over, rest []broker.Ref
		err := s.look(ctx, refs, false, func(job *broker.Job) {
			if hasEnded(job.State) || job.RunAt.Equal(parked.Until) {
				over = append(over, job.Ref())
			} else {
				rest = append(rest, job.Ref())
			}
		})
		if err == nil {
			err = s.planRest(ctx, w, rest)
		}
		if err != nil {
			return err
		}
		refs = over
	}
	var busy []broker.Ref
	for i := range refs {
		refs[i].Epoch = broker.AnyEpoch
	}
	err := s.operate(ctx, broker.Operation{Kind: broker.OpDelete}, refs, func(i int, r broker.OperationResult) {
		if r.State == broker.StateActive {
			busy = append(busy, refs[i])
		}
	})
	if err == nil {
		err = s.planRest(ctx, w, busy)
	}
	return err
}

// removeLetters removes what was sent to a workflow.
func (s store) removeLetters(ctx context.Context, id string) error {
	var sent []broker.Ref
	err := s.each(ctx, broker.Query{Key: letterKey(id), NoPayload: true, Limit: maxLook}, func(page []broker.Job) error {
		for i := range page {
			sent = append(sent, page[i].Ref())
		}
		return nil
	})
	if err == nil {
		err = s.remove(ctx, sent)
	}
	return err
}

// removeNested removes a nested workflow with everything in it. One that is dead, or
// that Retry has made run again, stays, unless all is set.
func (s store) removeNested(ctx context.Context, id string, all bool) error {
	w, err := s.load(ctx, id)
	switch {
	case errors.Is(err, broker.ErrNotFound): // somebody deleted its job, or its client never stored it
		return s.drop(ctx, id, "")
	case err != nil || !all && !hasEnded(w.job.State):
		return err
	}
	return s.removeWhole(ctx, w, all)
}

// clear removes the nodes of a workflow that never ran.
func (s store) clear(ctx context.Context, g *graph) error {
	return s.empty(ctx, &stored{job: &broker.Job{ID: "/"}, graph: g}, true)
}
