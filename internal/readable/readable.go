// Package readable formats times, durations, numbers and untrusted text for people.
package readable

import (
	"bytes"
	"encoding/json"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"
)

// Clock formats a time in UTC. It returns nothing for the zero time.
func Clock(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format("2006-01-02T15:04:05.000Z")
}

// Span formats a duration with at most two units. It returns nothing for zero.
func Span(d time.Duration) string {
	switch {
	case d == 0:
		return ""
	case d < 0:
		return "-" + Span(-d)
	case d < time.Second:
		return d.Round(time.Millisecond).String()
	case d.Round(100*time.Millisecond) < time.Minute:
		return d.Round(100 * time.Millisecond).String()
	case d < 48*time.Hour:
		unit := time.Second
		if d >= time.Hour {
			unit = time.Minute
		}
		text := d.Round(unit).String()
		for _, zero := range []string{"m0s", "h0m"} {
			if strings.HasSuffix(text, zero) {
				text = text[:len(text)-2]
			}
		}
		return text
	}
	days := d / (24 * time.Hour)
	if hours := (d - days*24*time.Hour) / time.Hour; hours > 0 {
		return fmt.Sprintf("%dd%dh", days, hours)
	}
	return fmt.Sprintf("%dd", days)
}

// longUnit matches units that time.ParseDuration does not know.
var longUnit = regexp.MustCompile(`([0-9]+(?:\.[0-9]*)?|\.[0-9]+)([wd])`)

// ParseSpan parses a duration in the format of Span or time.ParseDuration, also with days (d) of 24
// hours and weeks (w): 3d, 1w, 1d12h, 1.5d.
func ParseSpan(s string) (time.Duration, error) {
	d, err := time.ParseDuration(longUnit.ReplaceAllStringFunc(s, func(part string) string {
		last, hours := len(part)-1, 24.0
		if part[last] == 'w' {
			hours *= 7
		}
		n, _ := strconv.ParseFloat(part[:last], 64) // ParseDuration refuses what has too many digits
		return strconv.FormatFloat(n*hours, 'f', -1, 64) + "h"
	}))
	if err != nil {
		return 0, fmt.Errorf("%q is not a duration such as 30s, 2h or 3d", s)
	}
	return d, nil
}

// Plain makes text safe to show on one line. It escapes characters that control a terminal or change
// the direction of text.
func Plain(s string) string {
	if strings.IndexFunc(s, func(r rune) bool { return !harmless(r) }) < 0 {
		return s
	}
	var b strings.Builder
	for _, r := range s {
		if harmless(r) {
			b.WriteRune(r)
		} else if q := strconv.QuoteRune(r); len(q) > 2 {
			b.WriteString(q[1 : len(q)-1])
		}
	}
	return b.String()
}

// PlainLines applies Plain to each line of a text. A tab becomes four spaces.
func PlainLines(s string) string {
	all := strings.Split(strings.TrimRight(s, "\n"), "\n")
	for i, line := range all {
		all[i] = Plain(strings.ReplaceAll(line, "\t", "    "))
	}
	return strings.Join(all, "\n")
}

func harmless(r rune) bool {
	return r != unicode.ReplacementChar && unicode.IsPrint(r) && !unicode.Is(unicode.Bidi_Control, r)
}

// Harmful reports whether a character beyond ASCII controls a terminal or changes the direction of text.
func Harmful(r rune) bool {
	return r >= unicode.MaxASCII && (!unicode.IsPrint(r) || unicode.Is(unicode.Bidi_Control, r))
}

// AppendJSON appends JSON to dst, with the characters for which escape is true as escapes, which mean the same. Call it for
// characters beyond ASCII, which occur only in strings.
func AppendJSON(dst, text []byte, escape func(rune) bool) []byte {
	for _, r := range string(text) {
		if !escape(r) {
			dst = utf8.AppendRune(dst, r)
			continue
		}
		for _, half := range utf16.AppendRune(nil, r) {
			dst = fmt.Appendf(dst, `\u%04x`, half)
		}
	}
	return dst
}

// Cut shortens a text to a number of characters; then the last one is an ellipsis.
func Cut(s string, runes int) string {
	if len(s) <= runes {
		return s
	}
	if r := []rune(s); len(r) > runes {
		return string(r[:runes-1]) + "…"
	}
	return s
}

// MaxLevels is how deep JSON can be to be indented. Deeper JSON could grow to gigabytes, since each of its
// values is indented by all levels around it.
const MaxLevels = 64

// Shallow reports whether JSON is nested at most MaxLevels deep.
func Shallow(p []byte) bool {
	depth, inString := 0, false
	for i := 0; i < len(p); i++ {
		switch c := p[i]; {
		case inString && c == '\\':
			i++
		case c == '"':
			inString = !inString
		case inString:
		case c == '{' || c == '[':
			if depth++; depth > MaxLevels {
				return false
			}
		case c == '}' || c == ']':
			depth--
		}
	}
	return true
}

// Indented returns JSON indented, unless it is too deep for that; anything else is returned as it is.
func Indented(p []byte) (text []byte, ok bool) {
	var b bytes.Buffer
	if Shallow(p) && json.Indent(&b, p, "", "  ") == nil {
		return b.Bytes(), true
	}
	return p, false
}

// Number formats a number with a comma between groups of three digits.
func Number[N int | int64](n N) string {
	digits := strconv.FormatInt(int64(n), 10)
	sign, digits := digits[:len(digits)-len(strings.TrimPrefix(digits, "-"))], strings.TrimPrefix(digits, "-")
	for at := len(digits) - 3; at > 0; at -= 3 {
		digits = digits[:at] + "," + digits[at:]
	}
	return sign + digits
}

// Count formats a number and a noun, with an s unless the number is one: 1 job, 2,000 jobs.
func Count[N int | int64](n N, one string) string {
	if n != 1 {
		one += "s"
	}
	return Number(n) + " " + one
}

// TraceID returns the ID of a job's trace, from the W3C trace context in its headers, or nothing.
func TraceID(headers map[string]string) string {
	parts := strings.Split(headers["traceparent"], "-")
	if len(parts) < 4 || len(parts[1]) != 32 || strings.Trim(parts[1], "0123456789abcdef") != "" {
		return ""
	}
	return parts[1]
}
