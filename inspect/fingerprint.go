package inspect

import (
	"regexp"
	"strings"
)

// Fingerprint reduces an error message to what it has in common with similar
// ones: its first line, with "…" for quoted texts, and # for numbers, IDs,
// addresses and times. Messages with equal fingerprints probably have the same
// cause.
func Fingerprint(message string) string {
	line, _, _ := strings.Cut(strings.TrimLeft(message, " \t\r\n"), "\n")
	if len(line) > maxFingerprint {
		line = strings.ToValidUTF8(line[:maxFingerprint-len("…")], "…") // the cut may have split a character
	}
	line = quotedText.ReplaceAllString(line, `$1"…"`)
	line = uuids.ReplaceAllString(line, "#")
	line = wordsWithDigits.ReplaceAllStringFunc(line, func(word string) string {
		if len(word) >= 16 || len(word) >= 6 && hexWord.MatchString(word) {
			return "#"
		}
		return digits.ReplaceAllString(word, "#")
	})
	return strings.TrimSpace(joinedNumbers.ReplaceAllString(line, "#"))
}

// literal returns the longest part of a fingerprint that all its messages contain
// unchanged.
func literal(fingerprint string) (longest string) {
	for part := range strings.SplitSeq(strings.ReplaceAll(fingerprint, `"…"`, "#"), "#") {
		for piece := range strings.SplitSeq(part, "…") {
			if len(piece) > len(longest) {
				longest = piece
			}
		}
	}
	return longest
}

const maxFingerprint = 500 // bytes of a message that count

var (
	quotedText      = regexp.MustCompile(`(^|[\s(=:,\[{])(?:"(?:[^"\\]|\\.)*"|'[^']*'|` + "`[^`]*`)")
	uuids           = regexp.MustCompile(`\b[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}\b`)
	wordsWithDigits = regexp.MustCompile(`[0-9A-Za-z_]*[0-9][0-9A-Za-z_]*`)
	hexWord         = regexp.MustCompile(`^(?:0x)?[0-9a-fA-F]+$`)
	digits          = regexp.MustCompile(`[0-9]+`)
	joinedNumbers   = regexp.MustCompile(`#(?:[.:,/+-]#|T#)+Z?`)
)
