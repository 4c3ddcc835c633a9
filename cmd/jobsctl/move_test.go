package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/seed81422ce9/jobs"
	"github.com/seed81422ce9/jobs/broker"
)

// object runs a command and decodes the object that it writes.
func (c *cli) object(code int, v any, args ...string) {
	c.t.Helper()
	out, _ := c.both(code, args...)
	if err := json.Unmarshal([]byte(out), v); err != nil {
		c.t.Errorf("jobsctl %q writes %q: %v", args, out, err)
	}
}

func TestMove_JobsAreMovedBetweenAllBackends(t *testing.T) {
	onPairs(t, func(t *testing.T, c, d *cli) {
		for n := range 3 {
			c.run(0, "enqueue", "--type", "email:a", "--queue", "mail", "--id", fmt.Sprint("p", n), "--payload", fmt.Sprint(n),
				"--header", "tenant=x")
		}
		c.run(0, "enqueue", "--type", "email:late", "--queue", "mail", "--id", "late", "--delay", "1h")
		c.run(0, "queues", "policy", "mail", "--max-depth", "50", "--priority-round", "20")
		c.run(0, "queues", "pause", "mail")
		before := c.run(0, "show", "p1", "--payload", "--json")

		c.has(c.run(0, "move", "--queue", "mail", "--to", d.url, "--dry-run"), `4 jobs would be moved; nothing was changed`)
		c.has(c.run(7, "move", "--queue", "mail", "--to", d.url), `Really move about 4 jobs of mail\?`)
		c.has(c.run(0, "move", "--queue", "mail", "--to", d.url, "--copy", "--limit", "1"), `1 of 1 job copied`)
		c.has(c.run(0, "move", "--queue", "mail", "--to", d.url, "--policy", "--yes"), `4 of 4 jobs moved\.\n1 of them`)
		c.has(d.run(0, "stats"), `(?m)^mail +3 +1 `)
		if after := d.run(0, "show", "p1", "--payload", "--json"); after != before {
			t.Errorf("p1 is\n%s\nand was\n%s", after, before)
		}
		c.has(d.run(0, "queues", "policy", "mail"), `PAUSED +false`, `MAX DEPTH +50`, `PRIORITY ROUND +20`)
		c.has(c.run(0, "stats"), `(?m)^mail +paused`)
		c.has(d.run(0, "move", "--queue", "mail", "--to-queue", "other", "--state", "scheduled", "--yes"), `1 of 1 job moved`)
		c.has(d.run(0, "show", "late", "--queue", "other"), `STATE +scheduled`)
		c.run(0, "queues", "remove", "mail")
	})
}

func TestMove_AMoveSaysWhatItNeeds(t *testing.T) {
	t.Parallel()
	c, _ := inMemory(t)
	c.run(0, "enqueue", "--type", "x", "--queue", "mail", "--id", "a")
	for want, args := range map[string][]string{
		"--queue":             {"--to", "memory://"},
		"--to or --to-queue":  {"--queue", "mail"},
		"several queues":      {"--queue", "mail+*", "--to-queue", "b", "--policy", "--yes"},
		"name one":            {"--queue", "mail+*", "--undo", "--yes"},
		"active":              {"--queue", "mail", "--to-queue", "b", "--state", "active"},
		"destination":         {"--queue", "mail", "--to-queue", "mail", "--yes"},
		"--undo.*--type":      {"--queue", "mail", "--undo", "--type", "y", "--yes"},
		"--undo.*--limit":     {"--queue", "mail", "--to-queue", "b", "--undo", "--limit", "1"},
		"--undo.*with --copy": {"--queue", "mail", "--to-queue", "b", "--copy", "--undo"},
	} {
		c.has(c.run(2, append([]string{"move"}, args...)...), want)
	}
	c.has(c.run(3, "move", "--queue", "nothing", "--to-queue", "b"), "not found")
}

