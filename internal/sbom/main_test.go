package main

import (
	"bytes"
	"encoding/json"
	"os"
	"strings"
	"testing"
)

// The test's own program stands for any.
func TestSbom_NamesTheProgramItsSumAndEachModule(t *testing.T) {
	t.Parallel()
	file, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	var first, second bytes.Buffer
	for _, out := range []*bytes.Buffer{&first, &second} {
		if err := write(out, file, "v1.2.3", "2026-01-02T03:04:05Z"); err != nil {
			t.Fatal(err)
		}
	}
	if !bytes.Equal(first.Bytes(), second.Bytes()) {
		t.Error("the same program gives two bills of materials")
	}
	var d document
	if err := json.Unmarshal(first.Bytes(), &d); err != nil {
		t.Fatal(err)
	}
	if len(d.Packages) < 2 || len(d.Dependencies) != len(d.Packages) {
		t.Fatalf("it has %d modules and %d relationships: the program and Go are missing", len(d.Packages), len(d.Dependencies))
	}
	program, library := d.Packages[0], d.Packages[1]
	if program.Version != "v1.2.3" || len(program.Checksums) != 1 || len(program.Checksums[0].Value) != 64 {
		t.Errorf("the program is %+v, want v1.2.3 with its sum", program)
	}
	if library.Name != "stdlib" || !strings.HasPrefix(library.Version, "go1.") {
		t.Errorf("the standard library is %+v", library)
	}
	if err := write(&first, "main.go", "", ""); err == nil {
		t.Error("a file that is no program has a bill of materials")
	}
}
