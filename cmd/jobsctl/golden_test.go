package main

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/seed81422ce9/jobs"
	"github.com/seed81422ce9/jobs/broker"
	"github.com/seed81422ce9/jobs/internal/testenv"
	"github.com/seed81422ce9/jobs/internal/testenv/servers"
)

var update = flag.Bool("update", false, "rewrite testdata with what the command says now")

// golden compares text with a file of testdata.
func golden(t *testing.T, name, text string) {
	t.Helper()
	file := filepath.Join("testdata", name+".golden")
	if *update {
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	wanted, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	got, want := strings.Split(text, "\n"), strings.Split(string(wanted), "\n")
	for i := range max(len(got), len(want)) {
		switch {
		case i >= len(got):
			t.Fatalf("%s: line %d is missing:\n%s\nif that is meant, run go test ./cmd/jobsctl -update; all of it:\n%s", file, i+1, want[i], text)
		case i >= len(want) || got[i] != want[i]:
			t.Fatalf("%s: line %d is\n%s\nwant\n%s\nif the new one is meant, run go test ./cmd/jobsctl -update; all of it:\n%s",
				file, i+1, got[i], strings.Join(want[min(i, len(want)):min(i+1, len(want))], ""), text)
		}
	}
}

func TestMain(m *testing.M) { testenv.Main(m) }

// program builds the command once, with the flags of its image, so that the build cache
// serves the tests of package deploy too. The program is removed with the test servers.
var program = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "jobsctl-")
	if err != nil {
		return "", err
	}
	servers.AtStop(func() { os.RemoveAll(dir) })
	path := filepath.Join(dir, "jobsctl")
	build := exec.Command("go", "build", "-trimpath", "-ldflags=-s -w", "-o", path, ".")
	build.Env = append(build.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("go build: %w\n%s", err, out)
	}
	return path, nil
})

// command returns the command as a process, with env and an empty home directory as its
// whole environment.
func command(t *testing.T, env []string, args ...string) *exec.Cmd {
	t.Helper()
	path, err := program()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), path, args...)
	cmd.Env = append([]string{"HOME=" + t.TempDir(), "PATH=" + filepath.Dir(path) + ":" + os.Getenv("PATH")}, env...)
	return cmd
}

// transcript runs commands against one store and records their output.
type transcript struct {
	*cli
	text strings.Builder
	hide []string // pairs of texts and their placeholders
}

// transcribe runs a scenario on each backend and compares it with one golden file for
// all.
func transcribe(t *testing.T, scenario func(*transcript)) {
	t.Helper()
	name := strings.ToLower(strings.TrimPrefix(t.Name(), "Test"))
	onEachStore(t, func(t *testing.T, c *cli) {
		s := &transcript{cli: c}
		scenario(s)
		golden(t, name, steady(strings.NewReplacer(s.hide...).Replace(s.text.String())))
	})
}

// broker opens the scenario's store.
func (s *transcript) broker() broker.Broker {
	s.t.Helper()
	b, err := s.open(s.t.Context(), s.url)
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { b.Close() })
	return b
}

// jobs runs a command and returns its standard output. It records the command, and the
// fields of its standard output, of its errors ("2> " before each line), and its exit
// code if that is not 0.
func (s *transcript) jobs(args ...string) string {
	s.t.Helper()
	return s.write(false, args)
}

// inAnyOrder is like jobs, for lists whose order depends on the store.
func (s *transcript) inAnyOrder(args ...string) {
	s.t.Helper()
	s.write(true, args)
}

func (s *transcript) write(sort bool, args []string) string {
	s.t.Helper()
	s.text.WriteString("$ jobsctl " + quoted(args) + "\n")
	out, errs, code := s.run(args...)
	if lines := strings.SplitAfter(out, "\n"); sort && len(lines) > 2 {
		slices.Sort(lines[1 : len(lines)-1]) // all but the heads and the end
		out = strings.Join(lines, "")
	}
	hide := strings.NewReplacer(s.hide...)
	s.text.WriteString(fields(out, args, hide))
	for line := range strings.Lines(errs) {
		s.text.WriteString(strings.TrimRight("2> "+facts(hide.Replace(strings.TrimRight(line, "\n")), args), " ") + "\n")
	}
	if code != 0 {
		fmt.Fprintf(&s.text, "exit %d\n", code)
	}
	s.text.WriteString("\n")
	return out
}

func (s *transcript) run(args ...string) (stdout, stderr string, code int) {
	s.t.Helper()
	var out, errs bytes.Buffer
	getenv := func(name string) string { return map[string]string{"JOBS_BROKER": s.url}[name] }
	code = run(s.t.Context(), args,
		environment{in: strings.NewReader(s.stdin), out: &out, err: &errs, getenv: getenv, home: configHome, open: s.open})
	return out.String(), errs.String(), code
}

