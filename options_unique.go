package jobs

import (
	"crypto/sha256"
	"encoding/hex"
	"time"

	"github.com/seed81422ce9/jobs/broker"
)

// UniqueMode says what frees a unique key; see WithUniqueMode.
type UniqueMode = broker.UniqueMode

// How long a job holds its unique key.
const (
	// UniqueUntilSettled: until the job is completed, dead, cancelled or
	// deleted, and at most for the time of WithUniqueFor.
	UniqueUntilSettled = broker.UniqueUntilSettled
	// UniqueUntilStarted: until its first run begins, or its end, and at most
	// for the time of WithUniqueFor.
	UniqueUntilStarted = broker.UniqueUntilStarted
	// UniqueWindow: for the time of WithUniqueFor after its enqueueing,
	// whatever becomes of the job.
	UniqueWindow = broker.UniqueWindow
)

// WithUniqueFor makes the job unique in its queue: while it holds its key,
// another one with the same key is refused with ErrDuplicate and the ID of the
// holder. It holds the key until it is settled for good, but at most for ttl,
// which is more than zero and at most 100 years; WithUniqueMode changes that.
//
// The key is that of WithUniqueKey or, without one, derived from the task's
// type and payload as Enqueue got them, before any enqueue middleware.
func WithUniqueFor(ttl time.Duration) Option {
	return optionFunc(func(c *enqueueConfig) {
		c.unique, c.ttlSet, c.job.Body.Unique.TTL = true, true, ttl
	})
}

// WithUniqueKey makes the job unique by key, 1 to 255 bytes: any job of the
// queue that has the same key, whatever its type, excludes it. Without
// WithUniqueFor the key is held until the job is settled for good, however
// long that takes.
func WithUniqueKey(key string) Option {
	return optionFunc(func(c *enqueueConfig) {
		c.unique, c.keySet, c.job.Body.Unique.Key = true, true, key
	})
}

// WithUniqueMode makes the job unique and says how long it holds its key. The
// default is UniqueUntilSettled. UniqueWindow needs WithUniqueFor.
func WithUniqueMode(mode UniqueMode) Option {
	return optionFunc(func(c *enqueueConfig) { c.unique, c.job.Body.Unique.Mode = true, mode })
}

// WithoutUnique drops what earlier options asked of uniqueness.
func WithoutUnique() Option {
	return optionFunc(func(c *enqueueConfig) {
		c.unique, c.keySet, c.ttlSet, c.job.Body.Unique = false, false, false, broker.Unique{}
	})
}

// finishUnique checks what only the options know, and derives a key when one
// is needed.
func (c *enqueueConfig) finishUnique() error {
	b := &c.job.Body
	switch {
	case !c.unique:
	case c.ttlSet && b.Unique.TTL == 0:
		return broker.Invalid("unique ttl", "is zero; use more than zero, or WithUniqueKey alone for no bound")
	case !c.keySet:
		b.Unique.Key = contentKey(b.Type, b.Payload)
	case b.Unique.Key == "":
		return broker.Invalid("unique key", "is empty; give it 1 to %d bytes, or use WithUniqueFor alone", broker.MaxNameLen)
	}
	return nil
}

// contentKey is the unique key of a type and a payload. A type has no control
// characters, so the zero byte parts the two without ambiguity.
func contentKey(typ string, payload []byte) string {
	h := sha256.New()
	h.Write([]byte(typ))
	h.Write([]byte{0})
	h.Write(payload)
	var sum [sha256.Size]byte
	return hex.EncodeToString(h.Sum(sum[:0]))
}
