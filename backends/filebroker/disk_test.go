package filebroker

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed81422ce9/jobs/broker"
	"github.com/seed81422ce9/jobs/internal/journal"
)

// A disk that was full costs no restart: what could not be written is written later, with all that came before it.
func TestBroker_WorksAgainOnceTheDiskHasRoom(t *testing.T) {
	path := newFile(t)
	synctest.Test(t, func(t *testing.T) {
		b := openTest(t, path)
		if err := errors.Join(register(b, "w"), enqueue(t.Context(), b, "before")); err != nil {
			t.Fatal(err)
		}
		got, err := claim(b, "w", 1)
		if err != nil {
			t.Fatal(err)
		}
		events, err := b.Watch(t.Context(), broker.WatchRequest{Queues: []string{"q"}})
		if err != nil {
			t.Fatal(err)
		}
		var full atomic.Bool
		var attempts atomic.Int64
		put := b.file.commit
		b.file.commit = func(changed []journal.Record) error {
			if attempts.Add(1); full.Load() {
				return &os.PathError{Op: "write", Path: path, Err: syscall.ENOSPC}
			}
			return put(changed)
		}
		full.Store(true)
		err = complete(b, "w", 1, got.Jobs)
		if !broker.MayHaveApplied(err) || !strings.Contains(fmt.Sprint(err), "no space left") {
			t.Errorf("a settle on a full disk answers %v; want the cause, and that the outcome is not known", err)
		}
		for range 100 {
			time.Sleep(retryPause / 10)
			err := enqueue(t.Context(), b, "refused")
			if !errors.Is(err, broker.ErrUnavailable) || !strings.Contains(err.Error(), "no space left") ||
				!strings.Contains(err.Error(), "make room") {
				t.Fatalf("while the disk is full, enqueue answers %v; want ErrUnavailable, the cause and what to do", err)
			}
		}
		if n := attempts.Load(); n < 5 || n > 12 {
			t.Errorf("in ten seconds the file was written to %d times, want once a second", n)
		}
		full.Store(false)
		time.Sleep(retryPause)
		if err := errors.Join(complete(b, "w", 1, got.Jobs), enqueue(t.Context(), b, "after")); err != nil {
			t.Errorf("once the disk has room: %v", err)
		}
		var kinds []broker.EventKind
		for len(events) > 0 {
			kinds = append(kinds, (<-events).Kind)
		}
		if !slices.Contains(kinds, broker.EventMissed) {
			t.Errorf("a watcher got events of the kinds %v, want that it missed some", kinds)
		}
		b.Close()
		synctest.Wait()
	})
	b := openTest(t, path)
	consistent(t, b)
	got := found(t, b, "before", "refused", "after")
	if len(got) != 2 || got["before"] != broker.StateCompleted || got["after"] != broker.StatePending {
		t.Errorf("opened again, the file has %v; want the first job completed, and the one after", got)
	}
}

// After a sync that failed, nobody knows what is on the disk, whatever the reason was.
func TestBroker_ASyncThatFailedIsNotTriedAgain(t *testing.T) {
	for _, cause := range []error{syscall.ENOSPC, &os.PathError{Op: "sync", Err: syscall.ENOSPC},
		&os.PathError{Op: "write", Err: syscall.EIO}} {
		path := newFile(t)
		synctest.Test(t, func(t *testing.T) {
			b := openTest(t, path)
			put := b.file.commit
			b.file.commit = func([]journal.Record) error { return cause }
			if err := enqueue(t.Context(), b, "1"); !broker.MayHaveApplied(err) {
				t.Errorf("enqueue answers %v", err)
			}
			b.file.commit = put
			time.Sleep(time.Hour)
			if _, err := b.Ping(t.Context()); !errors.Is(err, broker.ErrUnavailable) || !strings.Contains(err.Error(), "open it again") {
				t.Errorf("after %v, a later call answers %v; want ErrUnavailable", cause, err)
			}
			b.Close()
			synctest.Wait()
		})
	}
}

// What is written to a file without a name, or into one that somebody has restored meanwhile, would be lost.
func TestBroker_AFileThatSomebodyTouchedIsNotWrittenTo(t *testing.T) {
	t.Parallel()
	rename := func(path string) error { return os.Rename(path, path+".old") }
	for _, c := range []struct {
		how, says string
		touch     func(path string, content []byte) error
		undo      func(path string) error
	}{
		{how: "renamed", says: "removed or renamed",
			touch: func(path string, _ []byte) error { return rename(path) },
			undo:  func(path string) error { return os.Rename(path+".old", path) }},
		{how: "replaced", says: "replaced by another file",
			touch: func(path string, backup []byte) error {
				return errors.Join(rename(path), os.WriteFile(path, backup, 0o600))
			},
			undo: func(path string) error { return os.Rename(path+".old", path) }},
		{how: "cut off", says: "its end was cut off",
			touch: func(path string, _ []byte) error { return os.Truncate(path, 100) }},
		{how: "overwritten", says: "another program has written to it",
			touch: func(path string, backup []byte) error {
				to, err := os.OpenFile(path, os.O_WRONLY, 0)
				if err == nil {
					_, err = to.WriteAt(backup, 0)
				}
				return errors.Join(err, to.Close())
			}},
	} {
		t.Run(c.how, func(t *testing.T) {
			t.Parallel()
			path := newFile(t)
			b := openTest(t, path)
			var content []byte
			err := enqueue(t.Context(), b, "1")
			if err == nil {
				content, err = os.ReadFile(path)
			}
			if err := errors.Join(err, enqueue(t.Context(), b, "2"), c.touch(path, content)); err != nil {
				t.Fatal(err)
			}
			if err := enqueue(t.Context(), b, "3"); err == nil || !strings.Contains(err.Error(), c.says) {
				t.Errorf("a job in a file that was %s is answered with %v, want an error with %q", c.how, err, c.says)
			}
			if err := enqueue(t.Context(), b, "4"); !errors.Is(err, broker.ErrUnavailable) || !strings.Contains(err.Error(), "put the file back") {
				t.Errorf("the next one is answered with %v, want ErrUnavailable and what to do", err)
			}
			if c.undo == nil {
				return
			}
			if err := c.undo(path); err != nil {
				t.Fatal(err)
			}
			b.file.mu.Lock()
			b.file.retry = time.Now()
			b.file.mu.Unlock()
			if err := errors.Join(enqueue(t.Context(), b, "5"), b.Close()); err != nil {
				t.Errorf("once the file is back: %v", err)
			}
			if got := found(t, openTest(t, path), "1", "2", "3", "4", "5"); len(got) != 4 {
				t.Errorf("opened again, the file has %v, want all but the job that was refused", got)
			}
		})
	}
}
