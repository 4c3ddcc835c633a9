package redisbroker

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"log/slog"
	"net"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/alicebob/miniredis/v2/server"
	"github.com/redis/go-redis/v9"

	"github.com/seed81422ce9/jobs/broker"
	"github.com/seed81422ce9/jobs/internal/testenv"
)

// told returns a client of a server that answers INFO with a text, loads scripts, and
// knows no other command.
func told(t *testing.T, info string) redis.UniversalClient {
	t.Helper()
	s, err := server.NewServer("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	if err := s.Register("INFO", func(c *server.Peer, _ string, _ []string) { c.WriteBulk(info) }); err != nil {
		t.Fatal(err)
	}
	if err := s.Register("SCRIPT", func(c *server.Peer, _ string, _ []string) { c.WriteBulk("sha") }); err != nil {
		t.Fatal(err)
	}
	c := redis.NewClient(&redis.Options{Addr: s.Addr().String()})
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// logged returns a logger and its output.
func logged() (*slog.Logger, *bytes.Buffer) {
	var text bytes.Buffer
	return slog.New(slog.NewTextHandler(&text, nil)), &text
}

func TestServer_NewRefusesServersItCannotUse(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ name, info, hint string }{
		{"an old version", "redis_version:6.0.16\r\n", "6.2"},
		{"a very old version", "redis_version:5.0.7\r\n", "6.2"},
		{"a version it cannot read", "redis_version:next\r\n", "6.2"},
		{"a node of a Cluster", "redis_version:7.2.0\r\nredis_mode:cluster\r\n", "NewClusterClient"},
	} {
		_, err := New(t.Context(), told(t, c.info), Config{})
		if !errors.Is(err, broker.ErrUnsupported) || !strings.Contains(err.Error(), c.hint) {
			t.Errorf("%s: got %v, want ErrUnsupported that names %s", c.name, err, c.hint)
		}
	}
}

func TestServer_NewRefusesAClusterClientOfASingleServer(t *testing.T) {
	t.Parallel()
	o, err := redis.ParseURL(testenv.Redis(t))
	if err != nil {
		t.Fatal(err)
	}
	c := redis.NewClusterClient(&redis.ClusterOptions{Addrs: []string{o.Addr}})
	t.Cleanup(func() { _ = c.Close() })
	if _, err := New(t.Context(), c, Config{}); !errors.Is(err, broker.ErrUnsupported) || !strings.Contains(err.Error(), "NewClient") {
		t.Errorf("New: got %v, want ErrUnsupported that names NewClient", err)
	}
}

func TestServer_NewRefusesAClientItCannotCopy(t *testing.T) {
	t.Parallel()
	ring := redis.NewRing(&redis.RingOptions{})
	t.Cleanup(func() { _ = ring.Close() })
	if _, err := New(t.Context(), ring, Config{}); !errors.Is(err, broker.ErrUnsupported) {
		t.Errorf("New with a ring: got %v, want ErrUnsupported", err)
	}
}

// A variable that nobody set, or whose error was ignored.
func TestServer_NewRefusesANilClient(t *testing.T) {
	t.Parallel()
	for _, client := range []redis.UniversalClient{nil, (*redis.Client)(nil), (*redis.ClusterClient)(nil)} {
		_, err := New(t.Context(), client, Config{})
		if !errors.Is(err, broker.ErrInvalid) || !strings.Contains(err.Error(), "client: invalid: is nil") {
			t.Errorf("a nil %T: New says %v, want ErrInvalid", client, err)
		}
	}
}

func TestServer_NewRefusesAConfigOutsideItsLimits(t *testing.T) {
	t.Parallel()
	for _, config := range []Config{{Prefix: "a{b}"}, {Prefix: "a\nb"}, {Prefix: strings.Repeat("x", maxPrefix+1)}, {Buckets: -1},
		{Buckets: maxBuckets + 1}} {
		if _, err := New(t.Context(), client(t), config); !errors.Is(err, broker.ErrInvalid) {
			t.Errorf("New with %+v: got %v, want ErrInvalid", config, err)
		}
	}
}

