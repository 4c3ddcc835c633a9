package archtest

import (
	"bytes"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// maxLines bounds a file to about one idea.
const maxLines = 400

func TestFiles_NoSourceFileIsLong(t *testing.T) {
	t.Parallel()
	checked := 0
	err := filepath.WalkDir(filepath.Join("..", ".."), func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && strings.HasPrefix(d.Name(), ".") && strings.Trim(d.Name(), ".") != "" {
			return filepath.SkipDir
		}
		if d.IsDir() || filepath.Ext(path) != ".go" {
			return nil
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		checked++
		if _, code, ok := bytes.Cut(text, []byte("\npackage ")); ok {
			text = code // a package comment, such as the contract, is documentation
		}
		if lines := bytes.Count(text, []byte("\n")); lines > maxLines {
			t.Errorf("%s has %d lines, the limit is %d: split it by idea", path, lines, maxLines)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if checked < 10 {
		t.Errorf("only %d files were found: the walk does not see the source", checked)
	}
}
