package schedule

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/seed81422ce9/jobs/broker"
)

// clockCases are known times around clock changes and in calendars.
var clockCases = []struct {
	name, line, zone string
	from             string // with the zone's offset
	want             []string
}{
	{"a day without a change", "30 2 * * *", "Europe/Berlin", "2026-03-20T00:00:00+01:00",
		[]string{"2026-03-20T02:30:00+01:00", "2026-03-21T02:30:00+01:00"}},
	{"a time in the gap comes at its end", "30 2 * * *", "Europe/Berlin", "2026-03-28T12:00:00+01:00",
		[]string{"2026-03-29T03:00:00+02:00", "2026-03-30T02:30:00+02:00"}},
	{"several times in the gap come once", "0,15,30 2 * * *", "Europe/Berlin", "2026-03-29T00:00:00+01:00",
		[]string{"2026-03-29T03:00:00+02:00", "2026-03-30T02:00:00+02:00"}},
	{"a time in the gap and one at its end come once", "0 2,3 * * *", "Europe/Berlin", "2026-03-29T00:00:00+01:00",
		[]string{"2026-03-29T03:00:00+02:00", "2026-03-30T02:00:00+02:00"}},
	{"a time in the fold comes the first time", "30 2 * * *", "Europe/Berlin", "2026-10-24T12:00:00+02:00",
		[]string{"2026-10-25T02:30:00+02:00", "2026-10-26T02:30:00+01:00"}},
	{"also when asked between the two", "30 2 * * *", "Europe/Berlin", "2026-10-25T02:10:00+01:00",
		[]string{"2026-10-26T02:30:00+01:00"}},
	{"the first second after the fold", "0 3 * * *", "Europe/Berlin", "2026-10-25T02:30:00+01:00",
		[]string{"2026-10-25T03:00:00+01:00"}},
	{"minutes go on in the fold", "*/30 * * * *", "Europe/Berlin", "2026-10-25T01:45:00+02:00",
		[]string{"2026-10-25T02:00:00+02:00", "2026-10-25T02:30:00+02:00", "2026-10-25T02:00:00+01:00",
			"2026-10-25T02:30:00+01:00", "2026-10-25T03:00:00+01:00"}},
	{"minutes go on over the gap", "*/30 * * * *", "America/New_York", "2026-03-08T01:10:00-05:00",
		[]string{"2026-03-08T01:30:00-05:00", "2026-03-08T03:00:00-04:00"}},
	{"hours go on over the gap", "30 * * * *", "America/New_York", "2026-03-08T01:00:00-05:00",
		[]string{"2026-03-08T01:30:00-05:00", "2026-03-08T03:30:00-04:00"}},
	{"New York in autumn", "30 1 * * *", "America/New_York", "2026-11-01T00:00:00-04:00",
		[]string{"2026-11-01T01:30:00-04:00", "2026-11-02T01:30:00-05:00"}},
	{"half an hour forward", "15 2 * * *", "Australia/Lord_Howe", "2026-10-03T12:00:00+10:30",
		[]string{"2026-10-04T02:30:00+11:00", "2026-10-05T02:15:00+11:00"}},
	{"half an hour forward, after the gap", "45 2 * * *", "Australia/Lord_Howe", "2026-10-03T12:00:00+10:30",
		[]string{"2026-10-04T02:45:00+11:00"}},
	{"half an hour back", "45 1 * * *", "Australia/Lord_Howe", "2026-04-04T12:00:00+11:00",
		[]string{"2026-04-05T01:45:00+11:00", "2026-04-06T01:45:00+10:30"}},
	{"half an hour back, before the fold", "15 1 * * *", "Australia/Lord_Howe", "2026-04-04T12:00:00+11:00",
		[]string{"2026-04-05T01:15:00+11:00", "2026-04-06T01:15:00+10:30"}},
	{"an offset of half hours", "0 9 * * *", "Asia/Kolkata", "2026-01-01T00:00:00+05:30",
		[]string{"2026-01-01T09:00:00+05:30"}},
	{"an offset of quarters", "45 23 * * *", "Asia/Kathmandu", "2026-01-01T00:00:00+05:45",
		[]string{"2026-01-01T23:45:00+05:45"}},
	{"no midnight in Sao Paulo", "0 0 * * *", "America/Sao_Paulo", "2018-11-03T12:00:00-03:00",
		[]string{"2018-11-04T01:00:00-02:00", "2018-11-05T00:00:00-02:00"}},
	{"a weekday without midnight", "0 0 * * SUN", "America/Sao_Paulo", "2018-11-03T12:00:00-03:00",
		[]string{"2018-11-04T01:00:00-02:00", "2018-11-11T00:00:00-02:00"}},
	{"no midnight in Beirut", "0 0 * * *", "Asia/Beirut", "2022-03-26T12:00:00+02:00",
		[]string{"2022-03-27T01:00:00+03:00", "2022-03-28T00:00:00+03:00"}},
	{"two midnights", "0 0 * * *", "America/Havana", "2026-10-31T12:00:00-04:00",
		[]string{"2026-11-01T00:00:00-04:00", "2026-11-02T00:00:00-05:00"}},
	{"a day that was not", "0 9 * * *", "Pacific/Apia", "2011-12-29T12:00:00-10:00",
		[]string{"2011-12-31T00:00:00+14:00", "2011-12-31T09:00:00+14:00"}},
	{"leap day", "0 0 29 2 *", "", "2026-01-01T00:00:00Z", []string{"2028-02-29T00:00:00Z", "2032-02-29T00:00:00Z"}},
	{"leap day over a century", "0 0 29 2 *", "", "2096-03-01T00:00:00Z", []string{"2104-02-29T00:00:00Z"}},
	{"the last day of the month", "0 12 L * *", "", "2026-01-31T12:00:00Z",
		[]string{"2026-02-28T12:00:00Z", "2026-03-31T12:00:00Z", "2026-04-30T12:00:00Z"}},
	{"the 31st", "0 0 31 * *", "", "2026-03-31T00:00:00Z", []string{"2026-05-31T00:00:00Z", "2026-07-31T00:00:00Z"}},
	{"the first Monday", "0 9 * * MON#1", "", "2026-11-03T00:00:00Z", []string{"2026-12-07T09:00:00Z", "2027-01-04T09:00:00Z"}},
	{"the fifth Monday of February", "0 0 * 2 1#5", "", "2026-01-01T00:00:00Z", []string{"2044-02-29T00:00:00Z"}},
	{"day or weekday", "0 0 13 * FRI", "", "2026-11-01T00:00:00Z",
		[]string{"2026-11-06T00:00:00Z", "2026-11-13T00:00:00Z", "2026-11-20T00:00:00Z"}},
	{"work days", "0 9 * * MON-FRI", "", "2026-11-20T09:00:00Z", []string{"2026-11-23T09:00:00Z"}},
	{"to Sunday", "0 9 * * FRI-SUN", "", "2026-11-20T09:00:00Z",
		[]string{"2026-11-21T09:00:00Z", "2026-11-22T09:00:00Z", "2026-11-27T09:00:00Z"}},
	{"Sunday as 7", "0 9 * * 7", "", "2026-11-20T09:00:00Z", []string{"2026-11-22T09:00:00Z"}},
	{"steps in a range", "0 8-18/5 * * *", "", "2026-11-20T08:00:00Z",
		[]string{"2026-11-20T13:00:00Z", "2026-11-20T18:00:00Z", "2026-11-21T08:00:00Z"}},
	{"seconds", "*/20 59 23 31 12 *", "", "2026-12-31T23:59:30Z", []string{"2026-12-31T23:59:40Z", "2027-12-31T23:59:00Z"}},
	{"within a second", "* * * * * *", "", "2026-01-01T00:00:00.5Z", []string{"2026-01-01T00:00:01Z"}},
	{"a word", "@monthly", "Europe/Berlin", "2026-03-20T00:00:00+01:00", []string{"2026-04-01T00:00:00+02:00"}},
	{"an interval", "@every 90m", "", "2026-01-01T00:10:00Z", []string{"2026-01-01T01:30:00Z", "2026-01-01T03:00:00Z"}},
}

