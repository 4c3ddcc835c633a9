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
		if err != nil {
			return nil, err
		}
		return []criterion{{field, show(reflect.ValueOf(&want).Elem()), func(c *candidate) []difference {
			got, err := def.decoded(c)
			if err != nil {
				return []difference{unreadable(err)}
			}
			d := differ{some: some}
			d.values("args", reflect.ValueOf(want), reflect.ValueOf(got), 0)
			return d.out
		}}}, nil
	})
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
		return []criterion{{"args", what, func(c *candidate) []difference {
			got, err := def.decoded(c)
			if err != nil {
				return []difference{unreadable(err)}
			}
			if args, _ := got.(T); !f(args) {
				return []difference{{"args", what, show(reflect.ValueOf(&got).Elem())}}
			}
			return nil
		}}}, nil
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
