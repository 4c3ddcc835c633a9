package workflow

import (
	"bytes"
	"context"
	"fmt"
	"time"

	"github.com/seed81422ce9/jobs/broker"
	"github.com/seed81422ce9/jobs/internal/reserved"
)

// state is what a workflow has seen and decided. It is the value of a mark, whose
// fence orders the writers: one that was overtaken writes nothing.
type state struct {
	Version int       `json:"v"`
	Birth   string    `json:"birth"`
	Phase   phase     `json:"phase"`
	Ends    ends      `json:"ends,omitempty"` // by node: how it ended, one of endWaiting and so on
	Outcome State     `json:"outcome,omitempty"`
	Cause   string    `json:"cause,omitempty"`   // why it failed or was cancelled
	Late    bool      `json:"late,omitempty"`    // its deadline passed
	Added   []string  `json:"added,omitempty"`   // the additions that were merged, in this order
	Changed time.Time `json:"changed,omitzero"`  // when it last saw or decided something
	Ended   time.Time `json:"ended,omitzero"`    //
	Times   times     `json:"times,omitempty"`   // of a waiting node: since when; of one to compensate: its end
	Undo    []int     `json:"undo,omitempty"`    // the nodes to compensate, in order
	Undone  int       `json:"undone,omitempty"`  // how many of their compensations have ended
	UndoLet int       `json:"undo_let,omitzero"` // how many compensations were let go
	Broken  []int     `json:"broken,omitempty"`  // those whose compensation did not complete
	Redo    bool      `json:"redo,omitzero"`     // the compensations are dead, and Retry runs them again
}

// ends are stored as text.
type ends []byte

func (e ends) MarshalText() ([]byte, error)     { return e, nil }
func (e *ends) UnmarshalText(text []byte) error { *e = append((*e)[:0], text...); return nil }

// times are microseconds by node.
type times map[int]int64

type phase string

const (
	phaseStarting phase = "starting" // its client may not have stored all of it
	phaseAborted  phase = "aborted"  // it was given up before all of it was stored
	phaseParked   phase = "parked"   // of a nested one: its node is not ready
	phaseRunning  phase = "running"
	phaseStopping phase = "stopping" // no more nodes start
	phaseUndoing  phase = "compensating"
	phaseEnded    phase = "ended"
)

// How nodes ended, and the states of those that have not.
const (
	endWaiting   = '.'
	endLetGo     = '>' // its job was let go
	endAgain     = 'R' // its dead job will be redriven
	endCompleted = 'c'
	endDead      = 'd'
	endCancelled = 'x'
	endGone      = 'g'
	endExpired   = 'e'
	endSkipped   = 's'

	everyEnd = ".>Rcdxges"
)

func ended(e byte) bool { return e != endWaiting && e != endLetGo && e != endAgain }

// badly reports whether a node ended without completing, and was not skipped.
func badly(e byte) bool {
	return e == endDead || e == endCancelled || e == endGone || e == endExpired
}

// first returns the phase of a workflow that has no state yet.
func (g *graph) first() phase {
	if g.Parent != "" {
		return phaseParked
	}
	return phaseStarting
}

const stateVersion = 1

// held is the state of a workflow, and the right to write it.
type held struct {
	state
	id    string
	fence int64
	now   time.Time // the store's time when it was taken
}

// take reads a workflow's state. Earlier readers of it can no longer write. A
// workflow without a state gets one with phase p.
func (s store) take(ctx context.Context, id, birth string, p phase) (*held, error) {
	first := state{Version: stateVersion, Birth: birth, Phase: p}
	h := &held{id: id}
	m, err := s.states().Take(ctx, id, first, &h.state)
	if err != nil {
		return nil, err
	}
	if strange := bytes.Trim(h.Ends, everyEnd); len(strange) > 0 { // perhaps the node has not ended
		return nil, fmt.Errorf("%w: the workflow's state: a node has the state %q", broker.ErrMalformed, strange[0])
	}
	h.fence, h.now = m.Fence, m.Until.Add(-broker.MaxDelay) // saves a call for the store's time
	if h.Birth != birth {                                   // the state belongs to an earlier workflow with this ID, or to a later one
		if err := s.owns(ctx, id, birth); err != nil {
			return nil, err
		}
		h.state = first
		return h, s.save(ctx, h, broker.MaxDelay)
	}
	return h, nil
}

// owns returns nil if the workflow with this ID is still the one with that birth: a caller that hung for long must
// not change the state of the next one. Otherwise the error is ErrNotFound.
func (s store) owns(ctx context.Context, id, birth string) error {
	job, err := reserved.Find(ctx, s, Queue, id)
	if err != nil {
		return err
	}
	g, err := decode(job.Payload)
	if err == nil && g.Birth != birth {
		err = &broker.Error{Err: broker.ErrNotFound, Hint: "it was removed, and another workflow has its ID by now"}
	}
	return err
}

// peek reads a workflow's state; ok is false if it has none.
func (s store) peek(ctx context.Context, id, birth string) (st state, ok bool, err error) {
	ok, err = s.states().Peek(ctx, id, &st)
	return st, ok && st.Birth == birth, err
}

// save writes a workflow's state, unless another reader has taken it since.
func (s store) save(ctx context.Context, h *held, ttl time.Duration) error {
	return s.states().Keep(ctx, h.id, h.fence, ttl, &h.state)
}

// fit extends Ends to the number of nodes.
func (st *state) fit(nodes int) {
	for len(st.Ends) < nodes {
		st.Ends = append(st.Ends, endWaiting)
	}
}

// since returns the time that was recorded for a node.
func (st *state) since(i int) (time.Time, bool) {
	v, ok := st.Times[i]
	return time.UnixMicro(v).UTC(), ok
}

func (st *state) note(i int, at time.Time) {
	if st.Times == nil {
		st.Times = make(times)
	}
	st.Times[i] = at.UnixMicro()
}
