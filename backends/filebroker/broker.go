package filebroker

import (
	"context"
	"fmt"
	"io"
	"strings"
	"sync"

	bolt "go.etcd.io/bbolt"

	"github.com/seed81422ce9/jobs/broker"
)

type inner = broker.Broker

// Broker is a handle on a file; it implements [broker.Broker]. All methods may be
// called concurrently.
type Broker struct {
	inner // a handle on the memory, whose answers wait for the disk
	file  *file
	leave func() error
}

// Open opens the store in a file, and makes the file, which only its owner can read, if
// there is none. It takes as long as reading the whole file.
//
// Within a process each Open of a file gives another handle on one store. While another
// process has the file open, the error is [broker.ErrUnavailable], at once. A damaged file,
// and one that is none of this package, are [broker.ErrMalformed]; a file of a newer
// version is [broker.ErrNewerForm]. Other errors are those of the file system.
func Open(path string) (*Broker, error) { return open(path, false) }

func open(path string, noSync bool) (*Broker, error) {
	f, err := enter(path, noSync)
	if err != nil {
		return nil, &broker.Error{Op: "open", Err: err}
	}
	b := &Broker{file: f, leave: sync.OnceValue(f.leave)}
	b.inner = broker.Wrap(f.store.Open(), b.around)
	return b, nil
}

// around makes a call to the memory and holds its answer back until all that the call
// changed, or may have seen, is on the disk.
func (b *Broker) around(ctx context.Context, c *broker.Call, next func(context.Context) error) error {
	op := strings.ToLower(c.Method)
	if err := b.file.failure(); err != nil {
		return &broker.Error{Op: op, Err: fmt.Errorf("%w: %v", broker.ErrUnavailable, err), Hint: reopen}
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

// reopen is what to do when the disk failed.
const reopen = "close the broker and open it again, when the disk can be written to"

// held delivers events when what they tell of is on the disk.
func (b *Broker) held(events <-chan broker.Event) <-chan broker.Event {
	out := make(chan broker.Event, cap(events))
	memory := b.file.store.Open()
	go func() {
		defer close(out)
		defer memory.Close()
		for e := range events {
			// The step that sent it may be under way: Ping is another one, after it.
			_, err := memory.Ping(context.Background())
			if err == nil && b.file.synced(context.Background()) == nil {
				broker.SendEvent(out, e)
			}
		}
	}()
	return out
}

// Limits says that nothing is refused.
func (b *Broker) Limits() broker.Limits { return broker.Limits{} }

// Close ends this handle's calls that wait; later calls answer ErrClosed. The last
// handle of the process closes the file. Its error is that of closing the file: what was
// answered is on the disk before.
func (b *Broker) Close() error {
	_ = b.inner.Close() // of memory, which has no errors
	return b.leave()
}

// Backup writes a copy of the file, as of now, that Open can open. Calls go on meanwhile,
// though a file that has to grow waits for its end.
func (b *Broker) Backup(ctx context.Context, w io.Writer) error {
	if _, err := b.Ping(ctx); err != nil {
		return err
	}
	err := b.file.db.View(func(tx *bolt.Tx) error {
		_, err := tx.WriteTo(w)
		return err
	})
	return broker.About(err, "backup", "", "")
}
