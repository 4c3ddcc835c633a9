package main

import (
	"encoding/json"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/seed81422ce9/jobs/broker"
)

func TestDLQ_ARedriveIsTakenBack(t *testing.T) {
	t.Parallel()
	c, store := inMemory(t)
	bury(t, store, deaths{"mail", "email:send", "no user %d", broker.ReasonSkipRetry, 3, time.Hour},
		deaths{"news", "email:send", "no user %d", broker.ReasonSkipRetry, 2, time.Hour})
	before := c.run(0, "dlq", "list", "--limit", "0", "--json")
	file := filepath.Join(t.TempDir(), "before.ndjson")
	c.has(c.run(0, "dlq", "export", "--error", "no user", "--out", file), "^5 of 5 jobs exported")
	c.has(c.run(0, "redrive", "--error", "no user"), "^5 of 5 jobs redriven")
	b := store.Open()
	defer b.Close()
	worker := broker.RenewRequest{Worker: "w", Queues: []string{"news"}, Lease: time.Hour, Register: true}
	if _, err := b.Renew(t.Context(), worker); err != nil {
		t.Fatal(err)
	}
	claim := broker.ClaimRequest{Worker: "w", Queues: []broker.Share{{Queue: "news", Max: 1}}, Max: 1}
	claimed, err := b.Claim(t.Context(), claim)
	if err != nil || len(claimed.Jobs) != 1 {
		t.Fatal(claimed, err)
	}
	id := claimed.Jobs[0].ID
	out, errs := c.both(4, "dlq", "undo", file)
	c.has(out, `^4 of 5 jobs dead again\.\n`, `(?m)^  `+id+` in news: `)
	c.has(errs, "refused")
	epochs := regexp.MustCompile(`"epoch":\d+,?`)
	kept := func(list string) (lines []string) {
		for line := range strings.Lines(epochs.ReplaceAllString(list, "")) {
			var v jobView
			if err := json.Unmarshal([]byte(line), &v); err != nil {
				t.Fatal(err)
			}
			if v.ID != id {
				lines = append(lines, line)
			}
		}
		return lines
	}
	got, want := kept(c.run(0, "dlq", "list", "--limit", "0", "--json")), kept(before)
	if len(got) != 4 || len(want) != 4 {
		t.Fatalf("%d jobs are dead again, want 4 as they were:\n%s", len(got), got)
	}
	for _, line := range want {
		if !strings.Contains(strings.Join(got, ""), line) {
			t.Errorf("a job that was\n%sis among none of\n%s", line, got)
		}
	}
	c.has(c.run(4, "dlq", "undo", file), "refused") // they are dead already
	c.stdin = "{}"
	c.has(c.run(2, "dlq", "undo", "-"), "line 1")
	c.run(2, "dlq", "undo", "missing.ndjson")
}

func TestCopy_EnqueuesAFreshJobLikeAnother(t *testing.T) {
	t.Parallel()
	c, store := inMemory(t)
	bury(t, store, deaths{"mail", "email:send", "no user %d", broker.ReasonSkipRetry, 1, time.Hour})
	c.has(c.run(0, "copy", "mail-email:send-skip_retry-0"), `^[0-9A-Z]{26}  mail  a copy of mail-email:send-skip_retry-0\n$`)
	again := []string{"copy", "mail-email:send-skip_retry-0", "--id", "again", "--json"}
	c.has(c.run(0, again...), `"copy_of":"mail-email:send-skip_retry-0","id":"again"`)
	c.has(c.run(4, again...), "duplicate")
	c.has(c.run(0, "stats", "--json"), `"dead":1[,}]`, `"pending":2[,}]`)
	c.has(c.run(0, "show", "again"), `(?m)^TYPE +email:send`, `(?m)^STATE +pending`)
	c.run(3, "copy", "nothing")
}

func TestQueues_APauseSaysWhoAndWhy(t *testing.T) {
	t.Parallel()
	c, _ := inMemory(t)
	c.run(0, "enqueue", "--type", "x", "--queue", "mail", "--id", "a")
	c.run(0, "queues", "pause", "mail", "--by", "ada", "--note", "the mail server moves")
	since := `by ada since \d{4}-\S+Z: the mail server moves`
	c.has(c.run(0, "queues", "policy", "mail"), `(?m)^PAUSED +true, `+since+`$`)
	c.has(c.run(0, "queues", "policy", "mail", "--json"), `"pause_note":"the mail server moves"`, `"paused_by":"ada"`)
	c.has(c.run(0, "why", "a"), `the queue mail is paused `+since)
	c.run(0, "queues", "resume", "mail")
	c.has(c.run(0, "queues", "policy", "mail"), `(?m)^PAUSED +false$`)
	c.env = map[string]string{"USER": "eve"}
	c.run(0, "queues", "pause", "mail")
	c.has(c.run(0, "queues", "policy", "mail"), `(?m)^PAUSED +true, by eve@\S+ since \S+Z$`)
	c.run(0, "queues", "resume", "mail")
	c.env = nil // as in a container
	c.run(0, "queues", "pause", "mail")
	c.has(c.run(0, "queues", "policy", "mail"), `(?m)^PAUSED +true, by [^@\s]+@\S+ since \S+Z$`)
}

func TestImport_SaysWhichJobsExistAndWhichAreOnlyRemembered(t *testing.T) {
	t.Parallel()
	c, _ := inMemory(t)
	for _, id := range []string{"kept", "deleted"} {
		c.run(0, "enqueue", "--type", "x", "--queue", "mail", "--id", id)
	}
	file := filepath.Join(t.TempDir(), "jobs")
	c.run(0, "export", "--queue", "mail", "--state", "pending", "--out", file)
	out := c.run(0, "import", file)
	c.has(out, `0 of 2 lines imported\.\n2 jobs existed already\.\n$`)
	c.run(0, "delete", "deleted", "--yes")
	c.has(c.run(0, "import", file), `\n1 job existed already\.\n`,
		`\n1 job not imported: ran or deleted since, and the queue remembers the ID \(DUPLICATE SPAN\)\.\n`)
}
