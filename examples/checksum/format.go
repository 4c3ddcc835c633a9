package main

import "strings"

// escapes replaces characters that would break lines, as sha256sum does.
var escapes = strings.NewReplacer(`\`, `\\`, "\n", `\n`, "\r", `\r`)

// line returns the line that sha256sum prints for a file: the sum, two spaces, the
// name. If the name needs escapes, the line begins with a backslash.
func line(path string, sum string) string {
	escaped := escapes.Replace(path)
	front := ""
	if escaped != path {
		front = `\`
	}
	return front + sum + "  " + escaped + "\n"
}