func TestSpec_ClocksAndCalendars(t *testing.T) {
	t.Parallel()
	for _, c := range clockCases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			got, err := Cron(c.line, c.zone).Next(at(t, c.from), len(c.want))
			if err != nil || len(got) != len(c.want) {
				t.Fatalf("%s in %q after %s: %v (%v), want %v", c.line, c.zone, c.from, got, err, c.want)
			}
			for i, want := range c.want {
				if !got[i].Equal(at(t, want)) {
					t.Errorf("%s in %q after %s: time %d is %v, want %s", c.line, c.zone, c.from, i+1, got[i].In(at(t, want).Location()), want)
				}
			}
		})
	}
}

func at(t testing.TB, text string) time.Time {
	t.Helper()
	when, err := time.Parse(time.RFC3339Nano, text)
	if err != nil {
		t.Fatal(err)
	}
	return when
}

// Next returns strictly later times and omits none: a walk second by second
// across a clock change finds the same times.
func TestSpec_AWalkByTheSecondAgrees(t *testing.T) {
	t.Parallel()
	zones := map[string]string{"Europe/Berlin": "2026-03-28T22:00:00Z", "America/New_York": "2026-11-01T03:00:00Z",
		"Australia/Lord_Howe": "2026-10-03T12:00:00Z", "Africa/Casablanca": "2026-02-15T00:00:00Z"}
	for zone, from := range zones {
		loc, err := time.LoadLocation(zone)
		if err != nil {
			t.Fatal(err)
		}
		for _, text := range []string{"*/7 * * * *", "13 */1 * * *", "*/25 1,2,3,4 * * *", "10,50 0-4 * * *"} {
			line, err := parseCron(text)
			if err != nil {
				t.Fatal(err)
			}
			var want []time.Time
			shown, after := make(map[wall]bool), false
			start := at(t, from)
			for s := range 8 * 3600 {
				when := start.Add(time.Duration(s) * time.Second)
				_, offset := when.In(loc).Zone()
				_, before := when.Add(-time.Second).In(loc).Zone()
				w := wallOf(when, offset)
				fires, _ := line.nextWall(w)
				match := fires == w
				if !line.everyHour {
					if offset > before {
						skipped, _ := line.nextWall(wallOf(when, before))
						match = match || skipped.instant(0).Before(w.instant(0))
					}
					match = match && !shown[w]
					shown[w] = true
				}
				if match && after {
					want = append(want, when)
				}
				after = true
			}
			got := start
			for i, w := range want {
				var ok bool
				if got, ok = line.next(got, loc); !ok || !got.Equal(w) {
					t.Fatalf("%s in %s: time %d is %v, want %v", text, zone, i+1, got.In(loc), w.In(loc))
				}
			}
		}
	}
}

