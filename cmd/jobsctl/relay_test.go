package main

import (
	"fmt"
	"testing"
)

func TestRelay_JobsAreRelayedBetweenAllBackends(t *testing.T) {
	onPairs(t, func(t *testing.T, c, d *cli) {
		for n := range 3 {
			c.run(0, "enqueue", "--type", "email:a", "--queue", "mail", "--id", fmt.Sprint("p", n), "--payload", fmt.Sprint(n),
				"--header", "tenant=x", "--key", "acme", "--retention", "1h", "--priority", "3")
		}
		c.run(0, "enqueue", "--type", "email:late", "--queue", "mail", "--id", "late", "--delay", "1h")
		d.run(0, "enqueue", "--type", "another", "--queue", "mail", "--id", "p1")
		c.has(c.run(4, "relay", "--queue", "mail", "--to", d.url, "--until-empty"), `code=relay_id_taken`, `some jobs were refused`)
		c.has(c.run(0, "show", "p1"), `STATE +dead`, `the target "mail" of the relay: .*the ID exists`)
		c.has(c.run(0, "show", "late"), `STATE +scheduled`)
		c.has(c.run(0, "show", "p0"), `STATE +completed`)
		c.has(d.run(0, "show", "p0", "--payload"), `STATE +pending`, `HEADER +tenant: x`, `KEY +acme`, `PRIORITY +3|PRIORITY +low`)
		d.run(0, "queues", "policy", "mail", "--duplicate-span", "1us")
		d.run(0, "delete", "p1", "--yes")
		c.run(0, "redrive", "p1")
		c.has(c.run(0, "relay", "--queue", "mail", "--to", d.url, "--until-empty"), `1 job of mail relayed, 0 refused`)
		c.has(d.run(0, "show", "p1", "--queue", "mail"), `TYPE +email:a`)
		var r struct {
			Queue            string
			Relayed, Refused int
		}
		c.env = map[string]string{"JOBS_TO": d.url}
		c.object(0, &r, "relay", "--queue", "mail", "--until-empty", "--json")
		if r.Queue != "mail" || r.Relayed+r.Refused != 0 {
			t.Errorf("a relay of nothing says %+v", r)
		}
	})
}

func TestRelay_SaysWhatItNeeds(t *testing.T) {
	t.Parallel()
	c, _ := inMemory(t)
	for want, args := range map[string][]string{
		"--queue":            {"--to", "memory://"},
		"--to or --to-queue": {"--queue", "mail"},
		"one --queue":        {"--queue", "a,b", "--to-queue", "c"},
		"Batch":              {"--queue", "mail", "--to-queue", "b", "--batch", "1001"},
		"Lease":              {"--queue", "mail", "--to-queue", "b", "--lease", "1ms"},
		"target":             {"--queue", "mail", "--to-queue", "mail", "--until-empty"},
	} {
		c.has(c.run(2, append([]string{"relay"}, args...)...), want)
	}
}
