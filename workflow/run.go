package workflow

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/seed81422ce9/jobs"
	"github.com/seed81422ce9/jobs/broker"
	"github.com/seed81422ce9/jobs/internal/reserved"
	"github.com/seed81422ce9/jobs/internal/sleep"
)

// runner runs workflows in a server.
type runner struct {
	store
	client *jobs.Client
	log    *slog.Logger
	nudges nudger
	awake  atomic.Bool // every end of a node wakes its workflow, so polling is unnecessary
}

const (
	// How often a workflow looks at its running nodes: after a quarter of the time
	// since the last change, within these bounds. Each running node adds pollFor to the lower bound,
	// because it makes each look more expensive.
	pollMin, pollMax = 50 * time.Millisecond, 5 * time.Second
	pollFor          = 100 * time.Microsecond
	// pollIdle is the upper bound for a workflow that only waits for signals and
	// times: the sender of a signal wakes it, or gets an error.
	pollIdle = 10 * time.Minute
	// retryPause is the pause after a run that failed.
	retryPause = time.Second
	// brokenPause is the pause of a workflow that only a newer program or a
	// repair can run.
	brokenPause = time.Minute
)

// ProcessJob runs a job of the reserved queue.
func (x *runner) ProcessJob(ctx context.Context, job *jobs.Job) error {
	switch job.Type() {
	case typeWorkflow:
		return x.workflow(ctx, job)
	case typeSweep:
		return x.sweep(ctx, job)
	case typeSignal, typeCancel, typeAdd, typeBegin:
		return x.letterDue(ctx, job)
	}
	return jobs.Snooze(sleep.Jitter(brokenPause, 0.5))
}

// workflow runs a workflow once, and snoozes or ends its job.
func (x *runner) workflow(ctx context.Context, job *jobs.Job) error {
	r := &run{x: x, id: job.ID(), created: job.CreatedAt()}
	nap, err := r.run(ctx, job)
	switch {
	case err == nil && r.Phase == phaseEnded:
		return r.outcome(ctx, job)
	case err == nil && r.held != nil && r.Phase == phaseAborted:
		return jobs.Cancel(errors.New("its client did not store all of it"))
	case err == nil:
		return jobs.Snooze(nap)
	case errors.Is(err, reserved.ErrOvertaken):
		return jobs.Snooze(sleep.Jitter(pollMin, 0.9))
	case errors.Is(err, broker.ErrNewerForm) || errors.Is(err, broker.ErrMalformed) || errors.Is(err, broker.ErrInvalid):
		x.log.Error("jobs: a workflow cannot run here", "workflow", job.ID(), "error", err)
		return jobs.Snooze(sleep.Jitter(brokenPause, 0.5))
	case ctx.Err() == nil:
		x.log.Warn("jobs: a workflow failed to run and runs again soon", "workflow", job.ID(), "error", err)
	}
	return jobs.Snooze(sleep.Jitter(retryPause, 0.5))
}

// run is one run of a workflow.
type run struct {
	x *runner
	*held
	id      string
	g       *graph
	created time.Time
	began   time.Time // when the state was taken, by this process's clock
	mail    letters
	why     map[int]string // the errors of nodes that did not complete

	taken map[string]bool // additions that are merged into g

	ready []int     // nodes to let go
	wake  time.Time // the next time that a node or the deadline waits for
	dirty bool      // the state must be written
}

