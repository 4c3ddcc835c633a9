package main

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/charmbracelet/x/ansi"
	"github.com/spf13/cobra"
)

type column struct {
	head  string
	rank  int  // in a narrow terminal, columns of the highest rank are left out first; 0: never left out
	least int  // the width to which it can be cut there; 0: never cut
	wide  bool // shown only with -o wide
	seen  bool // shown only if some row has a value
}

// cell is a row's value in a column, as text and as a key to sort by.
type cell struct {
	text string
	key  any
	tiny string // a shorter text for narrow terminals, if there is one
}

func cellOf(v any) cell {
	switch v := v.(type) {
	case cell:
		return v
	case int:
		return cell{text: strconv.Itoa(v), key: int64(v)}
	case int64:
		return cell{text: strconv.FormatInt(v, 10), key: v}
	case time.Time:
		return cell{clock(v), v, tinyClock(v)}
	case time.Duration:
		return cell{text: span(v), key: int64(v)}
	}
	text := fmt.Sprint(v)
	return cell{text: plain(text), key: text}
}

// tinyClock formats a time in UTC to the second, with its day unless that is today.
func tinyClock(t time.Time) string {
	layout := "01-02 15:04:05"
	if t.UTC().Format(time.DateOnly) == time.Now().UTC().Format(time.DateOnly) {
		layout = time.TimeOnly
	}
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format(layout)
}

// blankZero returns the cell of a number, blank for zero.
func blankZero(n int64) cell { return cell{text: count(n), key: n} }

// compare orders the cells of a column; empty cells come last.
func (c cell) compare(other cell, down bool) int {
	if (c.text == "") != (other.text == "") {
		return cmp.Compare(len(other.text), len(c.text))
	}
	order := 0
	switch key := c.key.(type) {
	case int64:
		order = cmp.Compare(key, other.key.(int64))
	case time.Time:
		order = key.Compare(other.key.(time.Time))
	case string:
		order = strings.Compare(key, other.key.(string))
	}
	if down {
		return -order
	}
	return order
}

// row is a row of a list, with the object that -o json writes for it.
type row struct {
	object any
	cells  []cell
	below  []string // lines printed below it
}

// listing writes a list: as a table, or as one object for each row.
type listing struct {
	*app
	columns []column
	sort    string
	limit   int // the greatest number of rows, after sorting; 0: all
	rows    []row

	look    *search // set if rows may be written before the search ends
	begun   time.Time
	failed  error
	headed  bool  // the heads have been written
	natural []int // greatest width of each column so far
}

// patience is how long a list collects rows before it writes them, so that people can
// read the first rows while the search goes on.
const patience = 250 * time.Millisecond

// early lets the list write rows before the search ends.
func (l *listing) early(look *search) { l.look, l.begun = look, time.Now() }

// tick writes the rows so far if the search takes long. The method end returns the errors of tick.
func (l *listing) tick() {
	if l.look != nil && len(l.rows) > 0 && time.Since(l.begun) >= patience {
		_ = l.look.Clear()
		l.failed = errors.Join(l.failed, l.flush())
	}
}

// sortFlag adds --sort for a list with these columns.
func (a *app) sortFlag(cmd *cobra.Command, columns []column) {
	var names []string
	for _, c := range columns {
		if c.head != "" {
			names = append(names, sortName(c.head))
		}
	}
	cmd.Flags().StringVar(&a.sort, "sort", "", "column to sort by; -COLUMN for the greatest first")
	_ = cmd.Flags().SetAnnotation("sort", sortable, names) // the flag exists
	completeWith(cmd, "sort", names)
}

// sortable is the annotation of a flag --sort with the names of the columns; see meant.
const sortable = "sortable columns"

// sortName returns the name of a column as users write it, from its head or from --sort.
func sortName(text string) string {
	return strings.ReplaceAll(strings.ToLower(strings.TrimPrefix(text, "-")), " ", "-")
}

func (a *app) newList(columns []column) *listing {
	return &listing{app: a, columns: columns, sort: a.sort}
}

// order returns the index of the column to sort by, or -1, and whether the greatest values come first.
func (l *listing) order() (down bool, index int) {
	name := sortName(l.sort)
	return strings.HasPrefix(l.sort, "-"), slices.IndexFunc(l.columns, func(c column) bool { return name != "" && name == sortName(c.head) })
}

// add adds a row: its object, and one value for each column. The method end returns its errors.
func (l *listing) add(object any, values ...any) {
	if l.structured() && l.sort == "" {
		if l.failed == nil {
			l.failed = l.object(object)
		}
		return
	}
	r := row{object: object}
	for _, v := range values {
		r.cells = append(r.cells, cellOf(v))
	}
	l.rows = append(l.rows, r)
	if l.limit > 0 && len(l.rows) >= 2*l.limit+100 { // rows beyond the limit are dropped
		l.cut()
	}
}

