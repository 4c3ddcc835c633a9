package jobstest

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/seed81422ce9/jobs/broker"
)

const (
	maxNearest     = 3 // jobs that a message shows
	maxDifferences = 8 // for each job
)

// wantOne explains why there is not exactly one job.
func (l *looked) wantOne() string {
	var text strings.Builder
	if n := len(l.matching); n > 1 {
		fmt.Fprintf(&text, "%d jobs of type %q match, want one:%s", n, l.wanted.def.typ, l.wanted.list())
		for i, c := range l.matching[:min(n, maxNearest)] {
			fmt.Fprintf(&text, "\n  %d. job %s %s, %s", i+1, c.job.ID, c.where(now(l.b)), c.args())
		}
		more(&text, n)
		text.WriteString("\n  Match more of it, or use AllEnqueued.")
		return text.String()
	}
	fmt.Fprintf(&text, "no job of type %q", l.wanted.def.typ)
	switch list := l.wanted.list(); {
	case list != "":
		text.WriteString(" matches:" + list)
	default:
		text.WriteString(" was enqueued")
	}
	l.refusals(&text)
	l.nearest(&text)
	if len(l.others) == 0 {
		l.elsewhere(&text)
	}
	return text.String()
}

// wantNone shows the jobs that should not exist.
func (l *looked) wantNone() string {
	var text strings.Builder
	n := len(l.matching)
	verb := "match"
	if n == 1 {
		verb = "matches"
	}
	fmt.Fprintf(&text, "%s of type %q %s, want none", plural(n, "job"), l.wanted.def.typ, verb)
	if list := l.wanted.list(); list != "" {
		text.WriteString(" with:" + list)
	}
	for i, c := range l.matching[:min(n, maxNearest)] {
		fmt.Fprintf(&text, "\n  %d. job %s %s, %s", i+1, c.job.ID, c.where(now(l.b)), c.args())
	}
	more(&text, n)
	return text.String()
}

// maybe shows the jobs that may match.
func (l *looked) maybe() string {
	var text strings.Builder
	fmt.Fprintf(&text, "%s of type %q may match, but the arguments cannot be decoded:", plural(len(l.unclear), "job"), l.wanted.def.typ)
	for i, c := range l.unclear[:min(len(l.unclear), maxNearest)] {
		_, err := l.wanted.def.decoded(c)
		fmt.Fprintf(&text, "\n  %d. job %s %s: %v", i+1, c.job.ID, c.where(now(l.b)), err)
	}
	more(&text, len(l.unclear))
	return text.String()
}

// list lists the criteria, one on each line.
func (m *matching) list() string {
	var lines []string
	for _, c := range m.criteria {
		lines = append(lines, c.field+": "+shorten(c.want, 4*maxShown))
	}
	return indent(lines)
}

// nearest shows the jobs of the type that differ least.
func (l *looked) nearest(text *strings.Builder) {
	type near struct {
		*candidate
		differences []difference
	}
	var all []near
	for _, c := range l.others {
		all = append(all, near{c, l.wanted.differences(c)})
	}
	slices.SortStableFunc(all, func(a, b near) int { return len(a.differences) - len(b.differences) })
	if len(all) > 0 {
		fmt.Fprintf(text, "\nThe nearest of %s of that type:", plural(len(all), "job"))
	}
	for i, c := range all[:min(len(all), maxNearest)] {
		fmt.Fprintf(text, "\n  %d. job %s %s", i+1, c.job.ID, c.where(now(l.b)))
		list(text, c.differences)
	}
	more(text, len(all))
}

func list(text *strings.Builder, all []difference) {
	for _, d := range all[:min(len(all), maxDifferences)] {
		fmt.Fprintf(text, "\n       %v", d)
	}
	if n := len(all) - maxDifferences; n > 0 {
		fmt.Fprintf(text, "\n       and %s more", plural(n, "difference"))
	}
}

func more(text *strings.Builder, n int) {
	if n > maxNearest {
		fmt.Fprintf(text, "\n  and %d more", n-maxNearest)
	}
}

// refusals shows the refused tasks of the type.
func (l *looked) refusals(text *strings.Builder) {
	for i, c := range l.refused {
		if i == maxNearest {
			fmt.Fprintf(text, "\nand %d more were not stored", len(l.refused)-i)
			return
		}
		differences := l.wanted.differences(c)
		what := "A task that matches was not stored"
		if len(differences) > 0 {
			what = "A task of that type was not stored"
		}
		fmt.Fprintf(text, "\n%s: %s", what, l.why(c))
		list(text, differences)
	}
}

// why returns why a task was refused.
func (l *looked) why(c *candidate) string {
	e := c.asked
	if !errors.Is(e.refused, broker.ErrDuplicate) {
		return e.refused.Error()
	}
	by := fmt.Sprintf("by its unique key %s", shorten(fmt.Sprintf("%q", e.job.Body.Unique.Key), maxShown))
	if e.holder == e.job.ID {
		by = "by its ID"
	}
	text := fmt.Sprintf("a duplicate, %s,\n  of job %s", by, e.holder)
	stored, _ := candidates(l.t, l.b)
	for _, s := range stored {
		if s.job.ID == e.holder && s.job.Queue == e.job.Queue {
			text += fmt.Sprintf(" of type %q %s", s.job.Type, s.where(now(l.b)))
		}
	}
	return text
}

// elsewhere says what was enqueued instead.
func (l *looked) elsewhere(text *strings.Builder) {
	var lines []string
	for _, typ := range l.order {
		if typ != l.wanted.def.typ {
			lines = append(lines, fmt.Sprintf("%s of type %q", plural(l.types[typ], "job"), typ))
		}
	}
	switch {
	case len(lines) > 0:
		fmt.Fprintf(text, "\nEnqueued were:%s", indent(lines))
	case len(l.refused) == 0:
		text.WriteString("\nNothing was enqueued.")
	}
}

// args describes a job's arguments.
func (c *candidate) args() string { return "payload " + c.payload() }

func indent(lines []string) string {
	var text strings.Builder
	for _, line := range lines {
		text.WriteString("\n  " + line)
	}
	return text.String()
}
