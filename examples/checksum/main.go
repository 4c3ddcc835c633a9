// Command checksum hashes the files of a directory on a pool of workers and
// prints what sha256sum would print, sorted by path. Each file is a job.
//
//	checksum DIR                            everything in this process
//	checksum -broker URL DIR                the same, with the jobs in a store
//	checksum -broker URL -run NAME -work    a further worker for that run, in another terminal or on another machine
//
// A file that cannot be read ends in the dead-letter queue, is listed on standard
// error, and leads to exit status 1. With a store, workers can be killed at any time,
// and so can the process that waits for them: started again with the same -run, it
// continues.
package main

import (
	"context"
	"crypto/rand"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/term"

	"github.com/seed81422ce9/jobs"
	"github.com/seed81422ce9/jobs/backends"
	"github.com/seed81422ce9/jobs/broker"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	status := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	os.Exit(status)
}

// settings are the values of the command line.
type settings struct {
	broker  string
	name    string
	work    bool
	workers int
	lease   time.Duration
	dir     string
}

// run runs the program and returns the exit status.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	s, err := parse(args, stderr)
	switch {
	case errors.Is(err, flag.ErrHelp):
		return 0
	case err != nil:
		fmt.Fprintln(stderr, "checksum:", err)
		return 2
	}
	if err := s.start(ctx, stdout, stderr); err != nil {
		fmt.Fprintln(stderr, "checksum:", err)
		return 1
	}
	return 0
}

func parse(args []string, stderr io.Writer) (s settings, err error) {
	f := flag.NewFlagSet("checksum", flag.ContinueOnError)
	f.SetOutput(stderr)
	f.StringVar(&s.broker, "broker", "memory://", "where the jobs are: memory://, redis://… or postgres://…")
	f.StringVar(&s.name, "run", "", "name of the run, to add workers to it or to take it up again (default a new one)")
	f.BoolVar(&s.work, "work", false, "only work for the run, until interrupted")
	f.IntVar(&s.workers, "workers", 2*runtime.GOMAXPROCS(0), "files hashed at once by this process; 0 leaves it to others")
	f.DurationVar(&s.lease, "lease", 15*time.Second, "how long the files of a worker that died wait for another")
	f.Usage = func() {
		fmt.Fprintln(stderr, "usage: checksum [flags] DIR\n       checksum -broker URL -run NAME -work [flags]")
		f.PrintDefaults()
	}
	if err := f.Parse(args); err != nil {
		return s, err
	}
	s.dir = f.Arg(0)
	switch {
	case s.workers < 0:
		err = errors.New("-workers is less than 0")
	case isMemory(s.broker) && (s.work || s.workers == 0):
		err = errors.New("memory:// is this process's own; -work and -workers 0 need another -broker")
	case s.work && (s.name == "" || s.workers == 0 || f.NArg() > 0):
		err = errors.New("-work takes the -run to work for, at least one of -workers, and no directory")
	case !s.work && f.NArg() != 1:
		err = errors.New("name one directory; -help tells more")
	case s.name == "":
		s.name = strings.ToLower(rand.Text()[:10])
	}
	return s, err
}

// queue returns the name of the run's queue. Each run has its own queue, so that its
// counts are those of the run.
func (s settings) queue() string { return "checksum:" + s.name }

// start opens the store and carries out the command line.
func (s settings) start(ctx context.Context, stdout, stderr io.Writer) error {
	if err := backends.Migrate(ctx, s.broker); err != nil {
		return err
	}
	b, err := backends.Open(ctx, s.broker)
	if err != nil {
		return err
	}
	defer b.Close()
	if s.work {
		return s.serve(ctx, b, stderr)
	}
	collecting, give := context.WithCancelCause(ctx)
	defer give(nil)
	serving, done := context.WithCancel(ctx)
	defer done()
	var workers sync.WaitGroup
	if s.workers > 0 {
		// Without workers there is nothing to wait for. Once every job has ended, the result
		// of their drain does not matter.
		workers.Go(func() { give(s.serve(serving, b, stderr)) })
	}
	err = s.produceAndCollect(collecting, b, stdout, stderr)
	done()
	workers.Wait()
	if !isMemory(s.broker) && (err == nil || errors.Is(err, errUnreadable)) {
		err = errors.Join(err, s.forget(ctx, b))
	}
	return err
}

// isMemory reports whether the jobs end with this process.
func isMemory(broker string) bool { return strings.HasPrefix(broker, "memory:") }

// serve handles the run's jobs until ctx ends.
func (s settings) serve(ctx context.Context, b broker.Broker, stderr io.Writer) error {
	server, err := jobs.NewServer(b, jobs.Config{
		Queues:          map[string]int{s.queue(): 1},
		Concurrency:     s.workers,
		Lease:           s.lease,
		ShutdownTimeout: time.Second,
		// Failed files are reported once, at the end.
		Logger: slog.New(slog.NewTextHandler(stderr, &slog.HandlerOptions{Level: slog.LevelError})),
	})
	if err != nil {
		return err
	}
	mux := jobs.NewServeMux()
	mux.HandleFunc(taskType, hashFile)
	return server.Run(ctx, mux)
}

// isTerminal reports whether a person watches w.
func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}
