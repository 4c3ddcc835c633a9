package filebroker

import (
	"context"
	"fmt"
	"runtime/debug"
	"sync"

	"github.com/seed81422ce9/jobs/internal/journal"
)

// writer writes the changes of steps in transactions. All steps that come while a transaction
// is being written share the next one.
type writer struct {
	commit func([]journal.Record) error // the records are on the disk when it returns nil

	mu      sync.Mutex
	next    *batch // for the next transaction; nil if it has nothing to write
	last    *batch // the batch of the last step
	writing bool   // a goroutine is writing
	failed  error  // of the first transaction that failed; nothing is written after it
}

// batch has the records of one transaction.
type batch struct {
	changed []journal.Record
	done    chan struct{} // closed once it is on the disk, or failed
	err     error         // set before done is closed
}

// Append adds a step to the next transaction.
func (w *writer) Append(changed []journal.Record) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.next == nil {
		w.next = &batch{done: make(chan struct{})}
		w.last = w.next
	}
	w.next.changed = append(w.next.changed, changed...)
	if !w.writing {
		w.writing = true
		go w.write()
	}
}

// write writes transactions until nothing is left to write.
func (w *writer) write() {
	for b := w.take(); b != nil; b = w.take() {
		if b.err = w.failure(); b.err == nil {
			b.err = w.try(b.changed)
		}
		close(b.done)
	}
}

func (w *writer) take() *batch {
	w.mu.Lock()
	defer w.mu.Unlock()
	b := w.next
	w.next, w.writing = nil, b != nil
	return b
}

// try commits a transaction. A failing disk may also cause a fault in the mapped memory.
func (w *writer) try(changed []journal.Record) (err error) {
	debug.SetPanicOnFault(true)
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("%v", p)
		}
		if err != nil {
			err = fmt.Errorf("writing the file failed: %w", err)
			w.mu.Lock()
			w.failed = err
			w.mu.Unlock()
		}
	}()
	return w.commit(changed)
}

// failure returns the error that ended all writing, or nil.
func (w *writer) failure() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.failed
}

// synced returns once every appended step is on the disk. If it returns an error, some
// of them may not be.
func (w *writer) synced(ctx context.Context) error {
	w.mu.Lock()
	b := w.last
	w.mu.Unlock()
	if b == nil {
		return nil
	}
	select {
	case <-b.done:
		return b.err
	default:
	}
	select {
	case <-b.done:
		return b.err
	case <-ctx.Done():
		return ctx.Err()
	}
}
