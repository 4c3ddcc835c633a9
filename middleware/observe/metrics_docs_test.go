package observe

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "rewrite the table in docs/metrics.md")

func TestMetricsDocs_TheDocumentationListsTheMetricsOfTheCode(t *testing.T) {
	t.Parallel()
	file := filepath.Join("..", "..", "docs", "metrics.md")
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	const begin, end = "-update -->\n", "<!-- end table -->"
	before, rest, found := strings.Cut(string(text), begin)
	table, after, ended := strings.Cut(rest, end)
	if !found || !ended {
		t.Fatalf("%s has no table between %q and %q", file, begin, end)
	}
	want := documented()
	if table == want {
		return
	}
	if !*update {
		t.Fatalf("the table differs from the code; run go test ./middleware -run Documentation -update\n%s", difference("\n"+table, "\n"+want))
	}
	if err := os.WriteFile(file, []byte(before+begin+want+end+after), 0o644); err != nil {
		t.Fatal(err)
	}
}

// documented writes the table in Markdown.
func documented() string {
	var b strings.Builder
	b.WriteString("| metric | kind | labels | what it tells |\n|---|---|---|---|\n")
	for _, m := range MetricTable() {
		help := m.Help
		if m.Shared {
			help = "**Shared.** " + help
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s |\n", m.Name, m.Kind, strings.Join(m.Labels, ", "), help)
	}
	return b.String()
}

func TestMetricsDocs_NamesInPrometheusFollowFromThoseOfTheInstruments(t *testing.T) {
	t.Parallel()
	seen := make(map[string]bool)
	for _, m := range MetricTable() {
		name := strings.ReplaceAll(m.Instrument, ".", "_")
		if m.Unit == "s" {
			name += "_seconds"
		}
		if m.Kind == Counter {
			name += "_total"
		}
		if name != m.Name || seen[m.Name] || m.Help == "" || !strings.HasPrefix(m.Name, "jobs_") {
			t.Errorf("%s becomes %s and is called %s; each needs a name of its own that follows, and help", m.Instrument, name, m.Name)
		}
		seen[m.Name] = true
	}
}
