package deploy

import (
	"encoding/json"
	"os"
	"path"
	"strings"
	"testing"
)

const dashboardFile = "grafana/dashboards/jobs.json"

// panel is a panel of the dashboard, with its queries.
type panel struct {
	ID      int
	Type    string
	Title   string
	GridPos struct{ X, Y, W, H int }
	Targets []struct{ RefID, Expr, LegendFormat string }
}

func dashboard(t *testing.T) (panels []panel) {
	t.Helper()
	text, err := os.ReadFile(dashboardFile)
	if err != nil {
		t.Fatal(err)
	}
	var file struct {
		UID    string
		Panels []panel
	}
	if err := json.Unmarshal(text, &file); err != nil {
		t.Fatalf("%s: %v", dashboardFile, err)
	}
	if file.UID != "jobs" || len(file.Panels) < 10 {
		t.Fatalf("%s has the uid %q and %d panels", dashboardFile, file.UID, len(file.Panels))
	}
	return file.Panels
}

// queries returns the dashboard's queries by the panel's title, with variables replaced
// as Grafana does.
func queries(t *testing.T, window string) map[string][]string {
	t.Helper()
	all := make(map[string][]string)
	variables := strings.NewReplacer("$store", ".*", "$queue", ".*", "$__rate_interval", window)
	for _, p := range dashboard(t) {
		for _, target := range p.Targets {
			query := variables.Replace(target.Expr)
			if strings.Contains(query, "$") {
				t.Errorf("panel %q uses a variable that Grafana does not have: %s", p.Title, query)
			}
			all[p.Title] = append(all[p.Title], query)
		}
	}
	return all
}

func TestDeploy_TheDashboardAsksForMetricsThatAreListed(t *testing.T) {
	t.Parallel()
	for title, exprs := range queries(t, "1m") {
		for _, expr := range exprs {
			checkQuery(t, "panel "+title, expr)
		}
	}
}

// A panel that ignores the chosen store would add the workers of another one.
func TestDeploy_EveryQueryOfTheDashboardIsForTheChosenStore(t *testing.T) {
	t.Parallel()
	for _, p := range dashboard(t) {
		for _, target := range p.Targets {
			for _, at := range metricName.FindAllStringIndex(target.Expr, -1) {
				if !strings.HasPrefix(target.Expr[at[1]:], `{store=~"$store"`) {
					t.Errorf("panel %q shows all stores: %s", p.Title, target.Expr)
				}
			}
		}
	}
}

func TestDeploy_ThePanelsOfTheDashboardAreWhole(t *testing.T) {
	t.Parallel()
	ids, taken := map[int]bool{}, map[[2]int]string{}
	for _, p := range dashboard(t) {
		if ids[p.ID] || p.Title == "" || (p.Type == "row") != (len(p.Targets) == 0) {
			t.Errorf("panel %d %q has an ID that another has, no title, or no query", p.ID, p.Title)
		}
		ids[p.ID] = true
		for x := p.GridPos.X; x < p.GridPos.X+p.GridPos.W; x++ {
			for y := p.GridPos.Y; y < p.GridPos.Y+p.GridPos.H; y++ {
				if other, ok := taken[[2]int{x, y}]; ok {
					t.Fatalf("panels %q and %q lie on each other", p.Title, other)
				}
				taken[[2]int{x, y}] = p.Title
			}
		}
		if p.GridPos.X+p.GridPos.W > 24 {
			t.Errorf("panel %q is wider than the dashboard", p.Title)
		}
	}
}

func TestDeploy_GrafanaIsGivenTheDashboardAndItsSource(t *testing.T) {
	t.Parallel()
	var sources struct {
		APIVersion  int `yaml:"apiVersion"`
		Datasources []struct {
			Name, UID, Type, Access, URL string
			IsDefault                    bool           `yaml:"isDefault"`
			JSONData                     map[string]any `yaml:"jsonData"`
		}
	}
	decode(t, "grafana/provisioning/datasources/prometheus.yml", &sources)
	var providers struct {
		APIVersion int `yaml:"apiVersion"`
		Providers  []struct {
			Name, Type string
			Options    struct{ Path string }
		}
	}
	decode(t, "grafana/provisioning/dashboards/jobs.yml", &providers)
	c := compose(t)
	if len(sources.Datasources) != 1 || len(providers.Providers) != 1 {
		t.Fatalf("%d sources and %d providers of dashboards, want one each", len(sources.Datasources), len(providers.Providers))
	}
	if url := sources.Datasources[0].URL; url != "http://prometheus:9090" || c.Services["prometheus"].Image == "" {
		t.Errorf("the source is %s; the stack has the service prometheus, which listens on 9090", url)
	}
	mounted := map[string]string{}
	for _, v := range c.Services["grafana"].Volumes {
		from, to, _ := strings.Cut(v, ":")
		mounted[strings.TrimSuffix(to, ":ro")] = from
	}
	if from := mounted[providers.Providers[0].Options.Path]; path.Clean(from) != path.Dir(dashboardFile) {
		t.Errorf("Grafana looks for dashboards in %s, where the stack mounts %q, not the directory of %s", providers.Providers[0].Options.Path,
			from, dashboardFile)
	}
	if from := mounted["/etc/grafana/provisioning"]; path.Clean(from) != "grafana/provisioning" {
		t.Errorf("the stack mounts %q as Grafana's provisioning", from)
	}
}