// waitsBehind stores a job that waits behind a running one, since both have a unique key.
func (c *cli) waitsBehind(b broker.Broker, queue, key string) {
	c.t.Helper()
	client := jobs.NewClient(b, jobs.ClientConfig{})
	defer client.Close()
	enqueue := func(id string) {
		task := jobs.NewTask("x", nil, jobs.WithQueue(queue), jobs.WithID(id), jobs.WithUniqueKey(key), jobs.WithUniqueKeepLast())
		if _, err := client.Enqueue(c.t.Context(), task); err != nil {
			c.t.Fatal(err)
		}
	}
	enqueue("runs")
	renewal := broker.RenewRequest{Worker: "w", Queues: []string{queue}, Lease: time.Hour, Register: true}
	if _, err := b.Renew(c.t.Context(), renewal); err != nil {
		c.t.Fatal(err)
	}
	claim := broker.ClaimRequest{Worker: "w", Queues: []broker.Share{{Queue: queue, Max: 1}}, Max: 1}
	if claimed, err := b.Claim(c.t.Context(), claim); err != nil || len(claimed.Jobs) != 1 {
		c.t.Fatal(claimed, err)
	}
	enqueue("waits")
	c.has(c.run(0, "show", "waits"), `STATE +waiting`)
}

// A killed move leaves held jobs. They are explained and can be put back.
func TestMove_HeldJobsAreExplainedAndPutBack(t *testing.T) {
	onEachStore(t, func(t *testing.T, c *cli) {
		b, err := c.open(t.Context(), c.url)
		if err != nil {
			t.Fatal(err)
		}
		defer b.Close()
		c.waitsBehind(b, "mail", "k")
		c.run(0, "enqueue", "--type", "x", "--queue", "mail", "--id", "a")
		results, err := b.Operate(t.Context(), broker.Operation{Kind: broker.OpHold, Holder: "move:01J/mail",
			Refs: []broker.Ref{{Queue: "mail", ID: "a", Epoch: broker.AnyEpoch}}})
		if err != nil || results[0].Err != nil {
			t.Fatal(results, err)
		}
		c.has(c.run(0, "why", "a", "--json"), `"state":"waiting"`, `"code":"held","text":"[^"]*01J/mail`)
		c.has(c.run(0, "ls", "--state", "waiting"), `(?m)^mail +a +x +waiting`)
		c.has(c.run(0, "show", "a"), `STATE +waiting`, `HOLDER +move:01J/mail`)
		c.has(c.run(0, "show", "a", "--json"), `"holder":"move:01J/mail"`)
		c.has(c.run(0, "stats"), `WAITING`)
		c.has(c.run(4, "edit", "a", "--payload", "1", "--yes"), `held by "move:01J/mail"`)
		c.has(c.run(0, "move", "--queue", "mail", "--undo", "--dry-run"), `^1 job would be put back`)
		c.has(c.run(0, "move", "--queue", "mail", "--undo", "--to-queue", "other", "--dry-run"), `^0 jobs would be put back`)
		c.has(c.run(7, "move", "--queue", "mail", "--undo"), `run twice`)
		c.has(c.run(0, "move", "--queue", "mail", "--undo", "--yes"), `1 of 1 job put back`)
		c.has(c.run(0, "ls", "--queue", "mail"), `(?m)^mail +a +x +pending`)
	})
}

