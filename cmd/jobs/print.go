package main

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"
	"unicode"
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

// plain makes a text that anybody may have written fit for a terminal: on one
// line, and without characters that command it or turn the text around.
func plain(s string) string {
	harmless := func(r rune) bool {
		return r != unicode.ReplacementChar && unicode.IsPrint(r) && !unicode.Is(unicode.Bidi_Control, r)
	}
	if strings.IndexFunc(s, func(r rune) bool { return !harmless(r) }) < 0 {
		return s
	}
	var b strings.Builder
	for _, r := range s {
		if harmless(r) {
			b.WriteRune(r)
		} else if q := strconv.QuoteRune(r); len(q) > 2 {
			b.WriteString(q[1 : len(q)-1])
		}
	}
	return b.String()
}

// short cuts a text for a table.
func short(s string, runes int) string {
	if r := []rune(s); len(r) > runes {
		return string(r[:runes-1]) + "…"
	}
	return s
}

// clock writes a time, in UTC; nothing for none.
func clock(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format("2006-01-02T15:04:05.000Z")
}

// span writes a duration to two units at most; nothing for zero.
func span(d time.Duration) string {
	switch {
	case d == 0:
		return ""
	case d < 0:
		return "-" + span(-d)
	case d < time.Second:
		return d.Round(time.Millisecond).String()
	case d < time.Minute:
		return d.Round(100 * time.Millisecond).String()
	case d < 48*time.Hour:
		unit := time.Second
		if d >= time.Hour {
			unit = time.Minute
		}
		text := d.Round(unit).String()
		for _, zero := range []string{"m0s", "h0m"} {
			if strings.HasSuffix(text, zero) {
				text = text[:len(text)-2]
			}
		}
		return text
	}
	days := d / (24 * time.Hour)
	return fmt.Sprintf("%dd%dh", days, (d-days*24*time.Hour)/time.Hour)
}

// count writes a number; nothing for zero.
func count(n int64) string {
	if n == 0 {
		return ""
	}
	return strconv.FormatInt(n, 10)
}
