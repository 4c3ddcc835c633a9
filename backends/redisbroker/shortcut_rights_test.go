package redisbroker

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/alicebob/miniredis/v2/server"
	"github.com/redis/go-redis/v9"

	"github.com/seed81422ce9/jobs/broker"
	"github.com/seed81422ce9/jobs/internal/testenv"
)

// user is a client of a user of its own, who may do everything until grant says
// otherwise.
func user(t *testing.T) (c *redis.Client, grant func(rule string)) {
	t.Helper()
	admin, name := client(t), testenv.Name(t)
	grant = func(rule string) {
		t.Helper()
		if err := admin.Do(t.Context(), "ACL", "SETUSER", name, "on", ">secret", "~*", "&*", rule).Err(); err != nil {
			t.Fatal(err)
		}
	}
	grant("+@all")
	t.Cleanup(func() { admin.Do(context.Background(), "ACL", "DELUSER", name) })
	o, err := redis.ParseURL(testenv.Redis(t))
	if err != nil {
		t.Fatal(err)
	}
	o.Username, o.Password = name, "secret"
	c = redis.NewClient(o)
	t.Cleanup(func() { _ = c.Close() })
	return c, grant
}

// Some commands may be denied to a user, or unknown to what stands before the
// server. Then all goes by the scripts, and nothing is stored twice on the way.
func TestWithoutTransactionsTheScriptsServe(t *testing.T) {
	t.Parallel()
	for name, right := range map[string]string{
		"none of them": "-@transaction",
		"no MULTI":     "-multi",
		"no EXEC":      "-exec",
		"no WATCH":     "-watch",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c, grant := user(t)
			grant(right)
			b := open(t, c)
			b.shortcuts.after, b.shortcuts.rest = 1, 0
			const batches = 8
			for i := range batches {
				accept(t, b, firstSends("q", fmt.Sprint("batch", i, "-"), 3))
			}
			kept := slices.ContainsFunc(b.shortcuts.ways[:], func(way shortcut) bool { return way.conn != nil })
			if kept || b.shortcuts.shut.Before(time.Now()) {
				t.Errorf("a shortcut was kept that cannot be used: %+v", b.shortcuts.ways)
			}
			register(t, b, "w", "q")
			if got := claimAt(t, b, at(0), "w", 1000, "q").Jobs; len(got) != 3*batches {
				t.Errorf("%d jobs came out, want the %d that went in", len(got), 3*batches)
			}
		})
	}
}

// The rights may be withdrawn later. Then the outcome of one batch is unknown.
func TestTransactionsThatAreForbiddenLater(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		right   string
		unknown bool
	}{"all": {"-@transaction", true}, "MULTI": {"-multi", true}, "EXEC": {"-exec", false}, "WATCH": {"-watch", false}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c, grant := user(t)
			b := open(t, c)
			warm(t, b, "q")
			usable := func() (n int) {
				for i := range b.shortcuts.ways {
					if !b.shortcuts.ways[i].since.IsZero() {
						n++
					}
				}
				return n
			}
			before := usable()
			grant(test.right)
			jobs := firstSends("q", "job", 3)
			receipts, err := b.Enqueue(t.Context(), broker.EnqueueRequest{Jobs: jobs})
			for i, err := range outcomes(jobs, receipts, err) {
				if unknown := err != nil && broker.MayHaveApplied(err); unknown != test.unknown || err != nil && !unknown {
					t.Errorf("%s: got %v; want an unknown outcome: %t", jobs[i].ID, err, test.unknown)
				}
			}
			if after := usable(); after != before-1 {
				t.Errorf("%d shortcuts are relied on, %d were before one of them was refused a command", after, before)
			}
			for i := range jobs {
				jobs[i].Drawn = time.Time{}
			}
			if _, err := b.Enqueue(t.Context(), broker.EnqueueRequest{Jobs: jobs}); err != nil {
				t.Fatal(err)
			}
			accept(t, b, firstSends("q", "then", 3))
			register(t, b, "w", "q")
			seen := make(map[string]bool)
			for _, j := range claimAt(t, b, at(0), "w", 1000, "q").Jobs {
				if seen[j.ID] {
					t.Errorf("%s came out twice", j.ID)
				}
				seen[j.ID] = true
			}
			if !seen["job0"] || !seen["job2"] || !seen["then2"] {
				t.Errorf("claimed %v, want all that were accepted", seen)
			}
		})
	}
}

// A server that loads its data, or is full, refuses whole transactions. Then nothing
// was stored, and shortcuts serve again soon after it does.
func TestAServerThatRefusesForNow(t *testing.T) {
	t.Parallel()
	for name, start := range map[string]func(t *testing.T) (c *redis.Client, refuse func(bool)){
		"loading": func(t *testing.T) (*redis.Client, func(bool)) {
			s := miniredis.RunT(t)
			return redis.NewClient(&redis.Options{Addr: s.Addr()}), func(refuse bool) {
				s.Server().SetPreHook(func(p *server.Peer, _ string, _ ...string) bool {
					if refuse {
						p.WriteError("LOADING Redis is loading the dataset in memory")
					}
					return refuse
				})
			}
		},
		"full": func(t *testing.T) (*redis.Client, func(bool)) {
			o, err := redis.ParseURL(testenv.PrivateRedis(t).URL)
			if err != nil {
				t.Fatal(err)
			}
			c := redis.NewClient(o)
			return c, func(refuse bool) {
				most := "0"
				if refuse {
					most = "1"
				}
				if err := c.ConfigSet(context.Background(), "maxmemory", most).Err(); err != nil {
					t.Fatal(err)
				}
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c, refuse := start(t)
			t.Cleanup(func() { _ = c.Close() })
			b := openAs(t, c, Config{Logger: slog.New(slog.DiscardHandler)})
			warm(t, b, "q")
			b.shortcuts.rest = time.Second
			refuse(true)
			before := time.Now()
			receipts, err := b.Enqueue(t.Context(), broker.EnqueueRequest{Jobs: firstSends("q", "refused", 3)})
			if err == nil {
				err = receipts[0].Err
			}
			if !errors.Is(err, broker.ErrUnavailable) {
				t.Errorf("Enqueue: %v, want ErrUnavailable, as nothing was stored", err)
			}
			if b.shortcuts.shut.Before(before) || time.Until(b.shortcuts.shut) > time.Second {
				t.Errorf("no shortcut is taken until %v, want a second from %v on", b.shortcuts.shut, before)
			}
			refuse(false)
			accept(t, b, firstSends("q", "refused", 3)) // none of them is there
		})
	}
}
