package deploy

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/seed81422ce9/jobs"
	"github.com/seed81422ce9/jobs/backends/membroker"
)

// stack is the part of the Compose specification that the stack uses.
type stack struct {
	Services map[string]struct {
		Image       string
		Profiles    []string
		Command     []string
		Build       struct{ Context, Dockerfile, Target string }
		Environment map[string]string
		Volumes     []string
		Ports       []string
		DependsOn   map[string]map[string]string `yaml:"depends_on"`
		Healthcheck struct {
			Test              []string
			Interval, Timeout string
			Retries           int
		}
		StopGracePeriod string `yaml:"stop_grace_period"`
		Restart         string
		ReadOnly        bool     `yaml:"read_only"`
		CapDrop         []string `yaml:"cap_drop"`
		SecurityOpt     []string `yaml:"security_opt"`
	}
	Volumes map[string]any
}

func compose(t *testing.T) (s stack) {
	t.Helper()
	decode(t, "docker-compose.yml", &s)
	return s
}

// manifests returns the documents of a file by kind.
func manifests(t *testing.T, file string) map[string]any {
	t.Helper()
	f, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	all := make(map[string]any)
	for d := yaml.NewDecoder(f); ; {
		var doc map[string]any
		if err := d.Decode(&doc); errors.Is(err, io.EOF) {
			return all
		} else if err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		all[doc["kind"].(string)] = doc
	}
}

// at follows a path of field names and indices.
func at(t *testing.T, doc any, path string) any {
	t.Helper()
	for step := range strings.SplitSeq(path, "/") {
		step = strings.ReplaceAll(step, "~1", "/") // as in JSON pointers
		switch d := doc.(type) {
		case map[string]any:
			doc = d[step]
		case []any:
			i, err := strconv.Atoi(step)
			if err != nil || i >= len(d) {
				t.Fatalf("there is no %s of %s", step, path)
			}
			doc = d[i]
		}
		if doc == nil {
			t.Fatalf("there is no %s of %s", step, path)
		}
	}
	return doc
}

const worker = "spec/template/spec/containers/0/"

// kubernetes returns the environment that the manifests give a worker; values from
// secrets are empty.
func kubernetes(t *testing.T) map[string]string {
	t.Helper()
	all := manifests(t, "kubernetes/base/worker.yaml")
	env := make(map[string]string)
	for name, value := range at(t, all["ConfigMap"], "data").(map[string]any) {
		env[name] = value.(string)
	}
	for _, v := range at(t, all["Deployment"], worker+"env").([]any) {
		env[at(t, v, "name").(string)] = ""
	}
	if a, b := at(t, all["Deployment"], worker+"envFrom/0/configMapRef/name"), at(t, all["ConfigMap"], "metadata/name"); a != b {
		t.Errorf("the workers' environment is that of %v, and there is %v", a, b)
	}
	return env
}

