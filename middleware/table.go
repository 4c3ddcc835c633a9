package middleware

import (
	"container/list"
	"sync"
	"time"

	"github.com/seed81422ce9/jobs"
)

// maxKeys bounds how many keys a middleware keeps state for: keys come from producers,
// which could otherwise make the memory of a server grow without end.
const maxKeys = 1000

// othersKey stands for all further keys, which share one T.
const othersKey = "(others)"

// table keeps a T for each key, which is a task's type unless the application chose
// otherwise. A full table forgets the key that was used least recently, but only after it was idle for
// so long that a new T is equivalent. Otherwise a producer could reset the limits of other keys by
// inventing new keys.
type table[T any] struct {
	make func(key string) *T
	idle time.Duration

	mu     sync.Mutex
	of     map[string]*list.Element // of *row[T]
	latest list.List                // the key used last is in front
}

type row[T any] struct {
	key   string
	used  time.Time
	value *T
}

func newTable[T any](idle time.Duration, make func(key string) *T) *table[T] {
	return &table[T]{make: make, idle: idle, of: map[string]*list.Element{}}
}

func (t *table[T]) get(key string) *T {
	t.mu.Lock()
	defer t.mu.Unlock()
	now := time.Now()
	if t.of[key] == nil && len(t.of) >= maxKeys && !t.makeRoom(now) {
		key = othersKey
	}
	e := t.of[key]
	if e == nil {
		e = t.latest.PushFront(&row[T]{key: key, value: t.make(key)})
		t.of[key] = e
	}
	t.latest.MoveToFront(e)
	r := e.Value.(*row[T])
	r.used = now
	return r.value
}

// makeRoom forgets the key that was used least recently if it was idle for long enough,
// and reports whether it did.
func (t *table[T]) makeRoom(now time.Time) bool {
	oldest := t.latest.Back()
	r := oldest.Value.(*row[T])
	if now.Sub(r.used) < t.idle {
		return false
	}
	t.latest.Remove(oldest)
	delete(t.of, r.key)
	return true
}

// typeOf returns the key of a job by default.
func typeOf(job *jobs.Job) string { return job.Type() }
