package redisbroker

import (
	"context"
	"errors"
	"net"
	"sync"
	"syscall"
	"time"

	"github.com/redis/go-redis/v9"
)

// masters follows the master that Sentinels name. When they name another master, a go-redis client
// closes the connections of its own pool, but not those that this package makes with the same
// options. The old master accepts writes on these until the Sentinels make it a replica, after ten
// seconds; such writes are lost.
type masters struct {
	dial func(ctx context.Context, network, addr string) (net.Conn, error) // asks the Sentinels

	mu    sync.Mutex
	conns map[*followed]struct{}
}

// isFailover reports whether a client's options are those of redis.NewFailoverClient, which have
// this text instead of an address.
func isFailover(o *redis.Options) bool { return o.Addr == "FailoverClient" }

// connect dials the master, and closes the connections to other servers.
func (m *masters) connect(ctx context.Context, network, addr string) (net.Conn, error) {
	conn, err := m.dial(ctx, network, addr)
	if err != nil {
		return nil, err
	}
	m.leaveOthers(conn.RemoteAddr())
	f := &followed{Conn: conn, by: m}
	m.mu.Lock()
	m.conns[f] = struct{}{}
	m.mu.Unlock()
	if sc, ok := conn.(syscall.Conn); ok { // the pool needs it to see that the server closed the connection
		return struct {
			*followed
			syscall.Conn
		}{f, sc}, nil
	}
	return f, nil
}

// leaveOthers closes the connections to servers other than the master.
func (m *masters) leaveOthers(master net.Addr) {
	m.mu.Lock()
	var others []*followed
	for f := range m.conns {
		if f.RemoteAddr().String() != master.String() {
			others = append(others, f)
		}
	}
	m.mu.Unlock()
	for _, f := range others {
		_ = f.Close() // a call that uses it gets an error
	}
}

// followed is a connection to the server that was the master when the connection was made.
type followed struct {
	net.Conn
	by   *masters
	once sync.Once
}

// Close may come from the pool too, after the connection was closed here.
func (f *followed) Close() (err error) {
	f.once.Do(func() {
		f.by.mu.Lock()
		delete(f.by.conns, f)
		f.by.mu.Unlock()
		err = f.Conn.Close()
	})
	return err
}

const (
	followWait  = 5 * time.Second        // how long one BLPOP waits
	followPause = 200 * time.Millisecond // between attempts to find the master
)

// follow waits for a key that never exists, on a connection of the given client's own pool. When the
// Sentinels name another master, the client closes that connection. Then follow closes the
// connections of this package, too. It ends at most followWait after ending does.
func (m *masters) follow(ending context.Context, given *redis.Client, key string) {
	for ending.Err() == nil {
		conn := given.EphemeralConn()
		var err error
		for ending.Err() == nil && (err == nil || errors.Is(err, redis.Nil)) {
			err = conn.BLPop(ending, followWait, key).Err()
		}
		_ = conn.Close()
		if ending.Err() != nil {
			return
		}
		ctx, cancel := context.WithTimeout(ending, callTimeout)
		if c, err := m.dial(ctx, "tcp", ""); err == nil {
			m.leaveOthers(c.RemoteAddr())
			_ = c.Close()
		}
		cancel()
		select {
		case <-ending.Done():
		case <-time.After(followPause):
		}
	}
}
