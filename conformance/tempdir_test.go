package conformance_test

import (
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/seed81422ce9/jobs/backends/membroker"
	"github.com/seed81422ce9/jobs/broker"
	"github.com/seed81422ce9/jobs/conformance"
)

// A file store has a directory for each rule, which is removed after the rule.
func TestJudge_RemovesTheDirectoriesOfRules(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	var dirs []string
	verdicts := conformance.Judge(func(tb conformance.TB) *conformance.Store {
		dir := tb.TempDir()
		if err := os.WriteFile(filepath.Join(dir, "store"), nil, 0o600); err != nil {
			tb.Fatalf("%v", err)
		}
		mu.Lock()
		dirs = append(dirs, dir)
		mu.Unlock()
		s := membroker.NewStore()
		return &conformance.Store{Open: func(conformance.TB) broker.Broker { return s.Open() }}
	}, "Find/ByID", "Find/ByState")
	for _, v := range verdicts {
		if v.Result == conformance.Failed && v.Section != "" {
			t.Errorf("%s: %s", v.Rule, v.Failure)
		}
	}
	if len(dirs) < 1 || len(dirs) > 1 && dirs[0] == dirs[1] {
		t.Fatalf("the directories of the rules were %q, want one for each", dirs)
	}
	for _, dir := range dirs {
		if _, err := os.Stat(dir); !os.IsNotExist(err) {
			t.Errorf("%s is still there after the rule: %v", dir, err)
		}
	}
}
