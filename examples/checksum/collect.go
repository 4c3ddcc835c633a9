package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/seed81422ce9/jobs/inspect"

	"github.com/schollz/progressbar/v3"

	"github.com/seed81422ce9/jobs"
	"github.com/seed81422ce9/jobs/broker"
)

// produceAndCollect enqueues the files, waits until the jobs have ended, and prints.
func (s settings) produceAndCollect(ctx context.Context, b broker.Broker, stdout, stderr io.Writer) error {
	begin := time.Now()
	if s.workers == 0 {
		fmt.Fprintf(stderr, "run %s: start workers with checksum -broker URL -run %s -work\n", s.name, s.name)
	}
	bar := newBar(stderr)
	p, err := s.produce(ctx, b, bar.files)
	inspector := inspect.New(b)
	if err == nil {
		err = s.wait(ctx, inspector, p.files, bar)
	}
	bar.close()
	var sums map[string]result
	var failed map[string]string
	if err == nil {
		sums, failed, err = s.results(ctx, inspector)
	}
	if err != nil {
		switch cause := context.Cause(ctx); {
		case cause != nil && !errors.Is(cause, context.Canceled):
			return cause
		case cause != nil:
			return fmt.Errorf("interrupted; a run whose jobs are in a store is taken up again with -run %s", s.name)
		}
		return err
	}
	if err := printSums(stdout, sums); err != nil {
		return err
	}
	failures := report(stderr, p, failed)
	var bytes int64
	for _, r := range sums {
		bytes += r.Bytes
	}
	fmt.Fprintf(stderr, "%d files, %d bytes, %d failed, %d skipped in %v\n",
		len(sums), bytes, failures, p.skipped, time.Since(begin).Round(time.Millisecond))
	if lost := p.files - len(sums) - len(failed); lost > 0 {
		return fmt.Errorf("%d files have no result: somebody deleted jobs of the run", lost)
	}
	if failures > 0 {
		return fmt.Errorf("%d files or directories %w", failures, errUnreadable)
	}
	return nil
}

// errUnreadable says that everything was printed, but some files could not be read.
var errUnreadable = errors.New("could not be read")

// wait returns when all jobs of the run have ended.
func (s settings) wait(ctx context.Context, i *inspect.Inspector, files int, bar *bar) error {
	var since time.Time
	for {
		q, err := i.Queue(ctx, s.queue())
		if err != nil {
			return err
		}
		if since.IsZero() {
			since = q.Now
		}
		ended := q.Counts[jobs.StateCompleted] + q.Counts[jobs.StateDead] + q.Counts[jobs.StateCancelled]
		var left int64
		for _, n := range q.Counts {
			left += n
		}
		left -= ended
		bar.done(int(ended))
		// Counts may be older than the last enqueue.
		if left == 0 && (int(ended) >= files || !q.AsOf.Before(since)) {
			return nil
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// results reads sums and errors by path from the records of the jobs. A job that is
// listed twice, or ran twice, is one entry.
func (s settings) results(ctx context.Context, i *inspect.Inspector) (sums map[string]result, failed map[string]string, err error) {
	sums, failed = make(map[string]result), make(map[string]string)
	for job, err := range i.Select(inspect.Query{Queue: s.queue(), State: jobs.StateCompleted}).Jobs(ctx) {
		if err != nil {
			return nil, nil, err
		}
		var r result
		if err := json.Unmarshal(job.Result, &r); err != nil {
			return nil, nil, fmt.Errorf("the result of job %s: %w", job.ID, err)
		}
		sums[string(job.Payload)] = r
	}
	for job, err := range i.Select(inspect.Query{Queue: s.queue(), State: jobs.StateDead}).Jobs(ctx) {
		if err != nil {
			return nil, nil, err
		}
		failed[string(job.Payload)] = strings.TrimPrefix(job.Errors.Last().Message, jobs.SkipRetry.Error()+": ")
	}
	return sums, failed, nil
}

func printSums(w io.Writer, sums map[string]result) error {
	out := bufio.NewWriter(w)
	for _, path := range slices.Sorted(maps.Keys(sums)) {
		// The writer keeps its first error for Flush.
		_, _ = out.WriteString(line(path, sums[path].SHA256))
	}
	return out.Flush()
}

// report lists the files that were not hashed, and counts those that should have been.
// Names are quoted, because they may contain a terminal's control sequences.
func report(w io.Writer, p produced, failed map[string]string) (failures int) {
	for _, f := range p.other {
		if f.err != nil {
			failures++
			fmt.Fprintf(w, "checksum: %q: %v\n", f.path, f.err)
		} else {
			fmt.Fprintf(w, "checksum: %q: skipped, a %s\n", f.path, f.kind)
		}
	}
	for _, path := range slices.Sorted(maps.Keys(failed)) {
		failures++
		fmt.Fprintf(w, "checksum: %q: %s\n", path, failed[path])
	}
	return failures
}

// forget removes the run's records from the store. No server serves its queue any more,
// so they would stay forever.
func (s settings) forget(ctx context.Context, b broker.Broker) error {
	i := inspect.New(b)
	for _, state := range []jobs.State{jobs.StateCompleted, jobs.StateDead, jobs.StateCancelled} {
		if _, err := i.Purge(ctx, s.queue(), state); err != nil {
			return err
		}
	}
	// The name stays while workers serve the queue.
	if err := i.RemoveQueue(ctx, s.queue()); err != nil && !errors.Is(err, jobs.ErrWrongState) {
		return err
	}
	return nil
}

// bar shows the progress of the run: to a person as a bar, in a log as an occasional
// line.
type bar struct {
	*progressbar.ProgressBar
	log     io.Writer // nil when a person watches
	since   time.Time // when the last line was written
	between time.Duration
}

func newBar(w io.Writer) *bar {
	b := &bar{since: time.Now(), between: 5 * time.Second}
	if !isTerminal(w) {
		b.log, w = w, io.Discard
	}
	b.ProgressBar = progressbar.NewOptions(1, progressbar.OptionSetWriter(w), progressbar.OptionShowCount(),
		progressbar.OptionSetDescription("hashing"), progressbar.OptionClearOnFinish(), progressbar.OptionThrottle(100*time.Millisecond))
	return b
}

// files sets the number of files known so far. The bar is never full before close, so
// that it does not end early.
func (b *bar) files(n int) { b.ChangeMax(n + 1) }

func (b *bar) done(n int) {
	_ = b.Set(n)
	if now := time.Now(); b.log != nil && now.Sub(b.since) >= b.between {
		b.since = now
		fmt.Fprintf(b.log, "hashed %d of %d files\n", n, b.GetMax()-1)
	}
}

func (b *bar) close() { _ = b.Finish() }
