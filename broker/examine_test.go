package broker_test

import (
	"errors"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/seed81422ce9/jobs/broker"
)

func TestEveryKindOfFindingSaysWhatToDo(t *testing.T) {
	t.Parallel()
	kinds := broker.FindingKinds()
	for _, k := range kinds {
		if !regexp.MustCompile(`^[a-z]+(-[a-z]+)+$`).MatchString(k.Code) {
			t.Errorf("%q is no code", k.Code)
		}
		if k.Means == "" || k.Repair == "" && k.Advice == "" {
			t.Errorf("%s says neither what a repair does nor what to do: %+v", k.Code, k)
		}
		if got := (broker.Finding{Code: k.Code}).Kind(); got != k {
			t.Errorf("the kind of %s is %+v", k.Code, got)
		}
	}
	if len(kinds) < 50 || !slices.IsSortedFunc(kinds, func(a, b broker.FindingKind) int { return strings.Compare(a.Code, b.Code) }) {
		t.Errorf("%d kinds, out of order", len(kinds))
	}
}

func TestAnExaminationGoesThroughItsPlan(t *testing.T) {
	t.Parallel()
	plan := broker.ExaminePlan{Store: []string{"s", "r"}, Queue: []string{"a", "b"}}
	after := func(queue string) (string, error) {
		return map[string]string{"": "q1", "q1": "q2"}[queue], nil
	}
	walk := func(queue string) (steps []string) {
		req := broker.ExamineRequest{Queue: queue}
		for range 20 {
			at, err := plan.Read(&req)
			if err != nil {
				t.Fatal(err)
			}
			steps = append(steps, at.Part+"/"+at.Queue+"/"+at.Pos)
			pos := ""
			if at.Part == "b" && at.Pos == "" {
				pos = "line\nand line"
			}
			if req.Cursor, err = plan.Next(&req, at, pos, after); err != nil || req.Cursor == "" {
				break
			}
		}
		return steps
	}
	if got, want := walk(""), []string{"s//", "r//", "a/q1/", "b/q1/", "b/q1/line\nand line", "a/q2/", "b/q2/", "b/q2/line\nand line"}; !slices.Equal(got, want) {
		t.Errorf("the whole store: %q, want %q", got, want)
	}
	if got, want := walk("q2"), []string{"a/q2/", "b/q2/", "b/q2/line\nand line"}; !slices.Equal(got, want) {
		t.Errorf("one queue: %q, want %q", got, want)
	}
	for _, req := range []broker.ExamineRequest{
		{Cursor: "a"}, {Cursor: "z\nq\n"}, {Cursor: "s\nq\n"}, {Cursor: "a\n{q}\n"}, {Queue: "q", Cursor: "a\nr\n"}, {Queue: "q", Cursor: "s\n\n"},
	} {
		if at, err := plan.Read(&req); !errors.Is(err, broker.ErrInvalid) {
			t.Errorf("%+v: %+v, %v, want ErrInvalid", req, at, err)
		}
	}
}

// The page for operators lists what this package says.
func TestTheDocumentationKnowsEveryFinding(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../docs/doctor.md")
	if err != nil {
		t.Fatal(err)
	}
	tables, list, _ := strings.Cut(string(page), "## All findings")
	for _, k := range broker.FindingKinds() {
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
		if (broker.Finding{Code: m[1]}).Kind().Code == "" {
			t.Errorf("docs/doctor.md names %s, which is no finding", m[1])
		}
	}
}
