package main

import (
	"bytes"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/creack/pty"

	"github.com/seed81422ce9/jobs"
	"github.com/seed81422ce9/jobs/backends"
	"github.com/seed81422ce9/jobs/inspect"
	"github.com/seed81422ce9/jobs/internal/testenv"
)

// soon is longer than anything that a test waits for.
const soon = time.Minute

// terminal is a process in a terminal of its own.
type terminal struct {
	t    *testing.T
	cmd  *exec.Cmd
	keys *os.File
	done chan error

	mu     sync.Mutex
	output bytes.Buffer
}

func startInTerminal(t *testing.T, args ...string) *terminal {
	t.Helper()
	return startWith(t, nil, args...)
}

// startWith is like startInTerminal, with an environment.
func startWith(t *testing.T, env []string, args ...string) *terminal {
	t.Helper()
	term := &terminal{t: t, cmd: command(t, append([]string{"TERM=xterm-256color"}, env...), args...), done: make(chan error, 1)}
	f, err := pty.StartWithSize(term.cmd, &pty.Winsize{Cols: 100, Rows: 30})
	if err != nil {
		t.Fatal(err)
	}
	term.keys = f
	read := make(chan struct{})
	go func() {
		defer close(read)
		part := make([]byte, 4096)
		for {
			n, err := f.Read(part)
			term.mu.Lock()
			term.output.Write(part[:n])
			term.mu.Unlock()
			if err != nil {
				return
			}
		}
	}()
	go func() {
		err := term.cmd.Wait()
		<-read
		term.done <- err
	}()
	t.Cleanup(func() {
		_ = term.cmd.Process.Kill()
		_ = f.Close()
	})
	return term
}

func (term *terminal) text() string {
	term.mu.Lock()
	defer term.mu.Unlock()
	return term.output.String()
}

// await waits until holds returns true.
func (term *terminal) await(what string, holds func() bool) {
	term.t.Helper()
	testenv.Eventually(term.t, what, holds, func() string { return "the terminal got " + strconv.Quote(term.text()) })
}

func (term *terminal) awaitText(text string) {
	term.t.Helper()
	term.await(text, func() bool { return strings.Contains(term.text(), text) })
}

func (term *terminal) press(keys string) {
	term.t.Helper()
	if _, err := term.keys.WriteString(keys); err != nil {
		term.t.Fatal(err)
	}
}

// ends waits for the end of the process and returns its error.
func (term *terminal) ends() error {
	term.t.Helper()
	select {
	case err := <-term.done:
		return err
	case <-time.After(soon):
		term.t.Fatalf("it does not end; the terminal got %q", term.text())
		return nil
	}
}

// leftScreen is the sequence that leaves the alternate screen.
const leftScreen = "\x1b[?1049l"

func TestTerminal_TopInATerminal(t *testing.T) {
	t.Parallel()
	url := testenv.RedisPlace(t)
	b, err := backends.Open(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	client := jobs.NewClient(b, jobs.ClientConfig{})
	defer client.Close()
	if _, err := client.Enqueue(t.Context(), jobs.NewTask("email", nil), jobs.WithQueue("mail")); err != nil {
		t.Fatal(err)
	}
	i := inspect.New(b)

	term := startInTerminal(t, "top", "--broker", url)
	term.awaitText("1 pending")
	term.press("p")
	term.awaitText("Pause mail?")
	term.press("y")
	term.await("the queue to be paused", func() bool {
		p, err := i.Policy(t.Context(), "mail")
		return err == nil && p.Paused
	})
	term.press("q")
	if err := term.ends(); err != nil || !strings.Contains(term.text(), leftScreen) {
		t.Errorf("after q it ends with %v; the terminal got %q", err, term.text())
	}

	term = startInTerminal(t, "top", "--broker", url)
	term.awaitText("1 pending")
	if err := term.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := term.ends(); err != nil || !strings.Contains(term.text(), leftScreen) {
		t.Errorf("after SIGTERM it ends with %v; the terminal got %q", err, term.text())
	}
}

func TestTerminal_TopWithoutATerminalSaysWhatToUse(t *testing.T) {
	t.Parallel()
	out, err := command(t, nil, "top", "--broker", "memory://").CombinedOutput()
	if exit, ok := err.(*exec.ExitError); !ok || exit.ExitCode() != 2 || !strings.Contains(string(out), "jobsctl stats --watch") {
		t.Errorf("it says %q, %v", out, err)
	}
}
