package jobstest

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/seed81422ce9/jobs"
	"github.com/seed81422ce9/jobs/broker"
	"github.com/seed81422ce9/jobs/internal/labels"
)

// Match is a condition on a job besides its type: see Args, Like, Where, With, InState
// and Due. A job matches if all given conditions hold.
type Match interface {
	criteria(def definition) ([]criterion, error)
}

// definition is what matches need of a jobs.Definition.
type definition struct {
	typ      string
	args     reflect.Type
	recode   func(args any) (any, error)   // encodes and decodes args, as a store does
	readable func(*candidate) error        // whether the stored payload can be decoded
	decoded  func(*candidate) (any, error) // the arguments; those of an encoded payload are unknown, even if it is readable as bytes
}

// criterion is one condition on a job.
type criterion struct {
	field, want string
	differ      func(*candidate) []difference // returns none if the job meets it
}

type matchFunc func(definition) ([]criterion, error)

func (f matchFunc) criteria(def definition) ([]criterion, error) { return f(def) }

// Args wants arguments that are equal to args after both have been through the
// definition's codec: a nil slice and an empty one are equal if the codec makes them
// so. Unexported fields are compared only in types that have no exported ones.
func Args[T any](args T) Match { return argsMatch("args", args, false) }

// Like wants arguments that are equal to args in the fields that are not zero in args. The same
// holds for nested fields and for keys of maps; slices must have the same length.
func Like[T any](args T) Match { return argsMatch("args like", args, true) }

func argsMatch[T any](field string, args T, some bool) Match {
	return matchFunc(func(def definition) ([]criterion, error) {
		if err := def.fits(field, reflect.TypeFor[T]()); err != nil {
			return nil, err
		}
		want, err := def.recode(args)
		return def.ofArgs(field, show(reflect.ValueOf(&want).Elem()), func(got any) []difference {
			d := differ{some: some}
			d.values("args", reflect.ValueOf(want), reflect.ValueOf(got), 0)
			return d.out
		}), err
	})
}

// ofArgs returns a criterion on the arguments of a job.
func (def definition) ofArgs(field, want string, differ func(got any) []difference) []criterion {
	return []criterion{{field, want, func(c *candidate) []difference {
		got, err := def.decoded(c)
		if err != nil {
			return []difference{unreadable(err)}
		}
		return differ(got)
	}}}
}

// Where wants arguments for which f returns true. What describes them in the message
// of a failed test, such as "an amount above 100".
func Where[T any](what string, f func(args T) bool) Match {
	return matchFunc(func(def definition) ([]criterion, error) {
		if err := def.fits("Where", reflect.TypeFor[T]()); err != nil {
			return nil, err
		}
		if f == nil {
			return nil, fmt.Errorf("Where(%q) has no function; pass one that returns whether the arguments are right", what)
		}
		return def.ofArgs("args", what, func(got any) []difference {
			if args, _ := got.(T); !f(args) {
				return []difference{{"args", what, show(reflect.ValueOf(&got).Elem())}}
			}
			return nil
		}), nil
	})
}

func (def definition) fits(match string, args reflect.Type) error {
	if args != def.args {
		return fmt.Errorf("%s was given %v, but the arguments of %q are %v", match, args, def.typ, def.args)
	}
	return nil
}

// InState wants a job that is in one of the states now. Without InState a job matches
// in any state, even completed without a record.
func InState(states ...jobs.State) Match {
	return matchFunc(func(definition) ([]criterion, error) {
		if len(states) == 0 {
			return nil, errors.New("InState was given no state, so no job would match")
		}
		var names []string
		for _, s := range states {
			names = append(names, s.String())
		}
		want := strings.Join(names, " or ")
		return []criterion{{"state", want, func(c *candidate) []difference {
			switch {
			case slices.Contains(states, c.job.State):
				return nil
			case c.gone && c.job.State == broker.StateNone:
				return []difference{{"state", want, "no record of it is left"}}
			}
			return []difference{{"state", want, c.job.State.String()}}
		}}}, nil
	})
}

// Due wants a job that was enqueued to run at a time, within giveOrTake. A job without
// WithDelay and WithRunAt was to run when it was enqueued. In a testing/synctest
// bubble the time is exact; With(jobs.WithDelay(d)) is exact everywhere.
func Due(at time.Time, giveOrTake time.Duration) Match {
	return matchFunc(func(definition) ([]criterion, error) {
		if giveOrTake < 0 {
			return nil, fmt.Errorf("Due: giveOrTake is %v; use zero or more", giveOrTake)
		}
		want := fmt.Sprintf("%s, give or take %v", at.Format(time.RFC3339Nano), giveOrTake)
		return []criterion{{"due", want, func(c *candidate) []difference {
			delay, due := c.due()
			if due.IsZero() {
				due = c.job.CreatedAt.Add(delay)
			}
			if off := due.Sub(at); off.Abs() > giveOrTake {
				return []difference{{"due", want, fmt.Sprintf("%s, which is %v off", due.Format(time.RFC3339Nano), off)}}
			}
			return nil
		}}}, nil
	})
}

