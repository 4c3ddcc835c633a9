package redisbroker

import (
	"context"
	"errors"
	"net"
	"slices"
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

	mu     sync.Mutex
	conns  map[*followed]struct{}
	begun  int64 // how many dials have begun
	latest int64 // which of them found the master
	master string
}

// isFailover reports whether a client's options are those of redis.NewFailoverClient, which have
// this text instead of an address.
func isFailover(o *redis.Options) bool { return o.Addr == "FailoverClient" }

// connect dials the master, and closes the connections to other servers.
func (m *masters) connect(ctx context.Context, network, addr string) (net.Conn, error) {
	f, err := m.find(ctx, network, addr)
	if err != nil {
		return nil, err
	}
	if sc, ok := f.Conn.(syscall.Conn); ok { // the pool needs it to see that the server closed the connection
		return struct {
			*followed
			syscall.Conn
		}{f, sc}, nil
	}
	return f, nil
}

// find dials the master, and closes the connections to other servers. It fails if a dial that began later
// has found another master, which the Sentinels have named since.
func (m *masters) find(ctx context.Context, network, addr string) (*followed, error) {
	m.mu.Lock()
	m.begun++
	begun := m.begun
	m.mu.Unlock()
	conn, err := m.dial(ctx, network, addr)
	if err != nil {
		return nil, err
	}
	f := &followed{Conn: conn, by: m}
	others, ok := m.note(f, begun)
	for _, other := range others {
		_ = other.Close() // a call that uses it gets an error
	}
	if !ok {
		return nil, &net.OpError{Op: "dial", Net: network, Addr: conn.RemoteAddr(), Err: errors.New("another server has become the master")}
	}
	return f, nil
}

// note adds a connection whose dial was the begun-th to begin. It returns the connections to close, to servers that are
// not the master, and whether the new one is not among them.
func (m *masters) note(f *followed, begun int64) (others []*followed, ok bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.conns[f] = struct{}{}
	if begun > m.latest {
		m.latest, m.master = begun, f.RemoteAddr().String()
	}
	for c := range m.conns {
		if c.RemoteAddr().String() != m.master {
			others = append(others, c)
		}
	}
	return others, !slices.Contains(others, f)
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
		if f, err := m.find(ctx, "tcp", ""); err == nil {
			_ = f.Close()
		}
		cancel()
		_ = pause(ending, followPause) // the loop checks ending
	}
}
