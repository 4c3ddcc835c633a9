package jobs

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"runtime/debug"
	"strings"
)

// Definition ties a task's type to the Go type of its arguments, for producers
// and handlers alike. Make it once, with Define, and use it from any number of
// goroutines.
type Definition[T any] struct {
	typ      string
	codec    Codec
	defaults []Option
	uniqueBy func(T) string
	enqueue  *taskChain                                            // of EnqueueWith, or nil
	version  int                                                   // of the arguments' form; 0 if it has none
	upgrade  func(version int, payload []byte) (args T, err error) // reads payloads of lower versions
}

// Define makes the definition of tasks of type typ whose payload is a T in
// JSON. The options are the defaults of each task; options of a call override
// them. A task without arguments has a struct{} as its T, for which an empty
// payload will do.
func Define[T any](typ string, defaults ...Option) Definition[T] {
	return Definition[T]{typ: typ, defaults: defaults}
}

// WithCodec returns the definition with another codec for arguments. Nil means
// JSON.
func (d Definition[T]) WithCodec(codec Codec) Definition[T] {
	d.codec = codec
	return d
}

// UniqueBy returns the definition with a function that computes each job's
// unique key; see WithUniqueKey. WithUniqueUntilDone, WithUniqueUntilStarted
// and WithUniqueWindow say how long the key is held. A job whose key is "" is
// not unique, unless WithUniqueKey gives it one.
func (d Definition[T]) UniqueBy(key func(args T) string) Definition[T] {
	d.uniqueBy = key
	return d
}

// EnqueueWith returns the definition with middleware for enqueueing its tasks: to
// validate, encode or mark them. It runs inside ClientConfig.Middleware, outermost
// first, for the tasks of this definition alone; see EnqueueMiddleware. A further
// call adds inner middleware. Nil entries are skipped. The middleware is called once
// per definition, not once per client. Package schedule refuses tasks with such
// middleware, because it keeps a Draft of a task; use ClientConfig.Middleware.
func (d Definition[T]) EnqueueWith(chain ...EnqueueMiddleware) Definition[T] {
	d.enqueue = d.enqueue.with(chain)
	return d
}

// Type returns the type of the tasks.
func (d Definition[T]) Type() string { return d.typ }

// Task makes a task with args as its payload, for Enqueue and EnqueueMany. It
// fails, with ErrInvalid, when args cannot be encoded.
func (d Definition[T]) Task(args T, opts ...Option) (task *Task, err error) {
	failed := "the arguments cannot be encoded"
	defer recoverInto(&err, func(err error) error { return fmt.Errorf("jobs: %w: task %q: %s: %w", ErrInvalid, d.typ, failed, err) })
	payload, err := d.encoding().Encode(args)
	if err != nil {
		return nil, err
	}
	options := append(make([]Option, 0, len(d.defaults)+len(opts)+2), d.defaults...)
	if d.version > 0 {
		options = append(options, WithTypeVersion(d.version))
	}
	failed = "UniqueBy gives no key"
	if d.uniqueBy != nil {
		if key := d.uniqueBy(args); key != "" {
			options = append(options, WithUniqueKey(key))
		} else {
			options = append(options, withoutKey)
		}
	}
	return &Task{typ: d.typ, payload: payload, options: append(options, opts...), chain: d.enqueue}, nil
}

// withoutKey is WithoutUnique that lasts: later options that only say how long a key is held
// do not make the job unique by its payload.
var withoutKey = optionFunc(func(c *enqueueConfig) {
	WithoutUnique().apply(c)
	c.noKey = true
})

// Enqueue makes a task with args as its payload and passes it to the Enqueuer, usually
// a Client; see Client.Enqueue. It fails, with ErrInvalid, when args cannot be encoded.
func (d Definition[T]) Enqueue(ctx context.Context, to Enqueuer, args T, opts ...Option) (*JobInfo, error) {
	task, err := d.Task(args)
	if err != nil {
		return nil, err
	}
	if to == nil {
		return nil, errNoBroker
	}
	return to.Enqueue(ctx, task, opts...)
}

// Decode reads a payload, without regard to its version. Every error wraps SkipRetry,
// since no retry can help.
func (d Definition[T]) Decode(payload []byte) (args T, err error) {
	defer recoverInto(&err, func(err error) error {
		return fmt.Errorf("%w: the payload of %q cannot be decoded as a %T: %w", SkipRetry, d.typ, args, err)
	})
	err = d.encoding().Decode(payload, &args)
	return args, err
}