// run advances the workflow as far as it can and returns how long it may sleep.
// Each step can be repeated.
func (r *run) run(ctx context.Context, job *jobs.Job) (nap time.Duration, err error) {
	x := r.x
	g, err := decode(job.Payload())
	if err == nil {
		err = g.link()
	}
	if err != nil {
		return 0, err
	}
	r.g = g
	if r.held, err = x.take(ctx, r.id, g.Birth, g.first()); err != nil {
		return 0, err
	}
	r.began = time.Now()
	switch r.Phase {
	case phaseStarting:
		if r.mail, err = x.letters(ctx, r.id, g.Birth, nil); err != nil {
			return 0, err
		}
		if r.mail.begun { // it was started in a transaction
			r.Phase = phaseRunning
			r.touch()
			break
		}
		grace := startGrace + time.Duration(len(g.Nodes))*startGraceFor
		if left := r.created.Add(grace).Sub(r.now); left > 0 {
			return left, nil
		}
		r.Phase = phaseAborted
		fallthrough
	case phaseAborted:
		if err := x.save(ctx, r.held, broker.MaxDelay); err != nil {
			return 0, err
		}
		if err := x.clear(ctx, g); err != nil {
			return 0, err
		}
		return 0, x.planSweep(ctx, r.id, g)
	case phaseParked: // a nested workflow whose node is not ready was nudged; this run can hide the nudge that starts it
		return pollIdle, nil
	}
	for again := true; again; {
		if again, err = r.round(ctx); err != nil {
			return 0, err
		}
	}
	if r.Phase == phaseEnded {
		return 0, r.finish(ctx)
	}
	if r.dirty {
		if err := x.save(ctx, r.held, broker.MaxDelay); err != nil {
			return 0, err
		}
	}
	return r.nap(), nil
}

// round looks, decides and acts once. again is true if another round can find
// more to do.
func (r *run) round(ctx context.Context) (again bool, err error) {
	if r.Phase == phaseEnded { // an earlier run ended it, and then stopped
		return false, r.read(ctx)
	}
	if r.Ends != nil { // the first run has let nothing go
		if err := r.look(ctx); err != nil {
			return false, err
		}
	}
	if err := r.read(ctx); err != nil {
		return false, err
	}
	r.decide()
	switch r.Phase {
	case phaseRunning:
		return r.letGo(ctx)
	case phaseStopping:
		return r.halt(ctx)
	case phaseUndoing:
		return r.undo(ctx)
	}
	return false, nil
}

// look finds out which nodes that were let go have ended, and how.
func (r *run) look(ctx context.Context) error {
	if len(r.Added) > 0 && len(r.g.Nodes) < len(r.Ends) {
		if err := r.read(ctx); err != nil { // to merge the added nodes first
			return err
		}
	}
	out := r.outstanding()
	if len(out) == 0 {
		return nil
	}
	refs, place := make([]broker.Ref, len(out)), make(map[string]int, len(out))
	for k, i := range out {
		refs[k] = r.g.ref(i)
		place[refs[k].ID] = i
	}
	err := r.x.look(ctx, refs, false, func(job *broker.Job) {
		i, ok := place[job.ID]
		if !ok || job.Queue != r.g.ref(i).Queue {
			return
		}
		delete(place, job.ID)
		r.see(i, job)
	})
	if err != nil {
		return err
	}
	for _, i := range place {
		r.end(i, endGone)
		if r.g.Nodes[i].Undo > 0 {
			r.note(i, r.now)
		}
	}
	return nil
}

// see records how a node's job ended, if it did.
func (r *run) see(i int, job *broker.Job) {
	switch job.State {
	case broker.StateCompleted:
		r.end(i, endCompleted)
	case broker.StateDead:
		r.end(i, endDead)
		r.explain(i, cmp.Or(job.Errors.Last().Message, job.Reason.String()))
	case broker.StateCancelled:
		r.end(i, endCancelled)
		if last := job.Errors.Last(); last.Class == jobs.ClassCancelled { // not a failure before that
			r.explain(i, last.Message)
		}
	default:
		if rests(job) { // a move held it when its turn came, and has put it back
			r.end(i, endWaiting)
		}
		return
	}
	if r.g.Nodes[i].Undo > 0 && (job.State == broker.StateCompleted || job.Deliveries > 0) {
		r.note(i, job.FinishedAt)
	}
}

// maxWhy is how many bytes of an error go into the cause of a failure.
const maxWhy = 300

func (r *run) explain(i int, why string) {
	if r.why == nil {
		r.why = make(map[int]string)
	}
	r.why[i] = short(why, maxWhy)
}

// read reads what was sent to the workflow. It must follow look, so that the
// nodes that a handler added are seen no later than the end of its node.
func (r *run) read(ctx context.Context) (err error) {
	if r.taken == nil {
		r.taken = make(map[string]bool)
	}
	if r.mail, err = r.x.letters(ctx, r.id, r.g.Birth, r.taken); err != nil {
		return err
	}
	added, err := r.mail.grow(r.g, r.Added, r.taken)
	if err != nil {
		return err
	}
	if len(added) > len(r.Added) {
		r.Added = added
		r.touch()
	}
	r.fit(len(r.g.Nodes))
	return nil
}

