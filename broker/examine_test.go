package broker_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/seed81422ce9/jobs/broker"
)

func TestKnownFindings_AddsABackendsOwn(t *testing.T) {
	t.Parallel()
	own := broker.FindingKind{Code: "disk-full", Means: "m", Advice: "a"}
	kinds := broker.KnownFindings([]broker.FindingKind{own})
	if got := kinds.Of("disk-full"); got != own {
		t.Errorf("the backend's own kind is %+v", got)
	}
	if got := kinds.Of("count-differs"); got.Means == "" || got.Repair == "" {
		t.Errorf("a kind of any store is %+v", got)
	}
	if got := kinds.Of("unheard-of"); got != (broker.FindingKind{Code: "unheard-of"}) {
		t.Errorf("an unknown kind is %+v, want the code alone", got)
	}
	if got := broker.KnownFindings().Of("disk-full"); got.Means != "" {
		t.Errorf("one backend's kind is known to others: %+v", got)
	}
	if list := kinds.List(); len(list) != len(kinds) ||
		!slices.IsSortedFunc(list, func(a, b broker.FindingKind) int { return strings.Compare(a.Code, b.Code) }) {
		t.Errorf("the list of %d kinds is %+v", len(kinds), list)
	}
	defer func() {
		if recover() == nil {
			t.Error("a backend can describe count-differs anew")
		}
	}()
	broker.KnownFindings([]broker.FindingKind{{Code: "count-differs"}})
}

func TestExamine_AnExaminationGoesThroughItsPlan(t *testing.T) {
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
	if got, want := walk(""), []string{"s//", "r//", "a/q1/", "b/q1/", "b/q1/line\nand line", "a/q2/", "b/q2/",
		"b/q2/line\nand line"}; !slices.Equal(got, want) {
		t.Errorf("the whole store: %q, want %q", got, want)
	}
	if got, want := walk("q2"), []string{"a/q2/", "b/q2/", "b/q2/line\nand line"}; !slices.Equal(got, want) {
		t.Errorf("one queue: %q, want %q", got, want)
	}
	for _, req := range []broker.ExamineRequest{
		{Cursor: "a"}, {Cursor: "z\nq\n"}, {Cursor: "s\nq\n"}, {Cursor: "a\n{q}\n"}, {Queue: "q", Cursor: "a\nr\n"},
		{Queue: "q", Cursor: "s\n\n"},
	} {
		if at, err := plan.Read(&req); !errors.Is(err, broker.ErrInvalid) {
			t.Errorf("%+v: %+v, %v, want ErrInvalid", req, at, err)
		}
	}
}
