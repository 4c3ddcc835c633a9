package filebroker

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed81422ce9/jobs/broker"
	"github.com/seed81422ce9/jobs/internal/journal"
)

// disk stands between a broker and its file. Writes wait while it is held, and fail once
// it has an error.
type disk struct {
	sync.Mutex
	fails  error
	writes atomic.Int64
}

func (d *disk) under(b *Broker) {
	put := b.file.commit
	b.file.commit = func(changed []journal.Record) error {
		d.Lock()
		defer d.Unlock()
		d.writes.Add(1)
		if d.fails != nil {
			return d.fails
		}
		return put(changed)
	}
}

// No call answers before a change that it made or saw is on the disk.
func TestBroker_AnswersWaitForTheDisk(t *testing.T) {
	path := newFile(t)
	synctest.Test(t, func(t *testing.T) {
		b := openTest(t, path)
		events, err := b.Watch(t.Context(), broker.WatchRequest{Queues: []string{"q"}})
		if err := errors.Join(err, register(b, "w"), enqueue(t.Context(), b, "1")); err != nil {
			t.Fatal(err)
		}
		got, err := claim(b, "w", 1)
		if err != nil {
			t.Fatal(err)
		}
		var answered atomic.Int64
		release := make(chan struct{}) // unlike a mutex, it blocks a goroutine durably for synctest
		put := b.file.commit
		b.file.commit = func(changed []journal.Record) error {
			<-release
			return put(changed)
		}
		var wg sync.WaitGroup
		for name, call := range map[string]func() error{
			"settle": func() error { return complete(b, "w", 1, got.Jobs) },
			"find": func() error {
				time.Sleep(time.Second) // after the settle
				_, err := b.Find(t.Context(), broker.Query{Queue: "q", IDs: []string{"1"}})
				return err
			},
			"event": func() error { // the context of the call ends before it
				e := <-events
				if e.State != broker.StateCompleted {
					return fmt.Errorf("event %+v", e)
				}
				return nil
			},
		} {
			wg.Go(func() {
				if err := call(); err != nil {
					t.Errorf("%s: %v", name, err)
				}
				answered.Add(1)
			})
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		if n := answered.Load(); n > 0 {
			t.Errorf("%d answers came before the disk had what they tell", n)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		err = enqueue(ctx, b, "2")
		if !errors.Is(err, context.DeadlineExceeded) || !broker.MayHaveApplied(err) {
			t.Errorf("a call whose context ends answers %v; want the context's error, and that the outcome is not known", err)
		}
		close(release)
		wg.Wait()
		if got := found(t, b, "1", "2"); len(got) != 2 {
			t.Errorf("found %v", got)
		}
		b.Close()
		synctest.Wait()
	})
}

func TestBroker_CallsThatComeMeanwhileShareOneTransaction(t *testing.T) {
	t.Parallel()
	b := openTest(t, newFile(t))
	d := new(disk)
	d.under(b)
	const calls = 100
	var wg sync.WaitGroup
	d.Lock()
	for i := range calls {
		wg.Go(func() {
			if err := enqueue(t.Context(), b, fmt.Sprint(i)); err != nil {
				t.Error(err)
			}
		})
	}
	for { // until all are in memory; reading adds no step that waits
		memory := b.file.store.Open()
		reply, err := memory.Queues(t.Context(), broker.QueuesRequest{})
		memory.Close()
		if err != nil {
			t.Fatal(err)
		}
		if len(reply.Queues) > 0 && reply.Queues[0].Counts[broker.StatePending] == calls {
			break
		}
		time.Sleep(time.Millisecond)
	}
	d.Unlock()
	wg.Wait()
	if n := d.writes.Load(); n > 2 {
		t.Errorf("%d calls at once took %d transactions, want 2: that of the first and that of all others", calls, n)
	}
}

func TestBroker_AFailedDiskEndsAllAnswersUntilTheFileIsOpenedAgain(t *testing.T) {
	t.Parallel()
	path := newFile(t)
	b, other := openTest(t, path), openTest(t, path)
	if err := enqueue(t.Context(), b, "before"); err != nil {
		t.Fatal(err)
	}
	d := new(disk)
	d.under(b)
	d.fails = errors.New("no space left on device")
	err := enqueue(t.Context(), b, "lost")
	if !broker.MayHaveApplied(err) || !strings.Contains(fmt.Sprint(err), "no space left") {
		t.Errorf("the call that failed answers %v; want the cause, and that the outcome is not known", err)
	}
	d.fails = nil // this repairs nothing: memory is ahead of the disk
	for name, call := range map[string]func() error{
		"enqueue": func() error { return enqueue(t.Context(), other, "later") },
		"claim":   func() error { _, err := claim(b, "w", 1); return err },
		"find": func() error {
			_, err := other.Find(t.Context(), broker.Query{Queue: "q", IDs: []string{"lost"}})
			return err
		},
		"ping": func() error { _, err := b.Ping(t.Context()); return err },
	} {
		if err := call(); !errors.Is(err, broker.ErrUnavailable) || !strings.Contains(err.Error(), "no space left") ||
			!strings.Contains(err.Error(), "close the broker and open it again") {
			t.Errorf("after that, %s answers %v; want ErrUnavailable, the cause and what to do", name, err)
		}
	}
	if err := errors.Join(b.Close(), other.Close()); err != nil {
		t.Errorf("closing: %v", err)
	}
	again := openTest(t, path)
	if got := found(t, again, "before", "lost", "later"); len(got) != 1 {
		t.Errorf("opened again, the file has %v; want the job before", got)
	}
	if err := enqueue(t.Context(), again, "lost"); err != nil {
		t.Errorf("opened again: %v", err)
	}
}

// To bbolt, a full disk is a file that cannot grow.
func TestBroker_AFileThatCannotGrowKeepsWhatItHas(t *testing.T) {
	t.Parallel()
	path := newFile(t)
	b := openTest(t, path)
	b.file.db.MaxSize = 1 << 20
	var answered []string
	var err error
	for i := 0; err == nil; i++ {
		var ids []string
		for n := range 500 {
			ids = append(ids, fmt.Sprintf("%d-%d", i, n))
		}
		if err = enqueue(t.Context(), b, ids...); err == nil {
			answered = append(answered, ids...)
		}
	}
	if !broker.MayHaveApplied(err) || len(answered) == 0 {
		t.Errorf("a file that may not grow answers %v after %d jobs", err, len(answered))
	}
	if err := b.Close(); err != nil {
		t.Error(err)
	}
	again := openTest(t, path)
	consistent(t, again)
	if got := found(t, again, answered...); len(got) != len(answered) {
		t.Errorf("opened again, the file has %d of the %d jobs that were answered", len(got), len(answered))
	}
}

// Close does not wait for a disk that does not respond.
func TestBroker_CloseEndsBesideADiskThatHangs(t *testing.T) {
	path := newFile(t)
	synctest.Test(t, func(t *testing.T) {
		b, err := Open(path)
		if err != nil {
			t.Fatal(err)
		}
		release := make(chan struct{})
		put := b.file.commit
		b.file.commit = func(changed []journal.Record) error {
			<-release
			return put(changed)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := enqueue(ctx, b, "1"); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("enqueue answers %v", err)
		}
		start := time.Now()
		if err := b.Close(); !errors.Is(err, context.DeadlineExceeded) || time.Since(start) > broker.MaxClose {
			t.Errorf("close answers %v after %v", err, time.Since(start))
		}
		synctest.Wait() // so that a close of the file that comes too early shows
		close(release)
		synctest.Wait()
	})
	if b := openTest(t, path); len(found(t, b, "1")) != 1 {
		t.Error("what was under way is not in the file")
	}
}
