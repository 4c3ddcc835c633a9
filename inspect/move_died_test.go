package inspect

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/seed81422ce9/jobs/backends/membroker"
	"github.com/seed81422ce9/jobs/broker"
)

// errDied is the error of calls after the process died.
var errDied = errors.New("the process died")

// death says when the moving process dies: before or after call number at, counted over
// both stores.
type death struct {
	mu    sync.Mutex
	at    int
	after bool
	calls int
	dead  bool
}

// mortal is a store whose calls fail once the process has died.
type mortal struct {
	broker.Broker
	*death
}

func dies[T any](m mortal, f func() (T, error)) (reply T, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.dead {
		return reply, errDied
	}
	m.calls++
	m.dead = m.calls == m.at
	if m.dead && !m.after {
		return reply, errDied
	}
	if reply, err = f(); m.dead {
		return *new(T), errDied
	}
	return reply, err
}

func (m mortal) Enqueue(ctx context.Context, req broker.EnqueueRequest) ([]broker.Receipt, error) {
	return dies(m, func() ([]broker.Receipt, error) { return m.Broker.Enqueue(ctx, req) })
}

// The process dies before or after each of its calls, and then another one finishes the
// move or undoes it.
func TestMove_AMoveWhoseProcessDiesAnywhere(t *testing.T) {
	for _, undo := range []bool{false, true} {
		for _, after := range []bool{false, true} {
			t.Run(fmt.Sprintf("undo=%v/after=%v", undo, after), func(t *testing.T) {
				t.Parallel()
				held, done := 0, false
				for at := 1; !done; at++ {
					synctest.Test(t, func(t *testing.T) {
						from, to := newPlace(membroker.New()), newPlace(membroker.New())
						from.put(t, pasts()...)
						want := from.all(t, "default")
						d := &death{at: at, after: after}
						_, err := moveAll(t.Context(), New(mortal{from.Broker, d}), "default", Destination{Broker: mortal{to.Broker, d}})
						if done = err == nil; done {
							return
						}
						if !strings.Contains(err.Error(), errDied.Error()) {
							t.Errorf("killed at call %d: %v", at, err)
						}
						here, there := from.all(t, "default"), to.all(t, "default")
						for id := range want {
							h, atSource := here[id]
							n, atDestination := there[id]
							if atSource && h.State == broker.StateWaiting {
								held++
							}
							if !atSource && !atDestination {
								t.Errorf("killed at call %d: %s is nowhere", at, id)
							}
							if atSource && atDestination && !h.State.Final() && h.State != broker.StateWaiting && !n.State.Final() {
								t.Errorf("killed at call %d: %s can be claimed in both stores", at, id)
							}
						}
						if undo {
							if _, err := from.UndoMove(t.Context(), "default", Destination{Broker: to.Broker}); err != nil {
								t.Errorf("killed at call %d: UndoMove: %v", at, err)
							}
							here, there = from.all(t, "default"), to.all(t, "default")
							for id, w := range want {
								h, atSource := here[id]
								n, atDestination := there[id]
								if atSource == atDestination && !w.State.Final() || h.State == broker.StateWaiting || n.State == broker.StateWaiting {
									t.Errorf("killed at call %d and undone: %s is %v here and %v there", at, id, h.State, n.State)
								}
							}
							return
						}
						if _, err := moveAll(t.Context(), from.Inspector, "default", Destination{Broker: to.Broker}); err != nil {
							t.Errorf("killed at call %d: the second move: %v", at, err)
						}
						sameJobs(t, to.all(t, "default"), want)
						if left := from.all(t, "default"); len(left) != 0 {
							t.Errorf("killed at call %d: %v is left", at, left)
						}
					})
				}
				if held < 4 {
					t.Errorf("jobs were held at %d deaths only: the test does not see the middle of a move", held)
				}
			})
		}
	}
}

// away is a store that is unreachable after some calls.
type away struct {
	broker.Broker
	left int
}

func (a *away) Enqueue(ctx context.Context, req broker.EnqueueRequest) ([]broker.Receipt, error) {
	if a.left--; a.left < 0 {
		return nil, broker.ErrUnavailable
	}
	return a.Broker.Enqueue(ctx, req)
}

func TestMove_ADestinationThatGoesAwayLeavesNothingHeld(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		from, to := newPlace(membroker.New()), newPlace(membroker.New())
		for n := range 120 {
			from.put(t, broker.NewJob{Queue: "default", ID: fmt.Sprint("p", n), Body: broker.Body{Type: "t", Priority: 2}})
		}
		report, err := from.Select(Query{Queue: "default", State: broker.StatePending}).Move(t.Context(),
			Destination{Broker: &away{to.Broker, 1}})
		if !errors.Is(err, broker.ErrUnavailable) || report.Done != movePage {
			t.Errorf("Move: %+v, %v", report, err)
		}
		for id, j := range from.all(t, "default") {
			if j.State != broker.StatePending {
				t.Errorf("%s is %v", id, j.State)
			}
		}
	})
}
