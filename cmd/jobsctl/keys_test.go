package main

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/seed81422ce9/jobs/broker"
)

func TestKeys_AreListedPausedAndLimited(t *testing.T) {
	onEachStore(t, func(t *testing.T, c *cli) {
		for _, id := range []string{"a", "b", "c"} {
			c.run(0, "enqueue", "--type", "x", "--queue", "mail", "--id", id, "--key", "acme")
		}
		c.run(0, "enqueue", "--type", "x", "--queue", "mail", "--id", "d", "--key", "glo\u202ebex")
		c.has(c.run(0, "keys", "ls", "mail"), `KEY +PENDING +ACTIVE +DEPTH`, `(?m)^acme +3 +0 +3 `, `(?m)^glo\\u202ebex +1 +0 +1 `)
		c.has(c.run(2, "keys", "ls", "mail", "acme", "--top", "1"), "give a KEY or --top")
		if out := c.run(0, "keys", "list", "mail", "--top", "1"); strings.Contains(out, "bex") || !strings.Contains(out, "acme") {
			t.Errorf("the largest key is not the one that is shown:\n%s", out)
		}
		c.has(c.run(3, "keys", "ls", "typo"), "not found")
		c.has(c.run(2, "keys", "pause", "mail"), "takes QUEUE KEY…")
		c.has(c.run(3, "keys", "pause", "typo", "acme"), "not found")

		c.has(c.run(0, "keys", "pause", "mail", "acme"), `acme of mail is paused`)
		c.has(c.run(0, "keys", "ls", "mail", "acme"), `(?m)^acme .* paused`)
		b, err := c.open(t.Context(), c.url)
		if err != nil {
			t.Fatal(err)
		}
		defer b.Close()
		claim := func(max int) []broker.Job {
			t.Helper()
			got, err := b.Claim(t.Context(), broker.ClaimRequest{Worker: "w", Max: max, Queues: []broker.Share{{Queue: "mail", Max: max}}})
			if err != nil {
				t.Fatal(err)
			}
			return got.Jobs
		}
		if _, err := b.Renew(t.Context(), broker.RenewRequest{Worker: "w", Queues: []string{"mail"}, Lease: broker.DefaultLease,
			Register: true}); err != nil {
			t.Fatal(err)
		}
		if got := claim(9); len(got) != 1 || got[0].ID != "d" {
			t.Errorf("while acme is paused a claim gives %d jobs, want d alone", len(got))
		}
		c.has(c.run(0, "why", "a"), "the key acme is paused")
		c.has(c.run(0, "keys", "resume", "mail", "acme"), `acme of mail is resumed`)

		c.has(c.run(0, "keys", "policy", "mail", "acme", "--max-active", "1", "--weight", "4"), `MAX ACTIVE +1`, `WEIGHT +4`, `RATE +no limit`)
		if got := claim(9); len(got) != 1 {
			t.Errorf("a claim gives %d jobs of a key that may run 1", len(got))
		}
		c.has(c.run(0, "why", "b"), `the key acme has 1 of 1 running`)
		var v keyView
		if err := json.Unmarshal([]byte(c.run(0, "keys", "ls", "mail", "acme", "--json")), &v); err != nil || v.Blocked != "active" ||
			v.Pending != 2 || v.Active != 1 || v.Policy["weight"] != 4.0 {
			t.Errorf("keys ls --json: %+v, %v", v, err)
		}
		c.has(c.run(2, "keys", "policy", "mail", "acme", "--max-active", "0"), "max active", "none")
		c.has(c.run(0, "keys", "policy", "mail", "acme", "--max-active", "none"), `MAX ACTIVE +no limit`, `WEIGHT +4`)
		c.has(c.run(2, "queues", "policy", "mail", "--rate-burst", "5"), "rate")
		c.has(c.run(2, "queues", "policy", "mail", "--rate", "5"), "rate per")
		c.has(c.run(0, "queues", "policy", "mail", "--rate", "5", "--rate-per", "1m", "--ordered", "skip"), `RATE +5`, `RATE PER +1m`,
			`ORDERED +skip`)
		c.has(c.run(0, "queues", "policy", "mail", "--rate", "none"), `RATE PER +none`)
	})
}
