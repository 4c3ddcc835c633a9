package workflow

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/seed81422ce9/jobs"
	"github.com/seed81422ce9/jobs/broker"
	"github.com/seed81422ce9/jobs/internal/reserved"
)

// additions returns n additions to the graph of a workflow with the node n0, each of a node after the one before.
func additions(t *testing.T, n int) (*graph, *letters) {
	t.Helper()
	g := &graph{Nodes: []vertex{{Name: "n0"}}}
	if err := g.link(); err != nil {
		t.Fatal(err)
	}
	l := &letters{}
	for i := range n {
		before := fmt.Sprint("n", i)
		l.adds = append(l.adds, addition{id: addID("wf", "birth", fmt.Sprintf("%016d", i)),
			graph: &graph{By: before, Refs: []string{before}, Nodes: []vertex{{Name: fmt.Sprint("n", i+1), After: []int{-1}}}}})
	}
	return g, l
}

func TestLetters_TheWorkOfManyAdditionsGrowsWithTheirNumber(t *testing.T) {
	work := func(n int) float64 {
		return testing.AllocsPerRun(1, func() {
			g, l := additions(t, n)
			if added, err := l.grow(g, nil, make(map[string]bool)); err != nil || len(added) != n || len(g.topo) != n+1 {
				t.Fatalf("%d additions: %d were merged, %v", n, len(added), err)
			}
		})
	}
	if few, many := work(200), work(800); many > 6*few {
		t.Errorf("200 additions take %.0f allocations, 800 take %.0f", few, many)
	}
}

func TestLetters_RefuseAnAdditionForWhichTheStateHasNoRoom(t *testing.T) {
	t.Parallel()
	_, l := additions(t, 20_000)
	if err := l.fit("wf/:add:birth:new", 20_001); !errors.Is(err, broker.ErrTooLarge) {
		t.Errorf("one addition more than there is room for: %v, want ErrTooLarge", err)
	}
	if err := l.fit(l.adds[0].id, 20_001); err != nil {
		t.Errorf("an addition that is there: %v", err)
	}
	st := state{Ends: ends(strings.Repeat("c", 19_000))}
	for i := range 19_000 {
		st.note(i, time.Now())
	}
	for n := 100; n < len(l.adds); n += 100 {
		l := &letters{adds: l.adds[:n]}
		if l.fit("wf/:add:birth:new", 19_000) != nil {
			break
		}
		for _, a := range l.adds[n-100:] {
			st.Added = append(st.Added, a.id)
		}
	}
	value, err := json.Marshal(&st)
	if err != nil {
		t.Fatal(err)
	}
	if size := len(value); size > broker.MaxResult || size < broker.MaxResult*7/10 {
		t.Errorf("the largest state has %d bytes, and a mark %d", size, broker.MaxResult)
	}
}

func TestLetters_LeaveOutTheAdditionsThatARunHasMerged(t *testing.T) {
	inWorld(t, func(w *world) {
		s := store{w.store}
		taken := make(map[string]bool)
		for i := range 3 {
			add := graph{Version: graphVersion, Birth: "birth", By: "n0", Nodes: []vertex{{Name: fmt.Sprint("n", i+1)}}}
			id := addID("wf", "birth", fmt.Sprint(i))
			if err := letter(w.Context(), s, "wf", id, typeAdd, reserved.Encode(add)); err != nil {
				t.Fatal(err)
			}
			taken[id] = i < 2
		}
		l, err := s.letters(w.Context(), "wf", "birth", taken)
		if err != nil || len(l.adds) != 1 || l.adds[0].Nodes[0].Name != "n3" {
			t.Errorf("read %+v, %v; want the third addition", l.adds, err)
		}
	})
}

func TestScope_AddsMoreThanHalfOfTheNodesAgain(t *testing.T) {
	t.Parallel()
	nodes := make([]Node, maxNodes/2+10)
	known := &graph{Nodes: []vertex{{Name: "a"}}}
	for i := range nodes {
		nodes[i].Name = fmt.Sprint("n", i)
		known.Nodes = append(known.Nodes, vertex{Name: nodes[i].Name})
	}
	if err := known.link(); err != nil {
		t.Fatal(err)
	}
	if err := (builder{}).vertices(&plan{graph: &graph{}}, nodes, known); err != nil {
		t.Error(err)
	}
	for i := range nodes {
		nodes[i].Name = fmt.Sprint("m", i)
	}
	if err := (builder{}).vertices(&plan{graph: &graph{}}, nodes, known); !errors.Is(err, broker.ErrTooLarge) {
		t.Errorf("as many other nodes: %v, want ErrTooLarge", err)
	}
}

func TestScope_AddsNothingToAWorkflowThatHasEnded(t *testing.T) {
	inWorld(t, func(w *world) {
		w.up()
		w.run(New("wf").Add(node("a")), StateCompleted)
		job := jobs.NewJob(&broker.Job{ID: w.info("wf").Nodes[0].JobID})
		late := &Scope{store: store{w.store}, client: w.client, job: job, id: "wf", node: "a"}
		if err := late.Add(w.Context(), node("b", "a")); !errors.Is(err, broker.ErrWrongState) {
			t.Errorf("a run that lost its lease adds a node: %v, want ErrWrongState", err)
		}
		if left := w.left("default"); len(left) > 0 {
			t.Errorf("jobs are left: %v", left)
		}
	})
}
