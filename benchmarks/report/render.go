package report

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"strings"
)

// MinRounds is how many rounds a published figure needs.
const MinRounds = 5

// Unfit returns why the results must not be published, or "".
func (r *Results) Unfit(want []Planned, minRounds func(workload string) int) string {
	var why []string
	if r.Env.Scale != 1 {
		why = append(why, fmt.Sprintf("sizes were scaled by %v", r.Env.Scale))
	}
	why = append(why, r.Missing...)
	for _, w := range want {
		i := slices.IndexFunc(r.Plan, func(p Planned) bool { return p.Workload == w.Workload && p.Store == w.Store })
		switch {
		case i < 0:
			why = append(why, w.Workload+" on "+w.Store+" was not measured")
		case r.Plan[i].Rounds < minRounds(w.Workload):
			why = append(why, fmt.Sprintf("%s on %s has %d rounds of %d", w.Workload, w.Store, r.Plan[i].Rounds, minRounds(w.Workload)))
		default:
			for _, s := range w.Systems {
				if !slices.Contains(r.Plan[i].Systems, s) {
					why = append(why, w.Workload+" was not measured for "+s)
				}
			}
		}
	}
	return strings.Join(why, "; ")
}

// Render writes the document; about describes the systems by name.
func (r *Results) Render(out io.Writer, unfit string, about map[string]string) error {
	var b strings.Builder
	b.WriteString("# Benchmarks\n\n" +
		"Written by the program in `benchmarks/`, not by hand; its [README](../benchmarks/README.md) says how to run it.\n")
	if unfit != "" {
		fmt.Fprintf(&b, "\n**Not fit for publication: %s.**\n", unfit)
	}
	r.circumstances(&b, about)
	r.verdicts(&b)
	order := []string{"redis", "postgres", "file", "memory"}
	plan := slices.Clone(r.Plan)
	slices.SortStableFunc(plan, func(a, b Planned) int {
		return cmp.Compare(slices.Index(order, a.Store), slices.Index(order, b.Store))
	})
	last := ""
	for i, p := range plan {
		if p.Store != last {
			fmt.Fprintf(&b, "\n## %s\n", map[string]string{"redis": "Redis", "postgres": "Postgres", "file": "File", "memory": "Memory"}[p.Store])
			last = p.Store
		}
		if !p.inGrid() {
			r.table(&b, p)
		} else if i == 0 || !plan[i-1].inGrid() || plan[i-1].Store != p.Store {
			r.grid(&b, slices.DeleteFunc(slices.Clone(plan), func(q Planned) bool { return q.Store != p.Store || !q.inGrid() }))
		}
	}
	_, err := io.WriteString(out, b.String())
	return err
}

func (r *Results) circumstances(b *strings.Builder, about map[string]string) {
	fmt.Fprintf(b, "\n## What was measured, and how\n\n")
	fmt.Fprintf(b, "%s, %s, %d CPUs shared by store, producer and worker; load average before the start %.2f.\n", r.Env.Began,
		strings.Join(r.cpus(), " or "), r.Env.CPUs, r.Env.Load)
	if len(r.cpus()) > 1 {
		b.WriteString("Each table says on which of them it was measured; ratios are of systems that took turns on one.\n")
	}
	b.WriteString("\n")
	for _, name := range slices.Sorted(maps.Keys(r.Env.Stores)) {
		fmt.Fprintf(b, "- %s\n", r.Env.Stores[name])
	}
	var versions []string
	for _, name := range slices.Sorted(maps.Keys(r.Env.Versions)) {
		versions = append(versions, name+" "+r.Env.Versions[name])
	}
	fmt.Fprintf(b, "- %s\n", strings.Join(versions, ", "))
	b.WriteString(`
Unless a table says otherwise, payloads have 200 bytes, and 100 handlers run at once and do nothing.

- Systems take turns within each round, so that noise affects all of them. A figure is the median of the rounds, with the lowest and the
  highest in brackets. ~ marks a figure whose rounds differ by more than 25 %: it shows only an order of magnitude. A ratio is the median
  of the ratios of the rounds.
- Producer and worker are separate processes. Their CPU and allocations are those of these processes; the store's CPU is that of its
  processes.
- Throughput counts from the start of the worker to the end of the last handler. The time of a claim is that of claims that give jobs; only
  our systems report it. A run that leaves a job in the store, or unhandled, gives no figure.
- If a queue is kept over all rounds, each system has its own Redis server. Otherwise systems would reuse each other's freed memory.
- At a constant depth one producer replaces handled jobs, and handlers wait while it is 2000 jobs behind.

| system | |
|---|---|
`)
	for _, name := range slices.Sorted(maps.Keys(about)) {
		fmt.Fprintf(b, "| %s | %s |\n", name, about[name])
	}
}

