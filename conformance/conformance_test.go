package conformance_test

import (
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/seed81422ce9/jobs/backends/membroker"
	"github.com/seed81422ce9/jobs/broker"
	"github.com/seed81422ce9/jobs/conformance"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m)
}

func TestSuite_AnOddButLegalBackendConforms(t *testing.T) {
	conformance.Run(t, memory(odd))
}

func TestSuite_ABackendWithDeclaredLimitsConforms(t *testing.T) {
	t.Parallel()
	refused := 0
	for _, v := range conformance.Judge(memory(limited)) {
		if v.Result == conformance.Failed {
			t.Errorf("%s:\n%s", v.Rule, v.Failure)
		}
		if v.Result == conformance.Refused {
			refused++
		}
	}
	if refused < 120 {
		t.Errorf("%d rules were checked as refusals, want at least 120: uniqueness, priorities, waiting, watching, marks, moving and limits",
			refused)
	}
}

func TestSuite_EverySectionOfTheContractHasARule(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../broker/doc.go")
	if err != nil {
		t.Fatal(err)
	}
	var cited []string
	for _, r := range conformance.Rules() {
		cited = append(cited, strings.Fields(r.Section)...)
	}
	sections := regexp.MustCompile(`(?m)^// (§\d+) [A-Z]`).FindAllStringSubmatch(string(text), -1)
	if len(sections) < 20 {
		t.Fatalf("broker/doc.go has %d numbered sections, want at least 20: is it still written that way?", len(sections))
	}
	for i, s := range sections {
		if want := fmt.Sprint("§", i+1); s[1] != want {
			t.Errorf("broker/doc.go has %s in the place of %s: number the sections without gaps", s[1], want)
		}
		if !slices.Contains(cited, s[1]) {
			t.Errorf("no rule cites %s", s[1])
		}
	}
	for _, s := range cited {
		if !slices.ContainsFunc(sections, func(known []string) bool { return known[1] == s }) {
			t.Errorf("a rule cites %s, which broker/doc.go does not have", s)
		}
	}
}

func TestSuite_RulesHaveStableNamesAndSentences(t *testing.T) {
	t.Parallel()
	name := regexp.MustCompile(`^[A-Z][a-z]+/[A-Z][A-Za-z]+$`)
	seen := make(map[string]bool)
	for _, r := range conformance.Rules() {
		if !name.MatchString(r.ID) || seen[r.ID] {
			t.Errorf("rule ID %q: want Group/RuleName, once", r.ID)
		}
		if seen[r.ID] = true; !strings.HasSuffix(r.Text, ".") {
			t.Errorf("rule %s: its text is no sentence: %q", r.ID, r.Text)
		}
	}
}

func TestSuite_JudgeRefusesANameThatMeansNoRule(t *testing.T) {
	t.Parallel()
	got := conformance.Judge(memory(unchanged), "Lease/NoSuchRule", "Watch/")
	if len(got) < 3 || got[0].Result != conformance.Failed || got[1].Result != conformance.Passed {
		t.Errorf("Judge: %+v, want a failed verdict for the unknown name and passed ones for the group", got)
	}
}

func TestSuite_AFailureTellsAStrangerWhatBroke(t *testing.T) {
	t.Parallel()
	v := conformance.Judge(memory(func() func(*patched) {
		return func(p *patched) { p.newJobs(func(j *broker.NewJob) { j.Body.Payload = nil }) }
	}), "Data/BodiesComeBackWhole")[0]
	for _, want := range []string{"rule Data/BodiesComeBackWhole (broker/doc.go, §2): Every field", "got  ", "want ", "h1 Enqueue(q/a unique",
		"+0s", "store:\n    a memory store", "rerun", "go test -run '^Data$/^BodiesComeBackWhole$' ."} {
		if !strings.Contains(v.Failure, want) {
			t.Errorf("the failure does not show %q:\n%s", want, v.Failure)
		}
	}
}

func unchanged() func(*patched) { return func(*patched) {} }

// limited declares every limit, and refuses as the suite requires.
func limited() func(*patched) {
	limits := broker.Limits{NoPriority: true, NoUnique: true, NoWait: true, NoWatch: true, NoMark: true, NoExamine: true, NoMove: true,
		NoFlow: true, MaxPayload: 1000, TimeStep: time.Millisecond}
	return func(p *patched) { limitTo(p, limits) }
}

func BenchmarkMemory(b *testing.B) {
	conformance.Bench(b, func(conformance.TB) *conformance.Store {
		s := membroker.NewStore()
		return &conformance.Store{Open: func(conformance.TB) broker.Broker { return s.Open() }}
	})
}

func TestSuite_APanicInABackendFailsItsRuleAlone(t *testing.T) {
	t.Parallel()
	got := conformance.Judge(memory(func() func(*patched) {
		return func(p *patched) {
			change(&p.renew, func(r *broker.RenewRequest) {
				if r.Describe {
					panic("oh no")
				}
			}, nil)
		}
	}), "Lease/")
	failed := 0
	for _, v := range got {
		if v.Result != conformance.Failed {
			continue
		}
		failed++
		for _, want := range []string{"panic: oh no", "conformance_test.go", "calls, with their Now", "rerun"} {
			if !strings.Contains(v.Failure, want) {
				t.Errorf("%s: the failure does not show %q:\n%s", v.Rule, want, v.Failure)
			}
		}
	}
	if failed == 0 || failed == len(got) {
		t.Errorf("%d of %d rules failed, want those that describe a worker", failed, len(got))
	}
}
