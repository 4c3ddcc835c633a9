package readmetest

import (
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var (
	namedOption = regexp.MustCompile("`(?:jobs\\.)?(With[A-Z][A-Za-z]*)\\b")
	codeBlock   = regexp.MustCompile("(?s)```.*?```")
)

// The options that pages name exist. CHANGELOG.md also names former ones.
func TestDocs_OptionsThatPagesNameExist(t *testing.T) {
	t.Parallel()
	root := os.DirFS(filepath.Join("..", ".."))
	var code strings.Builder
	for _, dir := range packages(t, root) {
		names, err := fs.Glob(root, path.Join(dir, "*.go"))
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range names {
			text, err := fs.ReadFile(root, name)
			if err != nil {
				t.Fatal(err)
			}
			code.Write(text)
		}
	}
	found := 0
	for _, file := range documents(t) {
		if file == "CHANGELOG.md" {
			continue
		}
		text, err := fs.ReadFile(root, filepath.ToSlash(file))
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range namedOption.FindAllStringSubmatch(codeBlock.ReplaceAllString(string(text), ""), -1) {
			found++
			if all := code.String(); !strings.Contains(all, "func "+m[1]+"(") && !strings.Contains(all, ") "+m[1]+"(") {
				t.Errorf("%s names %s, which does not exist", file, m[1])
			}
		}
	}
	if found < 50 {
		t.Errorf("only %d options were found: they are looked for in the wrong way", found)
	}
}
