package readable

import (
	"encoding/json"
	"strings"
	"testing"
	"time"
)

func TestReadable_SpansAreShort(t *testing.T) {
	t.Parallel()
	for d, want := range map[time.Duration]string{0: "", 1500 * time.Microsecond: "2ms", 12340 * time.Millisecond: "12.3s",
		90 * time.Second: "1m30s",
		time.Minute:      "1m", 90 * time.Minute: "1h30m", 3 * time.Hour: "3h", 50 * time.Hour: "2d2h", 720 * time.Hour: "30d",
		-time.Minute: "-1m", time.Minute - time.Millisecond: "1m"} {
		if got := Span(d); got != want {
			t.Errorf("Span(%v) is %q, want %q", d, got, want)
		}
	}
}

func TestReadable_SpansAreReadAsTheyAreWritten(t *testing.T) {
	t.Parallel()
	const day = 24 * time.Hour
	for text, want := range map[string]time.Duration{"3d": 3 * day, "1w": 7 * day, "1d12h": 36 * time.Hour, "1.5d": 36 * time.Hour,
		".5d": 12 * time.Hour,
		"-2d": -2 * day, "1w2d3h4m5s": 9*day + 3*time.Hour + 4*time.Minute + 5*time.Second, "90s": 90 * time.Second, "0": 0,
		"100ms": 100 * time.Millisecond} {
		if got, err := ParseSpan(text); err != nil || got != want {
			t.Errorf("ParseSpan(%q) is %v (error %v), want %v", text, got, err, want)
		}
	}
	for _, text := range []string{"", "3", "d", "3D", "3days", "1h d", "1d2", "d3", "1e9d", "999999999999d", strings.Repeat("9", 400) + "d",
		"3 d"} {
		if got, err := ParseSpan(text); err == nil {
			t.Errorf("ParseSpan(%q) is %v, want an error", text, got)
		}
	}
	for _, d := range []time.Duration{2 * time.Millisecond, 12300 * time.Millisecond, 90 * time.Second, time.Hour, 50 * time.Hour, 30 * day,
		-49 * time.Hour} {
		if got, err := ParseSpan(Span(d)); err != nil || got != d {
			t.Errorf("ParseSpan(%q) is %v (error %v), want %v", Span(d), got, err, d)
		}
	}
}

func TestReadable_WhatTurnsTextAroundIsWrittenAsAnEscape(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"plain ünïcode 字":  "plain ünïcode 字",
		"a\u202eb\x1b[2Jc": `a\u202eb\x1b[2Jc`,
		"a\xffb\x00":       `a�b\x00`,
		"two\nlines":       `two\nlines`,
	} {
		if got := Plain(in); got != want {
			t.Errorf("Plain(%q) is %q, want %q", in, got, want)
		}
	}
	if got, want := PlainLines("a\tb\n\x07c\n\n"), "a    b\n\\ac"; got != want {
		t.Errorf("PlainLines gave %q, want %q", got, want)
	}
}

func TestReadable_EscapedJSONMeansTheSame(t *testing.T) {
	t.Parallel()
	const text = "plain ünï 字 \U0001f600 \u202e \u0085 \x7f \U000e0001 \"quoted\" \\"
	plain, err := json.Marshal(text)
	if err != nil {
		t.Fatal(err)
	}
	indented := append(plain, "\r\n\t"...) // white space around JSON is no text
	for name, escape := range map[string]func(rune) bool{"harmful": Harmful, "beyond ASCII": func(r rune) bool { return r > 126 }} {
		escaped := AppendJSON([]byte("[1,"), indented, escape)
		var back []any
		if err := json.Unmarshal(append(escaped, ']'), &back); err != nil || back[1] != text || strings.ContainsFunc(string(escaped), escape) {
			t.Errorf("%s: %s means %q, %v", name, escaped, back, err)
		}
	}
}

func TestReadable_TextsAreCutByCharacters(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{"": "", "four": "four", "fünf": "fünf", "sixsix": "six…", "字字字字字": "字字字…"} {
		if got := Cut(in, 4); got != want {
			t.Errorf("Cut(%q) is %q, want %q", in, got, want)
		}
	}
}

func TestReadable_CountsAreWrittenInSingularAndPlural(t *testing.T) {
	t.Parallel()
	for n, want := range map[int]string{0: "0 jobs", 1: "1 job", 2: "2 jobs", -1: "-1 jobs", 999: "999 jobs", 1000: "1,000 jobs",
		166000:  "166,000 jobs",
		-123456: "-123,456 jobs", 1234567: "1,234,567 jobs"} {
		if got := Count(n, "job"); got != want {
			t.Errorf("Count(%d) is %q, want %q", n, got, want)
		}
	}
}
