// Package deadconn lets a pool of PostgreSQL connections get rid of dead ones soon.
//
// If a host vanishes, or a firewall forgets a connection, nothing says that the connection is dead:
// it never answers. By default a pool then waits for its caller's whole timeout, and for another 15 s
// for the server to close the connection. Meanwhile the dead one keeps its place in the pool.
package deadconn

import (
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

const (
	pingTime  = 2 * time.Second // less than half the time of a call, which then has time for a new connection
	closeTime = time.Second
)

// Bound bounds how long a dead connection keeps its place in a pool. A ping timeout that the
// caller has set stays.
func Bound(config *pgxpool.Config) { bound(config, pingTime, closeTime) }

func bound(config *pgxpool.Config, ping, close time.Duration) {
	if config.PingTimeout == 0 {
		config.PingTimeout = ping
	}
	before := config.BeforeClose
	config.BeforeClose = func(c *pgx.Conn) {
		if before != nil {
			before(c)
		}
		// The pool asks the server to close the connection. This ends its wait for that.
		time.AfterFunc(close, func() { _ = c.PgConn().Conn().Close() })
	}
}
