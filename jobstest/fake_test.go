package jobstest_test

import (
	"context"
	"fmt"
	"io"
	"runtime"
	"strings"
	"sync"
	"testing"

	"github.com/seed81422ce9/jobs/internal/testenv"
)

func TestMain(m *testing.M) { testenv.Main(m) }

// fakeT is a test of an application that may fail. It records the messages.
type fakeT struct {
	testing.TB
	ctx context.Context

	mu       sync.Mutex
	failed   bool
	messages []string
	logs     []string
	cleanups []func()
}

// inTest runs f as a test of an application, to its end, and returns it.
func inTest(t *testing.T, f func(t *fakeT)) *fakeT {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	fake := &fakeT{TB: t, ctx: ctx}
	done := make(chan struct{})
	go func() {
		defer close(done)
		f(fake)
	}()
	<-done
	cancel()
	for i := len(fake.cleanups) - 1; i >= 0; i-- {
		fake.cleanups[i]()
	}
	return fake
}

func (f *fakeT) Context() context.Context { return f.ctx }
func (f *fakeT) Helper()                  {}
func (f *fakeT) Output() io.Writer        { return io.Discard }
func (f *fakeT) Cleanup(c func())         { f.cleanups = append(f.cleanups, c) }
func (f *fakeT) Logf(format string, args ...any) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.logs = append(f.logs, fmt.Sprintf(format, args...))
}
func (f *fakeT) Failed() bool { f.mu.Lock(); defer f.mu.Unlock(); return f.failed }
func (f *fakeT) Fail()        { f.mu.Lock(); defer f.mu.Unlock(); f.failed = true }
func (f *fakeT) FailNow()     { f.Fail(); runtime.Goexit() }

func (f *fakeT) say(text string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.failed = true
	f.messages = append(f.messages, text)
}

func (f *fakeT) Error(args ...any)                 { f.say(strings.TrimSuffix(fmt.Sprintln(args...), "\n")) }
func (f *fakeT) Errorf(format string, args ...any) { f.say(fmt.Sprintf(format, args...)) }
func (f *fakeT) Fatal(args ...any)                 { f.Error(args...); runtime.Goexit() }
func (f *fakeT) Fatalf(format string, args ...any) { f.Errorf(format, args...); runtime.Goexit() }

// text returns all messages.
func (f *fakeT) text() string { return strings.Join(f.messages, "\n") }

// wantText checks a message line by line; … in a line of want stands for anything.
func (f *fakeT) wantText(t *testing.T, want string) {
	t.Helper()
	wanted := strings.Split(strings.Trim(want, "\n"), "\n")
	got := strings.Split(f.text(), "\n")
	ok := len(got) == len(wanted)
	for i := range min(len(got), len(wanted)) {
		ok = ok && like(strings.TrimRight(got[i], " "), strings.TrimLeft(wanted[i], "\t"))
	}
	if !ok {
		t.Errorf("the message is\n%s\n\nand should be like\n%s", f.text(), want)
	}
}

func like(s, pattern string) bool {
	parts := strings.Split(pattern, "…")
	for i, part := range parts {
		at := strings.Index(s, part)
		if at < 0 || i == 0 && at > 0 {
			return false
		}
		s = s[at+len(part):]
	}
	return s == "" || strings.HasSuffix(pattern, "…")
}
