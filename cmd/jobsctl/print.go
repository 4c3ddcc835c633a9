package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"text/tabwriter"
	"unicode"
	"unicode/utf16"

	"github.com/seed81422ce9/jobs/internal/readable"
)

// say writes a line for a person; with --json there are none.
func (a *app) say(format string, args ...any) {
	if !a.json {
		fmt.Fprintf(a.out, format+"\n", args...)
	}
}

// object writes v as a line of JSON. What would command a terminal or turn the
// text around is escaped, although JSON allows it.
func (a *app) object(v any) error {
	line, err := json.Marshal(v)
	if err != nil {
		return err
	}
	var b bytes.Buffer
	for _, r := range string(line) {
		if r > unicode.MaxASCII && (!unicode.IsPrint(r) || unicode.Is(unicode.Bidi_Control, r)) {
			for _, half := range utf16.AppendRune(nil, r) {
				fmt.Fprintf(&b, `\u%04x`, half)
			}
			continue
		}
		b.WriteRune(r)
	}
	b.WriteByte('\n')
	_, err = a.out.Write(b.Bytes())
	return err
}

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
