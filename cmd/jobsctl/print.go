package main

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"text/tabwriter"

	"github.com/seed81422ce9/jobs"
	"github.com/seed81422ce9/jobs/internal/readable"
)

// table aligns columns.
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

// field adds a row, unless the value is empty.
func (t table) field(name, value string) {
	if value != "" {
		t.row(name, value)
	}
}

func (t table) end() error { return t.w.Flush() }

// Formatting of untrusted text, times, durations and numbers.
var (
	plain = readable.Plain
	short = readable.Cut
	clock = readable.Clock
	span  = readable.Span

	number = readable.Number[int]
	plural = readable.Count[int]
)

// saidElsewhere matches the beginning of an error that only repeats the job's state.
var saidElsewhere = regexp.MustCompile(`^(?:` + jobs.SkipRetry.Error() + `|cancelled|retry after [0-9][0-9a-zµ.]*): `)

// cause returns an error's text for a list, without the part that only repeats the job's state.
func cause(message string) string {
	return strings.TrimSuffix(saidElsewhere.ReplaceAllString(message, ""), ": "+jobs.SkipRetry.Error())
}

// count formats a number; zero is blank.
func count(n int64) string {
	if n == 0 {
		return ""
	}
	return strconv.FormatInt(n, 10)
}