func TestSpec_WhatCannotBeNamesTheField(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"":               "0 fields",
		"* * * *":        "4 fields",
		"60 * * * *":     "minute",
		"* 24 * * *":     "hour",
		"* * 0 * *":      "day of the month",
		"* * * 13 *":     "month",
		"* * * * 8":      "weekday",
		"* * * * MON#6":  "1 to 5",
		"* * * * #1":     "weekday",
		"5-1 * * * *":    "backwards",
		"*/0 * * * *":    "step",
		"*/x * * * *":    "step",
		", * * * *":      "minute",
		"1- * * * *":     "minute",
		"+5 * * * *":     "minute",
		"0 0 30 2 *":     "never fires",
		"0 0 31 4,6,9 *": "never fires",
		"@fortnightly":   "none of",
		"@every":         "none of",
		"@every 0s":      "interval",
		"@every 1500ms":  "interval",
		"@every -1h":     "interval",
		"@every 900000h": "876000h",
		"TZ=":            "begins with a zone",
		"TZ=UTC * * * *": "begins with a zone",

		"CRON_TZ=Europe/Berlin 0 3 * * *": "Cron(line, zone)",

		"* * * * * * *":   "7 fields",
		"001 * * * *":     "minute",
		"\x00 * * * *":    "minute",
		"*-5 * * * *":     "minute",
		"1/2/3 * * * *":   "step",
		"jan * * * *":     "minute",
		"* * * JANUARY *": "month",
	} {
		_, err := Cron(text, "").Next(time.Now(), 1)
		if !errors.Is(err, broker.ErrInvalid) || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "spec") {
			t.Errorf("%q: the error is %v; it should be about the spec and say %q", text, err, want)
		}
	}
	for _, zone := range []string{"Europe/Bielefeld", "Local", "../etc/passwd"} {
		if _, err := Cron("@daily", zone).Next(time.Now(), 1); !errors.Is(err, broker.ErrInvalid) || !strings.Contains(err.Error(), "zone") {
			t.Errorf("the zone %q: the error is %v", zone, err)
		}
	}
}

func TestEvery_CountsFromItsAnchor(t *testing.T) {
	t.Parallel()
	anchor := at(t, "2026-01-01T00:00:10.5Z")
	timing, err := Every(7 * time.Second).parse(anchor)
	if err != nil {
		t.Fatal(err)
	}
	for from, want := range map[string]string{
		"2026-01-01T00:00:10.5Z": "2026-01-01T00:00:17.5Z",
		"2026-01-01T00:00:10.4Z": "2026-01-01T00:00:10.5Z",
		"2026-01-01T00:00:17.4Z": "2026-01-01T00:00:17.5Z",
		"2026-01-01T00:00:00Z":   "2026-01-01T00:00:03.5Z",
		"1990-01-01T00:00:00Z":   "1990-01-01T00:00:00.5Z",
	} {
		if got, ok := timing.next(at(t, from)); !ok || !got.Equal(at(t, want)) {
			t.Errorf("after %s comes %v, want %s", from, got, want)
		}
	}
	if _, ok := timing.next(broker.MaxTime); ok {
		t.Error("a time after the end of time")
	}
}

func FuzzParseCron(f *testing.F) {
	for _, c := range clockCases {
		f.Add(c.line)
	}
	f.Fuzz(func(t *testing.T, text string) {
		line, err := parseCron(text)
		if err != nil {
			return
		}
		from := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
		if next, ok := line.next(from, time.UTC); !ok || !next.After(from) {
			t.Errorf("%q after %v: %v, %v", text, from, next, ok)
		}
	})
}
