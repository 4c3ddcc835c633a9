// Package guard calls what an application supplied: hooks, callbacks, methods
// of its errors and of its log. Whatever these do, the caller goes on.
package guard

import (
	"errors"
	"fmt"
	"reflect"
	"runtime/debug"
)

// Failure is why a call did not return.
type Failure struct {
	Value any    // what it panicked with; nil when it ended its goroutine
	Stack string // of the call, when it panicked
}

// Error says what happened. It can be printed anywhere: it calls nothing of the
// application's without a guard.
func (f *Failure) Error() string {
	if f.Value == nil {
		return "it ended its goroutine with runtime.Goexit"
	}
	return "panic: " + Text(f.Value)
}

// Call calls f and returns nil once f has returned. A panic, or a
// runtime.Goexit, is a Failure. f runs in a goroutine of its own, because a
// Goexit cannot be stopped in the goroutine that it ends.
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

// Text is v as %v prints it; for a nil pointer, or when that fails, it says so.
func Text(v any) string {
	if isNilPointer(v) {
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

func isNilPointer(v any) bool {
	r := reflect.ValueOf(v)
	return r.Kind() == reflect.Pointer && r.IsNil()
}

// Hook is hook behind Call: tell gets its failures. It is nil when hook is.
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

// Error is err, or an error that says what is wrong with it: err is a nil
// pointer, or one of its methods fails.
func Error(err error) error {
	if err == nil {
		return nil
	}
	if isNilPointer(err) {
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

// never is an error that nobody has, to look through all of a chain.
type never struct{}

func (*never) Error() string { return "never" }

var errNever error = new(never)
