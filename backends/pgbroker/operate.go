package pgbroker

import (
	"cmp"
	"context"
	"slices"

	"github.com/jackc/pgx/v5/pgtype/zeronull"

	"github.com/seed81422ce9/jobs/broker"
)

// Operate takes one queue at a time: in one transaction it locks the jobs, decides and writes. If
// the request names a job twice, Operate decides twice. §22.
func (b *Broker) Operate(ctx context.Context, op broker.Operation) ([]broker.OperationResult, error) {
	verb := op.Kind.String()
	if err := cmp.Or(b.usable(ctx), op.Check(b.Limits())); err != nil {
		return nil, broker.About(err, verb, "", "")
	}
	results := make([]broker.OperationResult, len(op.Refs))
	var order []string
	byQueue := make(map[string][]*broker.OperationResult)
	for i, ref := range op.Refs {
		results[i].Ref = ref
		if byQueue[ref.Queue] == nil {
			order = append(order, ref.Queue)
		}
		byQueue[ref.Queue] = append(byQueue[ref.Queue], &results[i])
	}
	for _, queue := range order {
		rest := byQueue[queue]
		for len(rest) > 0 {
			o := &operating{b: b, op: &op, now: clockOf(op.Now), queue: queue}
			o.results, rest = cutRepeat(rest, func(r *broker.OperationResult) string { return r.Ref.ID })
			err := o.run(ctx)
			if sqlState(err) == lockTimeout {
				o.oneByOne(ctx)
				err = nil
			}
			if err != nil && len(o.results) == len(results) {
				return nil, broker.About(err, verb, "", "")
			}
			for _, r := range o.results {
				r.Err = cmp.Or(err, r.Err)
			}
			rest = slices.Concat(o.later, rest)
		}
	}
	for i := range results {
		r := &results[i]
		r.Err = broker.About(r.Err, verb, r.Ref.Queue, r.Ref.ID)
	}
	return results, nil
}

// operating is one decision about jobs of one queue, none of them named twice.
type operating struct {
	b       *Broker
	op      *broker.Operation
	now     clock
	queue   string
	results []*broker.OperationResult
	later   []*broker.OperationResult // left for the next decision: this one may change these jobs
	opens   bool                      // the cancelled or deleted jobs may make room for other jobs
	seen    map[string]*seenJob

	impatient bool // wait less for unique keys
}

// seenJob is a job as a decision finds it.
type seenJob struct {
	state  broker.State
	epoch  int64
	holder string     // if the job is held
	dead   broker.Job // if the job is dead
}

// oneByOne repeats a decision that waited too long for a lock. Then only those jobs fail whose unique key another transaction has
// taken and not committed.
func (o *operating) oneByOne(ctx context.Context) {
	for _, r := range o.results {
		alone := &operating{b: o.b, op: o.op, now: o.now, queue: o.queue, results: []*broker.OperationResult{r}, impatient: true}
		err := alone.run(ctx)
		if sqlState(err) == lockTimeout {
			err = errContested
		}
		r.Err = cmp.Or(err, r.Err)
	}
}

func (o *operating) run(ctx context.Context) error {
	if o.op.Kind == broker.OpRemoveQueue {
		return o.removeQueue(ctx)
	}
	wakes := o.op.Kind == broker.OpRedrive || o.op.Kind == broker.OpReschedule || o.op.Kind == broker.OpUnhold
	err := o.b.transact(ctx, func(s session) error {
		if err := o.look(ctx, s); err != nil {
			return err
		}
		o.cutBehind()
		chosen := o.choose()
		if len(chosen) == 0 {
			return nil
		}
		err := o.write(ctx, s, chosen)
		if err == nil && (o.op.Kind == broker.OpCancel || o.op.Kind == broker.OpDelete) {
			err = s.run(ctx, o.b.step("queue_opens", one(&o.opens), o.queue))
		}
		return err
	})
	if o.opens {
		o.b.wakeOthers(o.queue)
	}
	if wakes {
		o.b.waker.wake(o.queue, false)
	}
	if err == nil && o.op.Kind == broker.OpCancel {
		o.tell(ctx)
	}
	return err
}

