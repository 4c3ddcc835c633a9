package main

import (
	"bytes"
	"context"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/seed81422ce9/jobs/inspect"

	"github.com/seed81422ce9/jobs/backends"
	"github.com/seed81422ce9/jobs/backends/membroker"
	"github.com/seed81422ce9/jobs/internal/testenv"
)

// asProgram makes the test binary the program itself.
const asProgram = "RUN_CHECKSUM"

func TestMain(m *testing.M) {
	if os.Getenv(asProgram) != "" {
		main()
		return
	}
	testenv.Main(m)
}

// onBackends runs a test with the -broker URL of each backend.
func onBackends(t *testing.T, test func(t *testing.T, url string)) {
	for name, place := range map[string]func(testing.TB) string{
		"memory": func(testing.TB) string { return "memory://" }, "redis": testenv.RedisPlace, "postgres": testenv.PostgresPlace,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, place(t))
		})
	}
}

// nasty creates a directory of files whose names break careless programs.
func nasty(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	for _, name := range []string{
		"plain", "with space", " leading", "trailing ", "new\nline", "\n", "carriage\rreturn", `back\slash`, `\n`, "tab\t", "-n", "*", "'quote\"",
		"\xff\xfe not UTF-8", "é", "\x1b[31mred", strings.Repeat("l", 255), ".hidden",
		"deep/er/and\ndeeper/file", "deep/er.txt", "deep.txt", "Deep/er", "sp ace/\xc3",
	} {
		path := filepath.Join(dir, name)
		write(t, path, "content of "+name)
	}
	write(t, filepath.Join(dir, "empty"), "")
	write(t, filepath.Join(dir, "large"), strings.Repeat("0123456789abcdef", 1<<16))
	if err := os.Mkdir(filepath.Join(dir, "empty directory"), 0o755); err != nil {
		t.Fatal(err)
	}
	for link, to := range map[string]string{"link to a file": "plain", "link to a directory": "deep", "dangling link": "nowhere",
		"circle": "."} {
		if err := os.Symlink(to, filepath.Join(dir, link)); err != nil {
			t.Fatal(err)
		}
	}
	if err := syscall.Mkfifo(filepath.Join(dir, "pipe"), 0o644); err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("unix", filepath.Join(dir, "socket"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return dir
}

// many creates a directory of n small files.
func many(t *testing.T, n int) string {
	t.Helper()
	dir := t.TempDir()
	for i := range n {
		name := filepath.Join(string(rune('a'+i%26)), strings.Repeat(string(rune('a'+i/26%26)), 1+i/676))
		write(t, filepath.Join(dir, name), name)
	}
	return dir
}

func write(t *testing.T, path, content string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
		t.Fatal(err)
	}
}

// sha256sum returns what the real sha256sum prints.
func sha256sum(t *testing.T, dir string) string { return sha256sumIn(t, "", dir) }

// sha256sumIn does the same in another working directory.
func sha256sumIn(t *testing.T, work, dir string) string {
	t.Helper()
	cmd := exec.Command("sh", "-c", `find "$1" -type f -print0 | LC_ALL=C sort -z | xargs -0 -r sha256sum --`, "sh", dir)
	cmd.Dir, cmd.Stderr = work, os.Stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	return string(out)
}

// compare reports the first line that differs.
func compare(t *testing.T, got, want string) {
	t.Helper()
	if got == want {
		return
	}
	g, w := strings.Split(got, "\n"), strings.Split(want, "\n")
	for i := range min(len(g), len(w)) {
		if g[i] != w[i] {
			t.Errorf("line %d is\n%q, sha256sum prints\n%q", i+1, g[i], w[i])
			return
		}
	}
	t.Errorf("there are %d lines, sha256sum prints %d", len(g)-1, len(w)-1)
}

func TestMain_OutputIsThatOfSha256sum(t *testing.T) {
	t.Parallel()
	dir := nasty(t)
	want := sha256sum(t, dir)
	onBackends(t, func(t *testing.T, url string) {
		var out, log bytes.Buffer
		if status := run(t.Context(), []string{"-broker", url, dir}, &out, &log); status != 0 {
			t.Errorf("the exit status is %d, want 0", status)
		}
		compare(t, out.String(), want)
		for _, skipped := range []string{"link to a file", "link to a directory", "dangling link", "circle", "pipe", "socket"} {
			if !strings.Contains(log.String(), skipped+`": skipped`) {
				t.Errorf("nothing says that the %s was skipped", skipped)
			}
		}
		if strings.ContainsAny(log.String(), "\x1b\r") {
			t.Error("control characters of a file's name reached the standard error")
		}
		if t.Failed() {
			t.Logf("standard error:\n%s", log.String())
		}
	})
}

func TestMain_ARunLeavesNothingInTheStore(t *testing.T) {
	t.Parallel()
	onBackends(t, func(t *testing.T, url string) {
		dir := many(t, 30)
		// A second run with the same name must work like the first.
		for range 2 {
			want := sha256sum(t, dir)
			var out, log bytes.Buffer
			if status := run(t.Context(), []string{"-broker", url, "-run", "again", dir}, &out, &log); status != 0 {
				t.Errorf("the exit status is %d; standard error:\n%s", status, log.String())
			}
			compare(t, out.String(), want)
			write(t, filepath.Join(dir, "another"), t.Name())
		}
		if queues := queuesOf(t, url); len(queues) > 0 {
			t.Errorf("after the runs the store still has %d queues: %+v", len(queues), queues)
		}
	})
}

func queuesOf(t *testing.T, url string) []inspect.QueueInfo {
	t.Helper()
	b, err := backends.Open(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	queues, err := inspect.New(b).Queues(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return queues
}

func TestMain_TheArgumentMayBeALinkAFileOrEmpty(t *testing.T) {
	t.Parallel()
	dir := many(t, 3)
	link := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink(dir, link); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ arg, find string }{
		{link, link + "/"},
		{dir + "/", dir},
		{filepath.Join(dir, "a", "a"), filepath.Join(dir, "a", "a")},
		{t.TempDir(), t.TempDir()},
	} {
		var out, log bytes.Buffer
		if status := run(t.Context(), []string{c.arg}, &out, &log); status != 0 {
			t.Errorf("%s: the exit status is %d; standard error:\n%s", c.arg, status, log.String())
		}
		compare(t, out.String(), strings.ReplaceAll(sha256sum(t, c.find), "//", "/"))
	}
}

func TestMain_MistakesOnTheCommandLineAreNamed(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		args   string
		status int
		word   string
	}{
		{"", 2, "name one directory"},
		{"a b", 2, "name one directory"},
		{"-work -run x", 2, "-broker"},
		{"-workers 0 .", 2, "-broker"},
		{"-workers -1 .", 2, "-workers"},
		{"-broker redis://h -work", 2, "-run"},
		{"-broker redis://h -work -run x .", 2, "no directory"},
		{"-nosuch", 2, "nosuch"},
		{"-help", 0, "usage"},
		{"-broker mysql://h .", 1, "scheme"},
		{"/no/such/directory", 1, `/no/such/directory: no such file`},
		{"-run a{b .", 1, "brace"},
	} {
		var out, log bytes.Buffer
		status := run(t.Context(), strings.Fields(c.args), &out, &log)
		if status != c.status || !strings.Contains(log.String(), c.word) || out.Len() > 0 {
			t.Errorf("checksum %s: status %d, standard error %q; want status %d and a word on %q", c.args, status, log.String(), c.status, c.word)
		}
	}
}

func TestMain_AFileThatCannotBeReadIsReportedAndFailsTheRun(t *testing.T) {
	t.Parallel()
	dir := many(t, 20)
	b := membroker.New()
	defer b.Close()
	s := settings{name: "x", workers: 2, lease: time.Second, dir: dir}
	// After the files were found, one vanishes and another becomes a pipe; then the run
	// continues.
	if _, err := s.produce(t.Context(), b, func(int) {}); err != nil {
		t.Fatal(err)
	}
	gone, pipe := filepath.Join(dir, "a", "a"), filepath.Join(dir, "b", "a")
	for _, path := range []string{gone, pipe} {
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
	}
	if err := syscall.Mkfifo(pipe, 0o644); err != nil {
		t.Fatal(err)
	}
	var out, log bytes.Buffer
	ctx, cancel := context.WithCancel(t.Context())
	served := make(chan error)
	go func() { served <- s.serve(ctx, b, &log) }()
	err := s.produceAndCollect(ctx, b, &out, &log)
	cancel()
	<-served
	if err == nil || !strings.Contains(err.Error(), "2 files") {
		t.Errorf("the error is %v, want one that counts 2 files", err)
	}
	compare(t, out.String(), sha256sum(t, dir))
	for _, want := range []string{`a/a": no such file or directory`, `b/a": is no longer a regular file`, "2 failed"} {
		if !strings.Contains(log.String(), want) {
			t.Errorf("the standard error does not say %q:\n%s", want, log.String())
		}
	}
}

func TestMain_WhatTheUserMayNotReadIsReported(t *testing.T) {
	t.Parallel()
	// Root may read everything, so the program runs as another user.
	dir := many(t, 20)
	program := filepath.Join(dir, "program")
	if err := os.Link(os.Args[0], program); err != nil {
		data, err := os.ReadFile(os.Args[0])
		if err != nil {
			t.Fatal(err)
		}
		write(t, program, string(data))
	}
	for path, mode := range map[string]os.FileMode{"a/a": 0, "b": 0, "program": 0o755} {
		if err := os.Chmod(filepath.Join(dir, path), mode); err != nil {
			t.Fatal(err)
		}
	}
	defer os.Chmod(filepath.Join(dir, "b"), 0o755)
	for up := dir; up != os.TempDir() && up != "/"; up = filepath.Dir(up) {
		if err := os.Chmod(up, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	cmd := exec.Command(program, dir)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), asProgram+"=1")
	if os.Getuid() == 0 {
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	}
	var log bytes.Buffer
	cmd.Stderr = &log
	out, err := cmd.Output()
	if cmd.ProcessState.ExitCode() != 1 {
		t.Errorf("the program ended with %v, want exit status 1; standard error:\n%s", err, log.String())
	}
	for _, want := range []string{`a/a": permission denied`, `b": permission denied`, "2 failed"} {
		if !strings.Contains(log.String(), want) {
			t.Errorf("the standard error does not say %q:\n%s", want, log.String())
		}
	}
	// 18 files of many are left, beside the program itself.
	if lines := bytes.Count(out, []byte("\n")); lines != 19 {
		t.Errorf("%d sums were printed, want 19", lines)
	}
}

func TestMain_ALogGetsALineOfProgressNowAndThen(t *testing.T) {
	t.Parallel()
	var log strings.Builder
	b := newBar(&log)
	b.files(10)
	b.done(3) // too early
	b.between = 0
	b.done(4)
	b.close()
	if got, want := log.String(), "hashed 4 of 10 files\n"; got != want {
		t.Errorf("the log has %q, want %q", got, want)
	}
}
