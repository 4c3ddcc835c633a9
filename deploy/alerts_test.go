package deploy

import (
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/seed81422ce9/jobs/middleware/observe"

	"go.yaml.in/yaml/v3"

	"github.com/seed81422ce9/jobs/internal/testenv"
)

func TestMain(m *testing.M) { testenv.Main(m) }

const (
	rulesFile    = "prometheus/jobs.rules.yml"
	scrapeConfig = "prometheus/prometheus.yml"
	runbooks     = "../docs/runbooks.md"
)

// rulesTests are the tests of the rules. Only the alerts that look at days are in the second.
var rulesTests = []string{"prometheus/jobs.rules_test.yml", "prometheus/jobs.rules_days_test.yml"}

// alert is an alerting rule, or, with Record, a recording rule.
type alert struct {
	Alert       string
	Record      string
	Expr        string
	For         string
	Labels      map[string]string
	Annotations map[string]string
}

// decode reads a YAML file. It fails for fields that into does not have.
func decode(t *testing.T, file string, into any) {
	t.Helper()
	f, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	d := yaml.NewDecoder(f)
	d.KnownFields(true)
	if err := d.Decode(into); err != nil {
		t.Fatalf("%s: %v", file, err)
	}
}

func alerts(t *testing.T) []alert {
	t.Helper()
	return slices.DeleteFunc(rules(t), func(a alert) bool { return a.Record != "" })
}

func rules(t *testing.T) (all []alert) {
	t.Helper()
	var file struct {
		Groups []struct {
			Name  string
			Rules []alert
		}
	}
	decode(t, rulesFile, &file)
	for _, g := range file.Groups {
		all = append(all, g.Rules...)
	}
	if len(all) < 10 {
		t.Fatalf("%s has %d alerts", rulesFile, len(all))
	}
	return all
}

// tool runs a program of Prometheus.
func tool(t *testing.T, name string, args ...string) {
	t.Helper()
	path, err := exec.LookPath(name)
	if err != nil {
		t.Fatalf("%s is not installed: run .ci/setup, or install Debian's package prometheus", name)
	}
	if out, err := exec.Command(path, args...).CombinedOutput(); err != nil {
		t.Errorf("%s %s: %v\n%s", name, strings.Join(args, " "), err, out)
	}
}

func TestDeploy_PrometheusTakesItsFiles(t *testing.T) {
	t.Parallel()
	tool(t, "promtool", "check", "rules", rulesFile)
	tool(t, "promtool", "check", "config", scrapeConfig)
}

func TestDeploy_AlertsFireWhenTheyShouldAndOnlyThen(t *testing.T) {
	t.Parallel()
	tool(t, "promtool", append([]string{"test", "rules"}, rulesTests...)...)
}

func TestDeploy_EachAlertIsTestedBothWays(t *testing.T) {
	t.Parallel()
	type tests struct {
		RuleFiles          []string `yaml:"rule_files"`
		EvaluationInterval string   `yaml:"evaluation_interval"`
		Tests              []struct {
			Name        string
			Interval    string
			InputSeries []struct{ Series, Values string } `yaml:"input_series"`
			Alerts      []struct {
				EvalTime  string `yaml:"eval_time"`
				Alertname string
				Expected  []struct {
					Labels      map[string]string `yaml:"exp_labels"`
					Annotations map[string]string `yaml:"exp_annotations"`
				} `yaml:"exp_alerts"`
			} `yaml:"alert_rule_test"`
		}
	}
	fires, rests := map[string]bool{}, map[string]bool{}
	for _, name := range rulesTests {
		var file tests
		decode(t, name, &file)
		for _, test := range file.Tests {
			for _, a := range test.Alerts {
				if len(a.Expected) > 0 {
					fires[a.Alertname] = true
				} else {
					rests[a.Alertname] = true
				}
			}
		}
	}
	for _, a := range alerts(t) {
		if !fires[a.Alert] || !rests[a.Alert] {
			t.Errorf("%s has in %q a test in which it fires: %v, and one in which it does not: %v", a.Alert, rulesTests, fires[a.Alert],
				rests[a.Alert])
		}
	}
}

