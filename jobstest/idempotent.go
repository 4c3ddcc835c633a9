package jobstest

import (
	"context"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"testing"

	"github.com/seed81422ce9/jobs"
	"github.com/seed81422ce9/jobs/broker"
)

// CheckIdempotent runs a handler with one job. Then it runs the handler again with the same job, as
// after a crash of its server: once with nothing stored, and once for each step and checkpoint that the
// handler stored, with everything stored up to that point. Each of these runs must complete the job and
// change nothing. effects returns what the handler has done, such as rows of a database, mails that a
// fake has sent, or AllEnqueued of its tasks. If a repeated run changes what effects returns, the test
// fails and shows the changes, field by field.
//
// In the repeated runs the job has the same ID, idempotency key and payload, and one
// more delivery and crash. Results of effects are compared by their exported fields;
// effects can return the same map or slice each time. It may have up to 100,000
// values, and pointers back to where they come from. Options are those of Run.
//
// CheckIdempotent does not find a handler that leaves its effect incomplete when a run
// is interrupted: its first run succeeds.
func CheckIdempotent[T any](t testing.TB, h jobs.Handler, def jobs.Definition[T], args T, effects func() any, opts ...RunOption) {
	t.Helper()
	if effects == nil {
		t.Fatal("jobstest: CheckIdempotent needs to see what the handler does: effects is nil")
	}
	c := newRunConfig(t, opts)
	var kept []*broker.Kept // after each step and checkpoint
	hooks := c.cfg.Hooks
	c.cfg.Hooks = jobs.JoinHooks(hooks, jobs.Hooks{Settle: func(e jobs.SettleEvent) {
		for i, v := range e.Verdicts {
			if o := e.Items[i].Outcome; o.Kind() == broker.OutcomeKeep && v.Err == nil {
				kept = append(kept, o.Kept())
			}
		}
	}})
	b := New(t)
	at := enqueue(t, b, c, def, args)
	first := b.runOne(t, c, h, at)
	if first.Outcome != jobs.EndedCompleted {
		t.Fatalf("the first run of %q has to complete its job, but it was %v", def.Type(), first)
	}
	want := flatten(t, effects())
	c.cfg.Hooks = hooks
	job := b.log.all()[0].job
	points := append([]*broker.Kept{c.head.Kept}, kept...)
	for i, k := range points {
		again := New(t)
		job.Restore = &broker.Restored{State: broker.StatePending, Head: c.head}
		job.Restore.Head.Kept = k.Clone()
		job.Restore.Head.Deliveries++
		job.Restore.Head.Crashes++
		if _, err := again.plain.Enqueue(context.Background(), broker.EnqueueRequest{Jobs: []broker.NewJob{job}}); err != nil {
			t.Fatalf("jobstest: %v", err)
		}
		when := fmt.Sprintf("with the first %d of %d things that it had stored", i, len(kept))
		if i == 0 {
			when = "with nothing stored"
		}
		result := again.runOne(t, c, h, at)
		if result.Outcome != jobs.EndedCompleted {
			t.Errorf("the handler of %q is not idempotent: delivered again %s, its job was %v", def.Type(), when, result)
			return
		}
		if changed := want.changes(flatten(t, effects())); len(changed) > 0 {
			t.Errorf("the handler of %q is not idempotent: delivered again %s, it changed its effects:%s",
				def.Type(), when, indent(changed))
			return
		}
	}
}

// flat is a copy of a value at one time: path → text.
type flat map[string]string

// maxFlat and maxPath bound how many values effects may have, and the bytes of the path to one of them: values
// that point at one another in many ways have endless paths.
const (
	maxFlat = 100_000
	maxPath = 5_000
)

func flatten(t testing.TB, v any) flat {
	t.Helper()
	f := make(flat)
	if !f.add("effects", reflect.ValueOf(v), make(map[reference]bool)) {
		t.Fatalf("jobstest: CheckIdempotent: effects has more than %d values, or very deep ones; "+
			"return fewer of them, without pointers between them", maxFlat)
	}
	return f
}

// reference is a pointer, a map or a slice.
type reference struct {
	of   reflect.Type
	at   uintptr
	size int
}

// add adds a value, and reports whether there was room for all of it. within has the references on the way
// to it, which ends cycles.
func (f flat) add(path string, v reflect.Value, within map[reference]bool) (room bool) {
	if len(f) >= maxFlat || len(path) > maxPath {
		return false
	}
	if !v.IsValid() {
		f[path] = show(v)
		return true
	}
	if v.CanInterface() {
		if _, ok := v.Interface().([]byte); ok {
			f[path] = show(v)
			return true
		}
	}
	if r := referenceOf(v); r.at != 0 {
		if within[r] {
			f[path] = "a value that this one is in"
			return true
		}
		within[r] = true
		defer delete(within, r)
	}
	room = true
	switch v.Kind() {
	case reflect.Pointer, reflect.Interface:
		if v.IsNil() {
			f[path] = "nil"
			return true
		}
		return f.add(path, v.Elem(), within)
	case reflect.Slice, reflect.Array:
		f[path] = plural(v.Len(), "element")
		for i := 0; room && i < v.Len(); i++ {
			room = f.add(fmt.Sprintf("%s[%d]", path, i), v.Index(i), within)
		}
	case reflect.Map:
		f[path] = plural(v.Len(), "key")
		for keys := v.MapRange(); room && keys.Next(); {
			room = f.add(fmt.Sprintf("%s[%s]", path, show(keys.Key())), keys.Value(), within)
		}
	case reflect.Struct:
		if !exports(v.Type()) {
			f[path] = show(v)
			return true
		}
		for i := 0; room && i < v.NumField(); i++ {
			if field := v.Type().Field(i); field.IsExported() {
				room = f.add(path+"."+field.Name, v.Field(i), within)
			}
		}
	default:
		f[path] = show(v)
	}
	return room
}

// referenceOf returns v as a reference; its at is 0 if v is nil or something else.
func referenceOf(v reflect.Value) (r reference) {
	switch v.Kind() {
	case reflect.Slice, reflect.Map:
		return reference{v.Type(), v.Pointer(), v.Len()}
	case reflect.Pointer:
		return reference{v.Type(), v.Pointer(), 0}
	}
	return r
}

// changes lists the differences of two flat values.
func (f flat) changes(now flat) (lines []string) {
	all := maps.Clone(f)
	maps.Copy(all, now)
	for _, path := range slices.Sorted(maps.Keys(all)) {
		before, was := f[path]
		after, is := now[path]
		switch {
		case !was:
			lines = append(lines, fmt.Sprintf("%s: %s is new", path, shorten(after, maxShown)))
		case !is:
			lines = append(lines, fmt.Sprintf("%s: %s is gone", path, shorten(before, maxShown)))
		case before != after:
			b, a := around(before, after)
			lines = append(lines, fmt.Sprintf("%s: was %s, is %s", path, b, a))
		}
	}
	if len(lines) > maxListed {
		lines = append(lines[:maxListed], fmt.Sprintf("and %d more", len(lines)-maxListed))
	}
	return lines
}
