package readmetest

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// shellLine matches a shell command in an indented block or in a code span.
var shellLine = regexp.MustCompile("(?m)^ {4,}(?:\\$ )?(.*)$|`([^`\\n]+)`")

// The packages, targets and files in the commands of documents exist. Another test
// checks commands of jobsctl.
func TestDocs_PackagesAndTargetsOfCommandsExist(t *testing.T) {
	t.Parallel()
	root, found := filepath.Join("..", ".."), 0
	for _, file := range documents(t) {
		text, err := os.ReadFile(filepath.Join(root, file))
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range shellLine.FindAllStringSubmatch(string(text), -1) {
			line, _, _ := strings.Cut(m[1]+m[2], " #")
			words := strings.Fields(line)
			for len(words) > 0 && strings.Contains(words[0], "=") || len(words) > 1 && words[0] == "|" {
				words = words[1:] // variables
			}
			if i := indexOf(words, "|"); i >= 0 && i+1 < len(words) && words[i+1] == "go" {
				words = words[i+1:]
			}
			if len(words) < 2 {
				continue
			}
			var wrong string
			at := root // or the document's own directory, if it is a module
			if own := filepath.Join(root, filepath.Dir(file)); isFile(filepath.Join(own, "go.mod")) {
				at = own
			}
			switch words[0] {
			case "go":
				wrong = wrongPackage(at, words)
			case "make":
				wrong = wrongTarget(t, at, words[1:])
			case "docker":
				wrong = wrongFile(root, words)
			default:
				continue
			}
			if found++; wrong != "" {
				t.Errorf("%s: %s: there is no %s", file, strings.TrimSpace(line), wrong)
			}
		}
	}
	if found < 40 {
		t.Errorf("only %d commands were found: they are looked for in the wrong way", found)
	}
}

func isFile(path string) bool {
	info, err := os.Stat(path)
	return err == nil && !info.IsDir()
}

func indexOf(words []string, word string) int {
	for i, w := range words {
		if w == word {
			return i
		}
	}
	return -1
}

// wrongPackage returns the first package of this module in a go command that does
// not exist or, for go run, is not a program.
func wrongPackage(root string, words []string) string {
	for i, w := range words[2:] {
		if !strings.HasPrefix(w, "./") {
			continue
		}
		dir := strings.TrimSuffix(strings.Trim(w, "'\""), "/...")
		files, _ := filepath.Glob(filepath.Join(root, dir, "*.go"))
		if dir != "." && len(files) == 0 {
			if _, err := os.Stat(filepath.Join(root, dir)); err != nil || words[1] == "run" {
				return w
			}
		}
		if words[1] == "run" {
			if i == 0 && !isProgram(files) {
				return w + " that is a program"
			}
			break // the program's own arguments follow
		}
	}
	return ""
}

func isProgram(files []string) bool {
	for _, file := range files {
		if text, err := os.ReadFile(file); err == nil && strings.Contains("\n"+string(text), "\npackage main\n") {
			return true
		}
	}
	return false
}

var target = regexp.MustCompile(`^[a-z-]+$`)

// wrongTarget returns the first target in a make command that no Makefile has.
func wrongTarget(t *testing.T, root string, words []string) string {
	t.Helper()
	dir := root
	for i := 0; i < len(words); i++ {
		switch w := words[i]; {
		case w == "-C" && i+1 < len(words):
			i++
			dir = filepath.Join(root, words[i])
		case target.MatchString(w):
			text, err := os.ReadFile(filepath.Join(dir, "Makefile"))
			if err != nil {
				t.Fatal(err)
			}
			if !strings.Contains("\n"+string(text), "\n"+w+":") {
				return w
			}
		default:
			return "" // variables and prose
		}
	}
	return ""
}

// wrongFile returns the file in a docker command if it does not exist.
func wrongFile(root string, words []string) string {
	if i := indexOf(words, "-f"); i >= 0 && i+1 < len(words) {
		if !isFile(filepath.Join(root, words[i+1])) {
			return words[i+1]
		}
	}
	return ""
}
