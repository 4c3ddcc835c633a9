package workflow

import (
	"context"
	"sync"
	"time"

	"github.com/seed81422ce9/jobs"
	"github.com/seed81422ce9/jobs/broker"
)

// nudger wakes the workflows whose nodes a server settles. It only saves time: if
// a nudge is lost, the workflow continues a few seconds later.
type nudger struct {
	mu   sync.Mutex
	due  map[string]*nudge
	wake chan struct{}
}

// nudge is a workflow to wake, or one that was woken recently.
type nudge struct {
	at    time.Time     // when to wake it; zero if no nudge is pending
	count int           // nodes that ended since the workflow was woken
	last  time.Time     // when it was woken
	gap   time.Duration // the least time between two nudges while many nodes end
	tries int           // nudges that found it running
}

const (
	// If this many nodes ended since the last nudge, the gap between nudges
	// doubles, because each run looks at all running nodes.
	crowd          = 8
	gapMin, gapMax = 10 * time.Millisecond, 250 * time.Millisecond
	// A workflow that was running is nudged again after busyMin, doubled each
	// time, up to busyTries times.
	busyMin, busyTries = time.Millisecond, 9
	// nudgeMemory is how long a workflow is remembered after its last nudge.
	nudgeMemory = 2 * gapMax
)

func (n *nudger) init() { n.due, n.wake = make(map[string]*nudge), make(chan struct{}, 1) }

// settled nudges the workflows of jobs that a server has settled.
func (n *nudger) settled(e jobs.SettleEvent) {
	for i := range e.Verdicts { // in the order of the items
		id := e.Items[i].Job.Headers[HeaderWorkflow]
		if v := &e.Verdicts[i]; id == "" || !v.State.Final() && v.Err == nil {
			continue
		}
		if checkNested(id) == nil { // any producer can set the header: it must wake no sweep or letter, and spoil no call for others
			n.note(id)
		}
	}
}

func (n *nudger) note(id string) {
	now := time.Now()
	n.mu.Lock()
	w := n.due[id]
	if w == nil {
		w = &nudge{}
		n.due[id] = w
	}
	w.count++
	if w.at.IsZero() {
		w.at, w.tries = now, 0
		if w.gap > 0 && now.Before(w.last.Add(w.gap)) {
			w.at = w.last.Add(w.gap)
		}
	}
	n.mu.Unlock()
	select {
	case n.wake <- struct{}{}:
	default:
	}
}

// next returns the workflows to wake now, and clears their nudges. wait is the
// time until the next nudge, or -1 if none is pending.
func (n *nudger) next(now time.Time) (ids []string, wait time.Duration) {
	n.mu.Lock()
	defer n.mu.Unlock()
	wait = -1
	for id, w := range n.due {
		switch {
		case w.at.IsZero():
			if now.Sub(w.last) > nudgeMemory {
				delete(n.due, id)
			}
			continue
		case w.at.After(now) || len(ids) == maxOperate:
			if left := max(w.at.Sub(now), 0); wait < 0 || left < wait {
				wait = left
			}
			continue
		}
		if w.count >= crowd {
			w.gap = min(max(2*w.gap, gapMin), gapMax)
		} else {
			w.gap = 0
		}
		w.at, w.last, w.count = time.Time{}, now, 0
		ids = append(ids, id)
	}
	return ids, wait
}

// again plans another nudge, a moment later, for a workflow that was running.
func (n *nudger) again(id string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	w := n.due[id]
	if w == nil || !w.at.IsZero() || w.tries == busyTries {
		return
	}
	w.at = time.Now().Add(busyMin << w.tries)
	w.tries++
}

// once wakes workflows with a pending nudge, including those that a server would
// wake a moment later. If begin is set, it wakes all workflows, because earlier events are unknown.
func (x *runner) once(ctx context.Context, begin bool) error {
	x.awake.Store(true)
	ids, _ := x.nudges.next(time.Now().Add(gapMax))
	if begin {
		for _, state := range []broker.State{broker.StateScheduled, broker.StateRetry} {
			q := broker.Query{State: state, Type: typeWorkflow, NoPayload: true, Limit: maxOperate}
			err := x.each(ctx, q, func(page []broker.Job) error {
				for i := range page {
					ids = append(ids, page[i].ID)
				}
				return nil
			})
			if err != nil {
				return err
			}
		}
	}
	if len(ids) > 0 {
		if err := x.wakeAll(ctx, ids); err != nil {
			return err
		}
	}
	return ctx.Err()
}

// loop wakes workflows until ctx ends.
func (x *runner) loop(ctx context.Context) {
	x.awake.Store(false)
	for {
		ids, wait := x.nudges.next(time.Now())
		if len(ids) > 0 {
			_ = x.wakeAll(ctx, ids) // it planned other nudges
			continue
		}
		var after <-chan time.Time
		if wait >= 0 {
			after = time.After(wait)
		}
		select {
		case <-x.nudges.wake:
		case <-after:
		case <-ctx.Done():
			return
		}
	}
}

func (x *runner) wakeAll(ctx context.Context, ids []string) error {
	refs := make([]broker.Ref, len(ids))
	for i, id := range ids {
		refs[i] = broker.Ref{Queue: Queue, ID: id, Epoch: broker.AnyEpoch}
	}
	err := x.operate(ctx, broker.Operation{Kind: broker.OpReschedule}, refs, func(i int, r broker.OperationResult) {
		if r.Err != nil && r.State == broker.StateActive {
			x.nudges.again(ids[i])
		}
	})
	if err != nil && ctx.Err() == nil {
		for _, id := range ids {
			x.nudges.again(id)
		}
	}
	return err
}
