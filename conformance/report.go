package conformance

import (
	"cmp"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
)

// Report is what Run found about one backend. With JOBS_CONFORMANCE_REPORT set
// to a directory, Run writes it there as <backend>.<test>.json.
type Report struct {
	Backend  string    `json:"backend"` // the name of the test's package
	Test     string    `json:"test"`
	Verdicts []Verdict `json:"verdicts"` // sorted by rule
}

// collector gathers a report from rules that run in parallel.
type collector struct {
	mu sync.Mutex
	Report
}

func newReport(t *testing.T) *collector {
	backend, _, _ := strings.Cut(filepath.Base(os.Args[0]), ".")
	return &collector{Report: Report{Backend: backend, Test: t.Name()}}
}

func (r *collector) add(v *Verdict) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.Verdicts = append(r.Verdicts, *v)
}

func (r *collector) write(t *testing.T) {
	dir := os.Getenv("JOBS_CONFORMANCE_REPORT")
	if dir == "" {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	slices.SortFunc(r.Verdicts, func(a, b Verdict) int { return cmp.Compare(a.Rule, b.Rule) })
	text, err := json.MarshalIndent(r.Report, "", "\t")
	if err == nil {
		err = os.MkdirAll(dir, 0o755)
	}
	if err == nil {
		name := r.Backend + "." + strings.ReplaceAll(r.Test, "/", "-") + ".json"
		err = os.WriteFile(filepath.Join(dir, name), append(text, '\n'), 0o644)
	}
	if err != nil {
		t.Errorf("JOBS_CONFORMANCE_REPORT: %v", err)
	}
}
