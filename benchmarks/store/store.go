package store

import (
	"context"
	"time"
)

// Use is what a server has used since it started.
type Use struct {
	CPU   time.Duration
	Calls int64 // commands or transactions
	WAL   int64 // bytes written ahead; zero for Redis
}

// Store is a private server. It has separate spaces, which are databases.
type Store interface {
	// Empty makes the space called name, or empties it, and returns its URL.
	Empty(ctx context.Context, name string) (string, error)
	// Drop removes the space.
	Drop(ctx context.Context, name string) error
	// Warm brings a new server into the state of one that has run for long.
	Warm(ctx context.Context) error
	// Calm makes the server do its deferred work now, and not during a
	// measurement.
	Calm(ctx context.Context) error
	Use(ctx context.Context) (Use, error)
	// Bytes returns how much the jobs of the space occupy.
	Bytes(ctx context.Context, name string) (int64, error)
	// Describe returns the version and the settings.
	Describe(ctx context.Context) (string, error)
	Stop()
}

// starts has a function for each store that starts its server.
var starts = map[string]func(ctx context.Context, dir string, port int) (Store, error){
	"redis": startRedis, "postgres": startPostgres,
}

// Start starts the server of that name on a loopback port, or a free one for 0, with
// its data in a directory below dir.
func Start(ctx context.Context, name, dir string, port int) (Store, error) {
	return starts[name](ctx, dir, port)
}
