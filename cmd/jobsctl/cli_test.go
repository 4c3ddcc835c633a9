package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"regexp"
	"strings"
	"testing"

	"github.com/seed81422ce9/jobs"
	"github.com/seed81422ce9/jobs/backends"
	"github.com/seed81422ce9/jobs/broker"
	"github.com/seed81422ce9/jobs/internal/testenv"
)

// cli runs commands against one store.
type cli struct {
	t     *testing.T
	url   string
	open  func(context.Context, string) (broker.Broker, error)
	stdin string
	env   map[string]string
}

// run runs a command, checks its exit code, and returns its output, or its errors if
// code is not 0.
func (c *cli) run(code int, args ...string) string {
	c.t.Helper()
	out, errs := c.both(code, args...)
	if code != 0 {
		return errs
	}
	return out
}

// both is like run, but returns output and errors.
func (c *cli) both(code int, args ...string) (out, errs string) {
	c.t.Helper()
	var o, e bytes.Buffer
	if c.url != "" {
		args = append([]string{"--broker", c.url}, args...)
	}
	got := run(c.t.Context(), args, environment{in: strings.NewReader(c.stdin), out: &o, err: &e,
		getenv: func(name string) string { return c.env[name] }, home: func() (string, error) { return c.t.TempDir(), nil }, open: c.open})
	if got != code {
		c.t.Errorf("jobsctl %q exits with %d, want %d\n%s%s", args, got, code, &o, &e)
	}
	return o.String(), e.String()
}

// has checks that a command's output matches each pattern.
func (c *cli) has(output string, patterns ...string) {
	c.t.Helper()
	for _, p := range patterns {
		if !regexp.MustCompile(p).MatchString(output) {
			c.t.Errorf("nothing matches %s in\n%s", p, output)
		}
	}
}

// die runs n jobs with a handler whose error is never retried.
func (c *cli) die(n int, message string) {
	c.t.Helper()
	b, err := c.open(c.t.Context(), c.url)
	if err != nil {
		c.t.Fatal(err)
	}
	defer b.Close()
	mux := jobs.NewServeMux()
	died := make(chan struct{}, n)
	mux.HandleFunc("email:*", func(context.Context, *jobs.Job) error { return fmt.Errorf("%s: %w", message, jobs.SkipRetry) })
	server, err := jobs.NewServer(b, jobs.Config{Queues: map[string]int{"mail": 1}, Logger: slog.New(slog.DiscardHandler),
		Hooks: jobs.Hooks{Settle: func(e jobs.SettleEvent) {
			for range e.Verdicts {
				died <- struct{}{}
			}
		}}})
	if err != nil {
		c.t.Fatal(err)
	}
	if err := server.Start(context.Background(), mux); err != nil {
		c.t.Fatal(err)
	}
	for range n {
		select {
		case <-died:
		case <-c.t.Context().Done():
			c.t.Fatal("the jobs were not handled")
		}
	}
	c.has(c.run(0, "workers"), `(?m)^WORKER +HOST`, `(?m) mail$`)
	if err := server.Shutdown(c.t.Context()); err != nil {
		c.t.Error(err)
	}
}

// storeOf returns commands for a new store of a backend. They share a connection to it: connecting would take most of
// their time, and processes of the command, in other tests, do connect.
func storeOf(t *testing.T, backend string) *cli {
	t.Helper()
	c := &cli{t: t}
	switch backend {
	case "memory":
		c, _ = inMemory(t)
		return c
	case "redis":
		c.url = testenv.RedisPlace(t)
	case "postgres":
		c.url = testenv.PostgresPlace(t)
		if err := backends.Migrate(t.Context(), c.url); err != nil {
			t.Fatal(err)
		}
	}
	b, err := backends.Open(t.Context(), c.url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := b.Close(); err != nil {
			t.Error(err)
		}
	})
	c.open = func(context.Context, string) (broker.Broker, error) { return kept{b}, nil }
	return c
}

// kept is a store that stays open when a command has ended.
type kept struct{ broker.Broker }

func (k kept) Close() error          { return nil }
func (k kept) Unwrap() broker.Broker { return k.Broker }

