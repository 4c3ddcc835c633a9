package dashboard

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/seed81422ce9/jobs/workflow"
)

// nodeAt returns a node of a level, after others.
func nodeAt(level int, name string, after ...string) workflow.NodeInfo {
	return workflow.NodeInfo{Name: name, Level: level, After: after, State: workflow.StateWaiting}
}

func TestGraph_AChainIsARow(t *testing.T) {
	t.Parallel()
	d := layOut([]workflow.NodeInfo{nodeAt(0, "a"), nodeAt(1, "b", "a"), nodeAt(2, "c", "b")})
	for i, b := range d.Boxes {
		if x := graphEdge + i*(boxWidth+levelGap); b.X != x || b.Y != graphEdge {
			t.Errorf("%s is at %d, %d, want %d, %d", b.Name, b.X, b.Y, x, graphEdge)
		}
	}
	a, b, c := d.Boxes[0], d.Boxes[1], d.Boxes[2]
	middle := graphEdge + boxHeight/2
	if want := []graphLine{{a.X + boxWidth, middle, b.X, middle}, {b.X + boxWidth, middle, c.X, middle}}; !slices.Equal(d.Lines, want) {
		t.Errorf("the lines are %v, want %v", d.Lines, want)
	}
	if d.Width != c.X+boxWidth+graphEdge || d.Height != boxHeight+2*graphEdge {
		t.Errorf("the drawing has %d by %d", d.Width, d.Height)
	}
}

func TestGraph_ADiamondHasItsEndsInTheMiddle(t *testing.T) {
	t.Parallel()
	join := nodeAt(2, "d", "b")
	join.AfterAny = []string{"c"}
	d := layOut([]workflow.NodeInfo{nodeAt(0, "a"), nodeAt(1, "b", "a"), nodeAt(1, "c", "a"), join})
	first, above, below, last := d.Boxes[0], d.Boxes[1], d.Boxes[2], d.Boxes[3]
	if above.X != below.X || below.Y < above.Y+boxHeight {
		t.Errorf("b and c are at %d, %d and %d, %d, want one below the other", above.X, above.Y, below.X, below.Y)
	}
	if first.Y != last.Y || 2*first.Y != above.Y+below.Y {
		t.Errorf("a and d are at the heights %d and %d, want the middle of %d and %d", first.Y, last.Y, above.Y, below.Y)
	}
	if len(d.Lines) != 4 {
		t.Errorf("there are the lines %v, want 4", d.Lines)
	}
}

// Lines do not cross without need.
func TestGraph_NodesStandBesideThoseBeforeThem(t *testing.T) {
	t.Parallel()
	d := layOut([]workflow.NodeInfo{nodeAt(0, "a"), nodeAt(0, "b"), nodeAt(0, "c"),
		nodeAt(1, "after c", "c"), nodeAt(1, "after all", "a", "b", "c"), nodeAt(1, "after a", "a"), nodeAt(2, "last", "after c"),
		nodeAt(2, "first", "after a")})
	y := make(map[string]int)
	for _, b := range d.Boxes {
		y[b.Name] = b.Y
	}
	if y["after a"] >= y["after all"] || y["after all"] >= y["after c"] || y["first"] >= y["last"] {
		t.Errorf("the heights are %v", y)
	}
}

func TestGraph_AThousandNodesFitOnAScreen(t *testing.T) {
	t.Parallel()
	nodes := []workflow.NodeInfo{nodeAt(0, "split")}
	var names []string
	for i := range 1000 {
		names = append(names, fmt.Sprint("n", i))
		nodes = append(nodes, nodeAt(1, names[i], "split"))
	}
	g := graphOf(&workflow.Info{ID: "w", Nodes: append(nodes, nodeAt(2, "sum", names...))}, 0)
	if g.Zoom != 25 || g.ScaledWidth > 1400 || g.ScaledHeight > 600 {
		t.Errorf("at %d %% it has %d by %d pixels", g.Zoom, g.ScaledWidth, g.ScaledHeight)
	}
	if len(g.Lines) != 2000 {
		t.Errorf("there are %d lines, want 2000", len(g.Lines))
	}
	for _, l := range g.Lines {
		if l.X2 <= l.X1 {
			t.Fatalf("a line goes back: %v", l)
		}
	}
	taken := make(map[[2]int]string)
	for _, b := range g.Boxes {
		at := [2]int{b.X, b.Y}
		if taken[at] != "" {
			t.Fatalf("%s and %s are both at %v", taken[at], b.Name, at)
		}
		taken[at] = b.Name
		if b.X < graphEdge || b.Y < graphEdge || b.X+boxWidth+graphEdge > g.Width || b.Y+boxHeight+graphEdge > g.Height {
			t.Fatalf("%s at %v is outside of %d by %d", b.Name, at, g.Width, g.Height)
		}
	}
}

