package readable

import (
	"testing"
	"time"
)

func TestReadable_SpansAreShort(t *testing.T) {
	t.Parallel()
	for d, want := range map[time.Duration]string{0: "", 1500 * time.Microsecond: "2ms", 12340 * time.Millisecond: "12.3s", 90 * time.Second: "1m30s",
		time.Minute: "1m", 90 * time.Minute: "1h30m", 3 * time.Hour: "3h", 50 * time.Hour: "2d2h", 720 * time.Hour: "30d", -time.Minute: "-1m"} {
		if got := Span(d); got != want {
			t.Errorf("Span(%v) is %q, want %q", d, got, want)
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
