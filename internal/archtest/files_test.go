package archtest

import (
	"bytes"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"
)

// maxLines bounds a file to about one idea, and maxColumns a line to what a screen shows beside another file.
const maxLines, maxColumns = 400, 140

// source calls visit with each source file of the repository, except test data. It fails the test if there are fewer than least.
func source(t *testing.T, least int, visit func(path string, text []byte)) {
	t.Helper()
	found := 0
	err := filepath.WalkDir(filepath.Join("..", ".."), func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		hidden := strings.HasPrefix(d.Name(), ".") && strings.Trim(d.Name(), ".") != ""
		if d.IsDir() && (hidden || d.Name() == "testdata") {
			return filepath.SkipDir
		}
		switch filepath.Ext(path) {
		case ".go", ".lua", ".sql":
		default:
			return nil
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		found++
		visit(path, text)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if found < least {
		t.Errorf("only %d files were found: the walk does not see the source", found)
	}
}

func TestFiles_NoSourceFileIsLong(t *testing.T) {
	t.Parallel()
	source(t, 500, func(path string, text []byte) {
		if strings.Contains(path, "migrations") {
			return // a migration is one step, which stays as it was applied
		}
		if _, code, ok := bytes.Cut(text, []byte("\npackage ")); ok {
			text = code // a package comment, such as the contract, is documentation
		}
		if lines := bytes.Count(text, []byte("\n")); lines > maxLines {
			t.Errorf("%s has %d lines, the limit is %d: split it by idea", path, lines, maxLines)
		}
	})
}

func TestFiles_NoLineIsWide(t *testing.T) {
	t.Parallel()
	source(t, 500, func(path string, text []byte) {
		n := 0
		for line := range bytes.Lines(text) {
			n++
			if columns := utf8.RuneCount(bytes.TrimRight(line, "\n")); columns > maxColumns {
				t.Errorf("%s:%d has %d columns, the limit is %d: break it", path, n, columns, maxColumns)
			}
		}
	})
}
