package inspect

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/oklog/ulid/v2"

	"github.com/seed81422ce9/jobs/broker"
)

// Destination says where jobs are moved to.
type Destination struct {
	// Broker is the store; the caller closes it.
	Broker broker.Broker
	// Queue is the queue in that store; empty means the same name.
	Queue string
	// Copy leaves the jobs at the source unchanged. Then both copies of a waiting job
	// will run.
	Copy bool
	// SharedBlobs says that the workers of the other store read the same blob store, and
	// that payload.CollectBlobs gets both stores. Without it, jobs whose payload is a blob
	// of payload.ClaimCheck are not moved to another store. Within one store it has no
	// meaning.
	SharedBlobs bool
}

// Move moves the selected jobs to another store, of any backend, or to another
// queue, with their IDs, bytes, errors, counts and times. The selection is by
// state: pending, scheduled, retry, dead, completed or cancelled. Running jobs
// are not moved; run the move again for them. Like every decision, it takes
// only jobs that existed when it started, at PerSecond and up to Limit. Switch
// producers to the destination first.
//
// No job is ever claimable in both stores, and none is lost, even if the process dies.
// A job that waits to run is first held at the source (in state waiting, for this
// destination), then enqueued at the destination, then deleted at the source. A new
// move first finishes the jobs that an earlier one to the same destination left held.
// UndoMove puts them back instead.
//
// Report.Done counts jobs that are at the destination, and Repeated those that were
// there already. A job that is refused stays at the source. The error is ErrDuplicate if
// another job at the destination has its ID, or its unique key; then Holder is that job's
// ID. It is ErrQueueFull, ErrTooLarge or ErrNewerForm if the destination cannot take the
// job, and ErrWrongState if another decision changed the job meanwhile. It is
// ErrClaimCheck if the payload is a blob that the destination may not have: see
// Destination.SharedBlobs. It is ErrInvalid if the destination is several shards, one of
// them is the source, and the job belongs into that one.
//
// The report is valid even with an error. The text of ErrUnsupported says which of the
// two stores does not move jobs (broker.Limits.NoMove). After ErrUnavailable, jobs may
// still be held.
func (s Selection) Move(ctx context.Context, to Destination) (Report, error) {
	m, err := s.inspector.mover(ctx, s.query.Queue, to, true)
	if err != nil {
		return Report{}, err
	}
	switch state := s.query.State; {
	case len(s.query.IDs) > 0 || state == broker.StateNone || state == broker.StateActive || state == broker.StateWaiting:
		err := broker.Invalid("state", "is %v; move jobs by state: pending, scheduled, retry, dead, completed or cancelled", state)
		return Report{}, broker.About(err, "move", s.query.Queue, "")
	case to.Copy || state.Final():
		return s.copyTo(ctx, m)
	}
	var report Report
	if err := m.finishHeld(ctx, &report); err != nil {
		return report, err
	}
	return s.holdAndMove(ctx, m, report)
}

// FinishMove finishes earlier moves of a queue to the same destination whose processes
// died: it moves the jobs that they left held. Move does this too.
func (i *Inspector) FinishMove(ctx context.Context, queue string, to Destination) (report Report, err error) {
	m, err := i.mover(ctx, queue, to, true)
	if err != nil {
		return report, err
	}
	return report, m.finishHeld(ctx, &report)
}

// UndoMove takes the jobs that are held by moves to a destination, and puts them back
// into their queue. Jobs that are already at the destination are deleted here instead,
// and count as Repeated. So are jobs that ran there and left no record, as long as the
// queue there remembers their IDs (Policy.DuplicateSpan, an hour by default); after that
// they are put back and run again. Do not use UndoMove while such a move is running.
//
// Without a Broker in to, it puts back the jobs of every move from the queue without
// looking at destinations: a job that is already at its destination then runs twice.
func (i *Inspector) UndoMove(ctx context.Context, queue string, to Destination) (report Report, err error) {
	if to.Broker == nil {
		if err := i.check(ctx); err != nil {
			return report, err
		}
		if err := i.canMove("the source"); err != nil {
			return report, broker.About(err, "undo a move", queue, "")
		}
		return report, i.eachHeld(ctx, queue, movePrefix, func(page []broker.Job) error { return i.unhold(ctx, page, &report) })
	}
	m, err := i.mover(ctx, queue, to, true)
	if err != nil {
		return report, err
	}
	return report, i.eachHeld(ctx, queue, m.holder, func(page []broker.Job) error {
		var back, there, gone []broker.Job
		for n := range page {
			j := page[n].Copy()
			j.Queue = m.queue
			answer, err := m.to.same(ctx, &j)
			switch {
			case err != nil:
				return err
			case answer.Gone:
				gone = append(gone, page[n])
			case answer.Repeated && !isSource(answer.There, &page[n]):
				there = append(there, page[n])
			default:
				back = append(back, page[n])
			}
		}
		ran, err := m.remembered(ctx, gone)
		if err != nil {
			return err
		}
		for n := range gone {
			if ran[gone[n].ID] {
				there = append(there, gone[n])
			} else {
				back = append(back, gone[n])
			}
		}
		report.Repeated += len(there)
		return errors.Join(m.deleteMoved(ctx, there, &report), i.unhold(ctx, back, &report))
	})
}

