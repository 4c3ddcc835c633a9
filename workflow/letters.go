package workflow

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/seed81422ce9/jobs"
	"github.com/seed81422ce9/jobs/broker"
	"github.com/seed81422ce9/jobs/internal/reserved"
)

// Letters are what is sent to a workflow: signals, requests to cancel it, nodes that
// a handler adds, and the start of one that was stored in a transaction. Each is a job in the reserved queue with the
// workflow's key. A workflow reads all its letters each time it runs, so a letter
// can be sent before its workflow starts.
const (
	typeSignal = "signal"
	typeCancel = "cancel"
	typeAdd    = "add"
	typeBegin  = "begin" // the last job of a start in a transaction: all of the workflow is stored

	// letterSpan is how long letters to a workflow that never starts are kept.
	letterSpan = 30 * 24 * time.Hour
)

func letterKey(id string) string          { return "to:" + id }
func signalID(id, name string) string     { return id + "/:signal:" + name }
func cancelID(id, birth string) string    { return id + "/:cancel:" + birth }
func beginID(id, birth string) string     { return id + "/:begin:" + birth }
func addID(id, birth, hash string) string { return id + "/:add:" + birth + ":" + hash }

// letter stores a letter. The error is ErrDuplicate if it is stored already.
func letter(ctx context.Context, to broker.Producer, workflow, id, typ string, payload []byte) error {
	return put(ctx, to, broker.NewJob{ID: id, Delay: letterSpan,
		Body: broker.Body{Type: typ, Payload: payload, Key: letterKey(workflow), Source: Queue + "/" + workflow}})
}

// letters are what was sent to a workflow.
type letters struct {
	signals map[string]bool
	begun   bool
	cancel  *cancelLetter
	adds    []addition
}

type cancelLetter struct {
	By    string `json:"by,omitempty"`
	Birth string `json:"birth"`
}

type addition struct {
	id string
	at time.Time
	*graph
}

// letters reads what was sent to a workflow, additions in the order of their
// creation, without those in taken and without the payloads of signals.
func (s store) letters(ctx context.Context, id, birth string, taken map[string]bool) (l letters, err error) {
	l.signals = make(map[string]bool)
	prefix := signalID(id, "")
	var others []broker.Ref
	err = s.each(ctx, broker.Query{Key: letterKey(id), NoPayload: true, Limit: maxLook}, func(page []broker.Job) error {
		for i := range page {
			switch {
			case page[i].Type == typeSignal:
				l.signals[strings.TrimPrefix(page[i].ID, prefix)] = true
			case page[i].Type == typeBegin:
				l.begun = l.begun || page[i].ID == beginID(id, birth)
			case !taken[page[i].ID]:
				others = append(others, page[i].Ref())
			}
		}
		return nil
	})
	if err != nil || len(others) == 0 {
		return l, err
	}
	var malformed error
	err = s.look(ctx, others, true, func(job *broker.Job) {
		switch job.Type {
		case typeCancel:
			var c cancelLetter
			if json.Unmarshal(job.Payload, &c) == nil && c.Birth == birth {
				l.cancel = &c
			}
		case typeAdd:
			g, err := decode(job.Payload)
			if err != nil {
				malformed = err
			} else if g.Birth == birth {
				l.adds = append(l.adds, addition{job.ID, job.CreatedAt, g})
			}
		}
	})
	slices.SortFunc(l.adds, func(a, b addition) int { return cmp.Or(a.at.Compare(b.at), cmp.Compare(a.id, b.id)) })
	return l, cmp.Or(err, malformed)
}

// grow merges additions that are not in taken into a graph: first those that
// earlier runs merged, in their order, and then new ones. It returns the IDs of
// all additions in that order.
func (l *letters) grow(g *graph, added []string, taken map[string]bool) ([]string, error) {
	if len(l.adds) == 0 && len(added) == len(taken) {
		return added, nil
	}
	byID := make(map[string]*graph, len(l.adds))
	for _, a := range l.adds {
		byID[a.id] = a.graph
	}
	known := make(map[string]bool, len(added))
	for _, id := range added {
		known[id] = true
	}
	added = slices.Clip(added)
	for _, a := range l.adds {
		if !known[a.id] {
			added = append(added, a.id)
		}
	}
	for _, id := range added {
		if taken[id] {
			continue
		}
		if byID[id] == nil {
			return nil, fmt.Errorf("%w: the addition %s was deleted", broker.ErrMalformed, id)
		}
		if err := g.merge(byID[id]); err != nil {
			return nil, err
		}
		taken[id] = true
	}
	return added, g.link()
}

// perNode is about how many bytes of a workflow's state one node takes at most.
const perNode = 40