func TestMove_DeadJobsAreExportedAndImported(t *testing.T) {
	onEachStore(t, func(t *testing.T, c *cli) {
		file := filepath.Join(t.TempDir(), "dead.ndjson")
		for _, id := range []string{"a", "b"} {
			c.run(0, "enqueue", "--type", "email:x", "--queue", "mail", "--id", id, "--payload", `{"id":"`+id+`"}`, "--max-retries", "0")
		}
		c.die(2, "no such user \x1b[31m\u202e")
		before := c.run(0, "show", "a", "--payload", "--json")
		out := c.run(0, "dlq", "export")
		if lines := strings.Count(out, `{"v":1,"queue":"mail"`); lines != 2 || strings.ContainsAny(out, "\x1b\u202e") {
			t.Errorf("the export is %q", out)
		}
		c.has(c.run(2, "dlq", "export", "--delete"), `--out`)
		c.has(c.run(7, "dlq", "export", "--delete", "--out", file), `Really delete dead jobs once they are in `)
		c.has(c.run(0, "dlq", "export", "--delete", "--out", file, "--yes"), `2 of 2 jobs exported and deleted`)
		c.has(c.run(2, "export", "--state", "dead", "--out", file), `exists`)
		c.has(c.run(2, "export"), `--state`)
		c.has(c.run(0, "dlq", "list"), `^QUEUE.*\n$`)
		c.has(c.run(0, "import", file, "--dry-run"), `2 of 2 lines could be imported`)
		c.has(c.run(0, "import", file), `2 of 2 lines imported`)
		if after := c.run(0, "show", "a", "--payload", "--json"); after != before {
			t.Errorf("a is\n%s\nand was\n%s", after, before)
		}
		content, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		c.stdin = string(content) + "nonsense\n" + string(content[:100])
		out, errs := c.both(4, "dlq", "import", "-")
		c.has(out, `0 of 4 `, `line 3: `, `line 4: `)
		c.has(errs, `^jobsctl: `)
		var r struct{ Lines, Done, Repeated, Refused int }
		c.object(4, &r, "dlq", "import", "-", "--json")
		if r.Lines != 4 || r.Repeated != 2 || r.Refused != 2 {
			t.Errorf("import --json: %+v", r)
		}
		c.stdin = ""
	})
}

func TestMove_EditReplacesAPayload(t *testing.T) {
	editor := filepath.Join(t.TempDir(), "editor")
	if err := os.WriteFile(editor, []byte("#!/bin/sh\nsed -i 's/1/2/' \"$1\"\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	onEachStore(t, func(t *testing.T, c *cli) {
		for _, id := range []string{"a", "b"} {
			c.run(0, "enqueue", "--type", "email:x", "--queue", "mail", "--id", id, "--payload", `{"user":1}`)
		}
		c.die(2, "no such user")
		c.has(c.run(2, "edit", "a"), `EDITOR`)
		c.has(c.run(2, "edit", "a", "--payload", "{nonsense"), `not JSON`)
		c.has(c.run(7, "edit", "a", "--payload", "{}"), `Really replace the payload of a\?`)
		c.has(c.run(0, "edit", "a", "--payload", `{"user":1}`), `nothing was changed`)
		c.has(c.run(0, "edit", "a", "--payload", `{"user":9}`, "--dry-run"), `nothing was changed`)
		if _, errs := c.both(0, "edit", "a", "--payload", ` {"user": 7} `, "--yes", "--diff"); !strings.Contains(errs,
			"-     \"user\": 1\n+     \"user\": 7\n") {
			t.Errorf("the difference is %q", errs)
		}
		c.has(c.run(0, "show", "a", "--payload", "--json"), `"payload":\{"user":7\}`, `"state":"dead"`)
		again := []string{"edit", "a", "--payload", `{"user":7}`, "--redrive"} // as after a redrive that failed
		c.has(c.run(0, append(again, "--dry-run")...), `would be redriven; nothing was changed`)
		c.has(c.run(7, again...), `Really redrive a\?`)
		c.has(c.run(0, append(again, "--yes")...), `^The payload is the same\.\n1 of 1 job redriven\.\n$`)
		c.has(c.run(0, "show", "a", "--payload", "--json"), `"payload":\{"user":7\}`, `"state":"pending"`)
		c.env = map[string]string{"EDITOR": editor}
		c.has(c.run(0, "edit", "b", "--yes", "--redrive"), `10 bytes`, `1 of 1 job redriven`)
		c.env = nil
		c.has(c.run(0, "show", "b", "--payload", "--json"), `"payload":\{"user":2\}`, `"state":"pending"`)
		c.has(c.run(4, "edit", "b", "--payload", "3", "--redrive"), `its state is pending; redrive is for dead jobs`)
		c.stdin = "\xff\x00"
		c.has(c.run(0, "edit", "b", "--payload-file", "-", "--raw", "--yes"), `of 2 bytes`)
		c.stdin = ""
		c.has(c.run(0, "show", "b", "--payload", "--json"), `"payload_base64":"/wA="`)
	})
}
