package redisbroker

import (
	"errors"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/seed81422ce9/jobs/broker"
	"github.com/seed81422ce9/jobs/internal/testenv"
)

// A server may lose its scripts while its user may not load them again, after a change of the access list. NOSCRIPT alone would not say
// what is wrong.
func TestCall_SaysWhyScriptsCannotBeLoaded(t *testing.T) {
	t.Parallel()
	admin := clientOf(t, testenv.PrivateRedis(t).URL)
	rule := func(rules ...any) {
		t.Helper()
		if err := admin.Do(t.Context(), append([]any{"acl", "setuser", "app", "on", ">secret", "~*", "&*"}, rules...)...).Err(); err != nil {
			t.Fatal(err)
		}
	}
	rule("+@all")
	o := *admin.Options()
	o.Username, o.Password = "app", "secret"
	c := redis.NewClient(&o)
	defer c.Close()
	b := open(t, c)
	enqueue(t, b, job("q", "a"))
	rule("-script")
	if err := admin.ScriptFlush(t.Context()).Err(); err != nil {
		t.Fatal(err)
	}
	_, err := b.Find(t.Context(), broker.Query{Queue: "q", IDs: []string{"a"}})
	if !errors.Is(err, broker.ErrUnavailable) || !strings.Contains(err.Error(), "NOPERM") || !strings.Contains(err.Error(), "script") {
		t.Errorf("without the permission to load scripts: %v; want ErrUnavailable and that permission", err)
	}
	rule("+script")
	if _, err := b.Find(t.Context(), broker.Query{Queue: "q", IDs: []string{"a"}}); err != nil {
		t.Errorf("with the permission: %v", err)
	}
}