// matching checks candidates against criteria.
type matching struct {
	def      definition
	criteria []criterion
}

func newMatching(def definition, match []Match) (*matching, error) {
	m := &matching{def: def}
	for _, one := range match {
		if one == nil {
			continue
		}
		c, err := one.criteria(def)
		if err != nil {
			return nil, err
		}
		m.criteria = append(m.criteria, c...)
	}
	return m, nil
}

// differences returns why a candidate of the type does not match; none if it does.
func (m *matching) differences(c *candidate) (all []difference) {
	for _, criterion := range m.criteria {
		all = append(all, criterion.differ(c)...)
	}
	if len(all) == 0 && m.def.readable(c) != nil {
		_, err := m.def.decoded(c)
		return []difference{unreadable(err)}
	}
	return all
}

// unreadable is the difference of a job whose arguments cannot be decoded.
func unreadable(err error) difference { return difference{"args", "", err.Error()} }

// unclear reports whether a candidate with these differences may match: all that is
// known is that its arguments cannot be decoded.
func (m *matching) unclear(c *candidate, differences []difference) bool {
	_, err := m.def.decoded(c)
	return err != nil && !slices.ContainsFunc(differences, func(d difference) bool { return d != unreadable(err) })
}

// Options are options of package jobs for the helpers of this package; see With.
type Options []jobs.Option

// With takes the options of a job: With(jobs.WithQueue("mail"),
// jobs.WithDelay(time.Hour)). As a Match it wants a job that was enqueued with each of
// them, or with equal defaults; other fields are not compared. For Run, NewJob and
// CheckIdempotent they are the options of the job.
func With(opts ...jobs.Option) Options { return opts }

// noise makes two drafts that differ in all fields. The given options are then applied to both drafts.
// They have set the fields in which the drafts are equal after that.
var noise = [2][]jobs.Option{
	noiseOf("a", 1, jobs.WithUniqueUntilDone(time.Hour), jobs.WithDelay(time.Hour)),
	noiseOf("b", 2, jobs.WithUniqueUntilStarted(2*time.Hour), jobs.WithUniqueReplace(), jobs.WithDelay(2*time.Hour)),
}

func noiseOf(s string, n int, more ...jobs.Option) []jobs.Option {
	d := time.Duration(n) * time.Hour
	return append(more, jobs.WithQueue(s), jobs.WithPriority(jobs.Priority(n)), jobs.WithDeadline(time.Unix(int64(n), 0)),
		jobs.WithTimeout(d), jobs.WithMaxRetries(n), jobs.WithBackoff(jobs.Backoff{Kind: jobs.BackoffConstant, Base: d}),
		jobs.WithCrashBudget(n), jobs.WithRetention(d), jobs.WithID(s), jobs.WithPartitionKey(s), jobs.WithCorrelationID(s),
		jobs.WithIdempotencyKey(s), jobs.WithTypeVersion(n), jobs.WithSource(s), jobs.WithPayloadRef(s), jobs.WithUniqueKey(s))
}

func (opts Options) criteria(def definition) ([]criterion, error) {
	var draft [2]broker.NewJob
	for i := range draft {
		all := slices.Concat(noise[i], opts)
		var err error
		if draft[i], err = jobs.NewTask(def.typ, nil, all...).Draft(); err != nil {
			return nil, fmt.Errorf("With: %w", err)
		}
	}
	var set []criterion
	for _, f := range fields {
		if w := f.wanted(&draft[0]); w != nil && reflect.DeepEqual(w, f.wanted(&draft[1])) {
			set = append(set, f.criterion(w))
		}
	}
	for key, value := range draft[0].Body.Headers {
		set = append(set, header(key).criterion(value))
	}
	if len(set) == 0 && len(opts) > 0 {
		return nil, errors.New("With was given options that set nothing")
	}
	return set, nil
}

// field is one thing that options set.
type field struct {
	name   string
	wanted func(*broker.NewJob) any // returns nil if it is not set
	got    func(*candidate) any     // comparable with what wanted returns
}

// ofBody returns a field of the body, which a job keeps as it was enqueued.
func ofBody(name string, of func(*broker.Body) any) field {
	return field{name, func(n *broker.NewJob) any { return of(&n.Body) }, func(c *candidate) any { return of(&c.job.Body) }}
}

