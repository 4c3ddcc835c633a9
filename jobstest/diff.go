package jobstest

import (
	"bytes"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

// difference is one field that differs from the wanted value.
type difference struct{ field, want, got string }

func (d difference) String() string {
	if d.want == "" {
		return d.field + ": " + d.got
	}
	return fmt.Sprintf("%s: want %s, got %s", d.field, d.want, d.got)
}

// differ lists the fields in which two values of one type differ. If some is set, it ignores fields that
// are zero in want.
type differ struct {
	some bool
	out  []difference
}

const maxDepth = 64 // of values in one another; it ends the comparison of cycles

func (d *differ) values(path string, want, got reflect.Value, depth int) {
	if !want.IsValid() || !got.IsValid() {
		d.unless(want.IsValid() == got.IsValid(), path, want, got)
		return
	}
	if d.some && want.IsZero() && depth > 0 {
		return
	}
	if want.Type() != got.Type() || depth > maxDepth {
		d.unless(want.CanInterface() && got.CanInterface() && reflect.DeepEqual(want.Interface(), got.Interface()), path, want, got)
		return
	}
	if same, whole := compareWhole(want, got); whole {
		d.unless(same, path, want, got)
		return
	}
	switch want.Kind() {
	case reflect.Struct:
		for i := range want.NumField() {
			if f := want.Type().Field(i); f.IsExported() {
				d.values(path+"."+f.Name, want.Field(i), got.Field(i), depth+1)
			}
		}
	case reflect.Pointer, reflect.Interface:
		if want.IsNil() || got.IsNil() {
			d.unless(want.IsNil() == got.IsNil(), path, want, got)
			return
		}
		d.values(path, want.Elem(), got.Elem(), depth+1)
	case reflect.Slice, reflect.Array:
		if want.Len() != got.Len() {
			d.out = append(d.out, difference{path, fmt.Sprintf("%d elements %s", want.Len(), show(want)),
				fmt.Sprintf("%d elements %s", got.Len(), show(got))})
			return
		}
		for i := range want.Len() {
			d.values(fmt.Sprintf("%s[%d]", path, i), want.Index(i), got.Index(i), depth+1)
		}
	case reflect.Map:
		d.maps(path, want, got, depth)
	case reflect.Func, reflect.Chan, reflect.UnsafePointer:
	default:
		d.unless(want.Equal(got), path, want, got)
	}
}

// compareWhole compares values that are not compared field by field: bytes, types
// with a method Equal, and structs without exported fields.
func compareWhole(want, got reflect.Value) (same, whole bool) {
	if !want.CanInterface() || !got.CanInterface() {
		return false, false
	}
	if b, ok := want.Interface().([]byte); ok {
		return bytes.Equal(b, got.Interface().([]byte)), true
	}
	if m, ok := want.Type().MethodByName("Equal"); ok && want.Kind() != reflect.Pointer && want.Kind() != reflect.Interface &&
		m.Type.NumIn() == 2 && m.Type.In(1) == want.Type() && m.Type.NumOut() == 1 && m.Type.Out(0).Kind() == reflect.Bool {
		return m.Func.Call([]reflect.Value{want, got})[0].Bool(), true
	}
	if want.Kind() == reflect.Struct && !exports(want.Type()) {
		return reflect.DeepEqual(want.Interface(), got.Interface()), true
	}
	return false, false
}

// exports reports whether a struct has a field that is exported.
func exports(t reflect.Type) bool {
	for i := range t.NumField() {
		if t.Field(i).IsExported() {
			return true
		}
	}
	return false
}

func (d *differ) maps(path string, want, got reflect.Value, depth int) {
	keys := make(map[string]reflect.Value)
	for _, k := range want.MapKeys() {
		keys[show(k)] = k
	}
	for _, k := range got.MapKeys() {
		if !d.some {
			keys[show(k)] = k
		}
	}
	for _, n := range slices.Sorted(maps.Keys(keys)) {
		d.values(fmt.Sprintf("%s[%s]", path, n), want.MapIndex(keys[n]), got.MapIndex(keys[n]), depth+1)
	}
}

// unless notes a difference unless two values are the same.
func (d *differ) unless(same bool, path string, want, got reflect.Value) {
	if !same {
		w, g := around(show(want), show(got))
		d.out = append(d.out, difference{path, w, g})
	}
}

const maxShown = 80 // bytes of a value in a line of a message

// around cuts two long texts to the part in which they begin to differ.
func around(a, b string) (string, string) {
	if len(a) <= maxShown && len(b) <= maxShown {
		return a, b
	}
	at := 0
	for at < len(a) && at < len(b) && a[at] == b[at] {
		at++
	}
	from := max(0, at-maxShown/4)
	return window(a, from), window(b, from)
}

func window(s string, from int) string {
	for from > 0 && from < len(s) && !utf8.RuneStart(s[from]) {
		from--
	}
	cut := s[min(from, len(s)):]
	if from > 0 {
		cut = "…" + cut
	}
	return shorten(cut, maxShown)
}

// show formats a value for people.
func show(v reflect.Value) string {
	if !v.IsValid() {
		return "none"
	}
	if v.CanInterface() {
		switch x := v.Interface().(type) {
		case time.Time:
			return x.Format(time.RFC3339Nano)
		case time.Duration:
			return x.String()
		case []byte:
			if utf8.Valid(x) {
				return strconv.Quote(string(x))
			}
			return fmt.Sprintf("%d bytes %x", len(x), x)
		}
		if v.Kind() == reflect.Struct && !exports(v.Type()) {
			if v.CanAddr() {
				return fmt.Sprint(v.Addr().Interface())
			}
			return fmt.Sprint(v.Interface())
		}
	}
	switch v.Kind() {
	case reflect.String:
		return strconv.Quote(v.String())
	case reflect.Pointer, reflect.Interface:
		if v.IsNil() {
			return "nil"
		}
		return show(v.Elem())
	case reflect.Struct:
		var fields []string
		for i := range v.NumField() {
			if f := v.Type().Field(i); f.IsExported() && !v.Field(i).IsZero() {
				fields = append(fields, f.Name+": "+show(v.Field(i)))
			}
		}
		return "{" + strings.Join(fields, ", ") + "}"
	case reflect.Slice, reflect.Array:
		elements := make([]string, v.Len())
		for i := range elements {
			elements[i] = show(v.Index(i))
		}
		return "[" + strings.Join(elements, ", ") + "]"
	case reflect.Map:
		pairs := make([]string, 0, v.Len())
		for _, k := range v.MapKeys() {
			pairs = append(pairs, show(k)+": "+show(v.MapIndex(k)))
		}
		slices.Sort(pairs)
		return "{" + strings.Join(pairs, ", ") + "}"
	}
	return fmt.Sprint(v)
}
