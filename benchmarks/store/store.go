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

// Store is a private server. It has spaces, which are separate: databases.
type Store interface {
	// Empty makes the space called name and returns its URL; what was in it is
	// gone.
	Empty(ctx context.Context, name string) (string, error)
	// Drop removes the space.
	Drop(ctx context.Context, name string) error
	// Warm has a new server do what one in service has done long ago.
	Warm(ctx context.Context) error
	// Calm has the server do what it put off, so that it does not do it during
	// a measurement.
	Calm(ctx context.Context) error
	Use(ctx context.Context) (Use, error)
	// Bytes is what the space's jobs occupy.
	Bytes(ctx context.Context, name string) (int64, error)
	// Describe names the version and the settings.
	Describe(ctx context.Context) (string, error)
	Stop()
}

// starts are the ways to start a server.
var starts = map[string]func(ctx context.Context, dir string, port int) (Store, error){
	"redis": startRedis, "postgres": startPostgres,
}

// Start starts the server of that name on a loopback port, 0 meaning a free
// one, with its data in a directory below dir.
func Start(ctx context.Context, name, dir string, port int) (Store, error) {
	return starts[name](ctx, dir, port)
}
