package integration

import (
	"bufio"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"
)

// process is a worker process as the tests see it.
type process struct {
	t      *testing.T
	cmd    *exec.Cmd
	orders io.WriteCloser
	events chan event // closed when the process has ended
	past   []event    // those that were received
}

// settings are those of a worker process. The zero value means one slot and
// plenty of time to shut down.
type settings struct {
	concurrency int
	shutdown    time.Duration
	lease       time.Duration // zero means the constant lease
	ordered     bool          // it has the order "go" from the start
}

// startWorker starts a worker process, which is killed when the test ends.
func startWorker(t *testing.T, url string, s settings) *process {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), envURL+"="+url, envConcurrency+"="+fmt.Sprint(max(s.concurrency, 1)),
		envShutdown+"="+cmp.Or(s.shutdown, soon).String(), envLease+"="+cmp.Or(s.lease, lease).String())
	if s.ordered {
		cmd.Env = append(cmd.Env, envGo+"=1")
	}
	cmd.Stderr = os.Stderr
	orders, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	p := &process{t: t, cmd: cmd, orders: orders, events: make(chan event, 10_000)}
	read := make(chan struct{})
	go func() {
		defer close(read)
		defer close(p.events)
		for lines := bufio.NewScanner(out); lines.Scan(); {
			e := event{Kind: "log", Text: lines.Text()}
			_ = json.Unmarshal(lines.Bytes(), &e)
			p.events <- e
		}
	}()
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		<-read
		_ = cmd.Wait()
		if t.Failed() {
			t.Logf("worker process %d told:\n%s", cmd.Process.Pid, p.history())
		}
	})
	return p
}

// await returns the next event that matches.
func (p *process) await(what string, matches func(event) bool) event {
	p.t.Helper()
	late := time.After(soon)
	for {
		select {
		case e, ok := <-p.events:
			if !ok {
				p.t.Fatalf("the worker process ended; waited for %s", what)
			}
			p.past = append(p.past, e)
			if matches(e) {
				return e
			}
		case <-late:
			p.t.Fatalf("waited %v for %s", soon, what)
		}
	}
}

// awaitKind waits for an event of a kind for each of the jobs.
func (p *process) awaitKind(kind string, ids []string) {
	p.t.Helper()
	left := make(map[string]bool)
	for _, id := range ids {
		left[id] = true
	}
	for len(left) > 0 {
		e := p.await(fmt.Sprintf("%q of %d more jobs", kind, len(left)), func(e event) bool { return e.Kind == kind && left[e.ID] })
		delete(left, e.ID)
	}
}

// goOn gives the order that held handlers wait for.
func (p *process) goOn() {
	p.t.Helper()
	if _, err := io.WriteString(p.orders, "go\n"); err != nil {
		p.t.Fatal(err)
	}
}

func (p *process) signal(s syscall.Signal) {
	p.t.Helper()
	if err := p.cmd.Process.Signal(s); err != nil {
		p.t.Fatal(err)
	}
}

// kill sends SIGKILL and waits for the end of the process.
func (p *process) kill() {
	p.t.Helper()
	p.signal(syscall.SIGKILL)
	p.rest()
}

// rest waits for the end of the process and returns its remaining events.
func (p *process) rest() []event {
	p.t.Helper()
	late := time.After(soon)
	first := len(p.past)
	for {
		select {
		case e, ok := <-p.events:
			if !ok {
				return p.past[first:]
			}
			p.past = append(p.past, e)
		case <-late:
			p.t.Fatalf("the worker process did not end within %v", soon)
		}
	}
}

// count counts the events of a kind so far.
func (p *process) count(kind, id string) (n int) {
	for _, e := range p.past {
		if e.Kind == kind && (id == "" || e.ID == id) {
			n++
		}
	}
	return n
}

func (p *process) history() string {
	var b strings.Builder
	for _, e := range p.past {
		fmt.Fprintf(&b, "  %s %s %s\n", e.Kind, e.ID, e.Text)
	}
	return b.String()
}
