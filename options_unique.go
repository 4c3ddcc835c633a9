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
// was enqueued. A maxTTL of zero means no such limit; others are from 1 ms to 100
// years. A dead job that is redriven takes its key again.
//
// WithUniqueKey sets the key. Without it the key is derived from the task's
// type and payload, as they were before any enqueue middleware: see
// DerivedKeyPrefix. WithUniqueUntilDone, WithUniqueUntilStarted and
// WithUniqueWindow override each other.
func WithUniqueUntilDone(maxTTL time.Duration) Option {
	return unique(broker.UniqueUntilDone, maxTTL)
}

// WithUniqueUntilStarted makes the job hold its unique key until its first run
// starts, or until it ends without a run, but not longer than maxTTL after it
// was enqueued. A maxTTL of zero means no such limit; others are from 1 ms to 100
// years. See WithUniqueUntilDone about the key.
func WithUniqueUntilStarted(maxTTL time.Duration) Option {
	return unique(broker.UniqueUntilStarted, maxTTL)
}

// WithUniqueWindow makes the job hold its unique key for window after it was
// enqueued, whether or not it has ended. So of each key the first job in a window
// is accepted and the others are refused: a throttle. The window is at least 1 ms
// and at most 100 years. See WithUniqueUntilDone about the key.
func WithUniqueWindow(window time.Duration) Option {
	return unique(broker.UniqueWindow, window)
}

func unique(mode broker.UniqueMode, ttl time.Duration) Option {
	return optionFunc(func(c *enqueueConfig) {
		c.unique, c.job.Body.Unique.Mode, c.job.Body.Unique.TTL = true, mode, ttl
	})
}

// WithUniqueKey makes the job unique by key, 1 to 255 bytes: it is refused while
// a job of the queue, of any type, holds the same key. The key is stored
// unencrypted. Without another option the job holds it until it is done, as with
// WithUniqueUntilDone(0).
func WithUniqueKey(key string) Option {
	return optionFunc(func(c *enqueueConfig) {
		c.unique, c.keySet, c.job.Body.Unique.Key = true, true, key
	})
}

// WithUniqueReplace makes the job replace the holder of its unique key, if the
// holder is of the same type and pending, scheduled or waiting for a retry. The
// holder keeps its ID and its position in the queue, and runs with the new
// payload, headers, type version, correlation ID and idempotency key. Enqueue then
// returns no error: JobInfo.Replaced is set, and JobInfo.ID is the holder's. If
// the holder is running, the job is refused with ErrDuplicate; see
// WithUniqueKeepLast. The option needs WithUniqueKey. WithUniqueReplace,
// WithUniqueDebounce and WithUniqueKeepLast override each other.
func WithUniqueReplace() Option { return onConflict(broker.ConflictReplace, 0) }

// WithUniqueDebounce delays the job until no other job with its unique key has been
// enqueued for the time quiet. Each such job replaces it, as with WithUniqueReplace,
// and starts the delay again. The job waits at most for the time latest, counted from
// when the first of them was enqueued. A job that is enqueued while the holder runs is
// stored, and runs after it, as with WithUniqueKeepLast. With WithUniqueUntilStarted
// a running job holds no key, so the new job does not wait for its end. The time quiet
// is at least 1 ms, and latest is not less than quiet. The option needs
// WithUniqueKey, overrides WithDelay and WithRunAt, also later ones, and is refused
// together with WithUniqueWindow.
func WithUniqueDebounce(quiet, latest time.Duration) Option {
	return optionFunc(func(c *enqueueConfig) {
		onConflict(broker.ConflictDebounce, latest).apply(c)
		c.quiet = quiet // the job's delay, unless a later option ends the debounce: see finish
	})
}

// WithUniqueKeepLast makes sure that the last update of a key is handled. If the
// holder of the unique key has not started, the job replaces it, as with
// WithUniqueReplace. While the holder runs, the job is stored and runs once after
// it, with the payload that was enqueued last. JobInfo.State is then waiting, and
// JobInfo.Behind is the ID of the running job. So there are at most two jobs with
// the key: one that runs and one that waits. The option needs WithUniqueKey, and
// WithUniqueUntilDone, the default; its maxTTL does not count while a job waits
// behind the holder.
func WithUniqueKeepLast() Option { return onConflict(broker.ConflictKeepLast, 0) }

func onConflict(conflict broker.UniqueConflict, latest time.Duration) Option {
	return optionFunc(func(c *enqueueConfig) {
		u := &c.job.Body.Unique
		c.unique, u.Conflict, u.Latest = true, conflict, latest
	})
}

// WithoutUnique undoes all earlier WithUnique options.
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
	case b.Unique.Conflict == broker.ConflictDebounce && c.quiet < minDuration:
		return broker.Invalid("unique quiet", "is %v; use %v or more: WithUniqueDebounce waits for it", c.quiet, minDuration)
	case !c.keySet && b.Unique.Conflict != broker.ConflictRefuse:
		return broker.Invalid("unique key", "is derived from the payload, so a job with another payload has another key; add WithUniqueKey")
	case !c.keySet:
		b.Unique.Key = contentKey(b.Type, b.Payload)
	case b.Unique.Key == "":
		return broker.Invalid("unique key", "is empty; give it 1 to %d bytes, or leave WithUniqueKey out", broker.MaxNameLen)
	}
	return nil
}

// DerivedKeyPrefix is the beginning of each unique key that is derived from a
// payload. 64 hexadecimal digits follow: the SHA-256 of the task's type, a
// zero byte and the payload. The hash uses no secret, so anybody who reads the key
// can test guesses of the payload. Middleware that hides payloads must replace
// such a key, as payload.Encrypt does.
const DerivedKeyPrefix = "sha256:"

// contentKey derives the unique key of a type and a payload. A type has no control
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
