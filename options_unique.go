package jobs

import (
	"crypto/sha256"
	"encoding/hex"
	"time"

	"github.com/seed81422ce9/jobs/broker"
)

// WithUniqueUntilDone makes the job unique in its queue. While it holds its
// key, another job with the same key is refused with ErrDuplicate and the ID
// of the holder. It holds the key through all its retries, until it is
// completed, dead, cancelled or deleted, but not longer than maxTTL after it
// was enqueued. A maxTTL of zero means no such limit; the longest is 100
// years. A dead job that is redriven takes its key again.
//
// WithUniqueKey sets the key. Without it the key is derived from the task's
// type and payload, as they were before any enqueue middleware: see
// DerivedKeyPrefix. Of WithUniqueUntilDone, WithUniqueUntilStarted and
// WithUniqueWindow the last one given counts.
func WithUniqueUntilDone(maxTTL time.Duration) Option {
	return unique(broker.UniqueUntilDone, maxTTL)
}

// WithUniqueUntilStarted makes the job hold its unique key until its first run
// starts, or until it ends without one, but not longer than maxTTL after it
// was enqueued. A maxTTL of zero means no such limit; the longest is 100
// years. See WithUniqueUntilDone about the key.
func WithUniqueUntilStarted(maxTTL time.Duration) Option {
	return unique(broker.UniqueUntilStarted, maxTTL)
}

// WithUniqueWindow makes the job hold its unique key for window after it was
// enqueued, however it ends. So one job per key is accepted in a window, the
// first: a throttle. The window is more than zero and at most 100 years. See
// WithUniqueUntilDone about the key.
func WithUniqueWindow(window time.Duration) Option {
	return unique(broker.UniqueWindow, window)
}

func unique(mode broker.UniqueMode, ttl time.Duration) Option {
	return optionFunc(func(c *enqueueConfig) {
		c.unique, c.job.Body.Unique.Mode, c.job.Body.Unique.TTL = true, mode, ttl
	})
}

// WithUniqueKey makes the job unique by key, 1 to 255 bytes. Any job of the
// queue that holds the same key excludes it, whatever its type. The key is
// stored in clear. Without another option the job holds it until it is done,
// as with WithUniqueUntilDone(0).
func WithUniqueKey(key string) Option {
	return optionFunc(func(c *enqueueConfig) {
		c.unique, c.keySet, c.job.Body.Unique.Key = true, true, key
	})
}

// WithUniqueReplace makes the job replace the one that holds its unique key, if
// that has not started: it is pending, scheduled or waits for a retry, and of the
// same type. The holder keeps its ID and its place, and runs with the new payload,
// headers, type version, correlation ID and idempotency key. Enqueue then returns
// no error: JobInfo.Replaced is set, and JobInfo.ID is the holder's. A holder that
// has started refuses the job with ErrDuplicate; see WithUniqueKeepLast. It needs
// WithUniqueKey. Of WithUniqueReplace, WithUniqueDebounce and WithUniqueKeepLast
// the last one given counts.
func WithUniqueReplace() Option { return meets(broker.ConflictReplace, 0) }

// WithUniqueDebounce makes the job run when nothing more has come for quiet: it
// waits for quiet, and each job with its unique key that comes meanwhile replaces
// it, as with WithUniqueReplace, and makes it wait for quiet again. But it waits no
// longer than latest after the first of them was enqueued. A job that comes while
// the holder runs is stored, and runs after it, as with WithUniqueKeepLast; but
// with WithUniqueUntilStarted, where no job holds its key while it runs, each has
// a life of its own. Quiet is more than zero, and latest not less than quiet. It
// replaces WithDelay and WithRunAt, and does not go with WithUniqueWindow.
func WithUniqueDebounce(quiet, latest time.Duration) Option {
	return optionFunc(func(c *enqueueConfig) {
		meets(broker.ConflictDebounce, latest).apply(c)
		WithDelay(quiet).apply(c)
		c.quiet = quiet
	})
}

// WithUniqueKeepLast makes no update be lost: the job replaces the one that holds
// its unique key, as with WithUniqueReplace, if that has not started; and while
// that runs, the job is stored and runs once after it, with the last payload that
// came. JobInfo.State is then waiting, and JobInfo.Behind the ID of the job that
// runs. So there are at most two jobs with the key, one that runs and one that
// waits. It goes with WithUniqueUntilDone, the default. A maximum time to hold the
// key does not count while a job waits behind it.
func WithUniqueKeepLast() Option { return meets(broker.ConflictKeepLast, 0) }

func meets(conflict broker.UniqueConflict, latest time.Duration) Option {
	return optionFunc(func(c *enqueueConfig) {
		u := &c.job.Body.Unique
		c.unique, u.Conflict, u.Latest = true, conflict, latest
	})
}

// WithoutUnique undoes earlier options about uniqueness.
func WithoutUnique() Option {
	return optionFunc(func(c *enqueueConfig) {
		c.unique, c.keySet, c.job.Body.Unique = false, false, broker.Unique{}
	})
}

// finishUnique derives a key when one is needed.
func (c *enqueueConfig) finishUnique() error {
	b := &c.job.Body
	switch {
	case !c.unique:
	case b.Unique.Conflict == broker.ConflictDebounce && c.quiet <= 0:
		return broker.Invalid("unique quiet", "is %v; use more than zero: WithUniqueDebounce waits for it", c.quiet)
	case !c.keySet && b.Unique.Conflict != broker.ConflictRefuse:
		return broker.Invalid("unique key", "is derived from the payload, so that another payload has another one; give WithUniqueKey")
	case !c.keySet:
		b.Unique.Key = contentKey(b.Type, b.Payload)
	case b.Unique.Key == "":
		return broker.Invalid("unique key", "is empty; give it 1 to %d bytes, or leave WithUniqueKey out", broker.MaxNameLen)
	}
	return nil
}

// DerivedKeyPrefix is the beginning of each unique key that is derived from a
// payload. 64 hexadecimal digits follow: the SHA-256 of the task's type, a
// zero byte and the payload. It contains no secret, so anybody who reads it
// can test guesses of payloads. Middleware that hides payloads must replace
// such a key, as payload.Encrypt does.
const DerivedKeyPrefix = "sha256:"

// contentKey is the unique key of a type and a payload. A type has no control
// characters, so the zero byte separates the two without ambiguity.
func contentKey(typ string, payload []byte) string {
	h := sha256.New()
	h.Write([]byte(typ))
	h.Write([]byte{0})
	h.Write(payload)
	var sum [sha256.Size]byte
	key := append(make([]byte, 0, len(DerivedKeyPrefix)+2*sha256.Size), DerivedKeyPrefix...)
	return string(hex.AppendEncode(key, h.Sum(sum[:0])))
}