// Handler makes a Handler of f. If a payload cannot be decoded, f is not called:
// the job is dead at once, with the reason in its error history. See Version about
// payloads of other versions.
func (d Definition[T]) Handler(f func(ctx context.Context, args T, job *Job) error) Handler {
	return HandlerFunc(func(ctx context.Context, job *Job) error {
		args, err := d.argsOf(job)
		if err != nil {
			return err
		}
		return f(ctx, args, job)
	})
}

// Handle registers f on m for the jobs of a definition; see
// Definition.Handler and ServeMux.Handle, which says when it panics.
func Handle[T any](m *ServeMux, d Definition[T], f func(ctx context.Context, args T, job *Job) error, chain ...Middleware) {
	if f == nil {
		m.Handle(d.typ, nil, chain...) // panics with the pattern's name
	}
	m.Handle(d.typ, d.Handler(f), chain...)
}

func (d Definition[T]) encoding() Codec {
	if d.codec == nil {
		return JSON
	}
	return d.codec
}

// recoverInto turns a panic into an error, and passes any error through explain. It is
// deferred.
func recoverInto(err *error, explain func(error) error) {
	if v := recover(); v != nil {
		*err = &PanicError{Value: v, Stack: string(debug.Stack())}
	}
	if *err != nil {
		*err = explain(*err)
	}
}

// Codec encodes arguments as payloads and decodes them. Several goroutines call it at
// once. Its errors are logged, so they must not quote the payload.
type Codec interface {
	Encode(args any) ([]byte, error)
	Decode(payload []byte, args any) error // args is a pointer
}

// JSON is the default codec of definitions: encoding/json. An empty payload is the
// value of a type without fields, such as struct{}.
var JSON Codec = jsonCodec{}

type jsonCodec struct{}

func (jsonCodec) Encode(args any) ([]byte, error) { return json.Marshal(args) }

func (jsonCodec) Decode(payload []byte, args any) error {
	if to := reflect.ValueOf(args); len(payload) == 0 && to.Kind() == reflect.Pointer && to.Type().Elem().Size() == 0 {
		return nil // a struct{}, which NewTask without a payload leaves out, as programs of asynq do
	}
	err := json.Unmarshal(payload, args)
	if err == nil {
		return nil
	}
	// The errors of encoding/json can quote the payload; these do not.
	var syntax *json.SyntaxError
	var typ *json.UnmarshalTypeError
	switch {
	case errors.As(err, &typ):
		kind, _, _ := strings.Cut(typ.Value, " ")
		return fmt.Errorf("JSON %s in field %q, byte %d, does not fit %v", kind, typ.Field, typ.Offset, typ.Type)
	case errors.As(err, &syntax):
		return fmt.Errorf("malformed JSON at byte %d", syntax.Offset)
	}
	return fmt.Errorf("UnmarshalJSON of a field refused the JSON (%T)", err)
}

// Version returns the definition with a version, 1 or more, of the form of its
// arguments. Raise it when a T cannot be decoded from old payloads any more. Tasks
// are enqueued with this version; see WithTypeVersion. A handler compares it with the
// version of the job:
//
//   - The same: the handler gets the decoded payload.
//   - A lower one, or none: an older program wrote the payload, and the handler gets
//     what upgrade returns for it. If upgrade is nil or fails, the job is dead at
//     once.
//   - A higher one: a newer program wrote the payload. As with a job of an unknown
//     type, the server snoozes the job without a charge, until a server that knows
//     the version claims it. After Config.UnknownTypeLimit the job is dead.
//
// A definition without Version decodes the payloads of all versions as they are.
// Version panics if n is less than 1.
func (d Definition[T]) Version(n int, upgrade func(version int, payload []byte) (T, error)) Definition[T] {
	if n < 1 {
		panic(fmt.Sprintf("jobs: Definition.Version(%d) of %q: use 1 or more", n, d.typ))
	}
	d.version, d.upgrade = n, upgrade
	return d
}

// argsOf decodes the payload of a job of any version.
func (d Definition[T]) argsOf(job *Job) (args T, err error) {
	switch v := job.TypeVersion(); {
	case d.version == 0 || v == d.version:
		return d.Decode(job.Payload())
	case v > d.version:
		return args, fmt.Errorf("%w: %q in version %d; this program knows up to %d", ErrUnknownType, d.typ, v, d.version)
	case d.upgrade == nil:
		return args, fmt.Errorf("%w: the payload of %q has version %d; this program reads version %d only", SkipRetry, d.typ, v, d.version)
	default:
		defer recoverInto(&err, func(err error) error {
			return fmt.Errorf("%w: the payload of %q in version %d cannot be read: %w", SkipRetry, d.typ, v, err)
		})
		return d.upgrade(v, job.Payload())
	}
}
