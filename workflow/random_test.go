package workflow

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/seed81422ce9/jobs"
	"github.com/seed81422ce9/jobs/broker"
)

// shaper makes random nodes: jobs that fail, take time or add nodes, joins, signals that do not come, and
// nested workflows.
type shaper struct {
	*rand.Rand
	w      *world
	healed bool // nothing fails any more
}

func (s *shaper) nodes(prefix string, depth int) Part {
	nodes := make(part, 1+s.IntN(6))
	for i := range nodes {
		v := &nodes[i]
		v.Name = fmt.Sprint(prefix, i)
		switch s.IntN(6) {
		case 0: // a join
		case 1:
			if depth < 2 {
				v.Workflow = New("").Add(s.nodes(v.Name+"_", depth+1))
			}
		case 2:
			v.Signal, v.Within = "never", s.while(200)
		default:
			v.Task = task()
			if s.IntN(3) == 0 {
				v.Compensate = task()
			}
			s.w.on(v.Name, s.handler(v.Name, depth))
		}
		v.OnDead = []OnDead{Fail, Fail, Continue, Skip}[s.IntN(4)]
		for j := range i {
			switch s.IntN(6) {
			case 0, 1:
				v.After = append(v.After, nodes[j].Name)
			case 2:
				v.AfterAny = append(v.AfterAny, nodes[j].Name)
			}
		}
	}
	return nodes
}

// while returns a random time of up to n seconds.
func (s *shaper) while(n int) time.Duration { return time.Duration(1+s.IntN(n)) * time.Second }

func (s *shaper) handler(name string, depth int) jobs.HandlerFunc {
	took, bad, adds := s.while(60), s.IntN(6) == 0, depth == 0 && s.IntN(5) == 0
	return func(ctx context.Context, _ *jobs.Job) error {
		if adds {
			if err := Of(ctx).Add(ctx, node(name+"x"), node(name+"y", name+"x", name)); err != nil {
				return err
			}
		}
		select {
		case <-time.After(took):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		if bad && !s.healed {
			return fmt.Errorf("%w: bad", jobs.SkipRetry)
		}
		return nil
	}
}

// wait waits for the end of the workflow.
func (w *world) wait() Info {
	w.Helper()
	ctx, cancel := context.WithTimeout(w.Context(), 10*time.Hour)
	defer cancel()
	_, _ = Wait(ctx, w.client, "w")
	info := w.info("w")
	if !info.State.Ended() {
		w.Fatalf("it does not end: it is %s (%s); %s", info.State, info.Cause, states(info))
	}
	return info
}

// Whatever its shape and whatever happens to it, a workflow ends, runs each compensation and each callback
// once at most, and leaves nothing behind when its retention is over and what failed was deleted.
func TestWorkflow_OfAnyShapeEndsAndLeavesNothing(t *testing.T) {
	for seed := range uint64(60) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			inWorld(t, func(w *world) {
				s := &shaper{Rand: rand.New(rand.NewPCG(seed, 0)), w: w}
				wf := New("w").Add(s.nodes("n", 0))
				wf.OnEnd = task()
				if s.IntN(4) == 0 {
					wf.Deadline = time.Now().Add(s.while(300))
				}
				w.up()
				w.start(wf)
				if s.IntN(3) == 0 {
					pass(s.while(200))
					if err := Cancel(w.Context(), w.client, "w", ""); err != nil && !errors.Is(err, broker.ErrWrongState) {
						t.Error(err)
					}
				}
				state := w.wait().State
				if state == StateFailed {
					s.healed = true
					err := Retry(w.Context(), w.client, "w")
					if err != nil && !errors.Is(err, broker.ErrWrongState) {
						t.Error(err)
					}
					pass(time.Second)
					state = w.wait().State
				}
				pass(time.Minute)
				for name, n := range w.runs {
					if name[0] == ':' && n > 1 || name == whenEnded && n != 1 {
						t.Errorf("%s ran %d times", name, n)
					}
				}
				if state == StateFailed {
					if err := Delete(w.Context(), w.client, "w"); err != nil {
						t.Error(err)
					}
				}
				pass(25 * time.Hour)
				w.deletesNested()
				w.deletesDead()
				pass(25 * time.Hour)
				if left := append(w.left("default"), w.left(Queue)...); len(left) > 0 {
					t.Errorf("it was %s, and %v are left", state, left)
				}
			})
		})
	}
}

// deletesNested deletes the nested workflows that failed and are left, outer ones first.
func (w *world) deletesNested() {
	w.Helper()
	for {
		page, err := List(w.Context(), w.client, ListOptions{Nested: true})
		if err != nil {
			w.Fatal(err)
		}
		deleted := false
		for _, nested := range page.Workflows {
			deleted = Delete(w.Context(), w.client, nested.ID) == nil || deleted
		}
		if !deleted {
			return
		}
	}
}

// deletesDead deletes the dead nodes, which stay for a decision.
func (w *world) deletesDead() {
	w.Helper()
	page, err := w.store.Find(w.Context(), broker.Query{Queue: "default", State: broker.StateDead, Limit: 1000})
	if err == nil {
		err = store{w.store}.operate(w.Context(), broker.Operation{Kind: broker.OpDelete}, refsOf(page.Jobs), nil)
	}
	if err != nil {
		w.Fatal(err)
	}
}

func refsOf(page []broker.Job) (refs []broker.Ref) {
	for i := range page {
		refs = append(refs, page[i].Ref())
	}
	return refs
}
