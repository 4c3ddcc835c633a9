package backends_test

import (
	"context"
	"net"
	"net/url"
	"sync/atomic"
	"testing"
	"time"

	"github.com/seed81422ce9/jobs/backends"
	"github.com/seed81422ce9/jobs/broker"
	"github.com/seed81422ce9/jobs/internal/testenv"
)

// startHole puts a proxy before the server of a URL, and returns the URL of the
// proxy and a switch: from then on it takes all and passes nothing on. lost gets a value
// for each connection from which it then took something.
func startHole(t *testing.T, to string) (through string, hole *atomic.Bool, lost chan struct{}) {
	t.Helper()
	u, err := url.Parse(to)
	if err != nil {
		t.Fatal(err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { listener.Close() })
	server := u.Host
	u.Host = listener.Addr().String()
	hole, lost = new(atomic.Bool), make(chan struct{}, 100)
	over := make(chan struct{})
	t.Cleanup(func() { close(over) })
	pass := func(to, from net.Conn) {
		defer to.Close()
		buf := make([]byte, 16<<10)
		for {
			n, err := from.Read(buf)
			if hole.Load() {
				lost <- struct{}{}
				<-over
				return
			}
			if err != nil {
				return
			}
			if _, err := to.Write(buf[:n]); err != nil {
				return
			}
		}
	}
	go func() {
		for {
			client, err := listener.Accept()
			if err != nil {
				return
			}
			upstream, err := net.Dial("tcp", server)
			if err != nil {
				client.Close()
				continue
			}
			go pass(upstream, client)
			go pass(client, upstream)
		}
	}()
	return u.String(), hole, lost
}

// A process that drains beside a store that is away has little time left: its
// orchestrator kills it after 30 s.
func TestClose_IsBoundedWhileTheStoreIsAway(t *testing.T) {
	t.Parallel()
	for name, place := range map[string]func(*testing.T) string{
		"redis":     func(t *testing.T) string { return testenv.RedisPlace(t) },
		"postgres":  func(t *testing.T) string { return testenv.PostgresPlace(t) },
		"pgbouncer": pgBouncerPlace,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			direct := place(t)
			if err := backends.Migrate(t.Context(), direct); err != nil && name != "pgbouncer" {
				t.Fatal(err)
			}
			through, hole, lost := startHole(t, direct)
			b, err := backends.Open(t.Context(), through)
			if err != nil {
				t.Fatal(err)
			}
			renew := broker.RenewRequest{Worker: "w", Queues: []string{"q"}, Lease: time.Minute, Register: true}
			if _, err := b.Renew(t.Context(), renew); err != nil {
				t.Fatal(err)
			}
			hole.Store(true)
			// A renewal, a claim that waits and an enqueue are under way, as at the end of a drain.
			ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
			defer cancel()
			renew.Register = false
			go b.Renew(ctx, renew)
			go b.Claim(ctx, broker.ClaimRequest{Worker: "w", Queues: []broker.Share{{Queue: "q", Max: 1}}, Max: 1, Wait: time.Minute})
			go b.Queues(ctx, broker.QueuesRequest{Names: []string{"q"}})
			for range 3 { // each on a connection of its own
				select {
				case <-lost:
				case <-ctx.Done():
					t.Fatal("the three calls did not reach the store on three connections")
				}
			}
			began := time.Now()
			if err := b.Close(); err != nil {
				t.Error(err)
			}
			if took := time.Since(began); took > broker.MaxClose+time.Second {
				t.Errorf("Close took %v beside a store that does not answer, want %v at most", took, broker.MaxClose)
			}
		})
	}
}
