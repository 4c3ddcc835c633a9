package main

import (
	"strings"
	"testing"
)

// Of several jobs by ID, a verb for dead jobs takes the dead ones, and leaves live ones alone.
func TestNamed_AJobInAnotherStateThanAskedForIsRefused(t *testing.T) {
	for name, c := range stores(t) {
		t.Run(name, func(t *testing.T) {
			c.t = t
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
