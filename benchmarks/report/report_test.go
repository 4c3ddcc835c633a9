package report

import (
	"bytes"
	"encoding/json"
	"math"
	"strings"
	"testing"
)

func TestReport_SamplesGiveTheMedianAndTheSpread(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		values         []float64
		median, spread float64
		noisy          bool
	}{
		{[]float64{7}, 7, 0, false},
		{[]float64{4, 2}, 3, 2.0 / 3, true},
		{[]float64{110, 90, 100}, 100, 0.2, false},
		{[]float64{100, 1000, 101, 99, 98}, 100, 9.02, true},
		{[]float64{-1, 0, 1}, 0, math.Inf(1), true},
		{[]float64{0, 0}, 0, 0, false},
		{[]float64{-100, -80, -120}, -100, 0.4, true},
	} {
		s := Of(c.values)
		if s.Median != c.median || math.Abs(s.Spread()-c.spread) > 1e-9 && s.Spread() != c.spread || s.Noisy() != c.noisy {
			t.Errorf("%v: median %v, spread %v, noisy %v; want %v, %v, %v", c.values, s.Median, s.Spread(), s.Noisy(), c.median, c.spread, c.noisy)
		}
	}
}

func TestReport_QuantilesAreValuesThatWereMeasured(t *testing.T) {
	t.Parallel()
	sorted := []float64{1, 2, 3, 4, 5, 6, 7, 8, 9, 10}
	for _, c := range []struct{ q, want float64 }{{0, 1}, {0.5, 5}, {0.9, 9}, {0.99, 10}, {1, 10}} {
		if got := Quantile(sorted, c.q); got != c.want {
			t.Errorf("quantile %v of one to ten is %v, want %v", c.q, got, c.want)
		}
	}
}

func TestReport_RatiosPairTheRounds(t *testing.T) {
	t.Parallel()
	// The machine was half as fast in the second round, for both.
	got := Of(Ratios(map[int]float64{0: 100, 1: 50, 2: 7}, map[int]float64{0: 10, 1: 5}))
	if got != (Sample{Median: 10, Min: 10, Max: 10, Rounds: 2}) {
		t.Errorf("ratios %+v, want 10 in both rounds, and nothing for the third", got)
	}
}

func TestReport_WorkloadsOfDifferentRunsAreNotCompared(t *testing.T) {
	t.Parallel()
	judged := target{"memory", "depth1M", "jobs/s", "@depth10k", 0.9, 1}
	for _, other := range []string{"a", "b"} {
		r := &Results{records: []Record{
			{Run: "a", Workload: "depth1M", Store: "memory", System: "jobs-memory", Metrics: map[string]float64{"jobs/s": 50}},
			{Run: other, Workload: "depth10k", Store: "memory", System: "jobs-memory", Metrics: map[string]float64{"jobs/s": 100}},
		}}
		if got, ok := judged.sample(r, "jobs-memory"); ok != (other == "a") || ok && got.Median != 0.5 {
			t.Errorf("with the other of run %s: %v, %v", other, got, ok)
		}
		line := "| memory | depth1M | jobs/s | depth10k | ≥ 0.900x | 1.00x | in other runs |  | - | - |"
		if got := strings.Contains(render(t, r, ""), line); got != (other == "b") {
			t.Errorf("with the other of run %s the document says that both were measured in other runs: %v", other, got)
		}
	}
}

// file returns a file of results: runs that planned rounds of W2 for our system and
// asynq, with the given records.
func file(runs ...[]Record) *bytes.Buffer {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	for i, records := range runs {
		run := string(rune('a' + i))
		e.Encode(Line{Env: &Env{Run: run, Scale: 1, Plan: []Planned{
			{Workload: "W2", Store: "redis", About: "drain", Jobs: 10, Systems: []string{"jobs-redis", "asynq"}, Rounds: 2}}}})
		for _, r := range records {
			r.Run, r.Workload, r.Store = run, "W2", "redis"
			e.Encode(Line{Record: &r})
		}
	}
	return &b
}

func made(system string, round int, speed float64) Record {
	return Record{System: system, Round: round, Metrics: map[string]float64{"jobs/s": speed}}
}

var complete = []Record{made("jobs-redis", 0, 130), made("asynq", 0, 10), made("asynq", 1, 5), made("jobs-redis", 1, 65)}

