package main

import (
	"strings"
	"testing"
)

// A payload of a few kilobytes must not become gigabytes for who looks at it: each of its values would be indented by all levels
// around it.
func TestShow_APayloadWithThousandsOfLevelsStaysSmall(t *testing.T) {
	t.Parallel()
	c, _ := inMemory(t)
	const levels, values = 3000, 500
	lists := strings.Repeat("[", levels) + strings.Repeat("1,", values) + "1" + strings.Repeat("]", levels)
	objects := strings.Repeat(`{"a":`, levels) + "1" + strings.Repeat("}", levels)
	for id, payload := range map[string]string{"lists": lists, "objects": objects} {
		c.run(0, "enqueue", "--type", "t", "--queue", "q", "--id", id, "--payload", payload)
		for _, format := range []string{"table", "json", "yaml"} {
			out := c.run(0, "show", id, "--payload", "-o", format)
			if most := 3*len(payload) + 4096; len(out) > most || !strings.Contains(strings.NewReplacer(" ", "", "\n", "").Replace(out), "1") {
				t.Errorf("%s: %d bytes are shown as %d of %s, want at most %d", id, len(payload), len(out), format, most)
			}
		}
	}
	_, diff := c.both(0, "edit", "lists", "--payload", strings.Replace(lists, "1,", "2,", 1), "--diff", "--dry-run")
	if len(diff) > 3*len(lists) {
		t.Errorf("the difference of two such payloads has %d bytes", len(diff))
	}
	shallow := strings.Repeat("[", 20) + "1" + strings.Repeat("]", 20)
	if got, want := content([]byte(shallow)), "\n"+strings.Repeat(" ", 2+2*20)+"1\n"; !strings.Contains(got, want) {
		t.Errorf("%q is shown as %q, want it indented", shallow, got)
	}
}
