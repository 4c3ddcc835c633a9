package deploy

import (
	"bufio"
	"encoding/json"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"testing"
	"time"

	"go.yaml.in/yaml/v3"
)

// prometheus is a Prometheus server for one test.
type prometheus struct{ url string }

// startPrometheus starts Prometheus with the configuration of the stack, except that it
// scrapes targets, and every half second.
func startPrometheus(t *testing.T, targets ...string) *prometheus {
	t.Helper()
	program, err := exec.LookPath("prometheus")
	if err != nil {
		t.Fatal("prometheus is not installed: run .ci/setup, or install Debian's package prometheus")
	}
	var config map[string]any
	decode(t, scrapeConfig, &config)
	rules, err := filepath.Abs(rulesFile)
	if err != nil {
		t.Fatal(err)
	}
	config["global"] = map[string]string{"scrape_interval": "500ms", "scrape_timeout": "500ms", "evaluation_interval": "500ms"}
	config["rule_files"] = []string{rules}
	scrape := at(t, config, "scrape_configs/0").(map[string]any)
	delete(scrape, "dns_sd_configs")
	scrape["static_configs"] = []any{map[string]any{"targets": targets}}
	text, err := yaml.Marshal(config)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	file := filepath.Join(dir, "prometheus.yml")
	if err := os.WriteFile(file, text, 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(program, "--config.file="+file, "--storage.tsdb.path="+filepath.Join(dir, "data"), "--web.listen-address=127.0.0.1:0")
	log, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	listening := regexp.MustCompile(`msg="Listening on" address=(\S+)`)
	told := ""
	for lines := bufio.NewScanner(log); lines.Scan(); {
		told += lines.Text() + "\n"
		if m := listening.FindStringSubmatch(lines.Text()); m != nil {
			go io.Copy(io.Discard, log)
			return &prometheus{url: "http://" + m[1]}
		}
	}
	t.Fatalf("Prometheus does not start:\n%s", told)
	return nil
}

// oneOff keeps no connections: to close those of http.DefaultClient breaks the requests of
// other tests.
var oneOff = &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}

// get calls the API and decodes the response's data into into.
func (p *prometheus) get(t *testing.T, path string, parameters url.Values, into any) {
	t.Helper()
	resp, err := oneOff.Get(p.url + path + "?" + parameters.Encode())
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	answer := struct {
		Status, Error string
		Data          any
	}{Data: into}
	err = json.NewDecoder(resp.Body).Decode(&answer)
	if resp.StatusCode == http.StatusServiceUnavailable {
		return // it is still starting
	}
	if err != nil || answer.Status != "success" {
		t.Fatalf("Prometheus answers %s %v: %s %v", path, parameters, answer.Error, err)
	}
}

// query returns the current values of all series of a query.
func (p *prometheus) query(t *testing.T, query string) (values []float64) {
	t.Helper()
	var data struct{ Result []struct{ Value [2]any } }
	p.get(t, "/api/v1/query", url.Values{"query": {query}}, &data)
	for _, r := range data.Result {
		text, _ := r.Value[1].(string)
		v, err := strconv.ParseFloat(text, 64)
		if err != nil {
			t.Fatal(err)
		}
		values = append(values, v)
	}
	return values
}

// labelValues returns the values of a metric's label.
func (p *prometheus) labelValues(t *testing.T, metric, label string) (values []string) {
	t.Helper()
	p.get(t, "/api/v1/label/"+label+"/values", url.Values{"match[]": {metric}}, &values)
	return values
}

// checkRules checks that every rule could be evaluated.
func (p *prometheus) checkRules(t *testing.T) {
	t.Helper()
	type rule struct{ Name, Health, LastError string }
	var data struct{ Groups []struct{ Rules []rule } }
	p.get(t, "/api/v1/rules", nil, &data)
	n := 0
	for _, g := range data.Groups {
		for _, r := range g.Rules {
			n++
			if r.Health != "ok" {
				t.Errorf("the rule %s is %s: %s", r.Name, r.Health, r.LastError)
			}
		}
	}
	if want := len(rules(t)); n != want {
		t.Errorf("Prometheus has %d rules, the file %d", n, want)
	}
}

// await repeats holds until it is true, and fails the test if that takes too long.
func (p *prometheus) await(t *testing.T, what string, holds func() bool) {
	t.Helper()
	late := time.After(soon)
	again := time.NewTicker(250 * time.Millisecond)
	defer again.Stop()
	for !holds() {
		select {
		case <-again.C:
		case <-late:
			t.Errorf("after %v it is not yet true that %s", soon, what)
			return
		}
	}
}
