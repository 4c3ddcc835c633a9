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
	fmt.Fprintf(b, `
### Fleets: workers that each serve all queues

%s. Each worker has 10 handlers. All workers are in one process, with their own connections. Each cell has the
figures of %s. A dash means that it was not measured, because so many idle workers ask more than the store can answer.

- Idle: the cost above that of an empty store. Commands within scripts count as calls.
- One job: 40 jobs a second come to idle workers; the cost above that of idle workers. The first 200 jobs do not count, because they make
  connections ready.
- Drain: %d jobs. The time counts from the start of the workers, the store's cost until the workers have ended.

In benchmarks/:

    go run . -deep -only '%s/fleet' -long-rounds %d

| workers × queues |`, r.rounds(cells), strings.Join(systems, " and "), cells[0].Jobs, cells[0].Store, cells[0].Rounds)
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

// rounds says how often the cells were measured, and whether together.
func (r *Results) rounds(cells []Planned) string {
	text := fmt.Sprintf("%d rounds", cells[0].Rounds)
	if cells[0].Rounds == 1 {
		text = "One round"
	}
	for _, p := range cells {
		if r.run(p.Workload, p.Store) != r.run(cells[0].Workload, cells[0].Store) {
			return text + ", in several runs"
		}
	}
	return text
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
