package storedtest

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/seed81422ce9/jobs/broker"
)

var update = flag.Bool("update", false, "write the golden files of stored forms anew")

// Dir is the directory of the golden files, below that of the tested package.
const Dir = "testdata/stored"

// Store gives Run access to what a backend stores.
type Store struct {
	// New makes an empty store.
	New func(*testing.T) broker.Broker
	// Dump returns the whole content of the store of a broker from New; equal content gives equal text.
	Dump func(*testing.T, broker.Broker) string
	// Load makes a store with the content that Dump returned.
	Load func(*testing.T, string) broker.Broker
}

// Run tests a backend against its golden files: it must write what current has, and read and go on with each.
func Run(t *testing.T, s Store) {
	t.Run("Writes", func(t *testing.T) { // first, since with -update the others read what it writes
		b := s.New(t)
		Write(t, b)
		Golden(t, "current", s.Dump(t, b))
	})
	files, err := filepath.Glob(filepath.Join(Dir, "*.golden"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no golden files in %s: %v", Dir, err)
	}
	for _, file := range files {
		release := strings.TrimSuffix(filepath.Base(file), ".golden")
		if strings.HasSuffix(release, "-seen") {
			continue
		}
		t.Run("Reads_"+release, func(t *testing.T) {
			t.Parallel()
			dump, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			b := s.Load(t, string(dump))
			Golden(t, release+"-seen", View(t, b))
			Work(t, b)
		})
	}
}

// Golden compares text with a golden file. With -update it writes the file.
func Golden(t *testing.T, name, text string) {
	t.Helper()
	path := filepath.Join(Dir, name+".golden")
	if *update {
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	golden, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	got, want := strings.Split(text, "\n"), strings.Split(string(golden), "\n")
	for i := range max(len(got), len(want)) {
		if i >= len(got) || i >= len(want) || got[i] != want[i] {
			t.Fatalf("%s differs from line %d on. It has\n%s\nand now there is\n%s\n%s", path, i+1, line(want, i), line(got, i),
				"If programs of the last release can use that, or refuse it as a newer form, run the test with -update, and say in "+
					"CHANGELOG.md what changed")
		}
	}
}

func line(lines []string, i int) string {
	if i >= len(lines) {
		return "no such line"
	}
	return lines[i]
}
