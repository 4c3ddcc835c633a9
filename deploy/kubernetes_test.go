package deploy

import (
	"flag"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

var update = flag.Bool("update", false, "write the files that are made from others")

const ruleManifest = "kubernetes/monitoring/rules.yaml"

// The Prometheus operator takes the rules in a manifest.
func TestDeploy_TheOperatorOfPrometheusGetsTheSameRules(t *testing.T) {
	t.Parallel()
	_, rules, ok := strings.Cut(file(t, rulesFile), "\ngroups:\n")
	if !ok {
		t.Fatalf("%s has no groups", rulesFile)
	}
	var b strings.Builder
	b.WriteString("# Made from " + rulesFile + " by go test ./deploy -run Operator -update\n" +
		"apiVersion: monitoring.coreos.com/v1\nkind: PrometheusRule\nmetadata:\n  name: jobs\n" +
		"  labels: {app.kubernetes.io/name: jobs-worker}\nspec:\n  groups:\n")
	for line := range strings.Lines(rules) {
		if strings.TrimSpace(line) != "" {
			b.WriteString("  ")
		}
		b.WriteString(line)
	}
	if *update {
		if err := os.WriteFile(ruleManifest, []byte(b.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if file(t, ruleManifest) != b.String() {
		t.Errorf("%s has other rules than %s; run go test ./deploy -run Operator -update", ruleManifest, rulesFile)
	}
	groups := at(t, manifests(t, ruleManifest)["PrometheusRule"], "spec/groups").([]any)
	if len(groups) < 2 {
		t.Errorf("%s has %d groups", ruleManifest, len(groups))
	}
}

// Each directory of manifests can be applied as it is documented. Kustomize refuses a
// directory above the one that it began with: it calls that a cycle.
func TestDeploy_EachKustomizationFindsItsResources(t *testing.T) {
	t.Parallel()
	documented := file(t, "README.md")
	dirs, err := filepath.Glob("kubernetes/*/kustomization.yaml")
	if err != nil || len(dirs) < 3 {
		t.Fatalf("kustomizations %v (%v)", dirs, err)
	}
	for _, name := range dirs {
		resolve(t, filepath.Dir(name))
		documented += file(t, name)
	}
	for _, m := range regexp.MustCompile(`kubectl apply -k\s+deploy/([a-z/]+)`).FindAllStringSubmatch(documented, -1) {
		if _, err := os.Stat(filepath.Join(m[1], "kustomization.yaml")); err != nil {
			t.Errorf("%s is documented: %v", m[0], err)
		}
	}
}

// resources returns the resources of the kustomization of a directory.
func resources(t *testing.T, dir string) []string {
	t.Helper()
	var k struct{ Resources []string }
	if err := yaml.Unmarshal([]byte(file(t, filepath.Join(dir, "kustomization.yaml"))), &k); err != nil {
		t.Fatal(err)
	}
	return k.Resources
}

// resolve follows the resources of a kustomization; from are the directories that led
// to it.
func resolve(t *testing.T, dir string, from ...string) {
	t.Helper()
	from = append(from, dir)
	for _, r := range resources(t, dir) {
		at := filepath.Join(dir, r)
		info, err := os.Stat(at)
		switch {
		case err != nil:
			t.Errorf("%s: %v", dir, err)
		case !info.IsDir():
			if filepath.Dir(at) != dir {
				t.Errorf("%s names the file %s, outside its directory", dir, r)
			}
		case slices.ContainsFunc(from, func(visited string) bool { return strings.HasPrefix(visited+"/", at+"/") }):
			t.Errorf("%s names %s, which contains a directory of %v: kustomize says that a cycle is detected", dir, r, from)
		default:
			resolve(t, at, from...)
		}
	}
}

// The base uses only built-in kinds; custom kinds are in the two directories next to
// it. Each kustomization lists all files of its directory.
func TestDeploy_TheBaseNeedsNothingThatAClusterMayLack(t *testing.T) {
	t.Parallel()
	for dir, foreign := range map[string]string{"base": "", "keda": "keda.sh/", "monitoring": "monitoring.coreos.com/"} {
		listed := resources(t, filepath.Join("kubernetes", dir))
		files, err := filepath.Glob(filepath.Join("kubernetes", dir, "*.yaml"))
		if err != nil || len(files) < 2 {
			t.Fatalf("files %v (%v)", files, err)
		}
		for _, name := range files {
			base := filepath.Base(name)
			if base == "kustomization.yaml" {
				continue
			}
			if !slices.Contains(listed, base) {
				t.Errorf("%s is not among the resources of its directory, %v", name, listed)
			}
			for kind, doc := range manifests(t, name) {
				api := at(t, doc, "apiVersion").(string)
				own := api == "v1" || strings.HasPrefix(api, "apps/") || strings.HasPrefix(api, "policy/")
				if !own && (foreign == "" || !strings.HasPrefix(api, foreign)) {
					t.Errorf("%s: %s is of %s", name, kind, api)
				}
			}
		}
	}
}

func TestDeploy_ThePodMonitorFindsTheWorkers(t *testing.T) {
	t.Parallel()
	m := manifests(t, "kubernetes/monitoring/podmonitor.yaml")["PodMonitor"]
	d := manifests(t, "kubernetes/base/worker.yaml")["Deployment"]
	label := "/app.kubernetes.io~1name"
	got, want := at(t, m, "spec/selector/matchLabels"+label), at(t, d, "spec/template/metadata/labels"+label)
	if got != want || want != "jobs-worker" {
		t.Errorf("it looks for %v, the pods are %v, and the alerts know the job jobs-worker", got, want)
	}
	if got, want := at(t, m, "spec/podMetricsEndpoints/0/port"), at(t, d, worker+"ports/0/name"); got != want {
		t.Errorf("it asks port %v, the pods have %v", got, want)
	}
}

func TestDeploy_TheDashboardAsksForAPassword(t *testing.T) {
	t.Parallel()
	all := manifests(t, "kubernetes/base/dashboard.yaml")
	d := all["Deployment"]
	args := at(t, d, worker+"args").([]any)
	mount := at(t, d, worker+"volumeMounts/0/mountPath").(string)
	if !slices.Contains(args, any("--user")) || !slices.Contains(args, any(mount+"/password")) || slices.Contains(args, any("--write")) {
		t.Errorf("the arguments are %v; want a user, the password in %s, and no --write", args, mount)
	}
	port := at(t, d, worker+"ports/0/containerPort")
	if got := at(t, all["Service"], "spec/ports/0/port"); got != port {
		t.Errorf("the service has port %v, the dashboard %v", got, port)
	}
	if c := compose(t).Services["dashboard"]; !slices.Contains(c.Command, "--token") || slices.Contains(c.Command, "--write") {
		t.Errorf("the stack serves the dashboard with %v; want --token, and no --write", c.Command)
	}
}
