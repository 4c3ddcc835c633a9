package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"sync/atomic"
	"syscall"
	"unsafe"
)

// childVariable is the environment variable that makes this program a child. A child
// reads its task from standard input and answers in lines of JSON.
const childVariable = "JOBS_BENCHMARK_CHILD"

// answer is what a child reports: that it is ready, or its result.
type answer struct {
	Ready   bool    `json:",omitempty"`
	Metrics metrics `json:",omitempty"`
	Error   string  `json:",omitempty"`
}

// child is a process that plays one role.
type child struct {
	cmd     *exec.Cmd
	in      io.WriteCloser
	answers chan answer
}

// spawn starts a child and returns once it is ready to begin.
func spawn(ctx context.Context, t task) (*child, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	c := &child{cmd: exec.Command(self), answers: make(chan answer)}
	c.cmd.Env = append(os.Environ(), childVariable+"=1")
	c.cmd.Stderr = os.Stderr
	// An interrupt from a terminal is for the parent, which ends the children.
	c.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if c.in, err = c.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := c.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := c.cmd.Start(); err != nil {
		return nil, err
	}
	go func() {
		defer close(c.answers)
		for d := json.NewDecoder(out); ; {
			var a answer
			if d.Decode(&a) != nil {
				return
			}
			c.answers <- a
		}
	}()
	if err := json.NewEncoder(c.in).Encode(t); err != nil {
		c.kill()
		return nil, err
	}
	if _, err := c.answer(ctx); err != nil {
		c.kill()
		return nil, fmt.Errorf("%s of %s: %w", t.Role, t.System, err)
	}
	return c, nil
}

func (c *child) answer(ctx context.Context) (answer, error) {
	select {
	case a, ok := <-c.answers:
		if !ok {
			return a, errors.New("the process ended without an answer")
		}
		if a.Error != "" {
			return a, errors.New(a.Error)
		}
		return a, nil
	case <-ctx.Done():
		return answer{}, context.Cause(ctx)
	}
}

// tell gives the child an order: begin or stop.
func (c *child) tell(order string) error {
	_, err := io.WriteString(c.in, order+"\n")
	return err
}

// kill ends the child, if it has not ended.
func (c *child) kill() {
	_ = c.cmd.Process.Kill() // it may have ended
	for range c.answers {
	}
	_ = c.cmd.Wait() // its error says that it was killed
}

// childMain is the main function of a child. The child ends when its standard input
// does, so at the latest with its parent.
func childMain() {
	in := bufio.NewReader(os.Stdin)
	out := json.NewEncoder(os.Stdout)
	var t task
	line, err := in.ReadBytes('\n')
	if err == nil {
		err = json.Unmarshal(line, &t)
	}
	if err != nil {
		os.Exit(2)
	}
	begin, stop := make(chan struct{}), make(chan struct{})
	go func() {
		for _, c := range []chan struct{}{begin, stop} {
			if _, err := in.ReadString('\n'); err != nil {
				os.Exit(3)
			}
			close(c)
		}
		in.ReadString('\n') // returns when the parent has ended
		os.Exit(3)
	}()
	got, err := play(context.Background(), t, func() {
		_ = out.Encode(answer{Ready: true}) // fails if the parent has ended, which ends this process, too
		<-begin
	}, stop)
	a := answer{Metrics: got}
	if err != nil {
		a.Error = err.Error()
	}
	if out.Encode(a) != nil {
		os.Exit(3)
	}
	select {} // the parent kills this process, so that its exit is not measured
}

// counter is a counter that processes share.
type counter struct{ *atomic.Int64 }

func openCounter(path string) (counter, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return counter{}, err
	}
	defer f.Close()
	if err := f.Truncate(8); err != nil {
		return counter{}, err
	}
	page, err := syscall.Mmap(int(f.Fd()), 0, 8, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_SHARED)
	if err != nil {
		return counter{}, err
	}
	return counter{(*atomic.Int64)(unsafe.Pointer(&page[0]))}, nil
}
