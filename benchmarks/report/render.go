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
	b.WriteString("# Benchmarks\n\nWritten by the program in `benchmarks/`, not by hand; how to run it stands in its README.\n")
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
	for _, name := range slices.Sorted(maps.Keys(r.Env.Stores)) {
		fmt.Fprintf(b, "%s. ", r.Env.Stores[name])
	}
	for _, name := range slices.Sorted(maps.Keys(r.Env.Versions)) {
		fmt.Fprintf(b, "%s %s. ", name, r.Env.Versions[name])
	}
	b.WriteString(`

Payload 200 bytes, handlers do nothing, 100 at once, unless a table says otherwise. Systems take turns within each round,
so that noise hits all; a figure is the median of the rounds with the lowest and the highest in brackets, and ~ marks one
whose rounds differ by more than 25 % of it, which says no more than an order of magnitude. Ratios are medians of the rounds'
own ratios. Producer and worker are processes of their own; their CPU and allocations are those processes', the
store's CPU that of its processes. Throughput counts from the start of the worker to the end of the last handler; how long
a claim takes is that of claims that give jobs, and told by our systems alone; a run after which
the store still held a job, or in which a job was not handled, gives no figure. Where a queue is kept over all rounds, each
system has a Redis server of its own, since what one frees another would take. For a constant depth one producer replaces
what is handled, and handlers wait while it is 2000 jobs behind.

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

The ratios to reach were set on another machine, on which the peers were slower beside the same prototypes. What the bare prototype
reaches here is what is possible here; in the last column stands how much of that is reached. The limits of W2chain and W2sampled are
that of W2 and 4 µs for the chain; what OpenTelemetry's own part of these is stands in [metrics.md](metrics.md).

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