// file returns a file as text.
func file(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// The worker reads each variable of both environments, and its drain fits into their
// grace periods.
func TestDeploy_TheWorkerReadsWhatItIsConfiguredWith(t *testing.T) {
	own := regexp.MustCompile(`env:"([A-Z_]+)"`).FindAllStringSubmatch(file(t, "../examples/worker/settings.go"), -1)
	reads := func(name string) bool {
		if name == "JOBS_BROKER" || slices.ContainsFunc(own, func(m []string) bool { return m[1] == name }) {
			return true
		}
		// A program that reads a variable refuses an invalid value.
		was, set := os.LookupEnv(name)
		t.Setenv(name, "non:sense")
		_, _, err := jobs.ConfigFromEnv()
		if os.Unsetenv(name); set {
			os.Setenv(name, was)
		}
		return err != nil && strings.Contains(err.Error(), name)
	}
	c := compose(t).Services["worker"]
	composeGrace, err := time.ParseDuration(c.StopGracePeriod)
	if err != nil {
		t.Fatal(err)
	}
	seconds := at(t, manifests(t, "kubernetes/base/worker.yaml")["Deployment"], "spec/template/spec/terminationGracePeriodSeconds").(int)
	for _, c := range []struct {
		where string
		env   map[string]string
		grace time.Duration
	}{{"Docker Compose", c.Environment, composeGrace}, {"Kubernetes", kubernetes(t), time.Duration(seconds) * time.Second}} {
		if _, ok := c.env["JOBS_BROKER"]; !ok {
			t.Errorf("%s: JOBS_BROKER is not set", c.where)
		}
		for name := range c.env {
			if !reads(name) {
				t.Errorf("%s: the worker does not read %s", c.where, name)
			}
		}
		for name, value := range c.env {
			t.Setenv(name, value)
		}
		cfg, _, err := jobs.ConfigFromEnv()
		if err != nil {
			t.Errorf("%s: %v", c.where, err)
		}
		if need := cfg.ShutdownTimeout + 9*time.Second; cfg.ShutdownTimeout == 0 || c.grace <= need {
			t.Errorf("%s: a worker may take %v to drain and is killed after %v", c.where, need, c.grace)
		}
		for name := range c.env {
			os.Unsetenv(name)
		}
	}
}

func TestDeploy_PortsAreTheSameEverywhere(t *testing.T) {
	t.Parallel()
	const want = "8080"
	d := manifests(t, "kubernetes/base/worker.yaml")["Deployment"]
	port := at(t, d, worker+"ports/0/name")
	for _, probe := range []string{"livenessProbe", "readinessProbe"} {
		if got := at(t, d, worker+probe+"/httpGet/port"); got != port {
			t.Errorf("the %s asks port %v, the container has %v", probe, got, port)
		}
	}
	dockerfile := file(t, "Dockerfile")
	var scrape struct {
		Global        map[string]string
		RuleFiles     []string `yaml:"rule_files"`
		ScrapeConfigs []struct {
			JobName string `yaml:"job_name"`
			DNS     []struct {
				Names   []string
				Type    string
				Port    int
				Refresh string `yaml:"refresh_interval"`
			} `yaml:"dns_sd_configs"`
		} `yaml:"scrape_configs"`
	}
	decode(t, scrapeConfig, &scrape)
	dns := scrape.ScrapeConfigs[0].DNS[0]
	if _, ok := compose(t).Services[dns.Names[0]]; !ok {
		t.Errorf("Prometheus looks for %v, which is no service of the stack", dns.Names)
	}
	for where, got := range map[string]string{
		"Dockerfile, EXPOSE":      regexp.MustCompile(`(?m)^EXPOSE (\d+)$`).FindStringSubmatch(dockerfile)[1],
		"Dockerfile, ENV":         regexp.MustCompile(`(?m)^ENV WORKER_LISTEN=:(\d+)$`).FindStringSubmatch(dockerfile)[1],
		"Kubernetes, container":   strconv.Itoa(at(t, d, worker+"ports/0/containerPort").(int)),
		"Kubernetes, environment": strings.TrimPrefix(kubernetes(t)["WORKER_LISTEN"], ":"),
		"Kubernetes, annotation":  at(t, d, "spec/template/metadata/annotations/prometheus.io~1port").(string),
		"Prometheus of the stack": strconv.Itoa(dns.Port),
	} {
		if got != want {
			t.Errorf("%s: port %s, elsewhere %s", where, got, want)
		}
	}
}

func TestDeploy_ProbesAskWhatAServerAnswers(t *testing.T) {
	t.Parallel()
	b := membroker.New()
	defer b.Close()
	server, err := jobs.NewServer(b, jobs.Config{})
	if err != nil {
		t.Fatal(err)
	}
	d := manifests(t, "kubernetes/base/worker.yaml")["Deployment"]
	for probe, want := range map[string]string{"livenessProbe": "/healthz", "readinessProbe": "/readyz"} {
		path := at(t, d, worker+probe+"/httpGet/path").(string)
		w := httptest.NewRecorder()
		server.Health().ServeHTTP(w, httptest.NewRequest("GET", path, nil))
		if path != want || w.Code == http.StatusNotFound {
			t.Errorf("the %s asks %s, which answers %d; want %s", probe, path, w.Code, want)
		}
	}
}

func TestDeploy_ProgramsRunWithoutRights(t *testing.T) {
	t.Parallel()
	dockerfile := file(t, "Dockerfile")
	uid := regexp.MustCompile(`(?m)^USER (\d+):\d+$`).FindStringSubmatch(dockerfile)
	if uid == nil || uid[1] == "0" || !strings.Contains(dockerfile, "FROM scratch AS program") {
		t.Error("the image is not made from scratch, or its user is not a number other than 0")
	}
	for _, name := range []string{"worker", "dashboard"} {
		d := manifests(t, "kubernetes/base/"+name+".yaml")["Deployment"]
		if got := strconv.Itoa(at(t, d, "spec/template/spec/securityContext/runAsUser").(int)); got != uid[1] {
			t.Errorf("the manifests run the %s as %s, the image as %s", name, got, uid[1])
		}
		for path, want := range map[string]any{
			"spec/template/spec/securityContext/runAsNonRoot":   true,
			"spec/template/spec/automountServiceAccountToken":   false,
			worker + "securityContext/readOnlyRootFilesystem":   true,
			worker + "securityContext/allowPrivilegeEscalation": false,
			worker + "securityContext/capabilities/drop/0":      "ALL",
		} {
			if got := at(t, d, path); got != want {
				t.Errorf("%s: %s is %v, want %v", name, path, got, want)
			}
		}
	}
	for _, name := range []string{"worker", "jobsctl", "dashboard"} {
		if s := compose(t).Services[name]; !s.ReadOnly || !slices.Contains(s.CapDrop, "ALL") {
			t.Errorf("%s of the stack may write to its file system, or has capabilities", name)
		}
	}
}

func TestDeploy_TheStackHoldsTogether(t *testing.T) {
	t.Parallel()
	c := compose(t)
	dockerfile := file(t, "Dockerfile")
	for name, s := range c.Services {
		if s.Build.Target != "" && !strings.Contains(dockerfile, " AS "+s.Build.Target+"\n") {
			t.Errorf("%s: the Dockerfile has no target %s", name, s.Build.Target)
		}
		for on := range s.DependsOn {
			if c.Services[on].Healthcheck.Test == nil {
				t.Errorf("%s depends on the health of %s, which has no check", name, on)
			}
		}
		for _, v := range s.Volumes {
			from, _, _ := strings.Cut(v, ":")
			if _, err := os.Stat(from); strings.HasPrefix(from, ".") && err != nil {
				t.Errorf("%s: %v", name, err)
			} else if _, ok := c.Volumes[from]; !ok && !strings.HasPrefix(from, ".") {
				t.Errorf("%s mounts %s, which is no volume of the stack", name, from)
			}
		}
		for _, p := range s.Ports {
			if !strings.HasPrefix(p, "127.0.0.1:") {
				t.Errorf("%s can be reached from other machines at %s", name, p)
			}
		}
	}
	// An image without a version is in no registry: docker compose up has to build it,
	// and it builds none for services of a profile.
	built := make(map[string]bool)
	for _, s := range c.Services {
		if s.Build.Target != "" && len(s.Profiles) == 0 {
			built[s.Image] = true
		}
	}
	for name, s := range c.Services {
		if len(s.Profiles) == 0 && !strings.Contains(s.Image, ":") && !built[s.Image] {
			t.Errorf("%s runs the image %s, which docker compose up neither finds nor builds", name, s.Image)
		}
	}
	redis := strings.Join(c.Services["redis"].Command, " ")
	for _, want := range []string{"--appendonly yes", "--maxmemory-policy noeviction"} {
		if !strings.Contains(redis, want) {
			t.Errorf("Redis runs as %q, without %s", redis, want)
		}
	}
	if ports := c.Services["worker"].Ports; len(ports) > 0 {
		t.Errorf("the worker publishes %v: a second one could not start", ports)
	}
}

func TestDeploy_ScalingFollowsTheDepthOfTheQueues(t *testing.T) {
	t.Parallel()
	s := manifests(t, "kubernetes/keda/autoscale.yaml")["ScaledObject"]
	d := manifests(t, "kubernetes/base/worker.yaml")["Deployment"]
	if got, want := at(t, s, "spec/scaleTargetRef/name"), at(t, d, "metadata/name"); got != want {
		t.Errorf("it scales %v, the workers are %v", got, want)
	}
	if n := at(t, s, "spec/minReplicaCount").(int); n < 1 {
		t.Error("without a worker nobody reports the depth, and none would ever start")
	}
	checkQuery(t, "autoscale.yaml", scalingQuery(t))
	slots, err := strconv.Atoi(kubernetes(t)["JOBS_CONCURRENCY"])
	if err != nil {
		t.Fatal(err)
	}
	if n, _ := strconv.Atoi(at(t, s, "spec/triggers/0/metadata/threshold").(string)); n <= slots {
		t.Errorf("%d jobs make another worker, fewer than the %d that one runs at once", n, slots)
	}
}

// Workers cannot run what waits in a paused queue, and still have to finish what runs there.
func TestDeploy_ScalingLeavesOutTheBacklogOfPausedQueues(t *testing.T) {
	t.Parallel()
	test := map[string]any{"interval": "1m", "input_series": []map[string]string{
		{"series": `jobs_queue_depth{queue="stopped",state="pending",instance="a"}`, "values": "5000"},
		{"series": `jobs_queue_depth{queue="stopped",state="active",instance="a"}`, "values": "7"},
		{"series": `jobs_queue_paused{queue="stopped",instance="a"}`, "values": "1"},
		{"series": `jobs_queue_depth{queue="mail",state="pending",instance="a"}`, "values": "200"},
		{"series": `jobs_queue_depth{queue="mail",state="pending",instance="b"}`, "values": "201"},
		{"series": `jobs_queue_depth{queue="mail",state="active",instance="a"}`, "values": "20"},
		{"series": `jobs_queue_depth{queue="mail",state="retry",instance="a"}`, "values": "9"},
		{"series": `jobs_queue_paused{queue="mail",instance="a"}`, "values": "0"},
	}, "promql_expr_test": []map[string]any{{"expr": scalingQuery(t), "eval_time": "0m",
		"exp_samples": []map[string]any{{"labels": "{}", "value": 228}}}}}
	text, err := yaml.Marshal(map[string]any{"tests": []any{test}})
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "test.yml")
	if err := os.WriteFile(file, text, 0o600); err != nil {
		t.Fatal(err)
	}
	tool(t, "promtool", "test", "rules", file)
}

func scalingQuery(t *testing.T) string {
	t.Helper()
	return at(t, manifests(t, "kubernetes/keda/autoscale.yaml")["ScaledObject"], "spec/triggers/0/metadata/query").(string)
}
