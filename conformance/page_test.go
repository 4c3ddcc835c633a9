package conformance_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/seed81422ce9/jobs/backends/membroker"
	"github.com/seed81422ce9/jobs/broker"
	"github.com/seed81422ce9/jobs/conformance"
)

// docs/backends.md is made from docs/backends.json, which has the parts of each report
// that the page shows. To update both, with servers running:
//
//	JOBS_CONFORMANCE_REPORT=$PWD/reports go test -count=1 -run Conform ./backends/...
//	JOBS_UPDATE_PAGE=$PWD/reports go test -count=1 -run Page ./conformance
const (
	pagePath    = "../docs/backends.md"
	columnsPath = "../docs/backends.json"
)

// column is one run of the suite: by group, how many rules had each result.
type column struct {
	Backend string
	Test    string
	Groups  map[string]map[conformance.Result]int
	Limits  []string `json:",omitempty"`
}

func newColumn(r conformance.Report) column {
	c := column{Backend: r.Backend, Test: r.Test, Groups: make(map[string]map[conformance.Result]int)}
	for _, v := range r.Verdicts {
		group, _, _ := strings.Cut(v.Rule, "/")
		if c.Groups[group] == nil {
			c.Groups[group] = make(map[conformance.Result]int)
		}
		c.Groups[group][v.Result]++
		if v.Limit != "" && !slices.Contains(c.Limits, v.Limit) {
			c.Limits = append(c.Limits, v.Limit)
		}
	}
	slices.Sort(c.Limits)
	return c
}

// title returns the heading of the column, such as "redis on a cluster".
func (c column) title() string {
	names := map[string]string{"membroker": "memory", "filebroker": "file", "redisbroker": "Redis", "pgbroker": "Postgres"}
	name := names[c.Backend]
	if name == "" {
		name = c.Backend
	}
	how := strings.TrimPrefix(c.Test, "TestConformance")
	how = regexp.MustCompile(`[A-Z]`).ReplaceAllStringFunc(how, func(s string) string { return " " + strings.ToLower(s) })
	how = strings.NewReplacer("_", " ", "/", " ", "pg bouncer", "PgBouncer", "cluster", "Cluster").Replace(how)
	return strings.Join(strings.Fields(name+" "+how), " ")
}

func (c column) cell(group string, rules int) string {
	n := c.Groups[group]
	cell := fmt.Sprint(n[conformance.Passed])
	if n[conformance.Refused] > 0 {
		cell = strings.TrimPrefix(fmt.Sprintf("%s + %d refused", cell, n[conformance.Refused]), "0 + ")
	}
	if n[conformance.Failed] > 0 {
		cell += fmt.Sprintf(" + **%d failed**", n[conformance.Failed])
	}
	switch done := n[conformance.Passed] + n[conformance.Refused] + n[conformance.Failed] + n[conformance.Absent]; {
	case done == 0:
		return "not run"
	case n[conformance.Absent] == done:
		return "–"
	case done > rules:
		cell += " of an earlier suite"
	case done != rules: // the backend ran a part of the suite, or the report is of an earlier one
		cell += fmt.Sprintf(", %d not run", rules-done)
	}
	return cell
}

func render(columns []column) []byte {
	var groups []string
	rules := make(map[string][]conformance.Rule)
	for _, r := range conformance.Rules() {
		if rules[r.Group()] == nil {
			groups = append(groups, r.Group())
		}
		rules[r.Group()] = append(rules[r.Group()], r)
	}
	var b bytes.Buffer
	b.WriteString("# Backends, and what they were checked for\n\n")
	b.WriteString(`Made by the tests of package conformance from its reports; do not edit. Each column is a complete run of the suite, each
cell the number of rules of a group that passed. No rule failed, unless a cell says so. '–' means that the store has nothing that the
group is about: a memory store has no layout, no stored bodies and no connections. A limit that a backend declares is checked as a
refusal. *Not run* are rules that are newer than the last complete run of that column.

| group |`)
	for _, c := range columns {
		b.WriteString(" " + c.title() + " |")
	}
	b.WriteString("\n|---|" + strings.Repeat("---|", len(columns)) + "\n")
	for _, g := range groups {
		b.WriteString("| " + g + " |")
		for _, c := range columns {
			b.WriteString(" " + c.cell(g, len(rules[g])) + " |")
		}
		b.WriteString("\n")
	}
	for _, c := range columns {
		if len(c.Limits) > 0 {
			fmt.Fprintf(&b, "\nDeclared by %s: %s.\n", c.title(), strings.Join(c.Limits, ", "))
		}
	}
	b.WriteString("\n## The rules\n")
	for _, g := range groups {
		fmt.Fprintf(&b, "\n### %s\n\n", g)
		for _, r := range rules[g] {
			_, name, _ := strings.Cut(r.ID, "/")
			fmt.Fprintf(&b, "- **%s** (%s): %s\n", name, r.Section, r.Text)
		}
	}
	return b.Bytes()
}

