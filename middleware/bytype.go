package middleware

import "sync"

// maxTypes bounds what a middleware keeps per type: types come from producers,
// and a server that takes any could otherwise be made to grow without end.
const maxTypes = 1000

// othersKey stands for all keys beyond that number, which share one T.
const othersKey = "(others)"

// byType keeps a T for each key, which is a task's type unless the application
// chose otherwise.
type byType[T any] struct {
	make func(key string) *T
	mu   sync.RWMutex
	of   map[string]*T
}

func newByType[T any](make func(key string) *T) *byType[T] {
	return &byType[T]{make: make, of: map[string]*T{}}
}

func (b *byType[T]) get(key string) *T {
	b.mu.RLock()
	t := b.of[key]
	b.mu.RUnlock()
	if t != nil {
		return t
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.of) >= maxTypes && b.of[key] == nil {
		key = othersKey
	}
	if t = b.of[key]; t == nil {
		t = b.make(key)
		b.of[key] = t
	}
	return t
}
