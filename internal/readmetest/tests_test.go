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

var namedTest = regexp.MustCompile("`((?:[a-z0-9/-]+\\.)?)((?:Test|Example)[A-Za-z0-9]*(?:_[A-Za-z0-9]+)*)`")

// The tests that pages refer to exist.
func TestDocs_TestsThatPagesNameExist(t *testing.T) {
	t.Parallel()
	root, found := os.DirFS(filepath.Join("..", "..")), 0
	for _, file := range documents(t) {
		text, err := fs.ReadFile(root, filepath.ToSlash(file))
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range namedTest.FindAllStringSubmatch(string(text), -1) {
			found++
			dir := path.Clean(strings.TrimSuffix(m[1], "."))
			if !hasTest(t, root, dir, m[2]) {
				t.Errorf("%s names %s, which is not in %s", file, m[2], dir)
			}
		}
	}
	if found < 50 {
		t.Errorf("only %d tests were found: they are looked for in the wrong way", found)
	}
}

func hasTest(t *testing.T, root fs.FS, dir, name string) bool {
	t.Helper()
	files, err := fs.Glob(root, path.Join(dir, "*_test.go"))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		text, err := fs.ReadFile(root, file)
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(text), "func "+name+"(") {
			return true
		}
	}
	return false
}
