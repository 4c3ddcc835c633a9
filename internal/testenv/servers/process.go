package servers

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
	"syscall"
	"time"
)

// supervise is the shell between this process and a server. It reads from a pipe that only this
// process writes to. When the pipe ends, for whatever reason, the shell ends the server and removes
// its directory. After the word "crash" it kills the server and keeps the directory. File 3, which the
// server and its children inherit and the shell closes, closes when the last of them has ended.
const supervise = `
dir=$1 signal=$2; shift 2
"$@" </dev/null >>"$dir/log" 2>&1 & pid=$!
exec 3>&-
read -r order
[ "$order" = crash ] && signal=KILL
kill -s "$signal" $pid
wait $pid
[ "$order" = crash ] || rm -rf "$dir"
`

// Process is a server program. It ends at the latest with this process.
type Process struct {
	Dir string // removed by stop

	args   []string
	signal string // ends it at once, leaving nothing behind in the system
	cred   *syscall.Credential

	shell  *exec.Cmd
	orders *os.File // closing it ends the server
	alive  *os.File // reading it gives EOF once the server has ended
}

// newProcess creates the directory of a server. It belongs to the user that runs the server: an
// unprivileged one if this process is root, because PostgreSQL and pgbouncer refuse to run as root.
func newProcess(name, signal string) (*Process, error) {
	dir, err := os.MkdirTemp("", "jobs-"+name+"-")
	if err != nil {
		return nil, err
	}
	p := &Process{Dir: dir, signal: signal}
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

// write creates a file that only the user of the server can read.
func (p *Process) write(file, text string) error {
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil || p.cred == nil {
		return err
	}
	return os.Chown(file, int(p.cred.Uid), int(p.cred.Gid))
}

// run runs a program as the user of the server and waits for its end.
func (p *Process) run(args ...string) error {
	cmd := exec.Command(args[0], args[1:]...)
	cmd.Dir = p.Dir
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: p.cred}
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w: %s", filepath.Base(args[0]), err, tail(out))
	}
	return nil
}

// start starts the server with the given command line.
func (p *Process) start(args ...string) error {
	p.args = args
	orders, w, err := os.Pipe()
	if err != nil {
		return err
	}
	defer orders.Close()
	r, alive, err := os.Pipe()
	if err != nil {
		w.Close()
		return err
	}
	defer alive.Close()
	shell := exec.Command("/bin/sh", append([]string{"-c", supervise, "supervise", p.Dir, p.signal}, args...)...)
	shell.Dir = p.Dir
	shell.Stdin = orders
	shell.ExtraFiles = []*os.File{alive}
	// A process group: an interrupt from a terminal must not end the shell before it has cleaned up.
	shell.SysProcAttr = &syscall.SysProcAttr{Credential: p.cred, Setpgid: true}
	if err := shell.Start(); err != nil {
		w.Close()
		r.Close()
		return err
	}
	p.shell, p.orders, p.alive = shell, w, r
	return nil
}

// diedWithin waits at most d for the end of the server.
func (p *Process) diedWithin(d time.Duration) bool {
	if p == nil {
		time.Sleep(d)
		return false
	}
	if err := p.alive.SetReadDeadline(time.Now().Add(d)); err != nil {
		return true
	}
	_, err := p.alive.Read(make([]byte, 1))
	return !errors.Is(err, os.ErrDeadlineExceeded)
}

// stop ends the server and removes its directory.
func (p *Process) stop() {
	p.end("")
	os.RemoveAll(p.Dir)
}

// crash kills the server and keeps its directory.
func (p *Process) crash() { p.end("crash\n") }

// end gives the shell its last order and waits until all processes of the server have ended.
func (p *Process) end(order string) {
	if p.orders == nil {
		return
	}
	// Both fail only if the shell, and the server with it, has ended before.
	_, _ = p.orders.WriteString(order)
	_ = p.orders.Close()
	_ = p.shell.Wait()
	p.diedWithin(startTimeout)
	_ = p.alive.Close()
	p.orders = nil
}

// failed stops a server that did not start. Its error quotes the end of the log.
func (p *Process) failed(err error) error {
	log, _ := os.ReadFile(filepath.Join(p.Dir, "log"))
	p.stop()
	if len(log) == 0 {
		return err
	}
	return fmt.Errorf("%w; its log ends: %s", err, tail(log))
}

func tail(log []byte) []byte {
	const most = 800
	return log[max(0, len(log)-most):]
}

// freePort returns a loopback port without a listener. Another process may take it before the server
// does; then the start is tried again.
func freePort() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	defer l.Close()
	_, port, err := net.SplitHostPort(l.Addr().String())
	return port, err
}

// program finds a server program in PATH or in the given directories, which may be patterns. Of
// several matches it takes the last one, which has the highest version.
func program(name string, dirs ...string) (string, error) {
	for _, dir := range dirs {
		if found, _ := filepath.Glob(filepath.Join(dir, name)); len(found) > 0 {
			return found[len(found)-1], nil
		}
	}
	path, err := exec.LookPath(name)
	if err != nil {
		return "", fmt.Errorf("%s is not installed", name)
	}
	return path, nil
}

// onFreePort starts a server on a free loopback port and waits until it is ready. Stop stops it. Since
// another process may take the port meanwhile, it tries another port if the server does not start.
func onFreePort(ctx context.Context, name, signal string, args func(p *Process, port string) ([]string, error),
	ready func(ctx context.Context, addr string) error) (*Process, string, error) {
	var last error
	for range 3 {
		port, err := freePort()
		if err != nil {
			return nil, "", err
		}
		p, err := newProcess(name, signal)
		if err != nil {
			return nil, "", err
		}
		line, err := args(p, port)
		if err == nil {
			err = p.start(line...)
		}
		addr := net.JoinHostPort("127.0.0.1", port)
		if err == nil {
			err = poll(ctx, p, func(ctx context.Context) error { return ready(ctx, addr) })
		}
		if err == nil {
			atStop(p.stop)
			return p, addr, nil
		}
		last = p.failed(fmt.Errorf("%s: %w", name, err))
		if ctx.Err() != nil {
			break
		}
	}
	return nil, "", last
}
