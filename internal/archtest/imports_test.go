package archtest

import (
	"encoding/json"
	"errors"
	"io"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

const module = "github.com/seed81422ce9/jobs"

// pkg is the part of the output of `go list` that the rules need.
type pkg struct {
	ImportPath string
	Imports    []string // direct imports
	Deps       []string // direct and indirect imports
}

// rule limits what a package may import directly, and what it may depend on at all.
type rule struct {
	of    string   // a package of the module; "x/..." means x and all packages below it
	may   []string // direct imports outside the standard library; nil allows all
	never []string // packages that it must not depend on, directly or indirectly
}

// drivers are compiled only into programs that import the backend of their store.
var drivers = []string{"github.com/redis/...", "github.com/jackc/...", "go.etcd.io/bbolt/..."}

var rules = []rule{
	{of: "broker", may: []string{}},
	{of: "internal/engine", may: []string{"broker", "internal/guard", "internal/history", "internal/sleep"}},
	{of: "internal/history", may: []string{"broker"}},
	{of: "backends/membroker/...", may: []string{"broker", "backends/membroker/...", "internal/journal", "github.com/google/btree"},
		never: drivers},
	{of: "backends/filebroker/...", may: []string{"broker", "backends/membroker", "internal/journal", "go.etcd.io/bbolt/..."}},
	{of: "backends/redisbroker/...", may: []string{"broker", "backends/redisbroker/...", "internal/duewatch", "internal/guard",
		"internal/plaintime", "github.com/redis/..."}},
	{of: "backends/pgbroker/...", may: []string{"broker", "backends/pgbroker/...", "internal/deadconn", "internal/duewatch",
		"internal/guard", "github.com/jackc/..."}},
	{of: "backends/shardbroker/...", may: []string{"broker", "internal/guard"}}, // its caller passes brokers
	{of: "conformance/...", may: []string{"broker", "conformance/..."}},
	{of: "", may: []string{"broker", "internal/...", "github.com/oklog/ulid/..."}, never: append([]string{"backends/..."}, drivers...)},
	{of: "schedule/...", may: []string{"", "broker", "internal/..."}, never: append([]string{"backends/..."}, drivers...)},
	{of: "workflow/...", may: []string{"", "broker", "internal/..."}, never: append([]string{"backends/..."}, drivers...)},
	{of: "relay/...", may: []string{"", "broker", "inspect", "internal/...", "github.com/oklog/ulid/..."},
		never: append([]string{"backends/..."}, drivers...)},
	{of: "inspect/...", may: []string{"broker", "internal/...", "github.com/oklog/ulid/..."},
		never: append([]string{"backends/..."}, drivers...)},
	{of: "compat/asynqdata", may: []string{"", "broker", "schedule", "github.com/redis/...", "google.golang.org/protobuf/..."}},
	{of: "compat/riverdata", may: []string{"broker", "github.com/jackc/..."}},
	{of: "middleware/...", never: append([]string{"backends/..."}, drivers...)},
	{of: "middleware", never: []string{"go.opentelemetry.io/...", "github.com/klauspost/..."}},
	{of: "middleware/payload", never: []string{"go.opentelemetry.io/..."}},
	{of: "dashboard/...", never: append([]string{"backends/..."}, drivers...)},
	{of: "jobstest/...", never: drivers},
	{of: "examples/quickstart", never: drivers},

	// Programs do not link test helpers.
	{of: "broker", never: []string{"testing", "internal/testenv/..."}},
	{of: "", never: []string{"testing", "internal/testenv/..."}},
	{of: "backends/...", never: []string{"testing", "internal/testenv/...", "conformance/..."}},
	{of: "middleware/...", never: []string{"testing", "internal/testenv/..."}},
	{of: "relay/...", never: []string{"testing", "internal/testenv/..."}},
	{of: "inspect/...", never: []string{"testing", "internal/testenv/..."}},
	{of: "dashboard/...", never: []string{"testing", "internal/testenv/..."}},
	{of: "cmd/...", never: []string{"testing", "internal/testenv/..."}},
}

func TestImports_FollowTheArrows(t *testing.T) {
	t.Parallel()
	for _, p := range packages(t) {
		for _, r := range rules {
			if !matches(r.of, p.ImportPath) {
				continue
			}
			for _, imported := range p.Imports {
				if r.may != nil && !standard(imported) && !matchesAny(r.may, imported) {
					t.Errorf("%s imports %s; it may import the standard library and %v", p.ImportPath, imported, r.may)
				}
			}
			for _, dep := range p.Deps {
				if matchesAny(r.never, dep) {
					t.Errorf("%s depends on %s, which a rule forbids (go list -deps shows the chain of imports)", p.ImportPath, dep)
				}
			}
		}
	}
}

func TestImports_PatternsStandForWhatTheySay(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		pattern, path string
		want          bool
	}{
		{"", module, true},
		{"", module + "/broker", false},
		{"broker", module + "/broker", true},
		{"broker", module + "/broker/sub", false},
		{"backends/...", module + "/backends", true},
		{"backends/...", module + "/backends/x/y", true},
		{"backends/...", module + "/backendsx", false},
		{"testing", "testing", true},
		{"testing", module + "/testing", true},
		{"internal/...", "internal/abi", true},
		{"github.com/redis/...", "github.com/redis/go-redis/v9", true},
		{"github.com/redis/...", module + "/github.com/redis", false},
	} {
		if got := matches(c.pattern, c.path); got != c.want {
			t.Errorf("matches(%q, %q) = %v, want %v", c.pattern, c.path, got, c.want)
		}
	}
}

func packages(t *testing.T) []pkg {
	t.Helper()
	out, err := exec.Command("go", "list", "-json=ImportPath,Imports,Deps", module+"/...").Output()
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		t.Fatalf("go list: %s", exit.Stderr)
	} else if err != nil {
		t.Fatal(err)
	}
	var list []pkg
	for d := json.NewDecoder(strings.NewReader(string(out))); ; {
		var p pkg
		if err := d.Decode(&p); err == io.EOF {
			return list
		} else if err != nil {
			t.Fatal(err)
		}
		list = append(list, p)
	}
}

// matches reports whether a pattern of a rule matches path. A pattern whose first element has no dot
// is relative to the module, unless path is in the standard library.
func matches(pattern, path string) bool {
	if first, _, _ := strings.Cut(pattern, "/"); !strings.Contains(first, ".") && !standard(path) {
		pattern = strings.TrimSuffix(module+"/"+pattern, "/")
	}
	if tree, ok := strings.CutSuffix(pattern, "/..."); ok {
		return path == tree || strings.HasPrefix(path, tree+"/")
	}
	return path == pattern
}

func matchesAny(patterns []string, path string) bool {
	return slices.ContainsFunc(patterns, func(p string) bool { return matches(p, path) })
}

// standard reports whether path is in the standard library: only there the first element has no dot.
func standard(path string) bool {
	first, _, _ := strings.Cut(path, "/")
	return !strings.Contains(first, ".")
}