// CountHeld counts the jobs that UndoMove would take back, and changes nothing.
func (i *Inspector) CountHeld(ctx context.Context, queue string, to Destination) (int, error) {
	if err := i.check(ctx); err != nil {
		return 0, err
	}
	holder := movePrefix
	if to.Broker != nil {
		m, err := i.mover(ctx, queue, to, false)
		if err != nil {
			return 0, err
		}
		holder = m.holder
	}
	return i.Select(Query{Queue: queue, State: broker.StateWaiting}).Where(holdsIt(holder)).Count(ctx)
}

// mover moves jobs of one queue to one destination.
type mover struct {
	from, to *Inspector
	source   string // queue
	queue    string // at the destination
	holder   string // the holder of held jobs
	copies   bool
	blobs    bool // jobs whose payloads are blobs can be moved
}

// canMove returns an error if the store does not support §27 to §29 of the contract.
func (i *Inspector) canMove(what string) error {
	if i.broker.Limits().NoMove {
		return &broker.Error{Field: what, Err: broker.ErrUnsupported, Hint: "its backend neither moves, restores nor edits jobs"}
	}
	return nil
}

// movePage is how many jobs are moved in one step. If the mover dies, so many are held until the move goes on.
const movePage = 50

// movePrefix is the beginning of the holders of all moves.
const movePrefix = "move:"

// mover returns a mover from a queue to a destination, whose store gets an ID if it has
// none and make is set.
func (i *Inspector) mover(ctx context.Context, queue string, to Destination, make bool) (*mover, error) {
	if err := i.check(ctx); err != nil {
		return nil, err
	}
	m := &mover{from: i, to: New(to.Broker), source: queue, queue: cmp.Or(to.Queue, queue), copies: to.Copy}
	err := cmp.Or(m.to.check(ctx), broker.CheckQueue(queue), broker.CheckQueue(m.queue))
	if err == nil && !to.Copy { // a copy only reads the source
		err = i.canMove("the source")
	}
	if err == nil {
		err = m.to.canMove("the destination")
	}
	if err != nil {
		return nil, broker.About(err, "move", queue, "")
	}
	there, err := m.to.storeID(ctx, make)
	if err != nil {
		return nil, fmt.Errorf("jobs: move: the destination: %w", err)
	}
	here, err := i.storeID(ctx, false)
	if err != nil {
		return nil, fmt.Errorf("jobs: move: the source: %w", err)
	}
	if here == there && here != "" && m.queue == queue {
		err := broker.Invalid("destination", "is the queue that has the jobs; name another queue or store")
		return nil, broker.About(err, "move", queue, "")
	}
	m.blobs = to.SharedBlobs || here == there
	m.holder = movePrefix + there + "/" + m.queue
	if len(m.holder) > broker.MaxNameLen {
		m.holder = fmt.Sprintf("%s%s/#%x", movePrefix, there, sha256.Sum256([]byte(m.queue)))
	}
	return m, nil
}

// storeMark is the mark with a store's ID, by which a repeated move recognizes its
// destination under any URL.
const storeMark = "jobs:store"

// StoreID returns the ID of the store, which is the same under every URL. A store
// without an ID gets one.
func (i *Inspector) StoreID(ctx context.Context) (string, error) {
	if err := i.check(ctx); err != nil {
		return "", err
	}
	return i.storeID(ctx, true)
}

// storeID returns the ID of the store. With make set, a store without an ID gets one.
func (i *Inspector) storeID(ctx context.Context, make bool) (string, error) {
	req := broker.MarkRequest{Action: broker.MarkRead, Name: storeMark}
	if make {
		req.Action, req.Owner, req.TTL, req.Value = broker.MarkTake, storeMark, broker.MaxDelay, []byte(ulid.Make().String())
	}
	var mark broker.Marked
	_, err := insist(ctx, func() (err error) {
		mark, err = call(ctx, i, broker.Broker.Mark, req)
		return err
	})
	return string(mark.Value), err
}

// holdsIt returns a function that reports whether a holder holds a job. If holder is
// movePrefix, this is any move.
func holdsIt(holder string) func(*broker.Job) bool {
	return func(j *broker.Job) bool {
		return j.Holder == holder || holder == movePrefix && strings.HasPrefix(j.Holder, movePrefix)
	}
}

// eachHeld calls f, page by page, with the jobs of a queue that a holder holds; see holdsIt.
func (i *Inspector) eachHeld(ctx context.Context, queue, holder string, f func([]broker.Job) error) error {
	ours := holdsIt(holder)
	for page, err := range i.Select(Query{Queue: queue, State: broker.StateWaiting}).pages(ctx, movePage, movePage) {
		if err != nil {
			return err
		}
		if err := f(slices.DeleteFunc(page.Jobs, func(j broker.Job) bool { return !ours(&j) })); err != nil {
			return err
		}
	}
	return nil
}

// unhold puts held jobs back into their queue.
func (i *Inspector) unhold(ctx context.Context, held []broker.Job, report *Report) error {
	byHolder := make(map[string][]broker.Ref)
	for n := range held {
		byHolder[held[n].Holder] = append(byHolder[held[n].Holder], held[n].Ref())
	}
	for holder, refs := range byHolder {
		results, err := i.insistOn(ctx, broker.Operation{Kind: broker.OpUnhold, Refs: refs, Holder: holder})
		if err != nil {
			return err
		}
		if report != nil {
			report.add(broker.OpUnhold, results)
			report.Matched += len(results)
		}
	}
	return nil
}
