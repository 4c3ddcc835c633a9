package inspect

import (
	"strings"
	"testing"
)

func TestFingerprint_MessagesOfOneCauseHaveOneFingerprint(t *testing.T) {
	t.Parallel()
	for want, messages := range map[string][]string{
		`user # not found`: {"user 17 not found", "user 4711 not found\nat line 3", "  user 01J8ZKQ4YV7N3M2T5X6W8R9ABC not found",
			"user 5f3a9c not found"},
		`dial tcp #: refused`: {"dial tcp 10.0.0.1:5432: refused", "dial tcp 127.0.0.1:80: refused"},
		`no such file "…"`:    {`no such file "a.txt"`, `no such file "b \" c"`, `no such file 'x'`, "no such file `y`"},
		`order # is gone`: {"order 550e8400-e29b-41d4-a716-446655440000 is gone", "order abcdabcd-abcd-abcd-abcd-abcdabcdabcd is gone",
			"order 0xdeadbeef01 is gone"},
		`late since #`:              {"late since 2026-01-02T03:04:05Z", "late since 2025-12-31", "late since 12:30"},
		`can't do it, don't ask`:    {"can't do it, don't ask"},
		`HTTP# gave # after #ms`:    {"HTTP2 gave 503 after 20ms", "HTTP1 gave 500 after 7ms"},
		"":                          {"", "\n\n", "   "},
		`what "…" <script> does: #`: {`what "x" <script> does: 1`},
	} {
		for _, m := range messages {
			if got := Fingerprint(m); got != want {
				t.Errorf("Fingerprint(%q) is %q, want %q", m, got, want)
			}
		}
	}
	if got := Fingerprint(strings.Repeat("é", 4096)); len(got) > maxFingerprint {
		t.Errorf("a long message has a fingerprint of %d bytes", len(got))
	}
}