func want(rounds int) ([]Planned, func(string) int) {
	return []Planned{{Workload: "W2", Store: "redis", Systems: []string{"jobs-redis", "asynq"}}}, func(string) int { return rounds }
}

func render(t *testing.T, r *Results, unfit string) string {
	t.Helper()
	var b strings.Builder
	if err := r.Render(&b, unfit, nil); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func TestReport_CompleteResultsMakeADocument(t *testing.T) {
	t.Parallel()
	r, err := Read(file(complete))
	if err != nil {
		t.Fatal(err)
	}
	if unfit := r.Unfit(want(2)); unfit != "" {
		t.Errorf("complete results are refused: %s", unfit)
	}
	doc := render(t, r, "")
	for _, line := range []string{
		"| jobs/s | ~97.5 [65.0..130] | ~7.50 [5.00..10.0] |",
		"| redis | W2 | jobs/s | asynq | ≥ 12.0x | 24.0x | 13.0x | reached |",
		"| redis | W3 | jobs/s | asynq | ≥ 10.0x | 18.0x | not measured |  |",
	} {
		if !strings.Contains(doc, line) {
			t.Errorf("the document lacks the line\n%s\nit is\n%s", line, doc)
		}
	}
}

func TestReport_ResultsThatAreNotCompleteAreRefused(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, why string
		file      *bytes.Buffer
		rounds    int
	}{
		{"interrupted", "round 2 of 2 of jobs-redis was not made", file(complete[:3]), 2},
		{"too few rounds", "W2 on redis has 2 rounds of 5", file(complete), 5},
	} {
		r, err := Read(c.file)
		if err != nil {
			t.Fatal(err)
		}
		if unfit := r.Unfit(want(c.rounds)); !strings.Contains(unfit, c.why) {
			t.Errorf("%s: refused because of %q, want %q", c.name, unfit, c.why)
		}
	}
	scaled := strings.Replace(file(complete).String(), `"Scale":1`, `"Scale":0.1`, 1)
	r, err := Read(strings.NewReader(scaled))
	if err != nil {
		t.Fatal(err)
	}
	if unfit := r.Unfit(want(2)); !strings.Contains(unfit, "scaled by 0.1") {
		t.Errorf("results of a reduced size are refused because of %q", unfit)
	}
	if _, err := Read(strings.NewReader(file(complete).String() + scaled)); err == nil {
		t.Error("results of different sizes were joined")
	}
	if _, err := Read(strings.NewReader("")); err == nil {
		t.Error("no results make a document")
	}
}

func TestReport_AnInterruptedRunDoesNotReplaceACompleteOne(t *testing.T) {
	t.Parallel()
	for name, f := range map[string]*bytes.Buffer{"before": file(complete, complete[:1]), "after": file(complete[:1], complete)} {
		r, err := Read(f)
		if err != nil {
			t.Fatal(err)
		}
		values, _ := r.Values("W2", "redis", "jobs-redis", "jobs/s")
		if len(values) != 2 || len(r.Missing) != 0 {
			t.Errorf("complete run %s the interrupted one: %v, missing %v; want both rounds of the complete run and nothing missing", name, values,
				r.Missing)
		}
	}
}

func TestReport_ResultsOfSeveralRunsAreOneDocument(t *testing.T) {
	t.Parallel()
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	for i, store := range []string{"postgres", "redis"} {
		e.Encode(Line{Env: &Env{Run: store, Scale: 1, Load: float64(2 - i), CPU: "CPU for " + store,
			Stores: map[string]string{store: "server of " + store},
			Plan:   []Planned{{Workload: "W" + store, Store: store, Systems: []string{"s"}, Rounds: 1}}}})
		e.Encode(Line{Record: &Record{Run: store, Workload: "W" + store, Store: store, System: "s", Metrics: map[string]float64{"jobs/s": 1}}})
	}
	r, err := Read(&b)
	if err != nil {
		t.Fatal(err)
	}
	r.Sort([]Planned{{Workload: "Wredis", Store: "redis"}, {Workload: "Wpostgres", Store: "postgres"}})
	doc := render(t, r, "")
	for _, text := range []string{"- server of postgres\n- server of redis\n", "load average before the start 2.00",
		"CPU for postgres or CPU for redis", "1 rounds, on CPU for redis."} {
		if !strings.Contains(doc, text) {
			t.Errorf("the document lacks %q", text)
		}
	}
	if len(r.Plan) != 2 || r.Plan[0].Store != "redis" {
		t.Errorf("the measurements are sorted as %+v", r.Plan)
	}
}

