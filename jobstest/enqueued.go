package jobstest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/seed81422ce9/jobs"
	"github.com/seed81422ce9/jobs/broker"
	"github.com/seed81422ce9/jobs/internal/coding"
)

// Job is a job that a helper found, with its arguments. ID, Queue, State, RunAt and
// the other fields are as they are now. If no record of the job is left, they are as
// it was enqueued, with the state in which it ended.
type Job[T any] struct {
	broker.Job
	Args T
}

// Enqueued expects exactly one job of the definition's type that matches, in any
// queue and state, and returns it. Otherwise it ends the test with a message that
// shows the nearest jobs and their differences, or the refused tasks and why.
//
// b is the test's broker, or any other one. With the broker of a real store, jobs
// whose record is gone and refused tasks are not found.
func Enqueued[T any](t testing.TB, b broker.Broker, def jobs.Definition[T], match ...Match) Job[T] {
	t.Helper()
	l := look(t, b, def, match)
	if len(l.matching) != 1 {
		t.Fatal(l.wantOne())
	}
	return found(def, l.matching[0])
}

// AllEnqueued returns the jobs of the definition's type that match, in any queue and
// state, in the order in which they were enqueued. It reports an error only for jobs
// that may match, but whose arguments cannot be decoded.
func AllEnqueued[T any](t testing.TB, b broker.Broker, def jobs.Definition[T], match ...Match) []Job[T] {
	t.Helper()
	l := look(t, b, def, match)
	if len(l.unclear) > 0 {
		t.Error(l.maybe())
	}
	all := make([]Job[T], len(l.matching))
	for i, c := range l.matching {
		all[i] = found(def, c)
	}
	return all
}

// NotEnqueued expects no job of the definition's type that matches, in any queue and
// state. Otherwise it reports an error that shows the matching jobs, and the test
// continues. It also reports jobs that may match, but whose arguments cannot be decoded,
// such as those that payload.EncodePayloads encoded.
func NotEnqueued[T any](t testing.TB, b broker.Broker, def jobs.Definition[T], match ...Match) {
	t.Helper()
	l := look(t, b, def, match)
	if len(l.matching) > 0 {
		t.Error(l.wantNone())
	}
	if len(l.unclear) > 0 {
		t.Error(l.maybe())
	}
}

// Raw returns a definition of tasks whose payload is bytes, as NewTask makes them.
func Raw(typ string) jobs.Definition[[]byte] { return jobs.Define[[]byte](typ).WithCodec(rawCodec{}) }

type rawCodec struct{}

func (rawCodec) Encode(args any) ([]byte, error) { return args.([]byte), nil }

func (rawCodec) Decode(payload []byte, args any) error {
	*args.(*[]byte) = payload
	return nil
}

// looked holds what was found and what was wanted.
type looked struct {
	matching []*candidate
	wanted   *matching
	others   []*candidate // jobs of the type that do not match
	unclear  []*candidate // of others: they may match, but their arguments cannot be decoded
	refused  []*candidate // refused tasks of the type
	stored   []*candidate // of all types
	types    map[string]int
	order    []string // types in the order of their first job
	now      time.Time
}

// look compares all jobs with what is wanted.
func look[T any](t testing.TB, b broker.Broker, def jobs.Definition[T], match []Match) *looked {
	t.Helper()
	wanted, err := newMatching(describe(def), match)
	if err != nil {
		t.Fatalf("jobstest: %v", err)
	}
	l := &looked{wanted: wanted, types: make(map[string]int)}
	var refused []*candidate
	l.stored, refused = candidates(t, b)
	l.now = now(b)
	for _, c := range l.stored {
		if l.types[c.job.Type]++; l.types[c.job.Type] == 1 {
			l.order = append(l.order, c.job.Type)
		}
		if c.job.Type != def.Type() {
			continue
		}
		differences := l.wanted.differences(c)
		if len(differences) == 0 {
			l.matching = append(l.matching, c)
			continue
		}
		l.others = append(l.others, c)
		if l.wanted.unclear(c, differences) {
			l.unclear = append(l.unclear, c)
		}
	}
	for _, c := range refused {
		if c.job.Type == def.Type() {
			l.refused = append(l.refused, c)
		}
	}
	return l
}

// describe returns what matches need of a definition.
func describe[T any](def jobs.Definition[T]) definition {
	return definition{typ: def.Type(), args: reflect.TypeFor[T](),
		recode: func(args any) (any, error) {
			given, _ := args.(T) // nil if T is an interface
			task, err := def.Task(given)
			if err != nil {
				return nil, err
			}
			return def.Decode(task.Payload())
		},
		readable: func(c *candidate) error {
			_, err := def.Decode(c.job.Payload)
			return cmp.Or(c.job.Broken, err)
		},
		decoded: func(c *candidate) (any, error) {
			if c.job.Broken != nil {
				return nil, c.job.Broken
			}
			if header := coding.By(c.job.Headers); header != "" {
				return nil, fmt.Errorf("the payload is encoded (header %s); enqueue without EncodePayloads in this test", header)
			}
			return def.Decode(c.job.Payload)
		}}
}

// found returns the job of a matching candidate. The payload of a matching job can be decoded.
func found[T any](def jobs.Definition[T], c *candidate) Job[T] {
	args, _ := def.Decode(c.job.Payload)
	return Job[T]{Job: c.job, Args: args}
}

// Expected is a job that EnqueuedInOrder expects; see Expect.
type Expected struct {
	typ  string
	look func(t testing.TB, b broker.Broker) *looked
}

