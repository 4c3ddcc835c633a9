package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed81422ce9/jobs"
	"github.com/seed81422ce9/jobs/backends/membroker"
	"github.com/seed81422ce9/jobs/broker"
	"github.com/seed81422ce9/jobs/conformance/faulty"
	"github.com/seed81422ce9/jobs/internal/coding"
	"github.com/seed81422ce9/jobs/schedule"
)

// failing opens a store that cannot be reached from the nth request on that matches.
func failing(store *membroker.Store, n int, match func(request any) bool) *cli {
	return &cli{url: "memory://", open: func(context.Context, string) (broker.Broker, error) {
		seen := 0
		return broker.Wrap(store.Open(), func(ctx context.Context, call *broker.Call, next func(context.Context) error) error {
			if match(call.Request) {
				seen++
			}
			if seen >= n {
				return broker.ErrUnavailable
			}
			return next(ctx)
		}), nil
	}}
}

// Whatever the verb: if the store fails after something was changed, the exit code is not the one after which nothing was.
func TestExit_AStoreThatFailsOnTheWay(t *testing.T) {
	t.Parallel()
	operates := func(kind broker.OperationKind) func(any) bool {
		return func(r any) bool {
			op, ok := r.(*broker.Operation)
			return ok && op.Kind == kind
		}
	}
	finds := func(r any) bool { _, ok := r.(*broker.Query); return ok }
	enqueues := func(r any) bool { _, ok := r.(*broker.EnqueueRequest); return ok }
	finding := func(id string) func(any) bool {
		return func(r any) bool {
			q, ok := r.(*broker.Query)
			return ok && slices.Contains(q.IDs, id)
		}
	}
	for _, c := range []struct {
		line  string
		n     int
		match func(any) bool
	}{
		{"queues pause a b", 2, func(r any) bool { _, ok := r.(*broker.QueuesRequest); return ok }},
		{"queues policy a --max-active 3", 1, func(r any) bool { _, ok := r.(*broker.MarkRequest); return ok }},
		{"keys pause a one two", 1, func(r any) bool {
			p, ok := r.(*broker.PolicyRequest)
			return ok && p.Key == "two"
		}},
		{"schedule pause daily hourly", 1, finding("hourly")},
		{"schedule delete daily hourly --yes", 2, finding("hourly")},
		{"edit a-x-retries_spent-0 --payload {} --redrive --yes", 1, operates(broker.OpRedrive)},
		{"move --queue a --to-queue c --policy --state dead --yes", 2, finds},
		{"dlq export --queue a --out FILE --delete --yes", 2, operates(broker.OpDelete)},
		{"dlq undo DEAD", 2, operates(broker.OpHold)},
		{"import DEAD", 2, enqueues},
	} {
		synctest.Test(t, func(t *testing.T) {
			store := membroker.NewStore()
			bury(t, store, deaths{"a", "x", "e", broker.ReasonRetries, 150, time.Hour}, deaths{"b", "x", "e", broker.ReasonRetries, 1, time.Hour})
			b := store.Open()
			defer b.Close()
			schedules := schedule.New(b, "shop")
			for _, id := range []string{"daily", "hourly"} {
				if _, err := schedules.Put(t.Context(), id, schedule.Every(time.Hour), jobs.NewTask("report", nil)); err != nil {
					t.Fatal(err)
				}
			}
			dead := filepath.Join(t.TempDir(), "dead")
			whole := failing(store, 1, func(any) bool { return false })
			whole.t = t
			whole.run(0, "dlq", "export", "--out", dead)
			if strings.HasPrefix(c.line, "dlq undo") {
				whole.run(0, "dlq", "redrive", "--all", "--yes")
			}
			whole.run(0, "queues", "policy", "a", "--max-depth", "1000") // for the move to copy
			if strings.HasPrefix(c.line, "import") {
				whole.run(0, "dlq", "purge", "--all", "--yes")
			}
			tool := failing(store, c.n, c.match)
			tool.t = t
			errs := tool.run(6, strings.Fields(strings.NewReplacer("FILE", dead+".new", "DEAD", dead).Replace(c.line))...)
			if strings.Count(errs, "what was done before is not undone") != 1 {
				t.Errorf("%s: it says %s", c.line, errs)
			}
		})
	}
}

// Nobody knows what became of a call whose answer is lost; but a call that only asks has changed nothing.
func TestExit_AStoreThatLosesAnAnswer(t *testing.T) {
	t.Parallel()
	for line, want := range map[string]int{
		"ls": 5, "dlq ls": 5, "export --queue a --state dead --out FILE": 5, "move --queue a --to-queue c --yes": 5, "schedule ls": 5,
		"delete --queue a --state dead --yes": 5, "queues policy a --max-active 3": 6, "enqueue --queue a --type x": 6,
	} {
		store := membroker.NewStore()
		bury(t, store, deaths{"a", "x", "e", broker.ReasonRetries, 1, time.Hour})
		c := &cli{t: t, url: "memory://", open: func(context.Context, string) (broker.Broker, error) {
			return broker.Wrap(store.Open(), func(ctx context.Context, c *broker.Call, next func(context.Context) error) error {
				err := next(ctx)
				policy, rules := c.Request.(*broker.PolicyRequest)
				_, counts := c.Request.(*broker.QueuesRequest)
				if err != nil || counts || rules && len(policy.Changes()) == 0 {
					return err
				}
				return broker.About(faulty.ErrReplyLost, "call", "", "")
			}), nil
		}}
		c.run(want, strings.Fields(strings.ReplaceAll(line, "FILE", filepath.Join(t.TempDir(), "out")))...)
	}
}