// look finds and locks the jobs. Each statement has a snapshot of its own. Jobs move between
// tables in the order of the statements, so none is missed, except redriven jobs, which the
// last statement finds.
func (o *operating) look(ctx context.Context, s session) error {
	o.seen = make(map[string]*seenJob, len(o.results))
	ids := make([]string, len(o.results))
	for i, r := range o.results {
		ids[i] = r.Ref.ID
	}
	place := each(func(r rows) error {
		var id string
		var state int16
		var held zeronull.Text
		j := new(seenJob)
		err := r.Scan(&id, &state, &j.epoch, &held)
		j.state = broker.State(state)
		_, j.holder = heldOf(string(held))
		o.seen[id] = j
		return err
	})
	hot := o.b.step("operate_look_job", place, o.queue, ids)
	return s.run(ctx, o.b.byIndex(false), o.b.notNewer(o.queue), hot,
		o.b.step("operate_look_dead", each(func(r rows) error {
			var row jobRow
			if err := r.Scan(row.columns()...); err != nil {
				return err
			}
			j := &seenJob{state: broker.StateDead, epoch: int64(row.epoch), dead: row.job(o.queue, broker.StateDead)}
			j.dead.Payload = nil // nothing here needs it, and those of a thousand jobs may have a gigabyte
			o.seen[row.id] = j
			return nil
		}), o.queue, ids),
		o.b.step("operate_look_history", place, o.queue, ids), hot)
}

// cutBehind leaves a job that waits behind an earlier job of this decision, and all jobs after it, for the next
// decision: when the earlier job ends, the job behind it changes its state.
func (o *operating) cutBehind() {
	earlier := make(map[string]bool, len(o.results))
	for i, r := range o.results {
		if j := o.seen[r.Ref.ID]; j != nil {
			if before, ok := broker.IsBehind(j.holder); ok && earlier[before] {
				o.results, o.later = o.results[:i], slices.Concat(o.results[i:], o.later)
				return
			}
		}
		earlier[r.Ref.ID] = true
	}
}

// choose fills in the results of jobs that need no write, and returns the others.
func (o *operating) choose() []*broker.OperationResult {
	var chosen []*broker.OperationResult
	for _, r := range o.results {
		j := o.seen[r.Ref.ID]
		if j == nil {
			r.Err = broker.ErrNotFound
			continue
		}
		r.State = j.state
		done, err := o.op.Decide(r.Ref, j.state, j.epoch, j.holder)
		if err != nil {
			r.Err, r.Holder = err, j.holder
		} else if !done {
			chosen = append(chosen, r)
		}
	}
	return chosen
}

func (o *operating) write(ctx context.Context, s session, chosen []*broker.OperationResult) error {
	ids := make([]string, len(chosen))
	for i, r := range chosen {
		ids[i] = r.Ref.ID
	}
	switch o.op.Kind {
	case broker.OpCancel:
		return o.cancel(ctx, s, chosen)
	case broker.OpDelete:
		for _, r := range chosen {
			r.State = broker.StateNone
		}
		return s.run(ctx, o.b.step("operate_delete", nil, o.now.micros, o.queue, ids, o.op.Holder != ""))
	case broker.OpHold:
		for _, r := range chosen {
			r.State = broker.StateWaiting
		}
		return s.run(ctx, o.b.step("operate_hold", nil, o.queue, ids, o.op.Holder))
	case broker.OpUnhold:
		return o.unhold(ctx, s, chosen, ids)
	case broker.OpEdit:
		return o.edit(ctx, s, chosen[0])
	case broker.OpReschedule:
		return o.reschedule(ctx, s, chosen, ids)
	case broker.OpRedrive:
		return o.redrive(ctx, s, chosen)
	}
	tails, out := make([][]byte, len(chosen)), o.op.Kind == broker.OpSuppress
	for i, r := range chosen {
		head := o.seen[r.Ref.ID].dead.Head
		head.Suppressed = out
		tails[i] = broker.AppendTail([]byte{}, &head)
	}
	return s.run(ctx, o.b.step("operate_suppress", nil, o.queue, ids, tails, out))
}

// cancel ends jobs that are not active, and asks the workers of active jobs to end them.
func (o *operating) cancel(ctx context.Context, s session, chosen []*broker.OperationResult) error {
	var active, waiting []string
	for _, r := range chosen {
		if r.State == broker.StateActive {
			active = append(active, r.Ref.ID)
		} else {
			waiting = append(waiting, r.Ref.ID)
			r.State = broker.StateCancelled
		}
	}
	var steps []step
	if len(active) > 0 {
		steps = append(steps, o.b.step("operate_ask", nil, o.queue, active))
	}
	if len(waiting) > 0 {
		steps = append(steps, o.b.step("operate_cancel", nil, o.queue, waiting),
			o.b.step("cancelled", nil, o.now.micros, o.queue, waiting))
	}
	return s.run(ctx, steps...)
}

// tell publishes which jobs were cancelled, and which active jobs their workers must cancel.
func (o *operating) tell(ctx context.Context) {
	asked, settled := newEvents(cancelKind, o.queue), newEvents(settledKind, o.queue)
	for _, r := range o.results {
		switch {
		case r.Err != nil:
		case r.State == broker.StateActive:
			asked.add(r.State, r.Ref.ID)
		default:
			settled.add(r.State, r.Ref.ID)
		}
	}
	o.b.tell(ctx, o.queue, asked, true)
	o.b.tell(ctx, o.queue, settled, false)
}
