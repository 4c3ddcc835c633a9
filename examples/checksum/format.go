package main

import "strings"

// escapes is how sha256sum writes the characters that would break its lines.
var escapes = strings.NewReplacer(`\`, `\\`, "\n", `\n`, "\r", `\r`)

// line is the line that sha256sum prints for a file: the sum, two spaces, the
// name. A name with a backslash or an end of line is escaped, which a
// backslash at the front of the line tells.
func line(path string, sum string) string {
	escaped := escapes.Replace(path)
	front := ""
	if escaped != path {
		front = `\`
	}
	return front + sum + "  " + escaped + "\n"
}
