package dashboard

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/seed81422ce9/jobs/workflow"
)

// Sizes of a drawn workflow, in pixels at a zoom of 100 %.
const (
	boxWidth, boxHeight = 170, 36 // fits a name of about 20 letters, and the state below it
	boxBelow, boxBeside = 10, 20  // between the boxes of a level
	levelGap            = 80      // between levels, with space for the lines
	graphEdge           = 12

	// A longer level continues in another column, so that 1,000 nodes side by side fit
	// on a screen at 25 %.
	maxRows = 40
	// Larger workflows are not drawn: each refresh would send about a megabyte.
	maxBoxes, maxLines = 2000, 5000
)

// drawing is a workflow drawn as boxes and lines.
type drawing struct {
	Width, Height int
	Boxes         []box // in the order of the nodes
	Lines         []graphLine
}

type box struct {
	*workflow.NodeInfo
	X, Y int    // upper left corner
	To   string // URL of its job or workflow
}

// graphLine goes from the right of a node to the left of one that comes after it.
type graphLine struct{ X1, Y1, X2, Y2 int }

// layOut gives each level a column, or several if it is long. It orders the nodes of a
// level by the average position of their predecessors. nodes must be in topological
// order.
func layOut(nodes []workflow.NodeInfo) drawing {
	index := make(map[string]int, len(nodes))
	before := make([][]int, len(nodes))
	var levels [][]int
	for i := range nodes {
		index[nodes[i].Name] = i
		for _, name := range slices.Concat(nodes[i].After, nodes[i].AfterAny) {
			if from, ok := index[name]; ok {
				before[i] = append(before[i], from)
			}
		}
		for len(levels) <= nodes[i].Level {
			levels = append(levels, nil)
		}
		levels[nodes[i].Level] = append(levels[nodes[i].Level], i)
	}
	tallest := 0
	for _, level := range levels {
		tallest = max(tallest, min(len(level), maxRows))
	}

	d := drawing{Boxes: make([]box, len(nodes)), Height: 2*graphEdge + tallest*(boxHeight+boxBelow) - boxBelow}
	place := make([]float64, len(nodes)) // position in its level, from 0 at the top to 1; at first the average of its predecessors
	x := graphEdge
	for _, level := range levels {
		for _, i := range level {
			for _, from := range before[i] {
				place[i] += place[from] / float64(len(before[i]))
			}
		}
		slices.SortStableFunc(level, func(a, b int) int { return cmp.Compare(place[a], place[b]) })
		top := graphEdge + (tallest-min(len(level), maxRows))*(boxHeight+boxBelow)/2
		for at, i := range level {
			place[i] = (float64(at) + 0.5) / float64(len(level))
			b := box{NodeInfo: &nodes[i], To: nodeLink(&nodes[i]),
				X: x + at/maxRows*(boxWidth+boxBeside), Y: top + at%maxRows*(boxHeight+boxBelow)}
			for _, from := range before[i] {
				p := d.Boxes[from]
				d.Lines = append(d.Lines, graphLine{p.X + boxWidth, p.Y + boxHeight/2, b.X, b.Y + boxHeight/2})
			}
			d.Boxes[i] = b
		}
		x += (len(level)+maxRows-1)/maxRows*(boxWidth+boxBeside) - boxBeside + levelGap
	}
	d.Width = x - levelGap + graphEdge
	return d
}

// Path returns all lines as one SVG path: thousands of elements would be slow to
// refresh.
func (d drawing) Path() string {
	var path strings.Builder
	for _, l := range d.Lines {
		middle := (l.X1 + l.X2) / 2
		fmt.Fprintf(&path, "M%d %dC%d %d %d %d %d %d", l.X1, l.Y1, middle, l.Y1, middle, l.Y2, l.X2, l.Y2)
	}
	return path.String()
}

// workflowGraph is what a page shows of a drawing.
type workflowGraph struct {
	drawing
	TooLarge                        bool
	Nodes, Links                    int // in the whole workflow
	MaxNodes, MaxLinks              int
	BoxWidth, BoxHeight             int
	Zoom, ScaledWidth, ScaledHeight int // in percent, and pixels
	Zooms                           []zoomLink
}

type zoomLink struct {
	Percent int
	To      string
	Active  bool
}

// The zooms in percent. Boxes show name and state from 100 on, the name at 50, and
// nothing at 25.
var zooms = []int{25, 50, 100, 200}

// usualZoom returns the largest zoom at which this many nodes fit on a few screens.
func usualZoom(nodes int) int {
	switch {
	case nodes <= 60:
		return 100
	case nodes <= 300:
		return 50
	}
	return 25
}

// graphOf returns the drawing of a workflow at a zoom; 0 means usualZoom.
func graphOf(info *workflow.Info, zoom int) *workflowGraph {
	g := &workflowGraph{Nodes: len(info.Nodes), MaxNodes: maxBoxes, MaxLinks: maxLines, BoxWidth: boxWidth, BoxHeight: boxHeight,
		Zoom: cmp.Or(zoom, usualZoom(len(info.Nodes)))}
	for i := range info.Nodes {
		g.Links += len(info.Nodes[i].After) + len(info.Nodes[i].AfterAny)
	}
	if g.TooLarge = g.Nodes > maxBoxes || g.Links > maxLines; g.TooLarge {
		return g
	}
	g.drawing = layOut(info.Nodes)
	g.ScaledWidth, g.ScaledHeight = g.Width*g.Zoom/100, g.Height*g.Zoom/100
	for _, z := range zooms {
		g.Zooms = append(g.Zooms, zoomLink{z, link("workflow", "id", info.ID, "zoom", fmt.Sprint(z)), z == g.Zoom})
	}
	return g
}
