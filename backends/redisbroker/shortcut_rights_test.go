package redisbroker

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

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
			if err != nil {
				t.Fatal(err)
			}
			for _, r := range receipts {
				if unknown := r.Err != nil && broker.MayHaveApplied(r.Err); unknown != test.unknown || r.Err != nil && !unknown {
					t.Errorf("%s: got %v; want an unknown outcome: %t", r.ID, r.Err, test.unknown)
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
