package filebroker

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"

	bolt "go.etcd.io/bbolt"
	bolterrors "go.etcd.io/bbolt/errors"

	"github.com/seed81422ce9/jobs/broker"
)

type inner = broker.Broker

// Broker is a handle on a file; it implements [broker.Broker]. All methods may be
// called concurrently.
type Broker struct {
	inner // a handle on the store in memory, whose answers wait for the disk
	file  *file
	leave func() error
}

// Open opens the store in a file. If there is none, it creates one that only its owner
// can read. It takes as long as reading the whole file.
//
// Within a process, each Open of the same file gives another handle on one store. If another
// process has the file open, Open does not wait and returns [broker.ErrUnavailable]. It returns
// [broker.ErrMalformed] for a damaged file or a file of another program, and
// [broker.ErrNewerForm] for a file of a newer version. Other errors come from the file
// system.
func Open(path string) (*Broker, error) { return open(path, false) }

func open(path string, noSync bool) (*Broker, error) {
	if path == "" {
		return nil, broker.About(broker.Invalid("path", "is empty; name a file"), "open", "", "")
	}
	f, err := enter(path, noSync)
	if err != nil {
		return nil, &broker.Error{Op: "open", Err: err}
	}
	b := &Broker{file: f, leave: sync.OnceValue(f.leave)}
	b.inner = broker.Wrap(f.store.Open(), b.around)
	return b, nil
}

// around makes a call in memory, and delays its answer until everything that the call changed
// or may have read is on the disk.
func (b *Broker) around(ctx context.Context, c *broker.Call, next func(context.Context) error) error {
	op := strings.ToLower(c.Method)
	if err := b.file.ready(ctx); err != nil {
		return &broker.Error{Op: op, Err: fmt.Errorf("%w: %v", broker.ErrUnavailable, err), Hint: remedy(err)}
	}
	answer := next(ctx)
	if err := b.file.synced(ctx); err != nil {
		c.Clear()
		return &broker.Error{Op: op, Err: err}
	}
	if events, ok := c.Reply.(*<-chan broker.Event); ok && answer == nil {
		*events = b.held(*events)
	}
	return answer
}

// held delivers events once the changes that they report are on the disk.
func (b *Broker) held(events <-chan broker.Event) <-chan broker.Event {
	out := make(chan broker.Event, cap(events))
	memory := b.file.store.Open()
	go func() {
		defer close(out)
		defer memory.Close()
		for e := range events {
			// The step that sent e may not have ended yet. Ping is a later step, so it waits for that one to end.
			if _, err := memory.Ping(context.Background()); err != nil {
				continue
			}
			if b.file.synced(context.Background()) != nil { // nobody knows yet whether what it reports will be on the disk
				e = broker.Event{Kind: broker.EventMissed, Missed: max(e.Missed, 1)}
			}
			broker.SendEvent(out, e)
		}
	}()
	return out
}

// Limits returns no limits.
func (b *Broker) Limits() broker.Limits { return broker.Limits{} }

// Close ends this handle's waiting calls; later calls return ErrClosed. Closing the last
// handle of the process closes the file, and returns the error of the file system, if any.
// No job is lost by such an error: the effects of answered calls are already on the disk.
// If a write or a backup is still under way after [broker.MaxClose], Close returns
// [context.DeadlineExceeded], and the file is closed after that.
func (b *Broker) Close() error {
	_ = b.inner.Close() // in memory it cannot fail
	return b.leave()
}

// Backup writes a copy of the file as it is now, which Open can open. Calls continue
// meanwhile, but a write that must enlarge the file waits for the end of the backup. After
// ctx has ended, Backup writes nothing more to w.
func (b *Broker) Backup(ctx context.Context, w io.Writer) error {
	if _, err := b.Ping(ctx); err != nil {
		return err
	}
	err := b.file.db.View(func(tx *bolt.Tx) error {
		_, err := tx.WriteTo(until{ctx, w})
		return err
	})
	if ended := ctx.Err(); err != nil && ended != nil {
		err = ended // bbolt keeps only its text
	} else if errors.Is(err, bolterrors.ErrDatabaseNotOpen) { // the last handle was closed meanwhile
		err = broker.ErrClosed
	}
	return broker.About(err, "backup", "", "")
}

// until is a writer that fails after its context has ended.
type until struct {
	ctx context.Context
	w   io.Writer
}

func (u until) Write(p []byte) (int, error) {
	if err := u.ctx.Err(); err != nil {
		return 0, err
	}
	return u.w.Write(p)
}
