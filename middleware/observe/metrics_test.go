package observe

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	client "github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
)

func TestMetrics_EveryDocumentedMetricIsScrapedOverHTTPUnderItsNameAndNoOther(t *testing.T) {
	t.Parallel()
	var families map[string]*dto.MetricFamily
	synctest.Test(t, func(t *testing.T) {
		m := newMeasured(t, MetricsConfig{Keys: 10, Schedules: missing(1)})
		finish := aLife(t, m)
		families = scrape(t, promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{}))
		finish()
	})
	for _, want := range MetricTable() {
		family := families[want.Name]
		if family == nil {
			t.Errorf("%s is documented and was not scraped", want.Name)
			continue
		}
		delete(families, want.Name)
		if kind := strings.ToLower(family.GetType().String()); kind != string(want.Kind) {
			t.Errorf("%s is a %s; the table says %s", want.Name, kind, want.Kind)
		}
		if family.GetHelp() != want.Help {
			t.Errorf("the help of %s\ngot  %s\nwant %s", want.Name, family.GetHelp(), want.Help)
		}
		labels := slices.Clone(want.Labels)
		if slices.Contains(labels, labelType) {
			labels = append(labels, labelKey)
		}
		for _, metric := range family.Metric {
			if got := labelsOf(metric); !sameLabels(got, labels) {
				t.Errorf("%s has labels %v; the table says %v", want.Name, got, labels)
			}
		}
	}
	for name := range families {
		t.Errorf("%s was scraped and is not in the table", name)
	}
}

// scrape gets /metrics over HTTP.
func scrape(t *testing.T, h http.Handler) map[string]*dto.MetricFamily {
	t.Helper()
	server := httptest.NewServer(h)
	defer server.Close()
	reply, err := server.Client().Get(server.URL + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer reply.Body.Close()
	parser := expfmt.NewTextParser(model.LegacyValidation)
	families, err := parser.TextToMetricFamilies(reply.Body)
	if err != nil {
		t.Fatal(err)
	}
	return families
}

func labelsOf(m *dto.Metric) map[string]string {
	labels := make(map[string]string)
	for _, pair := range m.Label {
		labels[pair.GetName()] = pair.GetValue()
	}
	return labels
}

// sameLabels ignores empty labels, as Prometheus does.
func sameLabels(got map[string]string, want []string) bool {
	for name := range got {
		if !slices.Contains(want, name) {
			return false
		}
	}
	for _, name := range want {
		if _, ok := got[name]; !ok {
			return false
		}
	}
	return true
}

// values returns the scraped values by series, such as "name{a=b,c=d}" with sorted
// labels. The value of a histogram is its count.
func values(t *testing.T, registry *client.Registry) map[string]float64 {
	t.Helper()
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	all := make(map[string]float64)
	for _, family := range families {
		for _, metric := range family.Metric {
			var labels []string
			for name, value := range labelsOf(metric) {
				labels = append(labels, name+"="+value)
			}
			slices.Sort(labels)
			series := fmt.Sprintf("%s{%s}", family.GetName(), strings.Join(labels, ","))
			switch {
			case metric.Counter != nil:
				all[series] = metric.Counter.GetValue()
			case metric.Gauge != nil:
				all[series] = metric.Gauge.GetValue()
			case metric.Histogram != nil:
				all[series] = float64(metric.Histogram.GetSampleCount())
				all[series+" sum"] = metric.Histogram.GetSampleSum()
			}
		}
	}
	return all
}
