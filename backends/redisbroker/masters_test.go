package redisbroker

import (
	"context"
	"net"
	"sync/atomic"
	"testing"
)

// connTo is a connection to a server.
type connTo struct {
	net.Conn
	addr   net.Addr
	closed atomic.Bool
}

func (c *connTo) RemoteAddr() net.Addr { return c.addr }
func (c *connTo) Close() error         { c.closed.Store(true); return nil }

// A connection to the old master that was still being made when another one was found is not used, and
// does not end connections to the new one.
func TestMasters_ADialThatAFailoverOvertakesIsRefused(t *testing.T) {
	t.Parallel()
	first := &connTo{addr: &net.TCPAddr{Port: 1}}
	late := &connTo{addr: &net.TCPAddr{Port: 1}}
	promoted := &connTo{addr: &net.TCPAddr{Port: 2}}
	asked, release := make(chan struct{}), make(chan struct{})
	var dials atomic.Int64
	m := &masters{conns: make(map[*followed]struct{})}
	m.dial = func(context.Context, string, string) (net.Conn, error) {
		switch dials.Add(1) {
		case 1:
			return first, nil
		case 2:
			close(asked)
			<-release
			return late, nil
		}
		return promoted, nil
	}
	if _, err := m.connect(t.Context(), "tcp", ""); err != nil || first.closed.Load() {
		t.Fatalf("the first connection: %v, closed: %t", err, first.closed.Load())
	}
	answer := make(chan error)
	go func() {
		_, err := m.connect(t.Context(), "tcp", "")
		answer <- err
	}()
	<-asked
	if _, err := m.connect(t.Context(), "tcp", ""); err != nil || !first.closed.Load() {
		t.Errorf("a connection to the new master: %v; the one to the old master is closed: %t", err, first.closed.Load())
	}
	close(release)
	if err := <-answer; !refused(err) || !late.closed.Load() {
		t.Errorf("the late connection to the old master: %v, closed: %t; want a refusal and that it is closed", err, late.closed.Load())
	}
	if promoted.closed.Load() {
		t.Error("the late connection to the old master has ended the one to the new master")
	}
}
