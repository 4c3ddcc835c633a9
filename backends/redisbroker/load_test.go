package redisbroker

import (
	"log/slog"
	"testing"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"
)

// A second process sends none of the scripts, which have hundreds of kilobytes.
func TestScripts_NewSendsOnlyThoseThatTheServerLacks(t *testing.T) {
	t.Parallel()
	s := miniredis.RunT(t)
	for _, most := range []int{len(scripts) + 20, 20} {
		before := s.CommandCount()
		c := redis.NewClient(&redis.Options{Addr: s.Addr()})
		t.Cleanup(func() { _ = c.Close() })
		openAs(t, c, Config{Logger: slog.New(slog.DiscardHandler)})
		if n := s.CommandCount() - before; n > most {
			t.Errorf("New sent %d commands, want at most %d", n, most)
		}
	}
}