// onEachStore runs a test on each backend.
func onEachStore(t *testing.T, test func(t *testing.T, c *cli)) {
	t.Helper()
	t.Parallel()
	for _, backend := range []string{"memory", "redis", "postgres"} {
		t.Run(backend, func(t *testing.T) {
			t.Parallel()
			test(t, storeOf(t, backend))
		})
	}
}

// onPairs runs a test with a source and a destination, which commands on the source can open too.
// Each backend is the source once, and once the destination.
func onPairs(t *testing.T, test func(t *testing.T, from, to *cli)) {
	t.Helper()
	t.Parallel()
	for from, to := range map[string]string{"memory": "redis", "redis": "postgres", "postgres": "memory"} {
		t.Run(from+" to "+to, func(t *testing.T) {
			t.Parallel()
			source, destination := storeOf(t, from), storeOf(t, to)
			open := source.open
			source.open = func(ctx context.Context, url string) (broker.Broker, error) {
				if url == destination.url {
					return destination.open(ctx, url)
				}
				return open(ctx, url)
			}
			test(t, source, destination)
		})
	}
}

func TestCli_AnOperatorFindsOutAndMends(t *testing.T) {
	onEachStore(t, func(t *testing.T, c *cli) {
		c.has(c.run(0, "enqueue", "--type", "email:welcome", "--queue", "mail", "--id", "a", "--payload", `{"user":1}`, "--header", "tenant=x"),
			`^a  mail  pending\n$`)
		c.has(c.run(4, "enqueue", "--type", "email:welcome", "--queue", "mail", "--id", "a"), "duplicate")
		c.has(c.run(0, "enqueue", "--type", "email:late", "--queue", "mail", "--id", "b", "--delay", "1h"), `^b  mail  scheduled  2`)

		c.has(c.run(0, "stats"), `QUEUE +PENDING +SCHEDULED`, `(?m)^mail +1 +1 `)
		c.has(c.run(0, "queues", "ls", "mail"), `(?m)^mail +1 +1 `)
		c.has(c.run(0, "ls", "--queue", "mail"), `(?m)^mail +a +email:welcome +pending +0 `)
		c.has(c.run(0, "ls", "--state", "scheduled"), `(?m)^mail +b +email:late +scheduled +0 `)
		if out := c.run(0, "show", "a"); strings.Contains(out, "user") {
			t.Errorf("the payload is shown without --payload:\n%s", out)
		}
		c.has(c.run(0, "show", "a", "--payload"), `PAYLOAD +10 bytes`, `HEADER +tenant: x`, `"user": 1`)

		c.has(c.run(0, "why", "a"), `no live worker serves the queue mail`)
		c.has(c.run(0, "why", "b", "--queue", "mail"), `it is due at 2.*, in `, `no live worker`)
		c.has(c.run(0, "queues", "pause", "mail"), `mail is paused`)
		c.has(c.run(0, "why", "a"), `the queue mail is paused`)
		c.has(c.run(0, "stats"), `paused`)
		c.has(c.run(0, "queues", "resume", "mail"), `mail is resumed`)
		c.has(c.run(0, "reschedule", "b"), `1 of 1 job rescheduled`)

		c.die(2, "no such user \x1b[31m\u202e")
		c.has(c.run(0, "dlq", "list"), `(?m)^mail +a +email:welcome +dead`, `no such user \\x1b\[31m\\u202e`)
		c.has(c.run(0, "why", "a"), `it died .* ago \(skip_retry\).*no such user`)
		c.has(c.run(0, "dlq", "groups"), `COUNT +GROUP +RATE +TREND +TYPE +ERROR`,
			`(?m)^1 +[0-9a-f]{8} +[.█]+ +email:(welcome|late) +no such user`)
		c.has(c.run(0, "dlq", "groups", "--json"), `"count":1`, `"reasons":\["skip_retry"\]`)
		c.has(c.run(3, "dlq", "groups", "--queue", "typo"), "not found")
		c.has(c.run(0, "dlq", "requeue", "a"), `1 of 1 job redriven`)
		c.has(c.run(0, "redrive", "--error", "no such", "--dry-run"), `1 job would be redriven; nothing was changed`)
		c.has(c.run(7, "dlq", "purge", "--all"), `Really delete about 1 job\? \[y/N\]`, `not confirmed`)
		c.has(c.run(2, "dlq", "purge"), `--all`)
		c.has(c.run(0, "dlq", "suppress", "b"), `1 of 1 job suppressed`)
		c.has(c.run(0, "dlq", "list"), `^QUEUE.*\n$`)
		c.has(c.run(0, "dlq", "purge", "--all", "--suppressed", "--yes"), `1 of 1 job deleted`)

		var v jobView
		if err := json.Unmarshal([]byte(c.run(0, "show", "a", "--json")), &v); err != nil || v.State != "pending" || v.PayloadBytes == nil ||
			*v.PayloadBytes != 10 || v.Payload != nil {
			t.Errorf("show --json: %+v, %v", v, err)
		}
		c.stdin = "yes\n"
		c.has(c.run(0, "cancel", "a"), `1 of 1 job cancelled`)
		c.stdin = ""
		c.has(c.run(3, "show", "a"), `job "a": not found; for the beginning of an ID give at least 6 characters`)
		c.has(c.run(3, "show", "a", "--queue", "mail"), `not found`)
	})
}

