package testenv

import (
	"io"
	"net"
	"net/url"
	"sync"
	"testing"
)

// Proxy puts a proxy before the server of a URL, until the end of the test, and returns the
// proxy's URL. It calls open for each connection. open returns nil to refuse it, or else what
// to call with each part of an answer: it returns how many bytes of the part pass, and whether
// the proxy then cuts the connection. Close what uses the proxy before the test ends.
func Proxy(t testing.TB, to string, open func() func(answer []byte) (pass int, cut bool)) string {
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
	var connections sync.WaitGroup
	connections.Go(func() {
		for {
			client, err := listener.Accept()
			if err != nil {
				return
			}
			answer := open()
			if answer == nil {
				client.Close()
				continue
			}
			connections.Go(func() { relay(client, server, answer) })
		}
	})
	t.Cleanup(func() {
		listener.Close()
		connections.Wait()
	})
	return u.String()
}

// relay forwards a connection until either side closes it, or an answer says so.
func relay(client net.Conn, to string, answer func([]byte) (pass int, cut bool)) {
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
	buf := make([]byte, 64<<10)
	for {
		n, err := server.Read(buf)
		if err != nil {
			break
		}
		pass, cut := answer(buf[:n])
		if _, err := client.Write(buf[:pass]); err != nil || cut {
			break
		}
	}
	client.Close()
	server.Close()
	<-asked
}