// fit refuses another addition if the state of a workflow with that many nodes could not name it: a run
// could not store the state, and the workflow would stand still.
func (l *letters) fit(id string, nodes int) error {
	size := nodes * perNode
	for _, a := range l.adds {
		if a.id == id {
			return nil
		}
		size += len(a.id) + len(`"",`)
	}
	if size += len(id); size > broker.MaxResult {
		return &broker.Error{Field: "additions", Err: broker.ErrTooLarge,
			Hint: fmt.Sprintf("the workflow has %d, and its state has no room for another one; add more nodes at once", len(l.adds))}
	}
	return nil
}

// letterDue handles a letter that is due: it drops the letter unless its workflow exists. Without the nodes
// that handlers added, the sweep would not find their records.
func (x *runner) letterDue(ctx context.Context, job *jobs.Job) error {
	id := strings.TrimPrefix(job.PartitionKey(), letterKey(""))
	state, err := reserved.State(ctx, x, Queue, id)
	switch {
	case err != nil:
		return jobs.Snooze(reserved.FailedPause)
	case state != broker.StateNone:
		return jobs.Snooze(letterSpan)
	}
	return nil
}

// Signal sends a signal to a workflow, even to one that has not been started yet.
// Nodes that wait for a signal of that name get the payload as their result. A signal is sent once: the
// error is ErrDuplicate if a signal of that name was sent before, and the first payload stays. It is
// ErrWrongState if the workflow has ended. Signals to a workflow that is not started are kept for 30
// days.
//
// After another error the signal may have been sent; sending it again is safe.
func Signal(ctx context.Context, client *jobs.Client, workflow, name string, payload []byte) error {
	return with(ctx, client, "signal workflow", workflow, func(s store) error { return s.signal(ctx, workflow, name, payload) })
}

var errRemoved error = &broker.Error{Err: broker.ErrWrongState,
	Hint: "the workflow has ended and was removed; if it is for the next one with this ID, send the signal when that has started"}

var errOver = &broker.Error{Err: broker.ErrWrongState, Hint: "the workflow has ended"}

// hasEnded reports whether a workflow has ended and cannot be retried, given the state of its job.
func hasEnded(state broker.State) bool {
	return state == broker.StateCompleted || state == broker.StateCancelled
}

func (s store) signal(ctx context.Context, workflow, name string, payload []byte) error {
	if err := checkName("signal", name); err != nil {
		return err
	}
	if len(payload) > broker.MaxResult {
		return &broker.Error{Field: "payload", Err: broker.ErrTooLarge, Hint: "it is the result of a node, which has at most a megabyte"}
	}
	state, err := reserved.State(ctx, s, Queue, workflow)
	switch {
	case err != nil:
		return err
	case hasEnded(state):
		return errOver
	case state == broker.StateNone:
		if over, err := s.removed(ctx, workflow); over || err != nil {
			return cmp.Or(err, errRemoved)
		}
	}
	if err := letter(ctx, s, workflow, signalID(workflow, name), typeSignal, payload); err != nil {
		if errors.Is(err, broker.ErrDuplicate) {
			_ = s.nudge(ctx, workflow) // this may be a repetition whose first nudge was lost
			return &broker.Error{Field: "signal", Err: broker.ErrDuplicate, Hint: "a signal of this name was sent, and its payload stays"}
		}
		return err
	}
	return s.nudge(ctx, workflow)
}

// Cancel cancels a workflow: running nodes are cancelled, no more nodes start,
// and compensations run. It returns as soon as the request is stored. by says who cancelled it, for
// operators to see. The error is ErrNotFound if the workflow does not exist, and ErrWrongState if it has
// ended. Cancelling again changes nothing.
func Cancel(ctx context.Context, client *jobs.Client, id, by string) error {
	return with(ctx, client, "cancel workflow", id, func(s store) error { return s.cancel(ctx, id, by) })
}

func (s store) cancel(ctx context.Context, id, by string) error {
	job, err := reserved.Find(ctx, s, Queue, id)
	if err != nil {
		return err
	}
	if job.State.Final() {
		return &broker.Error{Err: broker.ErrWrongState, Hint: "the workflow is " + string(stateOfJob(job.State))}
	}
	g, err := decode(job.Payload)
	if err != nil {
		return err
	}
	text, err := json.Marshal(cancelLetter{By: by, Birth: g.Birth})
	if err == nil {
		err = letter(ctx, s, id, cancelID(id, g.Birth), typeCancel, text)
	}
	if err != nil && !errors.Is(err, broker.ErrDuplicate) {
		return err
	}
	return s.nudge(ctx, id)
}

// checkNested checks the ID of a workflow, which may be nested.
func checkNested(id string) error {
	for name := range strings.SplitSeq(id, "/") {
		if err := checkName("id", name); err != nil && len(name) <= maxName {
			return err
		}
	}
	return broker.CheckName("id", id)
}

// stateOfJob returns the state of a workflow whose job has this state.
func stateOfJob(state broker.State) State {
	switch state {
	case broker.StateCompleted:
		return StateCompleted
	case broker.StateCancelled:
		return StateCancelled
	case broker.StateDead:
		return StateFailed
	}
	return StateRunning
}
