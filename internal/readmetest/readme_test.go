package readmetest

import (
	"flag"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "rewrite the blocks in the documentation")

// block matches a fenced block of Go and the line before it. Its groups are the line
// that names the source, if there is one; the source; the code.
var block = regexp.MustCompile("(?m)^(<!-- from (\\S+) -->\n)?```go\n((?:.*\n)*?)```$")

func TestReadme_CodeInTheDocumentationIsTheCodeThatIsTested(t *testing.T) {
	t.Parallel()
	root := filepath.Join("..", "..")
	for _, file := range documents(t) {
		text, err := os.ReadFile(filepath.Join(root, file))
		if err != nil {
			t.Fatal(err)
		}
		wanted := block.ReplaceAllStringFunc(string(text), func(old string) string {
			parts := block.FindStringSubmatch(old)
			marker, source, code := parts[1], parts[2], parts[3]
			if source == "" {
				if file == "README.md" || strings.HasPrefix(file, filepath.Join("docs", "guide")) {
					t.Errorf("%s: a block of Go does not say where it is from; put <!-- from FILE#REGION --> before it:\n%s", file, code)
				}
				return old
			}
			region, err := cut(root, source)
			if err != nil {
				t.Errorf("%s: %v", file, err)
				return old
			}
			if region != code && !*update {
				t.Errorf("%s: the block from %s differs from it; run go test ./internal/readmetest -update\nit has:\n%s\nthe source has:\n%s",
					file, source, code, region)
			}
			return marker + "```go\n" + region + "```"
		})
		if *update && wanted != string(text) {
			if err := os.WriteFile(filepath.Join(root, file), []byte(wanted), 0o644); err != nil {
				t.Error(err)
			}
		}
	}
}

// A newcomer learns which Go the module needs before the compiler says so.
func TestReadme_NamesTheGoThatTheModuleNeeds(t *testing.T) {
	t.Parallel()
	root := filepath.Join("..", "..")
	mod, err := os.ReadFile(filepath.Join(root, "go.mod"))
	if err != nil {
		t.Fatal(err)
	}
	needs := "Go " + string(regexp.MustCompile(`(?m)^go (1\.\d+)`).FindSubmatch(mod)[1])
	for _, file := range []string{"README.md", "docs/guide/start.md"} {
		if text, err := os.ReadFile(filepath.Join(root, file)); err != nil || !strings.Contains(string(text), needs) {
			t.Errorf("%s does not say that the module needs %s (%v)", file, needs, err)
		}
	}
}

// documents returns the module's Markdown files, from its root.
func documents(t *testing.T) []string { return filesOf(t, 50, ".md") }

// sources returns the module's other files that may name pages.
func sources(t *testing.T) []string { return filesOf(t, 500, ".go", ".yml", ".yaml", ".json") }

// filesOf returns the module's files with some extensions. It fails if they are fewer
// than least, since the walk then misses them.
func filesOf(t *testing.T, least int, extensions ...string) (files []string) {
	t.Helper()
	root := filepath.Join("..", "..")
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && (d.Name() == "testdata" || strings.HasPrefix(d.Name(), ".") && strings.Trim(d.Name(), ".") != ""):
			return filepath.SkipDir
		case slices.Contains(extensions, filepath.Ext(path)):
			file, err := filepath.Rel(root, path)
			files = append(files, file)
			return err
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(files) < least {
		t.Fatalf("only %d files of %v were found: they are looked for in the wrong way", len(files), extensions)
	}
	return files
}

func TestReadme_RegionsAreCutWithoutTheirMarkersAndIndentation(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	const source = "package p\n\nfunc f() {\n\t// begin a\n\n\tif x {\n\n\t\ty()\n\t}\n\t// end a\n\t// begin open\n}\n"
	if err := os.WriteFile(filepath.Join(root, "p.go"), []byte(source), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ source, want string }{
		{"p.go#a", "if x {\n\n\ty()\n}\n"},
		{"p.go", source},
		{"p.go#open", ""},
		{"p.go#none", ""},
		{"absent.go", ""},
	} {
		got, err := cut(root, c.source)
		if got != c.want || (err != nil) != (c.want == "") {
			t.Errorf("cut(%q) = %q, %v; want %q", c.source, got, err, c.want)
		}
	}
}

// cut returns a file, or the region of it named behind #, without the
// indentation that all its lines share and without blank lines around it.
func cut(root, source string) (string, error) {
	file, region, ok := strings.Cut(source, "#")
	data, err := os.ReadFile(filepath.Join(root, file))
	if err != nil || !ok {
		return string(data), err
	}
	_, rest, begins := strings.Cut(string(data), "// begin "+region+"\n")
	text, _, ends := strings.Cut(rest, "// end "+region+"\n")
	if !begins || !ends {
		return "", fmt.Errorf("%s has no region between // begin %s and // end %s", file, region, region)
	}
	// The rest before the end marker is its indentation.
	last := strings.LastIndexByte(text, '\n') + 1
	text, indent := text[:last], text[last:]
	lines := strings.SplitAfter(text, "\n")
	for i := range lines {
		lines[i] = strings.TrimPrefix(lines[i], indent)
	}
	return strings.Trim(strings.Join(lines, ""), "\n") + "\n", nil
}
