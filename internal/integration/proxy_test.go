package integration

import (
	"bytes"
	"io"
	"net"
	"net/url"
	"sync"
	"testing"
)

// proxy stands between a worker process and its store. It forwards everything
// except the first answer that contains its marker: it drops that answer and cuts
// the connection.
type proxy struct {
	url     string
	dropped chan struct{} // closed when the answer was dropped
}

func startProxy(t *testing.T, to, marker string) *proxy {
	t.Helper()
	u, err := url.Parse(to)
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	store := u.Host
	u.Host = l.Addr().String()
	p := &proxy{url: u.String(), dropped: make(chan struct{})}
	var once sync.Once
	drops := func(answer []byte) (mine bool) {
		if bytes.Contains(answer, []byte(marker)) {
			once.Do(func() { mine = true; close(p.dropped) })
		}
		return mine
	}
	var open sync.WaitGroup
	open.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			open.Go(func() { relay(c, store, drops) })
		}
	})
	t.Cleanup(func() {
		l.Close()
		open.Wait() // the workers' cleanups, which run first, close their connections
	})
	return p
}

// relay forwards one connection until either side closes it or drops returns true
// for an answer.
func relay(client net.Conn, to string, drops func(answer []byte) bool) {
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
	// The marker may be split between two reads, so the end of what was forwarded
	// is searched again.
	buf := make([]byte, 64<<10)
	var sight []byte
	for {
		n, err := server.Read(buf)
		sight = append(sight[max(0, len(sight)-1024):], buf[:n]...)
		if err != nil || drops(sight) {
			break
		}
		if _, err := client.Write(buf[:n]); err != nil {
			break
		}
	}
	client.Close()
	server.Close()
	<-asked
}
