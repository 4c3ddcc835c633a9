// Package guard calls code that an application supplied: hooks, callbacks, and methods of its errors
// and log handlers. The caller goes on whatever that code does.
package guard

import (
	"errors"
	"fmt"
	"reflect"
	"runtime/debug"
)

// Failure says why a call did not return.
type Failure struct {
	Value any    // of the panic; nil after runtime.Goexit
	Stack string // of the panic
}

// Error describes the failure. It guards the methods of the application that it calls.
func (f *Failure) Error() string {
	if f.Value == nil {
		return "it ended its goroutine with runtime.Goexit"
	}
	return "panic: " + Text(f.Value)
}

// Call calls f and returns nil once f has returned. After a panic or runtime.Goexit it returns a
// Failure. It calls f in a new goroutine, because runtime.Goexit cannot be stopped in the goroutine
// that it ends.
func Call(f func()) *Failure {
	ended := make(chan *Failure, 1)
	go func() {
		failed := new(Failure)
		defer func() {
			if failed != nil {
				if failed.Value = recover(); failed.Value != nil {
					failed.Stack = string(debug.Stack())
				}
			}
			ended <- failed
		}()
		f()
		failed = nil
	}()
	return <-ended
}

// Text returns v as %v prints it. If v is a nil pointer, or cannot be printed, the text says so.
func Text(v any) string {
	if v != nil && IsNil(v) {
		return fmt.Sprintf("a nil %T in an interface, which is not nil; return a plain nil where there is no error", v)
	}
	var text string
	failed := Call(func() {
		switch v := v.(type) {
		case error:
			text = v.Error()
		case fmt.Stringer:
			text = v.String()
		default:
			text = fmt.Sprint(v)
		}
	})
	switch {
	case failed == nil:
		return text
	case failed.Value == nil:
		return fmt.Sprintf("a %T whose text cannot be read: its method ended its goroutine", v)
	}
	return fmt.Sprintf("a %T whose text cannot be read: its method panicked with a %T", v, failed.Value)
}

// IsNil reports whether v is nil, or is a nil pointer that an interface holds.
func IsNil(v any) bool {
	r := reflect.ValueOf(v)
	return v == nil || r.Kind() == reflect.Pointer && r.IsNil()
}

// Hook returns a function that calls hook, and calls tell with the failure if hook fails. It returns nil
// if hook is nil.
func Hook[E any](hook func(E), tell func(*Failure)) func(E) {
	if hook == nil {
		return nil
	}
	return func(e E) {
		if failed := Call(func() { hook(e) }); failed != nil {
			tell(failed)
		}
	}
}

// Error returns err. If err is a nil pointer, or one of its methods fails, it returns an error that
// says so.
func Error(err error) error {
	if err == nil {
		return nil
	}
	if IsNil(err) {
		return errors.New(Text(err))
	}
	failed := Call(func() {
		var none *never
		_ = err.Error()
		_ = errors.Is(err, errNever)
		_ = errors.As(err, &none)
	})
	if failed != nil {
		return fmt.Errorf("a %T with a method that failed: %v", err, failed)
	}
	return err
}

// never is an error type that no chain contains. Looking for it calls the methods of every error of a
// chain.
type never struct{}

func (*never) Error() string { return "never" }

var errNever error = new(never)