// Expect expects a job of the definition's type that matches.
func Expect[T any](def jobs.Definition[T], match ...Match) Expected {
	return Expected{def.Type(), func(t testing.TB, b broker.Broker) *looked {
		t.Helper()
		return look(t, b, def, match)
	}}
}

// EnqueuedInOrder expects these jobs, in this order, and no others of their types.
// Otherwise it reports an error that shows both lists, and the test continues.
func EnqueuedInOrder(t testing.TB, b broker.Broker, want ...Expected) {
	t.Helper()
	types := make(map[string]bool)
	for _, e := range want {
		types[e.typ] = true
	}
	stored, _ := candidates(t, b)
	var got []*candidate
	for _, c := range stored {
		if types[c.job.Type] {
			got = append(got, c)
		}
	}
	var lines []string
	failed := len(got) != len(want)
	for i := range max(len(got), len(want)) {
		switch {
		case i >= len(want):
			lines = append(lines, fmt.Sprintf("%d. want nothing more, got %s %s", i+1, got[i].job.Type, got[i].payload()))
		case i >= len(got):
			lines = append(lines, fmt.Sprintf("%d. want %s, got nothing", i+1, want[i].typ))
		default:
			line, ok := want[i].compare(t, b, got[i])
			failed = failed || !ok
			lines = append(lines, fmt.Sprintf("%d. %s", i+1, line))
		}
	}
	if failed {
		t.Errorf("jobs were not enqueued as they should have been, in order:%s", indent(lines))
	}
}

// compare says in one line whether a job is the expected one.
func (e Expected) compare(t testing.TB, b broker.Broker, c *candidate) (line string, ok bool) {
	if c.job.Type != e.typ {
		return fmt.Sprintf("want %s, got %s %s", e.typ, c.job.Type, c.payload()), false
	}
	l := e.look(t, b)
	differences := l.wanted.differences(c)
	if len(differences) == 0 {
		return fmt.Sprintf("%s, as expected", e.typ), true
	}
	var but []string
	for _, d := range differences {
		but = append(but, d.String())
	}
	return fmt.Sprintf("%s, but %s", e.typ, strings.Join(but, "; ")), false
}

// payload returns a job's payload as text for one line.
func (c *candidate) payload() string { return shorten(show(reflect.ValueOf(c.job.Payload)), maxShown) }

// now returns the time by a broker's clock.
func now(b broker.Broker) time.Time {
	if own, ok := b.(*Broker); ok {
		b = own.plain
	}
	now, _ := b.Ping(context.Background())
	return now
}

const (
	maxNearest     = 3 // jobs that a message shows
	maxDifferences = 8 // for each job
)

// wantOne explains why there is not exactly one job.
func (l *looked) wantOne() string {
	var text strings.Builder
	if n := len(l.matching); n > 1 {
		fmt.Fprintf(&text, "%d jobs of type %q match, want one:%s", n, l.wanted.def.typ, l.wanted.list())
		l.show(&text, l.matching, func(c *candidate) string { return ", payload " + c.payload() })
		text.WriteString("\n  Match more of it, or use AllEnqueued.")
		return text.String()
	}
	fmt.Fprintf(&text, "no job of type %q", l.wanted.def.typ)
	if list := l.wanted.list(); list != "" {
		text.WriteString(" matches:" + list)
	} else {
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
	l.show(&text, l.matching, func(c *candidate) string { return ", payload " + c.payload() })
	return text.String()
}

// maybe shows the jobs that may match.
func (l *looked) maybe() string {
	var text strings.Builder
	fmt.Fprintf(&text, "%s of type %q may match, but the arguments cannot be decoded:", plural(len(l.unclear), "job"), l.wanted.def.typ)
	l.show(&text, l.unclear, func(c *candidate) string {
		_, err := l.wanted.def.decoded(c)
		return fmt.Sprintf(": %v", err)
	})
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
	differences := make(map[*candidate][]difference)
	for _, c := range l.others {
		differences[c] = l.wanted.differences(c)
	}
	slices.SortStableFunc(l.others, func(a, b *candidate) int { return len(differences[a]) - len(differences[b]) })
	if n := len(l.others); n > 0 {
		fmt.Fprintf(text, "\nThe nearest of %s of that type:", plural(n, "job"))
	}
	l.show(text, l.others, func(c *candidate) string { return list(differences[c]) })
}

// show shows the first of some jobs, each with what is said about it.
func (l *looked) show(text *strings.Builder, all []*candidate, about func(*candidate) string) {
	for i, c := range all[:min(len(all), maxNearest)] {
		fmt.Fprintf(text, "\n  %d. job %s %s%s", i+1, c.job.ID, c.where(l.now), about(c))
	}
	if n := len(all) - maxNearest; n > 0 {
		fmt.Fprintf(text, "\n  and %d more", n)
	}
}

func list(all []difference) (text string) {
	for _, d := range all[:min(len(all), maxDifferences)] {
		text += fmt.Sprintf("\n       %v", d)
	}
	if n := len(all) - maxDifferences; n > 0 {
		text += fmt.Sprintf("\n       and %s more", plural(n, "difference"))
	}
	return text
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
		fmt.Fprintf(text, "\n%s: %s%s", what, l.why(c), list(differences))
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
	for _, s := range l.stored {
		if s.job.ID == e.holder && s.job.Queue == e.job.Queue {
			text += fmt.Sprintf(" of type %q %s", s.job.Type, s.where(l.now))
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

func indent(lines []string) string {
	var text strings.Builder
	for _, line := range lines {
		text.WriteString("\n  " + line)
	}
	return text.String()
}
