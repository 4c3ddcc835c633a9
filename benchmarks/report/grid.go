package report

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

const gridPrefix = "fleet "

// GridName returns the name of the workload with these numbers of workers, and of
// queues that each of them serves.
func GridName(workers, queues int) string { return fmt.Sprintf("%s%dx%d", gridPrefix, workers, queues) }

func (p Planned) inGrid() bool { return strings.HasPrefix(p.Workload, gridPrefix) }

// grid writes one table for the fleets on a store. Its rows are workers and queues,
// its columns metrics; a cell has a figure for each system.
func (r *Results) grid(b *strings.Builder, cells []Planned) {
	var systems []string
	has := map[string]bool{}
	for _, p := range cells {
		for _, s := range p.Systems {
			if !slices.Contains(systems, s) {
				systems = append(systems, s)
			}
		}
		for _, m := range r.metrics(p) {
			has[m] = true
		}
	}
	fmt.Fprintf(b, "\n### Fleets: workers that each serve all queues\n\n%d rounds; 10 handlers a worker, all workers in one process, with "+
		"connections of their own. Each cell has %s; - was not measured, since that many queries of idle workers are more than the "+
		"store can answer. Idle is over an empty store; commands within scripts count as calls. One job comes to idle workers, "+
		"40 a second, over what these cost idle; what the first 200 cost does not count, since they make connections ready. A drain of "+
		"%d jobs counts from the start of the workers, what it costs the store until they have ended.\n\n| workers × queues |",
		cells[0].Rounds, strings.Join(systems, "; "), cells[0].Jobs)
	var names []string
	for _, m := range Metrics {
		if has[m.Name] {
			names = append(names, m.Name)
			fmt.Fprintf(b, " %s |", m.Name)
		}
	}
	b.WriteString("\n|---|" + strings.Repeat("---|", len(names)) + "\n")
	for _, p := range cells {
		fmt.Fprintf(b, "| %s |", strings.ReplaceAll(strings.TrimPrefix(p.Workload, gridPrefix), "x", " × "))
		for _, m := range names {
			var figures []string
			for _, s := range systems {
				figures = append(figures, r.figure(p, s, m))
			}
			fmt.Fprintf(b, " %s |", strings.Join(figures, "; "))
		}
		b.WriteString("\n")
	}
}

// figure returns the median of a system's rounds in a few characters.
func (r *Results) figure(p Planned, system, metric string) string {
	values, failure := r.Values(p.Workload, p.Store, system, metric)
	switch {
	case failure != "":
		return "failed"
	case len(values) == 0:
		return "-"
	}
	s := Of(slices.Collect(maps.Values(values)))
	s.Rounds = 1 // without the spread
	return s.text("")
}