func TestCli_AQueuesRulesChangeOnlyWhereFlagsSaySo(t *testing.T) {
	onEachStore(t, func(t *testing.T, c *cli) {
		for _, verb := range []string{"queues policy", "queues pause", "queues remove", "keys ls", "history", "stats", "workers", "ls --queue"} {
			c.has(c.run(3, append(strings.Fields(verb), "rules")...), `^jobsctl: queue "rules": not found; "jobsctl queues ls" lists`)
		}
		c.run(0, "enqueue", "--type", "x", "--queue", "rules", "--id", "a")
		c.has(c.run(0, "queues", "policy", "rules", "--max-depth", "5", "--keep-dead", "30d"), `MAX DEPTH +5`, `KEEP DEAD +30d`)
		c.has(c.run(0, "queues", "policy", "rules", "--keep-dead-count", "9"), `MAX DEPTH +5`, `KEEP DEAD +30d`,
			`KEEP DEAD COUNT +9`, `KEEP COMPLETED +none`)
		c.has(c.run(2, "queues", "policy", "rules", "--max-depth", "-1"), "max depth")
		c.has(c.run(0, "queues", "policy", "rules"), `PRIORITY ROUND +urgent jobs first`)
		c.has(c.run(0, "queues", "policy", "rules", "--priority-round", "20"), `MAX DEPTH +5`, `PRIORITY ROUND +20`)
		c.has(c.run(2, "queues", "policy", "rules", "--priority-round", "3"), "priority round", "4 to 1000")
		c.has(c.run(4, "queues", "remove", "rules"), "")
		c.has(c.run(0, "delete", "a", "--yes"), "1 of 1")
		c.run(0, "queues", "remove", "rules")
		c.has(c.run(3, "queues", "policy", "rules"), "not found")
	})
}

func TestCli_ExitCodesTellWhatWentWrong(t *testing.T) {
	t.Parallel()
	away := &cli{t: t, url: "redis://secret:password@store", open: func(context.Context, string) (broker.Broker, error) {
		return nil, fmt.Errorf("%w: connection refused", broker.ErrUnavailable)
	}}
	if out := away.run(5, "stats"); strings.Contains(out, "password") {
		t.Errorf("a password is in %q", out)
	}
	for _, args := range [][]string{{"nothing"}, {"stats", "--nothing"}, {"show"}, {"show", "a", "b"}, {"migrate", "x"}} {
		away.run(2, args...)
	}
	var out, errs bytes.Buffer
	env := environment{in: strings.NewReader(""), out: &out, err: &errs, getenv: func(string) string { return "" },
		home: func() (string, error) { return t.TempDir(), nil }}
	if code := run(t.Context(), []string{"stats"}, env); code != 2 || !strings.Contains(errs.String(), "JOBS_BROKER") {
		t.Errorf("without a store: %d, %s", code, &errs)
	}
}

func TestCli_TextsCannotCommandTheTerminal(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"plain ünïcode 字":  "plain ünïcode 字",
		"a\nb\tc":          `a\nb\tc`,
		"\x1b]0;title\x07": `\x1b]0;title\a`,
		"abc\u202edef":     `abc\u202edef`,
	} {
		if got := plain(in); got != want {
			t.Errorf("plain(%q) is %q, want %q", in, got, want)
		}
	}
}
