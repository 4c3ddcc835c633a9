// Package savebroker is a backend outside the module jobs. It keeps jobs in memory,
// and saves them to a file when it is closed. It is for programs of one process that
// shut down in an orderly way: a crash loses everything since the last save.
package savebroker

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/seed81422ce9/jobs/backends/membroker"
	"github.com/seed81422ce9/jobs/broker"
	"github.com/seed81422ce9/jobs/inspect"
)

// Broker is a broker.Broker: the one in memory, with a Close of its own.
type Broker struct {
	broker.Broker
	file string
}

var _ broker.Broker = (*Broker)(nil)

// Open opens a file, or begins without jobs if there is none.
func Open(ctx context.Context, file string) (*Broker, error) {
	b := &Broker{Broker: membroker.New(), file: file}
	f, err := os.Open(file)
	if errors.Is(err, fs.ErrNotExist) {
		return b, nil
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if err := b.load(ctx, f); err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	return b, nil
}

// Close saves the jobs. Stop servers and clients first: a running job cannot be saved,
// so Close fails. In that case nothing is lost, and Close can be called again.
func (b *Broker) Close() error {
	f, err := os.CreateTemp(filepath.Dir(b.file), ".save-*")
	if err != nil {
		return err
	}
	err = b.save(context.Background(), f)
	if err == nil {
		err = f.Sync()
	}
	err = errors.Join(err, f.Close())
	if err == nil {
		err = os.Rename(f.Name(), b.file) // leaves the old file or the new one, never a part
	}
	if err != nil {
		return errors.Join(err, os.Remove(f.Name()))
	}
	return b.Broker.Close()
}

// states are the states of the jobs that are saved.
var states = []broker.State{broker.StatePending, broker.StateScheduled, broker.StateRetry, broker.StateDead, broker.StateCompleted,
	broker.StateCancelled}

// save writes a line for each job. It does not save policies and schedules: programs set
// them when they start.
func (b *Broker) save(ctx context.Context, w io.Writer) error {
	i := inspect.New(b.Broker)
	queues, err := i.Queues(ctx)
	if err != nil {
		return err
	}
	for _, q := range queues {
		if broker.Reserved(q.Name) {
			continue
		}
		if n := q.Counts[broker.StateActive] + q.Counts[broker.StateWaiting]; n > 0 {
			return fmt.Errorf("%d jobs of queue %q are running, or wait for a running job; shut the servers down first", n, q.Name)
		}
		for _, state := range states {
			report, err := i.Select(inspect.Query{Queue: q.Name, State: state, Suppressed: true}).Export(ctx, w)
			if err == nil && report.Refused > 0 {
				err = report.Refusals[0].Err
			}
			if err != nil {
				return err
			}
		}
	}
	return nil
}

// load reads what save has written.
func (b *Broker) load(ctx context.Context, r io.Reader) error {
	report, err := inspect.New(b.Broker).Import(ctx, r, inspect.ImportConfig{})
	if err == nil && report.Refused > 0 {
		err = fmt.Errorf("line %d: %w", report.Refusals[0].Line, report.Refusals[0].Err)
	}
	return err
}