func TestReport_AFailedRoundLeavesNoFigure(t *testing.T) {
	t.Parallel()
	records := append([]Record{}, complete...)
	records[2] = Record{System: "asynq", Round: 1, Error: "3 of 10 jobs were handled"}
	r, err := Read(file(records))
	if err != nil {
		t.Fatal(err)
	}
	doc := render(t, r, "")
	for _, line := range []string{"| failed |", "asynq failed: 3 of 10 jobs were handled", "| 12.0x | 24.0x | not measured |"} {
		if !strings.Contains(strings.ReplaceAll(doc, "≥ ", ""), line) {
			t.Errorf("the document lacks %q; it is\n%s", line, doc)
		}
	}
}

func TestReport_AVerdictKnowsWhichWayIsBetter(t *testing.T) {
	t.Parallel()
	faster := target{metric: "jobs/s", must: 2, aim: 3}
	smaller := target{metric: "bytes/job", must: 0.5, aim: 0.4}
	for _, c := range []struct {
		t    target
		v    float64
		want string
	}{{faster, 1.99, "**missed**"}, {faster, 2, "reached"}, {faster, 3.1, "aim reached"},
		{smaller, 0.51, "**missed**"}, {smaller, 0.5, "reached"}, {smaller, 0.1, "aim reached"}} {
		if got := c.t.verdict(c.v); got != c.want {
			t.Errorf("%s %v is %q, want %q", c.t.metric, c.v, got, c.want)
		}
	}
}

func TestReport_TargetsNameMetricsThatThereAre(t *testing.T) {
	t.Parallel()
	for _, x := range targets {
		known := false
		for _, m := range Metrics {
			known = known || m.Name == x.metric
		}
		if !known {
			t.Errorf("the target for %s on %s names %q, which nothing measures", x.workload, x.store, x.metric)
		}
	}
}

func TestReport_TheShareOfTheLimitKnowsWhichWayIsBetter(t *testing.T) {
	t.Parallel()
	faster, smaller := target{metric: "jobs/s"}, target{metric: "bytes/job"}
	for _, c := range []struct {
		t        target
		v, limit float64
		want     string
	}{{faster, 50, 100, "50 %"}, {faster, 110, 100, "110 %"}, {smaller, 200, 100, "50 %"}, {smaller, 0, 100, "-"}, {faster, 1, 0, "-"}} {
		if got := c.t.share(c.v, c.limit); got != c.want {
			t.Errorf("%v of %v in %s is a share of %q, want %q", c.v, c.limit, c.t.metric, got, c.want)
		}
	}
}

func TestReport_FleetsAreOneTable(t *testing.T) {
	t.Parallel()
	text := `{"Env":{"Run":"r","Scale":1,"Plan":[
	{"Workload":"fleet 1x10","Store":"redis","Jobs":5,"Systems":["jobs-redis","asynq"],"Rounds":1},
	{"Workload":"fleet 10x10","Store":"redis","Jobs":5,"Systems":["jobs-redis"],"Rounds":1}]}}
{"Record":{"Run":"r","Workload":"fleet 1x10","Store":"redis","System":"jobs-redis",
	"Metrics":{"idle: store calls/s":5,"drain: jobs/s":7000}}}
{"Record":{"Run":"r","Workload":"fleet 1x10","Store":"redis","System":"asynq","Error":"it hung"}}
{"Record":{"Run":"r","Workload":"fleet 10x10","Store":"redis","System":"jobs-redis",
	"Metrics":{"idle: store calls/s":50,"drain: jobs/s":800}}}`
	text = strings.ReplaceAll(text, "[\n\t", "[")
	r, err := Read(strings.NewReader(strings.ReplaceAll(text, ",\n\t", ",")))
	if err != nil {
		t.Fatal(err)
	}
	doc := render(t, r, "")
	table := "| workers × queues | idle: store calls/s | drain: jobs/s |\n|---|---|---|\n" +
		"| 1 × 10 | 5.00; failed | 7000; failed |\n| 10 × 10 | 50.0; - | 800; - |\n"
	if !strings.Contains(doc, table) || strings.Count(doc, "### Fleets") != 1 {
		t.Errorf("the document lacks the table, or has it twice\n%s\nit is\n%s", table, doc)
	}
}
