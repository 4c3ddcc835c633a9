package integration

import (
	"context"
	"flag"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/seed81422ce9/jobs"
	"github.com/seed81422ce9/jobs/backends"
	"github.com/seed81422ce9/jobs/broker"
	"github.com/seed81422ce9/jobs/internal/testenv"
)

var update = flag.Bool("update", false, "rewrite the sessions in docs/inspecting.md with what the stores print now")

// session matches a fenced block of commands, each after "$ ", and their output.
var session = regexp.MustCompile("(?m)^```console\n((?:.*\n)*?)```$")

// docs/inspecting.md shows what a store with the jobs of fill prints.
func TestProgram_TheSessionsOfThePageOnInspectingAreTrue(t *testing.T) {
	t.Parallel()
	const page = "../../docs/inspecting.md"
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	redis := testenv.PrivateRedis(t).URL
	postgres := ownDatabase(t)
	fill(t, redis)
	fill(t, postgres)
	port := regexp.MustCompile(`:(\d+)/0$`).FindStringSubmatch(redis)
	if port == nil {
		t.Fatal("the port of Redis is not at the end of its URL")
	}
	config, err := pgx.ParseConfig(postgres)
	if err != nil {
		t.Fatal(err)
	}
	// --no-raw: in a terminal redis-cli numbers and quotes its output.
	setup := "set -euo pipefail\nexport PGTZ=UTC LC_ALL=C.UTF-8\nredis-cli() { command redis-cli --no-raw -p " + port[1] +
		" \"$@\"; }\npsql() { command psql -X -d '" + config.ConnString() + "' \"$@\"; }\n"
	found := 0
	now := session.ReplaceAllStringFunc(string(text), func(block string) string {
		body := session.FindStringSubmatch(block)[1]
		var out strings.Builder
		for part := range strings.SplitSeq("\n"+strings.TrimSuffix(body, "\n"), "\n$ ") {
			if part = strings.TrimPrefix(part, "\n"); part == "" {
				continue
			}
			lines := strings.Split(part, "\n")
			command := []string{lines[0]}
			for i := 1; i < len(lines) && strings.HasPrefix(lines[i], "> "); i++ {
				command = append(command, lines[i][2:])
			}
			printed, err := exec.Command("bash", "-c", setup+strings.Join(command, "\n")).CombinedOutput()
			if err != nil {
				t.Errorf("%s: %v\n%s", strings.Join(command, "\n"), err, printed)
			}
			out.WriteString("$ " + strings.Join(command, "\n> ") + "\n" + strings.TrimRight(string(printed), "\n") + "\n")
			found++
		}
		if timeless(out.String()) == timeless(body) {
			return block
		}
		if !*update {
			t.Errorf("%s: a console block prints something else now; if that is intended, run\n"+
				"go test ./internal/integration -run Inspecting -update\nit prints\n%s\nthe page has\n%s", page, &out, body)
		}
		return "```console\n" + out.String() + "```"
	})
	if found < 15 {
		t.Errorf("only %d commands were found: they are looked for in the wrong way", found)
	}
	if *update && now != string(text) {
		if err := os.WriteFile(page, []byte(now), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// timeless replaces the parts of a store's output that differ between runs: times,
// and the bytes of times in Redis.
func timeless(s string) string {
	for _, u := range []struct{ pattern, with string }{
		{`\(integer\) \d{3,}`, "(integer) 1000"},
		{`\b1\d{15}\b`, "1000000000000000"},
		{`\b\d{4}-\d\d-\d\d \d\d:\d\d:\d\d(\.\d+)?(\+00)?`, "2006-01-02 15:04:05"},
		{`"\\x00\\x06(\\x[0-9a-f]{2}|\\.|[^\\]){6}`, `"\x00\x06......`},
	} {
		s = regexp.MustCompile(u.pattern).ReplaceAllString(s, u.with)
	}
	return regexp.MustCompile(`  +|--+`).ReplaceAllString(s, "  ")
}

// ownDatabase returns the URL of a new database, so that the schema can have its
// default name.
func ownDatabase(t *testing.T) string {
	t.Helper()
	server, name := testenv.Postgres(t), testenv.Name(t)
	c, err := pgx.Connect(t.Context(), server)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Exec(t.Context(), "create database "+name); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		if _, err := c.Exec(ctx, "drop database "+name+" with (force)"); err != nil {
			t.Error(err)
		}
		c.Close(ctx)
	})
	return regexp.MustCompile(`/[^/?]*(\?|$)`).ReplaceAllString(server, "/"+name+"$1")
}

// fill stores the same jobs each time, in different states.
func fill(t *testing.T, url string) {
	t.Helper()
	ctx := t.Context()
	if err := backends.Migrate(ctx, url); err != nil {
		t.Fatal(err)
	}
	b, err := backends.Open(ctx, url)
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	do := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	const queue, worker = "mail", "01KWORKER00000000000000001"
	client := jobs.NewClient(b, jobs.ClientConfig{Defaults: []jobs.Option{jobs.WithQueue(queue), jobs.WithRetention(24 * time.Hour)}})
	defer client.Close()
	enqueue := func(id string, options ...jobs.Option) {
		t.Helper()
		_, err := client.Enqueue(ctx, jobs.NewTask("email:welcome", []byte(`{"user":1}`), append(options, jobs.WithID(id))...))
		do(err)
	}
	claim := func(id string) broker.Job {
		t.Helper()
		enqueue(id)
		claimed, err := b.Claim(ctx, broker.ClaimRequest{Worker: worker, Queues: []broker.Share{{Queue: queue, Max: 1}}, Max: 1})
		do(err)
		if len(claimed.Jobs) != 1 || claimed.Jobs[0].ID != id {
			t.Fatalf("the worker got %d jobs, want %s", len(claimed.Jobs), id)
		}
		return claimed.Jobs[0]
	}
	_, err = b.Renew(ctx, broker.RenewRequest{Worker: worker, Queues: []string{queue}, Lease: time.Hour, Register: true,
		Info: broker.WorkerInfo{ID: worker, Host: "app-1", PID: 7, Program: "shop v41", Concurrency: 10, Queues: []string{queue},
			Types: []string{"email:*"}}})
	do(err)
	failure := broker.Failure{At: time.Date(2026, 11, 21, 22, 0, 0, 0, time.UTC), Class: "retryable", Message: "503 from the other side",
		Worker: worker, Version: "shop v41"}
	for n, step := range []struct {
		id      string
		outcome broker.Outcome
	}{
		{"completed-1", broker.Complete([]byte(`"sent"`))},
		{"dead-1", broker.Die(broker.ReasonRetries, failure)},
		{"retry-1", broker.Retry(time.Hour, failure)},
	} {
		job := claim(step.id)
		verdicts, err := b.Settle(ctx, broker.SettleRequest{Worker: worker, Number: int64(n + 1),
			Items: []broker.Settlement{{Job: &job, Outcome: step.outcome}}})
		do(err)
		do(verdicts[0].Err)
	}
	claim("active-1")
	enqueue("pending-1")
	enqueue("pending-2", jobs.WithUniqueKey("welcome-1"), jobs.WithPartitionKey("tenant-1"), jobs.WithPriority(1))
	enqueue("scheduled-1", jobs.WithDelay(time.Hour))
	_, err = b.Mark(ctx, broker.MarkRequest{Action: broker.MarkTake, Name: "nightly-report", Owner: "app-1", TTL: time.Hour,
		Value: []byte("half done")})
	do(err)
}
