package main

import "slices"

// shape says how a column of a table adapts to a narrow terminal.
type shape struct {
	rank  int // columns of the highest rank are left out first; 0: never left out
	least int // the width to which it can be cut; 0: never cut
}

// gap is the space between two columns.
const gap = 2

// layout returns the widths that columns get; natural is how wide they would be with
// enough room. A width of 0 leaves the column out. It cuts columns before it leaves
// more of them out.
func layout(shapes []shape, natural []int, width int) []int {
	widths := slices.Clone(natural)
	for !squeeze(shapes, widths, width) {
		last := 0
		for i, s := range shapes {
			if widths[i] > 0 && s.rank > 0 && s.rank >= shapes[last].rank {
				last = i
			}
		}
		if shapes[last].rank == 0 || widths[last] == 0 {
			break
		}
		widths[last] = 0
	}
	return widths
}

// squeeze cuts the widest columns until all fit, and reports whether they do.
// If columns have to be left out first, it cuts none.
func squeeze(shapes []shape, widths []int, width int) bool {
	total, spare, droppable := -gap, 0, false
	for i, w := range widths {
		if w == 0 {
			continue
		}
		total += w + gap
		droppable = droppable || shapes[i].rank > 0
		if least := shapes[i].least; least > 0 {
			spare += max(w-least, 0)
		}
	}
	if total-spare > width && droppable {
		return false
	}
	for ; total > width && spare > 0; total, spare = total-1, spare-1 {
		widest := -1
		for i, w := range widths {
			if least := shapes[i].least; least > 0 && w > least && (widest < 0 || w > widths[widest]) {
				widest = i
			}
		}
		widths[widest]--
	}
	return total <= width
}
