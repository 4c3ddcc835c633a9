package conformance

import (
	"time"

	"github.com/seed81422ce9/jobs/broker"
)

var examineRules = []Rule{
	{"Examine/ASoundStoreHasNoFindings", "§23", "An examination of a store that works as it should finds nothing. " +
		"It continues where its cursor says, and ends.", examines, func(c *check) {
		c.add("a", "b", "c", "d", "e")
		w := c.worker("w")
		w.take("a")
		c.accept(c.later("late", time.Hour))
		req := broker.ExamineRequest{Now: c.now, Queue: c.q, Limit: 2}
		for steps := 1; ; steps++ {
			got := ask(c, "Examine", c.b.Examine, req)
			for _, f := range got.Findings {
				c.that(f.Warning, "a step of the examination\ngot  %+v\nwant no finding", f)
			}
			if req.Cursor = got.Cursor; req.Cursor == "" {
				return
			}
			c.that(steps < 10_000, "the examination of a store with six jobs\ngot  %d steps, and it goes on\nwant an end", steps)
		}
	}},
	{"Examine/BadRequestsAreRefused", "§23",
		"A step of more than MaxExamine records, or of a queue whose name is invalid, is refused with ErrInvalid.", examines, func(c *check) {
			_, err := c.b.Examine(c.ctx, broker.ExamineRequest{Now: c.now, Limit: broker.MaxExamine + 1})
			c.is("Examine of too many records in a step", err, broker.ErrInvalid)
			_, err = c.b.Examine(c.ctx, broker.ExamineRequest{Now: c.now, Queue: "a{b}"})
			c.is("Examine of a queue with an invalid name", err, broker.ErrInvalid)
		}},
}
