package main

import (
	"bytes"
	"context"
	"encoding/json"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/redis/go-redis/v9"

	"github.com/seed81422ce9/jobs/broker"
	"github.com/seed81422ce9/jobs/internal/testenv"
)

// loseJobs damages a store: the pending jobs of queue mail are no longer in the ready
// list.
func loseJobs(t *testing.T, store string) {
	t.Helper()
	u, err := url.Parse(store)
	if err != nil {
		t.Fatal(err)
	}
	if u.Scheme == "postgres" {
		schema := u.Query().Get("schema")
		c, err := pgx.Connect(t.Context(), testenv.Postgres(t))
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close(context.Background())
		if _, err := c.Exec(t.Context(), "update "+schema+".job set lane = 99 where state = 1"); err != nil {
			t.Fatal(err)
		}
		return
	}
	o, err := redis.ParseURL(testenv.Redis(t))
	if err != nil {
		t.Fatal(err)
	}
	c := redis.NewClient(o)
	defer c.Close()
	lists, err := c.Keys(t.Context(), u.Query().Get("prefix")+":{*}:mail:r2").Result()
	if err != nil || len(lists) != 1 {
		t.Fatalf("the line is %v, %v, want one key", lists, err)
	}
	if err := c.Del(t.Context(), lists...).Err(); err != nil {
		t.Fatalf("removing the line: %v", err)
	}
}

func TestDoctor_FindsAndRepairs(t *testing.T) {
	onEachStore(t, func(t *testing.T, c *cli) {
		c.has(c.run(3, "doctor", "--queue", "mail"), `not found`)
		for _, id := range []string{"a", "b", "c", "d", "e", "f", "g"} {
			c.run(0, "enqueue", "--type", "email", "--queue", "mail", "--id", id)
		}
		c.has(c.run(0, "doctor", "--queue", "mail"), `(?s)^warning: queue-not-served in queue mail \(1\)\n`+
			`  7 jobs to run: no live worker serves the queue mail.*To do: start a server.*\nFound 0 errors and 1 warning; --fix can repair 0\.\n$`)

		b, err := c.open(t.Context(), c.url)
		if err != nil {
			t.Fatal(err)
		}
		defer b.Close()
		if _, err := b.Renew(t.Context(), broker.RenewRequest{Worker: "w", Queues: []string{"mail"}, Lease: time.Hour,
			Register: true}); err != nil {
			t.Fatal(err)
		}
		c.has(c.run(0, "doctor", "--queue", "mail"), `^Nothing is wrong\.\n$`)
		if out := c.run(0, "doctor", "--queue", "mail", "--json"); out != "" {
			t.Errorf("a healthy queue, as JSON: %q", out)
		}
		if c.url == "memory://" {
			c.has(c.run(0, "doctor", "--fix", "--yes"), `^Nothing is wrong\.\n$`)
			return
		}

		loseJobs(t, c.url)
		out := c.run(8, "doctor", "--queue", "mail")
		c.has(out, `errors remain`)
		found := c.output(8, "doctor", "--queue", "mail")
		c.has(found, `(?m)^error: (job-without-entry|lane-unknown) in queue mail \(7\)\n  [a-g]: [a-z]`, `and 2 more`, `  --fix: [a-z]`,
			`Found 7 errors and 0 warnings; --fix can repair 7\.`)
		ids := regexp.MustCompile(`(?m)^  [a-g]: `)
		if all := c.output(8, "doctor", "--all"); strings.Contains(all, "--all") || len(ids.FindAllString(all, -1)) < 7 {
			t.Errorf("not all are named:\n%s", all)
		}
		lines := strings.Split(strings.TrimSpace(c.output(8, "doctor", "--queue", "mail", "--json")), "\n")
		var v findingView
		if err := json.Unmarshal([]byte(lines[0]), &v); err != nil || len(lines) != 7 || v.Level != "error" || v.Queue != "mail" ||
			len(v.ID) != 1 || v.Repair == "" || v.Fixed {
			t.Errorf("%d lines, the first is %+v, %v", len(lines), v, err)
		}

		c.has(c.run(7, "doctor", "--fix"), `Really repair .*\[y/N\]`, `nothing was changed`)
		c.run(8, "doctor", "--queue", "mail")
		c.stdin = "y\n"
		c.has(c.run(0, "doctor", "--fix", "--queue", "mail"), `Repaired 7: `, `Found 7 errors and 0 warnings, repaired 7\.`)
		c.stdin = ""
		c.has(c.run(0, "doctor", "--queue", "mail"), `^Nothing is wrong\.\n$`)
		got, err := b.Claim(t.Context(), broker.ClaimRequest{Worker: "w", Queues: []broker.Share{{Queue: "mail", Max: 10}}, Max: 10})
		if err != nil || len(got.Jobs) != 7 {
			t.Errorf("after the repair a worker gets %d jobs, %v, want 7", len(got.Jobs), err)
		}
	})
}

// output is like run, but returns the standard output even if the command fails.
func (c *cli) output(code int, args ...string) string {
	c.t.Helper()
	var out, errs bytes.Buffer
	got := run(c.t.Context(), append([]string{"--broker", c.url}, args...), environment{in: strings.NewReader(c.stdin), out: &out, err: &errs,
		getenv: func(string) string { return "" }, home: func() (string, error) { return c.t.TempDir(), nil }, open: c.open})
	if got != code {
		c.t.Errorf("jobsctl %q exits with %d, want %d\n%s%s", args, got, code, &out, &errs)
	}
	return out.String()
}
