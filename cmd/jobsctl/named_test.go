package main

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/seed81422ce9/jobs/backends/membroker"
	"github.com/seed81422ce9/jobs/broker"
)

// Of several jobs by ID, a verb for dead jobs takes the dead ones, and leaves live ones alone.
func TestNamed_AJobInAnotherStateThanAskedForIsRefused(t *testing.T) {
	onEachStore(t, func(t *testing.T, c *cli) {
		for _, id := range []string{"dead-1", "dead-2"} {
			c.run(0, "enqueue", "--type", "email:x", "--queue", "mail", "--id", id)
		}
		c.die(2, "no such user")
		c.run(0, "enqueue", "--type", "email:x", "--queue", "mail", "--id", "live")
		live := `(?m)^  live in mail: .*its state is pending, not dead$`
		for _, verb := range []string{"dlq purge", "delete --state dead", "dlq redrive", "dlq suppress"} {
			out, errs := c.both(4, append(strings.Fields(verb), "live", "--yes")...)
			c.has(out, `^0 of 1 job `, live)
			c.has(errs, "refused")
			out, _ = c.both(4, append(strings.Fields(verb), "live", "dead-1", "--dry-run")...)
			c.has(out, `^1 job would be`, live)
		}
		c.has(c.run(7, "dlq", "purge", "live", "dead-1"), `Really delete 1 job\?`)
		out, _ := c.both(4, "dlq", "purge", "live", "dead-1", "--yes")
		c.has(out, `^1 of 2 jobs deleted`, live)
		out, _ = c.both(4, "redrive", "live", "--dry-run")
		c.has(out, `^0 jobs would be redriven`, `(?m)^  live in mail: .*its state is pending; redrive is for dead jobs$`)
		out, _ = c.both(4, "redrive", "live", "dead-2", "--dry-run", "--json")
		c.has(out, `"matched":2,.*"refusals":\[\{[^}]*"id":"live"[^]]*\],"refused":1`)
		c.has(c.run(2, "delete", "live", "--state", "lively"), "unknown state")
		c.has(c.run(0, "dlq", "unsuppress", "dead-2", "--dry-run"), `^0 jobs would be listed again`)
		c.has(c.run(0, "delete", "--state", "pending", "live", "--yes"), `^1 of 1 job deleted`)
	})
}

func TestNamed_AFlagThatDoesNothingBesideIDsIsRefused(t *testing.T) {
	t.Parallel()
	c, _ := inMemory(t)
	c.run(0, "enqueue", "--type", "x", "--queue", "mail", "--id", "a")
	for _, flag := range []string{"--type x", "--key k", "--worker w", "--error e", "--reason expired", "--group 01234567",
		"--older-than 30d", "--newer-than 1s", "--limit 1", "--rate 5", "--suppressed", "--all"} {
		args := append([]string{"delete", "a", "--queue", "mail", "--yes"}, strings.Fields(flag)...)
		name, _, _ := strings.Cut(flag, " ")
		c.has(c.run(2, args...), name+" .*give IDs or filters, not both")
	}
	c.has(c.run(0, "delete", "a", "--queue", "mail", "--yes"), `^1 of 1 job deleted`)
}

// An operator repeats a command that exits with 5 or 6, and looks at the jobs of one that
// exits with 4. So refusals must not hide that the store failed.
func TestNamed_TheStoreFailsBesideRefusals(t *testing.T) {
	t.Parallel()
	store := membroker.NewStore()
	bury(t, store, deaths{"a", "x", "e", broker.ReasonRetries, 120, time.Hour}, deaths{"b", "x", "e", broker.ReasonRetries, 1, time.Hour})
	id := func(queue string, n int) string { return fmt.Sprintf("%s-x-retries_spent-%d", queue, n) }
	var many []string
	for n := range 120 {
		many = append(many, id("a", n))
	}
	lost, first := errors.New("connection reset"), "  "+many[0]+" in a: "
	for _, c := range []struct {
		name string
		ids  []string
		item error // of the first job of queue a; the others are refused
		call error // of a call for queue b
		code int
		out  string
	}{
		{"refusals alone", many[:2], broker.ErrDuplicate, nil, 4, `^0 of 2 jobs redriven`},
		{"more refusals than the report names", many, broker.ErrDuplicate, nil, 4, `and 20 more`},
		{"the next queue is out of reach", []string{many[0], id("b", 0)}, broker.ErrDuplicate,
			fmt.Errorf("%w: %w", broker.ErrUnavailable, lost), 5, `^0 of about 2 jobs redriven\.\n` + first},
		{"the next queue's answer is lost", []string{many[0], id("b", 0)}, broker.ErrDuplicate,
			broker.About(lost, "operate", "", ""), 6, first},
		{"the answer for one job is lost", many[:2], lost, nil, 6, `  ` + many[1] + ` in a: `},
		{"of many jobs the answer for one is lost", many, lost, nil, 6, `and 20 more`},
	} {
		failing := broker.Wrap(store.Open(), func(ctx context.Context, call *broker.Call, next func(context.Context) error) error {
			op, ok := call.Request.(*broker.Operation)
			switch {
			case !ok:
				return next(ctx)
			case op.Refs[0].Queue == "b":
				return c.call
			}
			results := make([]broker.OperationResult, len(op.Refs))
			for n, ref := range op.Refs {
				results[n] = broker.OperationResult{Ref: ref, Err: broker.ErrDuplicate}
			}
			results[0].Err = c.item
			*call.Reply.(*[]broker.OperationResult) = results
			return nil
		})
		tool := &cli{t: t, url: "memory://", open: func(context.Context, string) (broker.Broker, error) { return failing, nil }}
		out, errs := tool.both(c.code, append([]string{"redrive", "--yes"}, c.ids...)...)
		if !regexp.MustCompile(c.out).MatchString(out) || !strings.HasPrefix(errs, "jobsctl: ") || strings.Count(errs, "\n") > 1 {
			t.Errorf("%s: it says\n%s%s\nwant a match of %s, and what failed", c.name, out, errs, c.out)
		}
	}
}
