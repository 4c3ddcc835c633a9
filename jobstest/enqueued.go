package jobstest

import (
	"cmp"
	"context"
	"fmt"
	"reflect"
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
	if l == nil {
		return Job[T]{}
	}
	if len(l.matching) != 1 {
		t.Fatal(l.wantOne())
		return Job[T]{}
	}
	return found(def, l.matching[0])
}

// AllEnqueued returns the jobs of the definition's type that match, in any queue and
// state, in the order in which they were enqueued. It reports an error only for jobs
// that may match, but whose arguments cannot be decoded.
func AllEnqueued[T any](t testing.TB, b broker.Broker, def jobs.Definition[T], match ...Match) []Job[T] {
	t.Helper()
	l := look(t, b, def, match)
	if l == nil {
		return nil
	}
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
	if l == nil {
		return
	}
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
	types    map[string]int
	order    []string // types in the order of their first job
	t        testing.TB
	b        broker.Broker
}

// look compares all jobs with what is wanted. It returns nil if the test has failed.
func look[T any](t testing.TB, b broker.Broker, def jobs.Definition[T], match []Match) *looked {
	t.Helper()
	l := &looked{t: t, b: b, types: make(map[string]int)}
	var err error
	if l.wanted, err = newMatching(describe(def), match); err != nil {
		t.Fatalf("jobstest: %v", err)
		return nil
	}
	stored, refused := candidates(t, b)
	for _, c := range stored {
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
	if l == nil {
		return "", false
	}
	differences := l.wanted.differences(c)
	if len(differences) == 0 {
		return fmt.Sprintf("%s, as expected", e.typ), true
	}
	line = fmt.Sprintf("%s, but", e.typ)
	for _, d := range differences {
		line += " " + d.String() + ";"
	}
	return line[:len(line)-1], false
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
