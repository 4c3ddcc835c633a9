package main

import (
	"strings"
	"testing"
)

func TestLocate_AJobIsNamedByTheBeginningOfItsIDInAnyCase(t *testing.T) {
	const a, b = "01M8035Q8DRS25ZNCRT3TRVZ29", "01M8035Q8DRS25ZNCRT3TRVZ30"
	onEachStore(t, func(t *testing.T, c *cli) {
		for _, id := range []string{a, b, "order-981"} {
			c.run(0, "enqueue", "--type", "x", "--queue", "mail", "--id", id)
		}
		c.run(0, "enqueue", "--type", "x", "--queue", "copies", "--id", b)
		out, errs := c.both(0, "show", strings.ToLower(a))
		c.has(out, "ID +"+a)
		c.has(errs, strings.ToLower(a)+" is "+a+" in mail")
		c.has(c.run(0, "why", a[:25]), "^"+a+" is pending")

		errs = c.run(2, "show", "01m8035q")
		c.has(errs, `"01m8035q"`, `(?m)^  `+a+`  mail  x  pending$`, `(?m)^  `+b+`  mail  x  pending$`, `(?m)^  `+b+`  copies  x  pending$`)
		errs = c.run(2, "redrive", b)
		c.has(errs, "--queue", `(?m)^  `+b+`  mail `, `(?m)^  `+b+`  copies `)
		c.run(0, "delete", b, "--queue", "copies", "--yes")

		c.run(3, "show", "order-98") // not the beginning of order-981
		c.run(3, "show", "01m80")
		c.run(3, "show", "01m9000")
		c.has(c.run(0, "delete", strings.ToLower(b[:25]), b, "--yes"), "1 of 1 ") // the same one twice
		c.run(3, "show", b)
		c.run(0, "show", a)
	})
}

func TestLocate_AWorkerIsNamedByTheBeginningOfItsIDInAnyCase(t *testing.T) {
	t.Parallel()
	c, _ := inMemory(t)
	c.run(0, "enqueue", "--type", "email:held", "--queue", "mail", "--id", "held")
	b, _ := c.open(t.Context(), c.url)
	w := (&transcript{cli: c}).workOn(b, "mail", 1, "email:*")
	w.holds()
	worker := strings.Fields(strings.Split(c.run(0, "workers"), "\n")[1])[0]
	for _, typed := range []string{worker, strings.ToLower(worker), strings.ToLower(worker[:12])} {
		c.has(c.run(0, "ls", "--state", "active", "--worker", typed), `(?m)^mail +held `)
	}
	if out := c.run(0, "ls", "--state", "active", "--worker", "01zzzzzz"); strings.Contains(out, "held") {
		t.Errorf("a job of another worker is listed:\n%s", out)
	}
	w.stop()
}
