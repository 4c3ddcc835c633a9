package readmetest

import (
	"bytes"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"unicode"
)

var (
	fenced  = regexp.MustCompile("(?ms)^```.*?^```$")
	spans   = regexp.MustCompile("`[^`\n]*`")
	link    = regexp.MustCompile(`\]\(([^()\s]+)\)`)
	heading = regexp.MustCompile(`(?m)^#+ (.*)$`)
)

// A link within the repository leads to a file that exists, and to a heading in it.
func TestLinks_LeadSomewhere(t *testing.T) {
	t.Parallel()
	root, found, headings := filepath.Join("..", ".."), 0, make(map[string]map[string]bool)
	for _, file := range documents(t) {
		for _, m := range link.FindAllStringSubmatch(prose(t, filepath.Join(root, file)), -1) {
			path, anchor, _ := strings.Cut(m[1], "#")
			if strings.Contains(path, ":") {
				continue
			}
			found++
			target := filepath.Join(root, file)
			if path != "" {
				target = filepath.Join(filepath.Dir(target), path)
			}
			if _, err := os.Stat(target); err != nil {
				t.Errorf("%s: the link %s leads to no file", file, m[1])
				continue
			}
			if anchor == "" || filepath.Ext(target) != ".md" {
				continue
			}
			if headings[target] == nil {
				headings[target] = anchors(t, target)
			}
			if !headings[target][anchor] {
				t.Errorf("%s: the link %s leads to no heading", file, m[1])
			}
		}
	}
	if found < 200 {
		t.Errorf("only %d links were found: they are looked for in the wrong way", found)
	}
}

// prose returns a document without its code.
func prose(t *testing.T, file string) string {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return spans.ReplaceAllString(fenced.ReplaceAllString(string(text), ""), "")
}

// anchors returns the anchors of a document's headings, as GitHub makes them.
func anchors(t *testing.T, file string) map[string]bool {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	all := make(map[string]bool)
	for _, m := range heading.FindAllStringSubmatch(fenced.ReplaceAllString(string(text), ""), -1) {
		all[strings.Map(func(r rune) rune {
			switch {
			case r == ' ':
				return '-'
			case r == '-', r == '_', unicode.IsLetter(r), unicode.IsDigit(r):
				return unicode.ToLower(r)
			}
			return -1
		}, m[1])] = true
	}
	return all
}

var page = regexp.MustCompile(`\bdocs/[a-z0-9/-]+\.md\b`)

// Pages that code, manifests and alerts name exist.
func TestLinks_OfCodeLeadSomewhere(t *testing.T) {
	t.Parallel()
	root := filepath.Join("..", "..")
	for _, file := range sources(t) {
		text, err := os.ReadFile(filepath.Join(root, file))
		if err != nil {
			t.Fatal(err)
		}
		_, rest, found := bytes.Cut(text, []byte("docs/")) // much faster than an expression over a megabyte of code
		if !found {
			continue
		}
		for _, name := range page.FindAllString("docs/"+string(rest), -1) {
			if _, err := os.Stat(filepath.Join(root, name)); err != nil {
				t.Errorf("%s names %s, which does not exist", file, name)
			}
		}
	}
}

var (
	chapter = regexp.MustCompile(`(?m)^\| \[[^\]]*\]\(guide/([a-z-]+\.md)\)`)
	next    = regexp.MustCompile(`(?m)\n\nNext: \[[^\]]*\]\(([a-z-]+\.md)\)\n$`)
)

// The overview lists each chapter of the guide, and each chapter links to the next.
func TestGuide_IsReadFromTheFirstChapterToTheLast(t *testing.T) {
	t.Parallel()
	docs := filepath.Join("..", "..", "docs")
	text, err := os.ReadFile(filepath.Join(docs, "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	files, err := os.ReadDir(filepath.Join(docs, "guide"))
	if err != nil {
		t.Fatal(err)
	}
	chapters := chapter.FindAllStringSubmatch(string(text), -1)
	if len(chapters) != len(files) || len(files) == 0 {
		t.Fatalf("the map has %d chapters, and docs/guide has %d", len(chapters), len(files))
	}
	for i, c := range chapters {
		text, err := os.ReadFile(filepath.Join(docs, "guide", c[1]))
		if err != nil {
			t.Fatal(err)
		}
		leads := next.FindStringSubmatch(string(text))
		switch {
		case i == len(chapters)-1 && leads != nil:
			t.Errorf("%s is the last chapter, and leads to %s", c[1], leads[1])
		case i < len(chapters)-1 && (leads == nil || leads[1] != chapters[i+1][1]):
			t.Errorf("%s does not end with a line for the next chapter: Next: [Title](%s)", c[1], chapters[i+1][1])
		}
	}
}

// The first chapter names each package that a program can import.
func TestGuide_TheFirstChapterNamesEachPackage(t *testing.T) {
	t.Parallel()
	root := os.DirFS(filepath.Join("..", ".."))
	text, err := fs.ReadFile(root, "docs/guide/start.md")
	if err != nil {
		t.Fatal(err)
	}
	found := 0
	for _, dir := range append(packages(t, root), "jobstest", "conformance") {
		sources, err := fs.Glob(root, path.Join(dir, "*.go"))
		if err != nil {
			t.Fatal(err)
		}
		if dir == "." || len(sources) == 0 {
			continue
		}
		found++
		if !strings.Contains(string(text), "`"+dir+"`") {
			t.Errorf("docs/guide/start.md does not say what package %s is for", dir)
		}
	}
	if found < 15 {
		t.Errorf("only %d packages were found: they are looked for in the wrong way", found)
	}
}

var namedFile = regexp.MustCompile("`([a-z0-9_/.-]+\\.(?:go|lua|sql))`")

// The files of code that pages name exist. The performance log also names former ones.
func TestLinks_FilesThatPagesNameExist(t *testing.T) {
	t.Parallel()
	have, found := make(map[string]bool), 0
	for _, file := range filesOf(t, 500, ".go", ".lua", ".sql") {
		have[filepath.Base(file)] = true
	}
	for _, file := range documents(t) {
		if name := filepath.Base(file); name == "performance-log.md" || name == "CHANGELOG.md" {
			continue
		}
		text, err := os.ReadFile(filepath.Join("..", "..", file))
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range namedFile.FindAllStringSubmatch(string(text), -1) {
			if found++; !have[path.Base(m[1])] {
				t.Errorf("%s names %s, which does not exist", file, m[1])
			}
		}
	}
	if found < 50 {
		t.Errorf("only %d names were found: they are looked for in the wrong way", found)
	}
}