func TestGraph_IsShownAtAZoom(t *testing.T) {
	t.Parallel()
	s := newSite(t, Config{})
	s.workflow("order-42", workflow.Chain(step("reserve"), workflow.Node{Name: "approval", Signal: "approve"},
		workflow.Group(step("ship"), step(hostileWorkflow))))
	graph := func(page string) string {
		_, after, _ := strings.Cut(page, `<svg class="zoom-`)
		drawn, _, ok := strings.Cut(after, "</section>")
		if !ok {
			t.Fatalf("there is no graph:\n%s", body(page))
		}
		_, path, _ := strings.Cut(drawn, ` d="`)
		path, _, _ = strings.Cut(path, `"`)
		if boxes, lines := strings.Count(drawn, "<rect "), strings.Count(path, "M"); boxes != 4 || lines != 3 {
			t.Errorf("there are %d boxes and %d lines, want 4 and 3:\n%s", boxes, lines, drawn)
		}
		has(t, drawn, "<title>reserve: ", `<a href="job?id=order-42.`, `tabindex="-1"`, "&lt;img src=x")
		hasNot(t, drawn, "<img", "<script", "style=")
		return drawn
	}
	page := s.get(200, "workflow?id=order-42")
	has(t, graph(page), `100" aria-hidden="true"`, ">reserve</text>", `">waiting</text>`, ">approval</text>")
	has(t, page, `href="workflow?id=order-42&amp;zoom=25">25 %`, `zoom=100" aria-current="true"`,
		`role="region" aria-label="Graph of the nodes`)

	names := graph(s.get(200, "workflow?id=order-42&zoom=50"))
	has(t, names, ">reserve</text>")
	hasNot(t, names, ">waiting</text>")
	page = s.get(200, "workflow?id=order-42&zoom=25")
	has(t, page, `hx-get="workflow?id=order-42&amp;zoom=25"`, `zoom=25" aria-current="true"`) // the refresh keeps it
	hasNot(t, graph(page), "<text")
	hasNot(t, graph(s.get(200, "workflow?id=order-42&zoom=25", "HX-Request", "true")), "<text")
	for _, wrong := range []string{"0", "7", "25%25", "x"} {
		has(t, s.get(400, "workflow?id=order-42&zoom="+wrong), "There is no zoom")
	}
	hasNot(t, s.get(200, "workflow?id=order-42&level=0"), "<path")
}

// Very large graphs are not drawn: each refresh would send megabytes.
func TestGraph_AVeryLargeOneIsNotDrawn(t *testing.T) {
	t.Parallel()
	s := newSite(t, Config{})
	group := func(letter string, n int) workflow.Part {
		var parts []workflow.Part
		for i := range n {
			parts = append(parts, step(fmt.Sprint(letter, i)))
		}
		return workflow.Group(parts...)
	}
	s.workflow("largest", group("a", maxBoxes))
	page := s.get(200, "workflow?id=largest")
	if has(t, page, "<path"); len(page) > 1<<20 {
		t.Errorf("the page has %d bytes", len(page))
	}
	s.workflow("larger", group("a", maxBoxes+1))
	page = s.get(200, "workflow?id=larger")
	has(t, page, "The graph is not drawn: the workflow has 2,001 nodes and 0 dependencies, and at most 2,000 and 5,000 are drawn")
	hasNot(t, page, "<path", "zoom=")
	s.workflow("dense", workflow.Chain(group("a", 71), group("b", 71)))
	has(t, s.get(200, "workflow?id=dense"), "142 nodes and 5,041 dependencies")
}