func TestSuite_CellsOfThePageTellNotRunFromFailed(t *testing.T) {
	t.Parallel()
	c := column{Groups: map[string]map[conformance.Result]int{
		"Part":   {conformance.Passed: 5},
		"Failed": {conformance.Passed: 5, conformance.Failed: 2},
		"Absent": {conformance.Absent: 7},
		"More":   {conformance.Passed: 8},
	}}
	for group, want := range map[string]string{
		"Part": "5, 2 not run", "Failed": "5 + **2 failed**", "Absent": "–", "New": "not run", "More": "8 of an earlier suite",
	} {
		if got := c.cell(group, 7); got != want {
			t.Errorf("cell of %s: got %q, want %q", group, got, want)
		}
	}
}

func TestSuite_TheBackendsPageIsInStep(t *testing.T) {
	t.Parallel()
	memory := conformance.Report{Backend: "membroker", Test: "TestConformance",
		Verdicts: conformance.Judge(func(conformance.TB) *conformance.Store {
			s := membroker.NewStore()
			return &conformance.Store{Open: func(conformance.TB) broker.Broker { return s.Open() }}
		})}
	for _, v := range memory.Verdicts {
		if v.Result == conformance.Failed {
			t.Errorf("%s on memory:\n%s", v.Rule, v.Failure) // the failure names the seed of a random sequence
		}
	}
	var columns []column
	read(t, columnsPath, &columns)
	if dir := os.Getenv("JOBS_UPDATE_PAGE"); dir != "" {
		columns = update(t, columns, memory, dir)
	}
	var got map[string]map[conformance.Result]int
	for _, c := range columns {
		if c.Backend == memory.Backend && c.Test == memory.Test {
			got = c.Groups
		}
	}
	if want := newColumn(memory).Groups; fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("docs/backends.json does not say of the memory backend what the suite does now; "+
			"make it again, as page_test.go says\ngot  %v\nwant %v", got, want)
	}
	if page, err := os.ReadFile(pagePath); err != nil || !bytes.Equal(page, render(columns)) {
		t.Errorf("docs/backends.md is not what the rules and docs/backends.json make (%v); make it again, as page_test.go says", err)
	}
}

// update merges the reports in a directory, and memory's, into the columns, and writes
// both files.
func update(t *testing.T, columns []column, memory conformance.Report, dir string) []column {
	t.Helper()
	reports := []conformance.Report{memory}
	paths, err := filepath.Glob(filepath.Join(dir, "*broker.*.json"))
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range paths {
		var r conformance.Report
		read(t, path, &r)
		reports = append(reports, r)
	}
	for _, r := range reports {
		columns = slices.DeleteFunc(columns, func(c column) bool { return c.Backend == r.Backend && c.Test == r.Test })
		columns = append(columns, newColumn(r))
	}
	order := []string{"membroker", "filebroker", "redisbroker", "pgbroker", "shardbroker"}
	slices.SortFunc(columns, func(a, b column) int {
		if a.Backend != b.Backend {
			return slices.Index(order, a.Backend) - slices.Index(order, b.Backend)
		}
		return strings.Compare(a.Test, b.Test)
	})
	text, err := json.MarshalIndent(columns, "", "\t")
	if err != nil {
		t.Fatal(err)
	}
	for path, content := range map[string][]byte{columnsPath: append(text, '\n'), pagePath: render(columns)} {
		if err := os.WriteFile(path, content, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return columns
}

func read(t *testing.T, path string, into any) {
	t.Helper()
	text, err := os.ReadFile(path)
	if os.IsNotExist(err) && os.Getenv("JOBS_UPDATE_PAGE") != "" {
		return
	}
	if err == nil {
		err = json.Unmarshal(text, into)
	}
	if err != nil {
		t.Fatalf("%s: %v", path, err)
	}
}