func TestServer_NewWarnsOfServersThatMayLoseJobs(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ info, want string }{
		{"redis_version:7.2.0\r\nmaxmemory_policy:allkeys-lru\r\n", "noeviction"},
		{"redis_version:7.2.0\r\nmaxmemory_policy:volatile-lru\r\n", ""}, // no key here can expire
		{"redis_version:7.2.0\r\nmaxmemory_policy:noeviction\r\n", ""},
		{"", "INFO"},
	} {
		log, text := logged()
		openAs(t, told(t, c.info), Config{Logger: log})
		if got := text.String(); (c.want == "") != (got == "") || !strings.Contains(got, c.want) {
			t.Errorf("INFO %q: logged %q, want a warning with %q", c.info, got, c.want)
		}
	}
}

// documentedACL returns the command of the package comment that makes a user, for a user and a prefix of that name.
func documentedACL(t *testing.T, name string) (command []any) {
	t.Helper()
	text, err := os.ReadFile("doc.go")
	if err != nil {
		t.Fatal(err)
	}
	_, rules, _ := strings.Cut(string(text), "//\tACL SETUSER jobs ")
	rules, _, ok := strings.Cut(rules, "\n//\n")
	if !ok {
		t.Fatal("the package comment has no ACL SETUSER")
	}
	command = append(command, "ACL", "SETUSER", name)
	for _, rule := range strings.Fields(strings.ReplaceAll(strings.ReplaceAll(rules, "\n//", ""), "jobs", name)) {
		command = append(command, rule)
	}
	return command
}

// A user with only the rights that the package comment names can use the broker, and can do little else: other
// applications may share the server.
func TestServer_AUserWithFewRightsIsEnough(t *testing.T) {
	t.Parallel()
	o, err := redis.ParseURL(testenv.Redis(t))
	if err != nil {
		t.Fatal(err)
	}
	admin := client(t)
	name := testenv.Name(t)
	rules := append(documentedACL(t, name), "-info")
	if err := admin.Do(t.Context(), rules...).Err(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { admin.Do(context.Background(), "ACL", "DELUSER", name) })
	o.Username, o.Password = name, "secret"
	limited := redis.NewClient(o)
	t.Cleanup(func() { _ = limited.Close() })

	for _, harmful := range []string{"FLUSHALL", "FLUSHDB", "SWAPDB 0 1", "KEYS *", "CLIENT LIST", "CLIENT KILL TYPE pubsub", "CLIENT PAUSE 1",
		"CONFIG GET *", "SHUTDOWN", "DEBUG SLEEP 0", "SET other 1", "PUBLISH other 1", "EVAL return 0"} {
		var command []any
		for _, word := range strings.Fields(harmful) {
			command = append(command, word)
		}
		said, err := admin.Do(t.Context(), append([]any{"ACL", "DRYRUN", name}, command...)...).Text()
		if err == nil && said == "OK" { // servers before 7.0 cannot say
			t.Errorf("the documented user may %s", harmful)
		}
	}
	log, text := logged()
	b := openAs(t, limited, Config{Prefix: name, Logger: log})
	if !strings.Contains(text.String(), "INFO") {
		t.Errorf("logged %q, want a warning that INFO is denied", text)
	}
	(&life{t: t, b: b, queue: "q"}).run()
	if _, err := b.Watch(t.Context(), broker.WatchRequest{Queues: []string{"q"}}); err != nil {
		t.Errorf("Watch: %v", err)
	}
	register(t, b, "idle", "q")
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	_, err = b.Claim(ctx, broker.ClaimRequest{Worker: "idle", Queues: []broker.Share{{Queue: "q", Max: 1}}, Max: 1, Wait: time.Minute})
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a wait that its context ends: got %v", err)
	}
}

func TestServer_AUserWithFewRightsIsEnoughInACluster(t *testing.T) {
	t.Parallel()
	addrs, name := testenv.RedisCluster(t), testenv.Name(t)
	admin := redis.NewClusterClient(&redis.ClusterOptions{Addrs: addrs})
	t.Cleanup(func() { _ = admin.Close() })
	each := func(ctx context.Context, command ...any) error {
		return admin.ForEachShard(ctx, func(ctx context.Context, node *redis.Client) error { return node.Do(ctx, command...).Err() })
	}
	if err := each(t.Context(), documentedACL(t, name)...); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = each(context.Background(), "ACL", "DELUSER", name) })
	limited := redis.NewClusterClient(&redis.ClusterOptions{Addrs: addrs, Username: name, Password: "secret"})
	t.Cleanup(func() { _ = limited.Close() })
	(&life{t: t, b: openAs(t, limited, Config{Prefix: name}), queue: "q"}).run()
}