func TestDeploy_EachAlertHasARunbookAndEachRunbookAnAlert(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile(runbooks)
	if err != nil {
		t.Fatal(err)
	}
	var sections, names []string
	for _, m := range regexp.MustCompile(`(?m)^## (.+)\n\n\*(Page|Ticket)\.\*`).FindAllStringSubmatch(string(text), -1) {
		sections = append(sections, m[1]+" "+strings.ToLower(m[2]))
	}
	for _, a := range alerts(t) {
		names = append(names, a.Alert+" "+a.Labels["severity"])
		want := "https://github.com/seed81422ce9/jobs/blob/main/docs/runbooks.md#" + strings.ToLower(a.Alert)
		if a.Annotations["runbook_url"] != want || a.Annotations["summary"] == "" {
			t.Errorf("%s has the annotations %v, want a summary and the runbook_url %s", a.Alert, a.Annotations, want)
		}
	}
	slices.Sort(sections)
	slices.Sort(names)
	if !slices.Equal(names, sections) {
		t.Errorf("the alerts and their severities are\n%q\nthe sections of %s\n%q", names, runbooks, sections)
	}
	for _, m := range regexp.MustCompile(`\]\(#([^)]*)\)`).FindAllStringSubmatch(string(text), -1) {
		if !slices.ContainsFunc(alerts(t), func(a alert) bool { return strings.ToLower(a.Alert) == m[1] }) {
			t.Errorf("%s links to #%s, which is not there", runbooks, m[1])
		}
	}
}

// metricName matches a metric of this module in a query.
var metricName = regexp.MustCompile(`\bjobs_[a-z_]+`)

// checkQuery checks a query against the listed metrics: their names and labels, and
// that metrics which every server reports with the same value are never summed.
func checkQuery(t *testing.T, where, query string) {
	t.Helper()
	recorded := slices.ContainsFunc(rules(t), func(a alert) bool { return a.Record != "" && strings.Contains(query, a.Record) })
	if !metricName.MatchString(query) && !recorded && !strings.Contains(query, "up{") {
		t.Errorf("%s: %q asks for no metric of this module", where, query)
	}
	for _, at := range metricName.FindAllStringIndex(query, -1) {
		name, rest := query[at[0]:at[1]], query[at[1]:]
		m, ok := listed(name)
		if !ok {
			t.Errorf("%s: there is no metric %s", where, name)
			continue
		}
		if selector, ok := strings.CutPrefix(rest, "{"); ok {
			selector, _, _ = strings.Cut(selector, "}")
			for _, l := range regexp.MustCompile(`([a-z_]+)(=|!)`).FindAllStringSubmatch(selector, -1) {
				if l[1] != "store" && l[1] != "le" && !slices.Contains(m.Labels, l[1]) { // Prometheus adds these labels
					t.Errorf("%s: %s has no label %s; it has %v", where, name, l[1], m.Labels)
				}
			}
		}
		if m.Shared && !regexp.MustCompile(`\bmax( by \([a-z, ]+\))? \($|\bmax\($`).MatchString(query[:at[0]]) {
			t.Errorf("%s: every server reports %s alike, so it has to stand right inside a max, in %q", where, name, query)
		}
	}
	for _, by := range regexp.MustCompile(`\b(?:by|on) \(([a-z, ]*queue[a-z, ]*)\)`).FindAllStringSubmatch(query, -1) {
		if strings.HasPrefix(where, "Jobs") && !strings.Contains(by[1], "store") {
			t.Errorf("%s merges queues of the same name in two stores: by (%s), in %q", where, by[1], query)
		}
	}
	known := []string{"le", "instance", "job", "store"}
	for _, m := range observe.MetricTable() {
		known = append(known, m.Labels...)
	}
	for _, by := range regexp.MustCompile(`\b(?:by|on) \(([a-z, ]+)\)`).FindAllStringSubmatch(query, -1) {
		for label := range strings.SplitSeq(by[1], ", ") {
			if !slices.Contains(known, label) {
				t.Errorf("%s: no metric has the label %s, in %q", where, label, query)
			}
		}
	}
}

// listed returns the metric of a series.
func listed(series string) (observe.Metric, bool) {
	for _, m := range observe.MetricTable() {
		if series == m.Name && m.Kind != observe.Histogram {
			return m, true
		}
		for _, part := range []string{"_bucket", "_sum", "_count"} {
			if series == m.Name+part && m.Kind == observe.Histogram {
				return m, true
			}
		}
	}
	return observe.Metric{}, false
}

func TestDeploy_AlertsAskForMetricsThatAreListed(t *testing.T) {
	t.Parallel()
	for _, a := range rules(t) {
		checkQuery(t, a.Alert+a.Record, a.Expr)
	}
}
