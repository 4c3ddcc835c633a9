package pgbroker

import (
	"io"
	"net"
	"net/url"
	"sync"
	"sync/atomic"
	"testing"
)

// cutter is a proxy in front of a server. When armed, it cuts a connection after a number of
// bytes of answers, with 0 before the first.
type cutter struct {
	url  string
	left atomic.Int64 // bytes until the cut; -1: not armed
	last atomic.Bool  // after the cut it accepts no connection
	shut atomic.Bool
}

func startCutter(t *testing.T, to string) *cutter {
	t.Helper()
	u, err := url.Parse(to)
	if err != nil {
		t.Fatal(err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := u.Host
	u.Host = listener.Addr().String()
	c := &cutter{url: u.String()}
	c.left.Store(-1)
	var open sync.WaitGroup
	open.Go(func() {
		for {
			client, err := listener.Accept()
			if err != nil {
				return
			}
			if c.shut.Load() {
				client.Close()
				continue
			}
			open.Go(func() { c.relay(client, server) })
		}
	})
	t.Cleanup(func() {
		listener.Close()
		open.Wait() // the pools were closed before
	})
	return c
}

// arm has the connection cut that carries the answer's n-th byte.
func (c *cutter) arm(n int64) { c.left.Store(n) }

// cut reports whether the cut has happened since.
func (c *cutter) cut() bool { return c.left.Load() == -1 }

func (c *cutter) relay(client net.Conn, to string) {
	defer client.Close()
	server, err := net.Dial("tcp", to)
	if err != nil {
		return
	}
	defer server.Close()
	asked := make(chan struct{})
	go func() {
		defer close(asked)
		_, _ = io.Copy(server, client)
		server.Close()
	}()
	buf := make([]byte, 16<<10)
	for {
		n, err := server.Read(buf)
		if err != nil {
			break
		}
		if left := c.left.Load(); left >= 0 && left <= int64(n) && c.left.CompareAndSwap(left, -1) {
			c.shut.Store(c.last.Load())
			_, _ = client.Write(buf[:left])
			break
		} else if left >= 0 {
			c.left.CompareAndSwap(left, left-int64(n))
		}
		if _, err := client.Write(buf[:n]); err != nil {
			break
		}
	}
	client.Close()
	server.Close()
	<-asked
}
