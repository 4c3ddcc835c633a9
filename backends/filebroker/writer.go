package filebroker

import (
	"context"
	"fmt"
	"runtime/debug"
	"sync"
	"time"

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
	failed  error  // of the last transaction; nil if it was written

	// A transaction that wrote nothing can be written later. After another failure nothing is written any more.
	retry     time.Time        // not before then; zero unless it can
	unwritten []journal.Record // of such transactions; only for the goroutine that writes
}

// retryPause is the time between attempts to write what could not be written.
const retryPause = time.Second

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
		b.err = w.try(b.changed)
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

// try writes changes, together with those that could not be written before.
func (w *writer) try(changed []journal.Record) error {
	retry, failed := w.failure()
	if failed != nil && retry.IsZero() {
		return failed
	}
	if len(w.unwritten) > 0 {
		changed = append(w.unwritten, changed...)
	}
	if failed != nil && time.Now().Before(retry) {
		w.unwritten = changed
		return failed
	}
	w.unwritten, retry = nil, time.Time{}
	err := w.attempt(changed)
	if wroteNothing(err) {
		w.unwritten, retry = changed, time.Now().Add(retryPause)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.failed, w.retry = err, retry
	return err
}

// attempt commits a transaction. A failing disk may also cause a fault in the mapped memory.
func (w *writer) attempt(changed []journal.Record) (err error) {
	debug.SetPanicOnFault(true)
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("%v", p)
		}
		if err != nil {
			err = fmt.Errorf("writing the file failed: %w", err)
		}
	}()
	return w.commit(changed)
}

// failure returns the error of the last transaction, if it failed, and when it can be tried again.
func (w *writer) failure() (retry time.Time, failed error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.retry, w.failed
}

// ready returns nil if changes can be written. If the last ones could not, it tries them again now and then.
func (w *writer) ready(ctx context.Context) error {
	retry, failed := w.failure()
	if failed == nil || retry.IsZero() || time.Now().Before(retry) {
		return failed
	}
	w.Append(nil)
	_ = w.synced(ctx) // failure has its error, or the one before
	_, failed = w.failure()
	return failed
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
