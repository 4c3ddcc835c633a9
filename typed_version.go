package jobs

import "fmt"

// Version returns the definition with a version, 1 or more, of the form of its
// arguments. Raise it when old payloads cannot be read as a T any more. Tasks are
// enqueued with it, see WithTypeVersion. What a handler gets depends on the
// version of the job:
//
//   - The same: its payload, decoded.
//   - A lower one, or none: what upgrade makes of the payload, which was written
//     by a program of before. Without upgrade, or if it fails, the job is dead at
//     once: no retry can help.
//   - A higher one: the job was written by a newer program. It is put off without
//     a charge until a server takes it that knows the version, as a job of an
//     unknown type is, and is dead after Config.UnknownTypeLimit.
//
// A definition without Version decodes jobs of all versions as they are.
func (d Definition[T]) Version(n int, upgrade func(version int, payload []byte) (T, error)) Definition[T] {
	if n < 1 {
		panic(fmt.Sprintf("jobs: Version(%d) of %q: use 1 or more", n, d.typ))
	}
	d.version, d.upgrade = n, upgrade
	return d
}

// argsOf decodes the payload of a job, of whatever version.
func (d Definition[T]) argsOf(job *Job) (args T, err error) {
	switch v := job.TypeVersion(); {
	case d.version == 0 || v == d.version:
		return d.Decode(job.Payload())
	case v > d.version:
		return args, fmt.Errorf("%w: %q in version %d; this program knows up to %d", ErrUnknownType, d.typ, v, d.version)
	case d.upgrade == nil:
		return args, fmt.Errorf("%w: the payload of %q has version %d; this program reads %d alone", SkipRetry, d.typ, v, d.version)
	default:
		defer recoverInto(&err, func(err error) error {
			return fmt.Errorf("%w: the payload of %q in version %d cannot be read: %w", SkipRetry, d.typ, v, err)
		})
		return d.upgrade(v, job.Payload())
	}
}
