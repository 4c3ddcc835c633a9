package main

import (
	"context"
	"fmt"
	"testing"

	"github.com/seed81422ce9/jobs/broker"
)

func TestRelay_JobsAreRelayedBetweenAllBackends(t *testing.T) {
	here, there := stores(t), stores(t)
	for from, source := range here {
		for to, destination := range there {
			t.Run(from+" to "+to, func(t *testing.T) {
				other := destination.url
				if other == source.url {
					other = "memory://there"
				}
				open := func(ctx context.Context, url string) (broker.Broker, error) {
					if url == other {
						return destination.open(ctx, destination.url)
					}
					return source.open(ctx, source.url)
				}
				c, d := &cli{t: t, url: source.url, open: open}, &cli{t: t, url: other, open: open}
				id := func(name string) string { return from + "-" + to + "-" + name } // queues remember IDs
				for n := range 3 {
					c.run(0, "enqueue", "--type", "email:a", "--queue", "mail", "--id", id(fmt.Sprint("p", n)), "--payload", fmt.Sprint(n),
						"--header", "tenant=x", "--key", "acme", "--retention", "1h", "--priority", "3")
				}
				c.run(0, "enqueue", "--type", "email:late", "--queue", "mail", "--id", id("late"), "--delay", "1h")
				d.run(0, "enqueue", "--type", "another", "--queue", "mail", "--id", id("p1"))
				c.has(c.run(4, "relay", "--queue", "mail", "--to", other, "--until-empty"), `code=relay_id_taken`, `some jobs were refused`)
				c.has(c.run(0, "show", id("p1")), `STATE +dead`, `the target "mail" of the relay: .*the ID exists`)
				c.has(c.run(0, "show", id("late")), `STATE +scheduled`)
				c.has(c.run(0, "show", id("p0")), `STATE +completed`)
				c.has(d.run(0, "show", id("p0"), "--payload"), `STATE +pending`, `HEADER +tenant: x`, `KEY +acme`, `PRIORITY +3|PRIORITY +low`)
				d.run(0, "queues", "policy", "mail", "--duplicate-span", "1us")
				d.run(0, "delete", id("p1"), "--yes")
				c.run(0, "redrive", id("p1"))
				c.has(c.run(0, "relay", "--queue", "mail", "--to", other, "--until-empty"), `1 job of mail relayed, 0 refused`)
				c.has(d.run(0, "show", id("p1"), "--queue", "mail"), `TYPE +email:a`)
				var r struct {
					Queue            string
					Relayed, Refused int
				}
				c.env = map[string]string{"JOBS_TO": other}
				c.object(0, &r, "relay", "--queue", "mail", "--until-empty", "--json")
				if r.Queue != "mail" || r.Relayed+r.Refused != 0 {
					t.Errorf("a relay of nothing says %+v", r)
				}
				for _, s := range []*cli{c, d} { // clean up for the next pair
					for _, state := range []string{"pending", "scheduled", "completed", "dead"} {
						s.run(0, "delete", "--queue", "mail", "--all", "--state", state, "--yes")
					}
				}
			})
		}
	}
}

func TestRelay_SaysWhatItNeeds(t *testing.T) {
	t.Parallel()
	c := stores(t)["memory"]
	c.t = t
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