// quoted returns arguments as one would type them.
func quoted(args []string) string {
	typed := make([]string, len(args))
	for i, arg := range args {
		if typed[i] = arg; arg == "" || strings.ContainsAny(arg, " '\"{}*?\n\x1b") {
			typed[i] = "'" + plain(arg) + "'"
		}
	}
	return strings.Join(typed, " ")
}

// What differs between runs, and its placeholders. Column widths then differ too, so
// any gap between columns counts as one.
var unsteady = []struct {
	pattern *regexp.Regexp
	with    string
}{
	{regexp.MustCompile(`\b\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z`), "TIME"},
	{regexp.MustCompile(`\b01[0-9A-HJKMNP-TV-Z]{24}\b`), "ULID"},
	{regexp.MustCompile(`\b(in|since|waited|due for) ([0-9.]+(ms|µs|h|m|s))+`), "$1 SPAN"},
	{regexp.MustCompile(`\b([0-9.]+(ms|µs|h|m|s))+ ago`), "SPAN ago"},
	{regexp.MustCompile(`  (just started|for ([0-9.]+(ms|µs|h|m|s))+)  `), "  RUNNING  "}, // a slow machine may take longer than a heartbeat
	{regexp.MustCompile(`,"longest":\[[^]]*\]`), ""},
	{regexp.MustCompile(`("oldest(?:_pending)?_seconds":\{)([^}]+)\}`), "$1…}"},
	{regexp.MustCompile(`("pid":|\(PID )\d+`), "${1}PID"},
	{regexp.MustCompile(`\bgo1\.[0-9.]+`), "GO"},
	{regexp.MustCompile(`\bPID=\d+`), "PID=PID"},
	{regexp.MustCompile(`\bOLDEST=[0-9.]+m?s`), "OLDEST=SPAN"},
	{regexp.MustCompile(`  +`), "  "},
}

func steady(text string) string {
	for _, u := range unsteady {
		text = u.pattern.ReplaceAllString(text, u.with)
	}
	return text
}

// worker is a worker whose handlers return when the test says so.
type worker struct {
	s      *transcript
	server *jobs.Server
	begun  chan string // IDs
	end    chan error  // what the handlers are to return
	told   chan broker.State
}

// work starts a worker of a queue.
func (s *transcript) work(queue string, slots int, patterns ...string) *worker {
	s.t.Helper()
	return s.workOn(s.broker(), queue, slots, patterns...)
}

// workOn is like work, on a store that is already open.
func (s *transcript) workOn(b broker.Broker, queue string, slots int, patterns ...string) *worker {
	s.t.Helper()
	w := &worker{s: s, begun: make(chan string, 100), end: make(chan error, 100), told: make(chan broker.State, 100)}
	mux := jobs.NewServeMux()
	for _, p := range patterns {
		mux.HandleFunc(p, func(ctx context.Context, job *jobs.Job) error {
			w.begun <- job.ID()
			ended := ctx.Done()
			if job.Type() == "email:stubborn" {
				ended = nil
			}
			select {
			case err := <-w.end:
				return err
			case <-ended:
				return context.Cause(ctx)
			}
		})
	}
	var err error
	w.server, err = jobs.NewServer(b, jobs.Config{Queues: map[string]int{queue: 1}, Concurrency: slots, Program: "shop v1",
		Prefetch:        jobs.NoPrefetch,
		ShutdownTimeout: -1, Logger: slog.New(slog.DiscardHandler), RetryPolicy: jobs.Constant(time.Hour),
		Hooks: jobs.Hooks{Settle: func(e jobs.SettleEvent) {
			for _, v := range e.Verdicts {
				w.told <- v.State
			}
		}}})
	if err == nil {
		err = w.server.Start(context.Background(), mux)
	}
	if err != nil {
		s.t.Fatal(err)
	}
	host, _ := os.Hostname()
	s.hide = append(s.hide, host, "HOST", "  "+strconv.Itoa(os.Getpid())+" ", "  PID ")
	return w
}

// holds waits until a handler has begun and returns the ID of its job.
func (w *worker) holds() string {
	w.s.t.Helper()
	return await(w.s.t, "a job that runs", w.begun)
}

// ends makes a handler return err, and waits until its job is settled.
func (w *worker) ends(err error, state broker.State) {
	w.s.t.Helper()
	w.end <- err
	if got := await(w.s.t, "a job that is settled", w.told); got != state {
		w.s.t.Fatalf("the job is %v, want %v", got, state)
	}
}

// stop ends the worker; the jobs of its handlers are released.
func (w *worker) stop() {
	w.s.t.Helper()
	if err := w.server.Shutdown(w.s.t.Context()); err != nil {
		w.s.t.Error(err)
	}
}

// await receives one value, or fails the test after a time.
func await[T any](t *testing.T, what string, from <-chan T) (v T) {
	t.Helper()
	select {
	case v = <-from:
	case <-time.After(time.Minute):
		t.Fatalf("waited in vain for %s", what)
	}
	return v
}
