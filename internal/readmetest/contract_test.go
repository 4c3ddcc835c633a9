package readmetest

import (
	"bytes"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"testing"

	"github.com/seed81422ce9/jobs/broker"
)

var (
	sectionHead = regexp.MustCompile(`(?m)^// §\d+ [A-Z]`)
	sectionRef  = regexp.MustCompile(`§(\d+)|\b[Ss]ections? (\d+)(?: and (\d+))? of the contract`)
	methodCount = regexp.MustCompile(`(\w+) methods (?:over one store|in three interfaces)`)
)

// Pages, comments and messages refer to sections that the contract has, and know how many
// methods the interface has.
func TestDocs_ReferencesToTheContractAreRight(t *testing.T) {
	t.Parallel()
	root := filepath.Join("..", "..")
	contract, err := os.ReadFile(filepath.Join(root, "broker", "doc.go"))
	if err != nil {
		t.Fatal(err)
	}
	last := len(sectionHead.FindAllString(string(contract), -1))
	if last < 40 {
		t.Fatalf("the contract has only %d sections: they are looked for in the wrong way", last)
	}
	words := []string{"sixteen", "seventeen", "eighteen", "nineteen", "twenty"}
	refs, counts := 0, 0
	for _, file := range slices.Concat(documents(t), sources(t)) {
		text, err := os.ReadFile(filepath.Join(root, file))
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Contains(text, []byte("§")) && !bytes.Contains(text, []byte(" the contract")) && !bytes.Contains(text, []byte(" methods ")) {
			continue
		}
		for _, m := range sectionRef.FindAllStringSubmatch(string(text), -1) {
			for _, number := range m[1:] {
				if n, _ := strconv.Atoi(number); number != "" {
					refs++
					if n < 1 || n > last {
						t.Errorf("%s: %q, but the contract ends with §%d", file, m[0], last)
					}
				}
			}
		}
		for _, m := range methodCount.FindAllStringSubmatch(string(text), -1) {
			counts++
			if got := slices.Index(words, m[1]) + 16; got != reflect.TypeFor[broker.Broker]().NumMethod() {
				t.Errorf("%s: %q, but broker.Broker has %d", file, m[0], reflect.TypeFor[broker.Broker]().NumMethod())
			}
		}
	}
	if refs < 500 || counts < 2 {
		t.Errorf("only %d references and %d counts were found: they are looked for in the wrong way", refs, counts)
	}
}
