// Package store starts private servers for measurements and reads their use of
// resources.
package store

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// supervise is a script that runs a server. When the pipe from this process closes,
// however this process ended, it ends the server and removes its directory.
const supervise = `
dir=$1 signal=$2; shift 2
"$@" </dev/null >>"$dir/log" 2>&1 & pid=$!
echo $pid >"$dir/pid"
read -r _
kill -s "$signal" $pid
wait $pid
rm -rf "$dir"
`

// startTimeout bounds how long a server may take to answer.
const startTimeout = 30 * time.Second

// process is a server program that ends with this process at the latest.
type process struct {
	dir    string
	signal string
	cred   *syscall.Credential // an unprivileged user, if this process runs as root
	shell  *exec.Cmd
	orders *os.File
}

func newProcess(parent, name, signal string) (*process, error) {
	dir, err := os.MkdirTemp(parent, "jobs-bench-"+name+"-")
	if err != nil {
		return nil, err
	}
	p := &process{dir: dir, signal: signal}
	if os.Getuid() != 0 {
		return p, nil
	}
	for _, name := range []string{"postgres", "nobody"} {
		u, err := user.Lookup(name)
		if err != nil {
			continue
		}
		uid, _ := strconv.ParseUint(u.Uid, 10, 32)
		gid, _ := strconv.ParseUint(u.Gid, 10, 32)
		p.cred = &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}
		return p, os.Chown(dir, int(uid), int(gid))
	}
	return nil, errors.New("running as root, and there is no user postgres or nobody to run a server as")
}

// run runs a program as the server's user and waits for it.
func (p *process) run(args ...string) error {
	cmd := exec.Command(args[0], args[1:]...)
	cmd.Dir = p.dir
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: p.cred, Setpgid: true}
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w: %s", filepath.Base(args[0]), err, out)
	}
	return nil
}

// start starts the server and waits until ready returns nil.
func (p *process) start(ctx context.Context, ready func(context.Context) error, args ...string) error {
	r, w, err := os.Pipe()
	if err != nil {
		return err
	}
	defer r.Close()
	p.shell = exec.Command("/bin/sh", append([]string{"-c", supervise, "supervise", p.dir, p.signal}, args...)...)
	p.shell.Dir, p.shell.Stdin = p.dir, r
	// A group of its own: a terminal's interrupt must not end the shell before it has cleaned up.
	p.shell.SysProcAttr = &syscall.SysProcAttr{Credential: p.cred, Setpgid: true}
	if err := p.shell.Start(); err != nil {
		w.Close()
		return fmt.Errorf("starting in %s, which the server's user must be able to reach: %w", p.dir, err)
	}
	p.orders = w
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	for {
		if err = ready(ctx); err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			log, _ := os.ReadFile(filepath.Join(p.dir, "log"))
			return fmt.Errorf("%s did not answer: %w; its log ends: %s", filepath.Base(args[0]), err, log[max(0, len(log)-800):])
		case <-time.After(20 * time.Millisecond):
		}
	}
}

func (p *process) pid() (int, error) {
	text, err := os.ReadFile(filepath.Join(p.dir, "pid"))
	if err != nil {
		return 0, err
	}
	return strconv.Atoi(strings.TrimSpace(string(text)))
}

// stop ends the server and removes its directory.
func (p *process) stop() {
	if p.orders != nil {
		p.orders.Close()
		_ = p.shell.Wait() // how it ended does not matter
		p.orders = nil
	}
	os.RemoveAll(p.dir)
}

// address returns a loopback address on which no server listens, with the given port
// or, for 0, with a free one.
func address(port int) (string, error) {
	l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port))
	if err != nil {
		return "", fmt.Errorf("port %d is busy: %w; name another one, or 0 for any free one", port, err)
	}
	defer l.Close()
	return l.Addr().String(), nil
}

// program finds a server program in dirs, which may be patterns, or in PATH. If dirs
// has several, it takes the last in sorted order.
func program(name, debian string, dirs ...string) (string, error) {
	for _, dir := range dirs {
		if found, _ := filepath.Glob(filepath.Join(dir, name)); len(found) > 0 {
			return found[len(found)-1], nil
		}
	}
	path, err := exec.LookPath(name)
	if err != nil {
		return "", fmt.Errorf("%s is not installed (Debian's package is %s)", name, debian)
	}
	return path, nil
}

// processCPU returns the CPU time of a process and of its children, including dead
// ones that it waited for.
func processCPU(pid int) (time.Duration, error) {
	own, err := cpuFields(pid, 4)
	if err != nil {
		return 0, err
	}
	children, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/children", pid, pid))
	if err != nil {
		return 0, err
	}
	for _, child := range strings.Fields(string(children)) {
		id, err := strconv.Atoi(child)
		if err != nil {
			return 0, err
		}
		// The next call counts a child that has just ended in its parent's sum.
		if used, err := cpuFields(id, 2); err == nil {
			own += used
		}
	}
	return own, nil
}

// cpuFields sums the first n of user, system, children's user and children's
// system time of a process.
func cpuFields(pid, n int) (time.Duration, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, err
	}
	// The name of the program, in parentheses, may contain spaces.
	_, rest, _ := strings.Cut(string(text), ") ")
	fields := strings.Fields(rest)
	const first, tick = 11, 10 * time.Millisecond // the kernel's user-visible tick
	if len(fields) < first+4 {
		return 0, fmt.Errorf("/proc/%d/stat has too few fields", pid)
	}
	var sum time.Duration
	for _, f := range fields[first : first+n] {
		ticks, err := strconv.ParseInt(f, 10, 64)
		if err != nil {
			return 0, err
		}
		sum += time.Duration(ticks) * tick
	}
	return sum, nil
}
