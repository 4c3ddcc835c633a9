package readmetest

import (
	"math"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// The README's table of speeds has the figures of docs/benchmarks.md, rounded.
func TestReadme_SpeedsAreThoseOfTheBenchmarks(t *testing.T) {
	t.Parallel()
	read := func(name string) string {
		text, err := os.ReadFile(filepath.Join("..", "..", name))
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	readme, page := read("README.md"), read("docs/benchmarks.md")
	systems := [][]string{{"jobs-redis"}, {"asynq", "asynq-best"}, {"jobs-postgres"}, {"river", "river-best"}, {"jobs-memory"}}
	for _, row := range []struct{ name, workload, metric string }{
		{"drain, jobs/s", "W2", "jobs/s"},
		{"64 callers enqueue beside a worker, jobs/s", "W3", "jobs/s"},
		{"from enqueue to an idle worker's handler, median", "W4", "p50 ms"},
		{"last redelivery after `kill -9` of a worker", "crash", "until all redelivered s"},
	} {
		_, line, ok := strings.Cut(readme, "\n| "+row.name+" |")
		if !ok {
			t.Errorf("the README has no row %q", row.name)
			continue
		}
		line, _, _ = strings.Cut(line, "\n")
		for i, cell := range strings.Split(strings.TrimSuffix(line, "|"), "|") {
			for j, shown := range figure.FindAllString(cell, -1) {
				got, measured := number(t, shown), cellOf(t, page, row.workload, row.metric, systems[i][j])
				if math.Abs(got-measured) > measured/20 {
					t.Errorf("%s, %s: the README says %s, docs/benchmarks.md %v", row.name, systems[i][j], shown, measured)
				}
			}
		}
	}
}

var figure = regexp.MustCompile(`\d[\d.]*k?`)

// number returns the value of a figure such as 1.5k.
func number(t *testing.T, s string) float64 {
	t.Helper()
	digits, thousands := strings.CutSuffix(s, "k")
	n, err := strconv.ParseFloat(digits, 64)
	if err != nil {
		t.Fatal(err)
	}
	if thousands {
		n *= 1000
	}
	return n
}

// cellOf returns the median of a metric of a system in the table of a workload.
func cellOf(t *testing.T, page, workload, metric, system string) float64 {
	t.Helper()
	for _, section := range strings.Split(page, "\n### ")[1:] {
		if !strings.HasPrefix(section, workload+":") {
			continue
		}
		column := -1
		for line := range strings.Lines(section) {
			cells := strings.Split(strings.TrimSpace(line), "|")
			for i, cell := range cells {
				if strings.TrimSpace(cell) == system {
					column = i
				}
			}
			if column >= 0 && column < len(cells) && strings.TrimSpace(cells[1]) == metric {
				return number(t, figure.FindString(cells[column]))
			}
		}
	}
	t.Fatalf("docs/benchmarks.md has no %s of %s for %s", metric, system, workload)
	return 0
}