// cpus returns the processors on which the measurements were made, sorted.
func (r *Results) cpus() []string {
	var all []string
	for _, p := range r.Plan {
		all = append(all, p.CPU)
	}
	slices.Sort(all)
	return slices.Compact(all)
}

func (r *Results) verdicts(b *strings.Builder) {
	b.WriteString(`
## Targets

The targets were set on another machine, on which the peers were slower compared with the same prototypes. The bare prototype shows what is
possible here; the last column shows how much of that is reached. The limit of W2chain and of W2sampled is that of W2 and 4 µs for the
chain; [Metrics](metrics.md#what-it-costs) shows OpenTelemetry's part of that. *In other runs* means that the two workloads were measured
on different days or machines, so that their ratio would say nothing.

| store | workload | metric | against | must | aim | measured | | prototype | share |
|---|---|---|---|---|---|---|---|---|---|
`)
	for _, t := range targets {
		relation := "≤"
		if higher(t.metric) {
			relation = "≥"
		}
		unit, against := "", "-"
		if t.peer != "" {
			unit, against = "x", strings.TrimPrefix(t.peer, "@")
		}
		measured, verdict := "not measured", ""
		limit, share := "-", "-"
		if s, ok := t.sample(r, ours(t.store)); ok {
			measured, verdict = s.text(unit), t.verdict(s.Median)
			if l, ok := t.sample(r, bare(t.store)); ok {
				limit, share = l.text(unit), t.share(s.Median, l.Median)
			}
		} else if base, ok := strings.CutPrefix(t.peer, "@"); ok && r.run(t.workload, t.store) != "" && r.run(base, t.store) != "" {
			measured = "in other runs"
		}
		fmt.Fprintf(b, "| %s | %s | %s | %s | %s %s%s | %s%s | %s | %s | %s | %s |\n", t.store, t.workload, t.metric, against,
			relation, number(t.must), unit, number(t.aim), unit, measured, verdict, limit, share)
	}
}

func (r *Results) table(b *strings.Builder, p Planned) {
	fmt.Fprintf(b, "\n### %s: %s\n\n", p.Workload, p.About)
	if p.Jobs > 0 {
		fmt.Fprintf(b, "%d jobs, ", p.Jobs)
	}
	fmt.Fprintf(b, "%d rounds", p.Rounds)
	if len(r.cpus()) > 1 {
		fmt.Fprintf(b, ", on %s", p.CPU)
	}
	b.WriteString(".\n\n| |")
	for _, s := range p.Systems {
		fmt.Fprintf(b, " %s |", s)
	}
	b.WriteString("\n|---|" + strings.Repeat("---|", len(p.Systems)) + "\n")
	for _, m := range r.metrics(p) {
		fmt.Fprintf(b, "| %s |", m)
		for _, system := range p.Systems {
			values, failure := r.Values(p.Workload, p.Store, system, m)
			switch {
			case failure != "":
				b.WriteString(" failed |")
			case len(values) == 0:
				b.WriteString(" - |")
			default:
				fmt.Fprintf(b, " %s |", Of(slices.Collect(maps.Values(values))).text(""))
			}
		}
		b.WriteString("\n")
	}
	for _, system := range p.Systems {
		if _, failure := r.Values(p.Workload, p.Store, system, ""); failure != "" {
			fmt.Fprintf(b, "\n%s failed: %s\n", system, failure)
		}
	}
}

// text returns a sample as median [lowest..highest].
func (s Sample) text(unit string) string {
	text := number(s.Median) + unit
	if s.Noisy() {
		text = "~" + text
	}
	if s.Rounds > 1 && s.Min != s.Max {
		text += fmt.Sprintf(" [%s..%s]", number(s.Min), number(s.Max))
	}
	return text
}

// number formats v with three significant digits, or in full from a thousand on.
func number(v float64) string {
	switch a := math.Abs(v); {
	case a == 0:
		return "0"
	case a >= 10_000:
		return fmt.Sprintf("%.1fk", v/1000)
	case a >= 100:
		return fmt.Sprintf("%.0f", v)
	case a >= 10:
		return fmt.Sprintf("%.1f", v)
	case a >= 1:
		return fmt.Sprintf("%.2f", v)
	}
	return fmt.Sprintf("%.3f", v)
}