// letGo starts the nodes that are ready, and redrives dead ones that Retry chose.
func (r *run) letGo(ctx context.Context) (again bool, err error) {
	type moment struct {
		delay time.Duration
		at    time.Time
	}
	groups := make(map[moment][]int)
	for _, i := range r.ready {
		v := &r.g.Nodes[i]
		if r.g.nested(i) {
			if r.beingAdded(i) { // parts of it may not be stored before the handler returns
				continue
			}
			if err := r.begin(ctx, i); err != nil {
				return false, err
			}
			continue
		}
		m := moment{time.Duration(v.Delay), v.At}
		if !r.now.Before(v.At) {
			m.at = time.Time{}
		}
		groups[m] = append(groups[m], i)
	}
	for m, nodes := range groups {
		refs := make([]broker.Ref, len(nodes))
		for k, i := range nodes {
			refs[k] = r.g.ref(i) // of epoch 0: nothing has happened to the job
		}
		op := broker.Operation{Kind: broker.OpReschedule, Delay: m.delay, RunAt: m.at}
		err := r.x.letGo(ctx, op, refs, func(k int, result broker.OperationResult) {
			i := nodes[k]
			switch {
			case result.Err == nil:
				r.end(i, endLetGo)
			case isHeld(result):
				r.passed(r.now.Add(pollMax)) // to look again soon
			case errors.Is(result.Err, broker.ErrNotFound) && r.beingAdded(i):
			default: // it is gone, an earlier run let it go, or an operator changed it
				r.end(i, endLetGo)
				again = true
			}
		})
		if err != nil {
			return false, err
		}
	}
	redriven, err := r.redrive(ctx)
	return again || redriven, err
}

// beingAdded reports whether the handler that adds a node may not have stored its
// job yet.
func (r *run) beingAdded(i int) bool { return r.g.by[i] >= 0 && r.Ends[r.g.by[i]] == endLetGo }

// begin starts a node that is a workflow.
func (r *run) begin(ctx context.Context, i int) error {
	id := r.g.jobID(r.g.Nodes[i].Name)
	h, err := r.x.take(ctx, id, r.g.Birth, phaseParked)
	if err == nil && h.Phase == phaseParked {
		h.Phase = phaseRunning
		err = r.x.save(ctx, h, broker.MaxDelay)
	}
	if err == nil {
		err = r.x.nudge(ctx, id)
	}
	if err == nil {
		r.end(i, endLetGo)
	}
	return err
}

// redrive sends the dead nodes that Retry chose back to their queues.
func (r *run) redrive(ctx context.Context) (again bool, err error) {
	var nodes []int
	var refs []broker.Ref
	for i, e := range r.Ends {
		switch {
		case e != endAgain:
		case r.g.nested(i):
			if err := r.x.retry(ctx, r.g.jobID(r.g.Nodes[i].Name), nil); broker.StoreFailed(err) {
				return false, err
			}
			r.end(i, endLetGo)
		default:
			ref := r.g.ref(i)
			ref.Epoch = broker.AnyEpoch
			nodes, refs = append(nodes, i), append(refs, ref)
		}
	}
	err = r.x.operate(ctx, broker.Operation{Kind: broker.OpRedrive}, refs, func(k int, result broker.OperationResult) {
		r.end(nodes[k], endLetGo)
		again = again || result.Err != nil
	})
	return again, err
}

// nap returns how long the workflow may sleep.
func (r *run) nap() time.Duration {
	now := r.now.Add(time.Since(r.began))
	most, out := pollIdle, len(r.outstanding())
	if out > 0 || r.Phase != phaseRunning {
		most = pollMax
	}
	since := now.Sub(r.Changed).Abs() // below zero if the store's clock was ahead
	nap := min(max(since/4, pollMin+time.Duration(out)*pollFor), most)
	if r.x.awake.Load() {
		nap = broker.MaxDelay
	}
	if !r.wake.IsZero() {
		nap = min(nap, r.wake.Sub(now))
	}
	return max(nap, 0)
}
