package main

import (
	"strings"
	"testing"
)

// The command lists the times of a spec without a store, also across a clock change.
func TestScheduleNext(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		args string
		code int
		want []string
	}{
		{"30_2_*_*_* --zone Europe/Berlin --from 2026-03-28T00:00:00Z -n 3", 0, []string{"Sat 2026-03-28 02:30:00 CET", "Europe/Berlin",
			"Sun 2026-03-29 03:00:00 CEST", "2026-03-29T01:00:00Z", "Mon 2026-03-30 02:30:00 CEST"}},
		{"30_2_*_*_* --zone Europe/Berlin --from 2026-10-24T22:00:00Z -n 2 --json", 0, []string{
			`{"at":"2026-10-25T00:30:00Z","local":"2026-10-25T02:30:00+02:00","zone":"Europe/Berlin"}`,
			`{"at":"2026-10-26T01:30:00Z","local":"2026-10-26T02:30:00+01:00","zone":"Europe/Berlin"}`}},
		{"@daily --from 2026-01-01T00:00:00Z -n 1", 0, []string{"Thu 2026-01-01 00:00:00 UTC", "2026-01-01T00:00:00Z"}},
		{"@every_90s --from 2026-01-01T00:00:30Z -n 1", 0, []string{"00:01:30 UTC"}},
		{"@daily -n 1 --from 2198-12-31T12:00:00Z --json", 0, nil},
		{"@yearly --from 9999-01-01T00:00:00Z", 0, []string{"It has no further time."}},
		{"0_3_30_2_*", 2, []string{"never fires"}},
		{"@daily --zone Local", 2, []string{"Local, which differs between servers"}},
		{"@daily --zone Mars/Olympus", 2, []string{"is unknown"}},
		{"@daily --from tomorrow", 2, []string{"--from"}},
		{"@daily -n 0", 2, []string{"--limit is 0"}},
		{"", 2, []string{"SPEC"}},
	} {
		args := []string{"schedule", "next"}
		for _, a := range strings.Fields(c.args) {
			args = append(args, strings.ReplaceAll(a, "_", " "))
		}
		out, errs, code := output(t, []string{"JOBS_BROKER=redis://127.0.0.1:1"}, args...) // no store is asked
		if code != c.code {
			t.Errorf("%s exits with %d, want %d: %s", c.args, code, c.code, errs)
		}
		for _, want := range c.want {
			if !strings.Contains(out+errs, want) {
				t.Errorf("%s says\n%s%s\nwithout %s", c.args, out, errs, want)
			}
		}
	}
}
