package backends_test

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/seed81422ce9/jobs/backends/pgbroker"
	"github.com/seed81422ce9/jobs/backends/redisbroker"
	"github.com/seed81422ce9/jobs/broker"
	"github.com/seed81422ce9/jobs/schedule"
	"github.com/seed81422ce9/jobs/workflow"
)

// everyKind is every kind of finding, those of all backends too.
func everyKind(t *testing.T) broker.FindingKinds {
	t.Helper()
	all := broker.KnownFindings()
	for _, k := range slices.Concat(redisbroker.FindingKinds(), pgbroker.FindingKinds(), schedule.FindingKinds(), workflow.FindingKinds()) {
		if known, ok := all[k.Code]; ok && known != k {
			t.Errorf("%s means two things: %+v and %+v", k.Code, known, k)
		}
		all[k.Code] = k
	}
	return all
}

func TestFindings_SayWhatToDo(t *testing.T) {
	t.Parallel()
	for _, k := range everyKind(t).List() {
		if !regexp.MustCompile(`^[a-z]+(-[a-z]+)+$`).MatchString(k.Code) {
			t.Errorf("%q is no code", k.Code)
		}
		if k.Means == "" || k.Repair == "" && k.Advice == "" {
			t.Errorf("%s says neither what a repair does nor what to do: %+v", k.Code, k)
		}
	}
}

// A kind that one backend alone reports stands in that backend. One that
// nobody reports is not described.
func TestFindings_StandWhereTheyAreReported(t *testing.T) {
	t.Parallel()
	dirs := []string{"membroker", "redisbroker", "pgbroker", "../inspect", "../schedule", "../workflow"}
	texts := make(map[string]string, len(dirs))
	for _, dir := range dirs {
		err := filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
			if err != nil || d.IsDir() || strings.HasSuffix(path, "_test.go") || strings.HasSuffix(path, "_kinds.go") {
				return err
			}
			text, err := os.ReadFile(path)
			texts[dir] += string(text)
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	reports := func(dir, code string) bool {
		return slices.ContainsFunc([]string{"'", `"`, "`"}, func(q string) bool { return strings.Contains(texts[dir], q+code+q) })
	}
	common := broker.KnownFindings()
	for _, k := range everyKind(t).List() {
		var by []string
		for _, dir := range dirs {
			if reports(dir, k.Code) {
				by = append(by, dir)
			}
		}
		any := len(by) > 1 || len(by) == 1 && (by[0] == "membroker" || by[0] == "../inspect")
		if _, ok := common[k.Code]; ok != any {
			t.Errorf("%s is reported by %q; it stands in package broker: %t, want %t", k.Code, by, ok, any)
		}
	}
}

// The page for operators lists every kind.
func TestFindings_AreInTheDocumentation(t *testing.T) {
	t.Parallel()
	kinds := everyKind(t)
	page, err := os.ReadFile("../docs/doctor.md")
	if err != nil {
		t.Fatal(err)
	}
	tables, list, _ := strings.Cut(string(page), "## All findings")
	for _, k := range kinds.List() {
		row := fmt.Sprintf("| `%s` | %s | %s | %s |\n", k.Code, k.Means, k.Repair, k.Advice)
		errors, warnings, _ := strings.Cut(list, "### Warnings")
		if at := map[bool]string{true: warnings, false: errors}[k.Warning]; !strings.Contains(at, row) {
			t.Errorf("docs/doctor.md lacks, among errors or warnings as it is, the row\n%s", row)
		}
		if !strings.Contains(tables, "`"+k.Code+"`") {
			t.Errorf("docs/doctor.md does not say what must hold for %s not to be found", k.Code)
		}
	}
	for _, m := range regexp.MustCompile("`([a-z]+(?:-[a-z]+)+)`").FindAllStringSubmatch(string(page), -1) {
		if kinds.Of(m[1]).Means == "" {
			t.Errorf("docs/doctor.md names %s, which is no finding", m[1])
		}
	}
}
