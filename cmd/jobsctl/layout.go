package main

import "slices"

// gap is the space between two columns.
const gap = 2

// layout returns the widths that columns get; natural is how wide they would be with
// enough room. A width of 0 leaves the column out. It cuts columns before it leaves
// more of them out.
func layout(columns []column, natural []int, width int) []int {
	widths := slices.Clone(natural)
	for !squeeze(columns, widths, width) {
		last := 0
		for i, c := range columns {
			if widths[i] > 0 && c.rank > 0 && c.rank >= columns[last].rank {
				last = i
			}
		}
		if columns[last].rank == 0 || widths[last] == 0 {
			break
		}
		widths[last] = 0
	}
	return widths
}

// squeeze cuts the widest columns until all fit, and reports whether they do.
// If columns have to be left out first, it cuts none.
func squeeze(columns []column, widths []int, width int) bool {
	total, spare, droppable := -gap, 0, false
	for i, w := range widths {
		if w == 0 {
			continue
		}
		total += w + gap
		droppable = droppable || columns[i].rank > 0
		if least := columns[i].least; least > 0 {
			spare += max(w-least, 0)
		}
	}
	if total-spare > width && droppable {
		return false
	}
	for ; total > width && spare > 0; total, spare = total-1, spare-1 {
		widest := -1
		for i, w := range widths {
			if least := columns[i].least; least > 0 && w > least && (widest < 0 || w > widths[widest]) {
				widest = i
			}
		}
		widths[widest]--
	}
	return total <= width
}