// under adds a line below the last row.
func (l *listing) under(parts ...string) {
	if l.structured() {
		return
	}
	last := &l.rows[len(l.rows)-1]
	last.below = append(last.below, "  "+plain(strings.Join(parts, "  ")))
}

// cut sorts the rows, if a column to sort by is set, and drops those beyond the limit.
func (l *listing) cut() {
	if down, at := l.order(); at >= 0 {
		slices.SortStableFunc(l.rows, func(a, b row) int { return a.cells[at].compare(b.cells[at], down) })
	}
	if l.limit > 0 && len(l.rows) > l.limit {
		l.rows = l.rows[:l.limit]
	}
}

// end writes the rows that are not written yet.
func (l *listing) end() error {
	if l.look != nil {
		l.look.end()
	}
	return errors.Join(l.failed, l.flush())
}

func (l *listing) flush() error {
	l.cut()
	rows := l.rows
	l.rows = nil
	if l.structured() {
		for _, r := range rows {
			if err := l.object(r.object); err != nil {
				return err
			}
		}
		return nil
	}
	return l.table(rows)
}

// table writes rows as a table, as wide as the terminal if there is one.
func (l *listing) table(rows []row) error {
	if l.natural == nil {
		l.natural = make([]int, len(l.columns))
	}
	for i, c := range l.columns {
		filled := slices.ContainsFunc(rows, func(r row) bool { return r.cells[i].text != "" })
		if c.wide && l.output != wideOutput || c.seen && !filled {
			continue
		}
		l.widen(i, rows)
	}
	widths, room := l.natural, 0
	if l.output != wideOutput {
		room = terminalWidth(l.out)
	}
	if room > 0 {
		if lineWidth(l.natural) > room {
			l.shorten(rows)
		}
		widths = l.fit(room)
	}
	var b strings.Builder
	if !l.headed {
		l.headed = true
		heads := make([]cell, len(l.columns))
		for i, c := range l.columns {
			heads[i].text = c.head
		}
		line(&b, heads, widths)
	}
	for _, r := range rows {
		line(&b, r.cells, widths)
		for _, text := range r.below {
			if room > 0 {
				text = ansi.Truncate(text, room, "…")
			}
			b.WriteString(text + "\n")
		}
	}
	_, err := l.out.Write([]byte(b.String()))
	return err
}

// widen makes a column as wide as its head and its widest cell.
func (l *listing) widen(i int, rows []row) {
	l.natural[i] = max(l.natural[i], ansi.StringWidth(l.columns[i].head))
	for _, r := range rows {
		l.natural[i] = max(l.natural[i], ansi.StringWidth(r.cells[i].text))
	}
}

// shorten replaces the texts of cells by shorter ones where they have one.
func (l *listing) shorten(rows []row) {
	for i := range l.columns {
		if l.natural[i] == 0 || !slices.ContainsFunc(rows, func(r row) bool { return r.cells[i].tiny != "" }) {
			continue
		}
		for _, r := range rows {
			r.cells[i].text = cmp.Or(r.cells[i].tiny, r.cells[i].text)
		}
		l.natural[i] = 0
		l.widen(i, rows)
	}
}

// fit returns the widths of columns in a terminal. It tells the user once that columns
// were left out.
func (l *listing) fit(room int) []int {
	widths := layout(l.columns, l.natural, room)
	var out []string
	for i, w := range widths {
		if w == 0 && l.natural[i] > 0 {
			out = append(out, l.columns[i].head)
		}
	}
	if len(out) > 0 && !l.saidFit {
		l.saidFit = true
		fmt.Fprintln(l.err, ansi.Truncate("-o wide also shows: "+strings.Join(out, ", "), room, "…"))
	}
	return widths
}

// line writes the cells of a row whose columns are not left out.
func line(b *strings.Builder, cells []cell, widths []int) {
	var text strings.Builder
	for i, c := range cells {
		if widths[i] == 0 {
			continue
		}
		cut := ansi.Truncate(c.text, widths[i], "…")
		text.WriteString(cut + strings.Repeat(" ", max(widths[i]-ansi.StringWidth(cut), 0)+gap))
	}
	b.WriteString(strings.TrimRight(text.String(), " ") + "\n")
}

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

// lineWidth returns how wide a line is; columns of width 0 are left out.
func lineWidth(widths []int) int {
	total := -gap
	for _, w := range widths {
		if w > 0 {
			total += w + gap
		}
	}
	return total
}

// squeeze cuts the widest columns until all fit, and reports whether they do.
// If columns have to be left out first, it cuts none.
func squeeze(columns []column, widths []int, width int) bool {
	total, spare, droppable := lineWidth(widths), 0, false
	for i, w := range widths {
		if w == 0 {
			continue
		}
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