// Packages that make several calls say so themselves.
func TestExit_AnOutcomeThatIsUnknown(t *testing.T) {
	t.Parallel()
	if code := exitCode(fmt.Errorf("%w: the store went away", broker.ErrOutcomeUnknown), false); code != 6 {
		t.Errorf("exit code %d, want 6", code)
	}
}

// A full disk loses the output of a command. Its exit code says so, whatever the verb.
func TestExit_LostOutputIsAnError(t *testing.T) {
	t.Parallel()
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer full.Close()
	store := membroker.NewStore()
	for _, line := range []string{"enqueue --type x --queue a --id 1", "queues pause a", "stats", "ls", "show 1", "why 1", "redrive --all",
		"cancel 1 --yes", "doctor", "version", "--version", "--help", "queues policy a", "context ls", "queues pause a --json", "delete --help"} {
		var errs bytes.Buffer
		code := run(t.Context(), append([]string{"--broker", "memory://"}, strings.Fields(line)...), environment{
			in: strings.NewReader(""), out: full, err: &errs,
			getenv: func(string) string { return "" }, home: func() (string, error) { return t.TempDir(), nil },
			open: func(context.Context, string) (broker.Broker, error) { return store.Open(), nil }})
		want := 1
		if strings.HasSuffix(line, "--json") { // it writes nothing
			want = 0
		}
		if code != want || strings.Contains(errs.String(), "no space left") != (want == 1) {
			t.Errorf("%s exits with %d, want %d, and says %q", line, code, want, &errs)
		}
	}
}

// Errors quote what users typed and stores answered: a terminal must not obey it.
func TestExit_ErrorsAreHarmlessInATerminal(t *testing.T) {
	t.Parallel()
	c := &cli{t: t, url: "memory://", open: func(context.Context, string) (broker.Broker, error) {
		return nil, fmt.Errorf("%w: \x1b[2J\u202e refused\nHINT: retry", broker.ErrUnavailable)
	}}
	c.has(c.run(5, "stats"), `\\x1b\[2J\\u202e refused\nHINT: retry\n$`)
	c.has(c.run(2, "stats", "--\x1b[2J"), `unknown flag: --\\x1b\[2J`)
}

// interrupter is the input of a user who interrupts the program that reads it.
type interrupter func()

func (f interrupter) Read([]byte) (int, error) {
	f()
	return 0, io.EOF
}

func TestEdit_AnInterruptionEndsTheEditor(t *testing.T) {
	t.Parallel()
	c, store := inMemory(t)
	c.run(0, "enqueue", "--type", "x", "--id", "a", "--payload", "{}")
	ctx, cancel := context.WithCancel(t.Context())
	var errs bytes.Buffer
	code := run(ctx, []string{"--broker", "memory://", "edit", "a", "--yes"}, environment{in: interrupter(cancel), out: io.Discard, err: &errs,
		getenv: func(string) string { return "tail -f" }, home: func() (string, error) { return t.TempDir(), nil },
		open: func(context.Context, string) (broker.Broker, error) { return store.Open(), nil }})
	if code != 130 || !strings.Contains(errs.String(), "interrupted; nothing was changed") {
		t.Errorf("it exits with %d and says %q", code, &errs)
	}
}

// A dry run of an edit refuses what the edit would refuse.
func TestEdit_ADryRunRefusesLikeTheEdit(t *testing.T) {
	t.Parallel()
	store := membroker.NewStore()
	c := failing(store, 1, func(any) bool { return false })
	c.t = t
	c.run(0, "enqueue", "--type", "x", "--id", "gone", "--payload", "{}", "--retention", "1h")
	c.run(0, "enqueue", "--type", "x", "--id", "packed", "--payload", "{}", "--header", coding.HeaderCompression+"=gzip")
	c.run(0, "queues", "policy", "default", "--keep-completed", "1h")
	c.run(0, "cancel", "gone", "--yes")
	for id, reason := range map[string]string{"gone": "cancelled", "packed": "its payload is encoded"} {
		for _, flag := range []string{"--dry-run", "--yes"} {
			c.has(c.run(4, "edit", id, "--payload", `{"a":1}`, flag), reason)
		}
	}
	c.has(c.run(0, "edit", "packed", "--payload", `{"a":1}`, "--dry-run", "--raw"), "nothing was changed")
}

// One relay that refused jobs does not hide what the others did.
func TestRelay_ReportsEachQueue(t *testing.T) {
	t.Parallel()
	store, other := membroker.NewStore(), membroker.NewStore()
	open := map[string]*membroker.Store{"memory://": store, "memory://other": other}
	c := &cli{t: t, url: "memory://", open: func(_ context.Context, url string) (broker.Broker, error) { return open[url].Open(), nil }}
	there := &cli{t: t, url: "memory://other", open: c.open}
	there.run(0, "enqueue", "--type", "other", "--queue", "a", "--id", "1")
	for _, queue := range []string{"a", "b"} {
		c.run(0, "enqueue", "--type", "x", "--queue", queue, "--id", "1")
	}
	out, _ := c.both(4, "relay", "--queue", "a,b", "--to", "memory://other", "--until-empty")
	if !regexp.MustCompile(`^0 jobs of a relayed, 1 refused\.\n1 job of b relayed, 0 refused\.\n$`).MatchString(out) {
		t.Errorf("it reports\n%s", out)
	}
}