func TestServer_AServerWithTLSAndAPassword(t *testing.T) {
	t.Parallel()
	s := miniredis.NewMiniRedis()
	if err := s.StartTLS(&tls.Config{Certificates: []tls.Certificate{selfSigned(t)}}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	s.RequireUserAuth("worker", "secret")
	c := redis.NewClient(&redis.Options{Addr: s.Addr(), Username: "worker", Password: "secret",
		TLSConfig: &tls.Config{InsecureSkipVerify: true}})
	t.Cleanup(func() { _ = c.Close() })
	b := openAs(t, c, Config{Logger: slog.New(slog.DiscardHandler)})
	(&life{t: t, b: b, queue: "q"}).run()

	wrong := redis.NewClient(&redis.Options{Addr: s.Addr(), Username: "worker", Password: "wrong",
		TLSConfig: &tls.Config{InsecureSkipVerify: true}})
	t.Cleanup(func() { _ = wrong.Close() })
	_, err := New(t.Context(), wrong, Config{})
	if !errors.Is(err, broker.ErrUnavailable) || strings.Contains(err.Error(), "wrong ") {
		t.Errorf("New with a wrong password: got %v, want ErrUnavailable without the password", err)
	}
}

// sentinel returns a Sentinel that answers with the address of the master.
func sentinel(t *testing.T, master string) string {
	t.Helper()
	s, err := server.NewServer("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	host, port, err := net.SplitHostPort(master)
	if err != nil {
		t.Fatal(err)
	}
	answer := func(c *server.Peer, _ string, args []string) {
		if strings.EqualFold(args[0], "get-master-addr-by-name") {
			c.WriteLen(2)
			c.WriteBulk(host)
			c.WriteBulk(port)
			return
		}
		c.WriteLen(0)
	}
	subscribe := func(c *server.Peer, _ string, args []string) {
		for i, channel := range args {
			c.WriteLen(3)
			c.WriteBulk("subscribe")
			c.WriteBulk(channel)
			c.WriteInt(i + 1)
		}
	}
	for name, f := range map[string]server.Cmd{"SENTINEL": answer, "SUBSCRIBE": subscribe} {
		if err := s.Register(name, f); err != nil {
			t.Fatal(err)
		}
	}
	return s.Addr().String()
}

func TestServer_TheMasterThatASentinelNames(t *testing.T) {
	t.Parallel()
	o, err := redis.ParseURL(testenv.Redis(t))
	if err != nil {
		t.Fatal(err)
	}
	c := redis.NewFailoverClient(&redis.FailoverOptions{MasterName: "main", SentinelAddrs: []string{sentinel(t, o.Addr)}})
	t.Cleanup(func() { _ = c.Close() })
	b := open(t, c)
	(&life{t: t, b: b, queue: "q"}).run()
}

func TestServer_ScriptsThatTheServerForgotAreLoadedAgain(t *testing.T) {
	t.Parallel()
	c := clientOf(t, testenv.PrivateRedis(t).URL)
	b := openAs(t, c, Config{})
	forget := func() {
		t.Helper()
		if err := c.ScriptFlush(t.Context()).Err(); err != nil {
			t.Fatal(err)
		}
	}
	forget()
	register(t, b, "w", "q", "p")
	forget()
	enqueue(t, b, job("q", "a"), job("p", "b"), job("q", "c"))
	forget()
	got := claimAt(t, b, at(0), "w", 10, "q", "p")
	if len(got.Jobs) != 3 {
		t.Fatalf("claimed %d jobs, want 3", len(got.Jobs))
	}
	forget()
	again, err := b.Claim(t.Context(), broker.ClaimRequest{Now: at(0), Worker: "w", Queues: []broker.Share{{Queue: "q", Max: 3}}, Max: 3,
		Settle: broker.SettleRequest{Now: at(0), Worker: "w", Number: 1,
			Items: []broker.Settlement{{Job: &got.Jobs[0], Outcome: broker.Release()}}}})
	if err != nil || len(again.Verdicts) != 1 || again.Verdicts[0].Err != nil {
		t.Errorf("Claim with a settle: %+v, %v", again, err)
	}
	forget()
	ctx := t.Context()
	if again, err = b.Claim(ctx, broker.ClaimRequest{Worker: "w", Queues: []broker.Share{{Queue: "q", Max: 3}}, Max: 3,
		Wait: 50 * time.Millisecond}); err != nil {
		t.Errorf("Claim with a wait: %v", err)
	}
}