var fields = []field{
	{"queue", func(n *broker.NewJob) any { return baseOf(n.Queue) }, func(c *candidate) any { return baseOf(c.job.Queue) }},
	{"labels", func(n *broker.NewJob) any { return labelsOf(n.Queue) }, func(c *candidate) any { return labelsOf(c.job.Queue) }},
	{"id", func(n *broker.NewJob) any { return n.ID }, func(c *candidate) any { return c.job.ID }},
	{"due", func(n *broker.NewJob) any { return when{n.Delay, n.RunAt} }, func(c *candidate) any {
		if c.asked == nil && !c.job.RunAt.IsZero() { // another broker keeps only the time
			return when{c.job.RunAt.Sub(c.job.CreatedAt), c.job.RunAt}
		}
		delay, at := c.due()
		return when{delay, at}
	}},
	ofBody("priority", func(b *broker.Body) any { return b.Priority }),
	ofBody("deadline", func(b *broker.Body) any { return broker.FromMicros(broker.Micros(b.Deadline)) }),
	ofBody("timeout", func(b *broker.Body) any { return b.Timeout }),
	ofBody("max retries", func(b *broker.Body) any { return b.MaxRetries }),
	ofBody("backoff", func(b *broker.Body) any { return b.Backoff }),
	ofBody("crash budget", func(b *broker.Body) any { return b.CrashBudget }),
	ofBody("retention", func(b *broker.Body) any { return b.Retention }),
	ofBody("key", func(b *broker.Body) any { return b.Key }),
	ofBody("correlation ID", func(b *broker.Body) any { return b.CorrelationID }),
	ofBody("idempotency key", func(b *broker.Body) any { return b.IdempotencyKey }),
	ofBody("type version", func(b *broker.Body) any { return b.TypeVersion }),
	ofBody("source", func(b *broker.Body) any { return b.Source }),
	ofBody("payload ref", func(b *broker.Body) any { return b.PayloadRef }),
	ofBody("unique key", func(b *broker.Body) any { return b.Unique.Key }),
	ofBody("unique", func(b *broker.Body) any { return held{b.Unique.Key != "", b.Unique.Mode, b.Unique.TTL} }),
	ofBody("unique conflict", func(b *broker.Body) any { return met{b.Unique.Conflict, b.Unique.Latest} }),
}

// baseOf returns the queue that WithQueue names; labelsOf returns the labels that
// WithLabels adds to it, or nil.
func baseOf(queue string) string {
	base, _ := labels.Split(queue)
	return base
}

func labelsOf(queue string) any {
	if _, all := labels.Split(queue); len(all) > 0 {
		return all
	}
	return nil
}

func (f field) criterion(want any) criterion {
	return criterion{f.name, text(want), func(c *candidate) []difference {
		got := f.got(c)
		w, isTime := want.(when)
		if isTime && w.is(got.(when)) || !isTime && reflect.DeepEqual(want, got) {
			return nil
		}
		return []difference{{f.name, text(want), text(got)}}
	}}
}

// text shows the value of a field.
func text(v any) string {
	if s, ok := v.(fmt.Stringer); ok {
		return s.String()
	}
	return show(reflect.ValueOf(v))
}

func header(key string) field {
	return field{name: fmt.Sprintf("header %q", key), got: func(c *candidate) any {
		if value, ok := c.job.Headers[key]; ok {
			return value
		}
		return nil
	}}
}

// when is WithDelay or WithRunAt. For a job in another broker both are set, and either
// may match.
type when struct {
	delay time.Duration
	at    time.Time
}

func (w when) String() string {
	switch {
	case w.delay > 0:
		return fmt.Sprintf("%v after the enqueue", w.delay)
	case !w.at.IsZero():
		return w.at.Format(time.RFC3339Nano)
	}
	return "at once"
}

// is compares times as stores keep them: in microseconds, rounded up.
func (w when) is(got when) bool {
	switch {
	case w.delay > 0:
		return broker.DurationMicros(w.delay) == broker.DurationMicros(got.delay)
	case !w.at.IsZero():
		return broker.Micros(w.at) == broker.Micros(got.at)
	}
	return got.delay == 0 && got.at.IsZero()
}

// met says what happens to a job whose unique key is held.
type met struct {
	conflict broker.UniqueConflict
	latest   time.Duration
}

func (m met) String() string {
	words := [...]string{"refuse", "replace", "debounce", "keep the last"}
	if int(m.conflict) >= len(words) {
		return fmt.Sprint(m.conflict)
	}
	if m.latest > 0 {
		return fmt.Sprintf("%s, at the latest after %v", words[m.conflict], m.latest)
	}
	return words[m.conflict]
}

// held says how long a job holds its unique key.
type held struct {
	key  bool // it has one
	mode broker.UniqueMode
	ttl  time.Duration
}

func (h held) String() string {
	words := [...]string{"until done", "until started", "for a window"}
	if !h.key || int(h.mode) >= len(words) {
		return "no"
	}
	if h.ttl > 0 {
		return fmt.Sprintf("%s, at most %v", words[h.mode], h.ttl)
	}
	return words[h.mode]
}
