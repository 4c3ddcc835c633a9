package integration

import (
	"bufio"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"sync"
	"syscall"
	"testing"
	"time"
)

var (
	fleetKills = flag.Duration("fleet-kills", 700*time.Millisecond, "the mean time between two kills of servers")
	fleetLost  = flag.Int("fleet-lost", 50, "of so many calls of the servers, one is carried out and its answer lost")
	fleetLease = flag.Duration("fleet-lease", lease, "the lease of the servers")
)

const (
	fleetSize = 5
	// fleetCalm bounds the time from the last kill until all jobs have ended: a job
	// that was killed twice is a suspect, and waits longer the more there are.
	fleetCalm = 3 * time.Minute
)

// fleet is a set of server processes that are killed at random and replaced.
type fleet struct {
	t       *testing.T
	env     []string
	hear    func(line string) bool // reports whether a line is about a run
	servers []*exec.Cmd
	heard   sync.WaitGroup // for the end of all processes

	mu     sync.Mutex     // held while hear runs
	logged map[string]int // the other lines, and how often they came
}

// startFleet starts servers with a role. It passes each line of their output to
// hear, one at a time.
func startFleet(t *testing.T, url, role string, hear func(line string) bool) *fleet {
	t.Helper()
	f := &fleet{t: t, hear: hear, logged: make(map[string]int), env: append(os.Environ(), envFleet+"="+role, envFleetURL+"="+url,
		envFleetLease+"="+fleetLease.String(), envFleetLost+"="+fmt.Sprint(*fleetLost))}
	for range fleetSize {
		f.servers = append(f.servers, f.start())
	}
	return f
}

func (f *fleet) start() *exec.Cmd {
	f.t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = f.env
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		f.t.Fatal(err)
	}
	f.t.Cleanup(func() { _ = cmd.Process.Kill() })
	f.heard.Go(func() {
		for lines := bufio.NewScanner(out); lines.Scan(); {
			f.line(lines.Text())
		}
		_ = cmd.Wait()
	})
	return cmd
}

func (f *fleet) line(line string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.hear(line) { // a log, or a line that a kill cut short, whose job runs again
		f.logged[line]++
	}
}

// killUntil kills servers at random and replaces them, until end.
func (f *fleet) killUntil(end time.Time) (kills int) {
	f.t.Helper()
	seed := rand.Uint64()
	f.t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 1))
	for ; time.Now().Before(end); kills++ {
		time.Sleep(time.Duration(r.Int64N(2 * int64(*fleetKills))))
		i := r.IntN(len(f.servers))
		f.kill(f.servers[i])
		f.servers[i] = f.start()
	}
	return kills
}

// killAll kills all servers, and waits until all of their output was heard.
func (f *fleet) killAll() {
	f.t.Helper()
	for _, cmd := range f.servers {
		f.kill(cmd)
	}
	f.heard.Wait()
}

// kill sends SIGKILL.
func (f *fleet) kill(cmd *exec.Cmd) {
	f.t.Helper()
	if err := cmd.Process.Signal(syscall.SIGKILL); err != nil {
		f.t.Errorf("a server process ended by itself: %v", err)
	}
}

// showLogs logs what the servers logged, if the test failed.
func (f *fleet) showLogs() {
	f.t.Helper()
	if !f.t.Failed() {
		return
	}
	for line, n := range f.logged {
		f.t.Logf("%d times: %s", n, line)
	}
}
