package main

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"text/tabwriter"

	"github.com/seed81422ce9/jobs/internal/readable"
)

// say writes a line for a person; with --json there are none.
func (a *app) say(format string, args ...any) {
	if !a.json {
		fmt.Fprintf(a.out, format+"\n", args...)
	}
}

// object writes v as a line of JSON.
func (a *app) object(v any) error { return json.NewEncoder(a.out).Encode(v) }

// table lines columns up.
type table struct{ w *tabwriter.Writer }

func (a *app) table(heads ...string) table {
	t := table{tabwriter.NewWriter(a.out, 0, 0, 2, ' ', 0)}
	t.row(heads...)
	return t
}

func (t table) row(cells ...string) {
	for i, cell := range cells {
		cells[i] = plain(cell)
	}
	fmt.Fprintln(t.w, strings.TrimRight(strings.Join(cells, "\t"), "\t"))
}

func (t table) end() error { return t.w.Flush() }

// How the command writes what anybody may have written, times, and spans.
var (
	plain = readable.Plain
	clock = readable.Clock
	span  = readable.Span
)

// short cuts a text for a table.
func short(s string, runes int) string {
	if r := []rune(s); len(r) > runes {
		return string(r[:runes-1]) + "…"
	}
	return s
}

// count writes a number; nothing for zero.
func count(n int64) string {
	if n == 0 {
		return ""
	}
	return strconv.FormatInt(n, 10)
}
