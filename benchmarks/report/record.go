// Package report turns the records of measurements into a document, and refuses to
// if they are incomplete.
package report

import (
	"bufio"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
)

// Env describes the circumstances of a run.
type Env struct {
	Run      string // ID of this invocation
	Began    string // date
	CPU      string
	CPUs     int
	Load     float64           // load average before the start
	Versions map[string]string // of the modules and of Go
	Stores   map[string]string // with their settings
	Scale    float64
	Plan     []Planned
}

// Planned is a measurement that a run plans to make.
type Planned struct {
	Workload string
	About    string
	Store    string
	Jobs     int
	Systems  []string
	Rounds   int
	CPU      string `json:"-"` // on which it was measured
}

// Record is the outcome of one round of a workload for one system.
type Record struct {
	Run, Workload, Store, System string
	Round, Jobs                  int
	Metrics                      map[string]float64 `json:",omitempty"`
	Error                        string             `json:",omitempty"` // why it could not be measured
}

// Summary returns the record in one line.
func (r Record) Summary() string {
	if r.Error != "" {
		return "FAILED: " + r.Error
	}
	var b strings.Builder
	for _, m := range Metrics {
		if v, ok := r.Metrics[m.Name]; ok {
			fmt.Fprintf(&b, "%s %s  ", m.Name, number(v))
		}
	}
	return b.String()
}

// Line is one line of a file of results; it has either field.
type Line struct {
	Env    *Env    `json:",omitempty"`
	Record *Record `json:",omitempty"`
}

// Results holds the records of complete measurements, and says what is missing.
type Results struct {
	Env     Env // of the last run, with all stores and the highest load
	Plan    []Planned
	Missing []string // planned, but incomplete

	records []Record
}

// Read reads lines of results. If several runs measured a workload, it takes the last
// run that finished it.
func Read(r io.Reader) (*Results, error) {
	var envs []Env
	byRun := map[string][]Record{}
	in := bufio.NewScanner(r)
	in.Buffer(nil, 1<<20)
	for n := 1; in.Scan(); n++ {
		var l Line
		if err := json.Unmarshal(in.Bytes(), &l); err != nil {
			return nil, fmt.Errorf("line %d of the results: %w", n, err)
		}
		if l.Env != nil {
			envs = append(envs, *l.Env)
		}
		if l.Record != nil {
			byRun[l.Record.Run] = append(byRun[l.Record.Run], *l.Record)
		}
	}
	if err := in.Err(); err != nil {
		return nil, err
	}
	if len(envs) == 0 {
		return nil, errors.New("the results hold no run")
	}
	res := &Results{Env: envs[len(envs)-1]}
	stores := make(map[string]string)
	for _, e := range envs {
		maps.Copy(stores, e.Stores)
		res.Env.Load = max(res.Env.Load, e.Load)
		if e.Scale != res.Env.Scale {
			return nil, fmt.Errorf("the results hold runs of scale %v and %v, which cannot be compared", e.Scale, res.Env.Scale)
		}
		for _, p := range e.Plan {
			records, lacking := pick(byRun[e.Run], p)
			name := p.Workload + " on " + p.Store
			same := func(q Planned) bool { return q.Workload == p.Workload && q.Store == p.Store }
			if lacking != "" {
				if !slices.ContainsFunc(res.Plan, same) {
					res.Missing = append(res.Missing, name+": "+lacking)
				}
				continue
			}
			res.Missing = slices.DeleteFunc(res.Missing, func(m string) bool { return len(m) > len(name) && m[:len(name)+1] == name+":" })
			p.CPU = e.CPU
			res.Plan = append(slices.DeleteFunc(res.Plan, same), p)
			res.records = append(slices.DeleteFunc(res.records, func(r Record) bool { return same(Planned{Workload: r.Workload, Store: r.Store}) }),
				records...)
		}
	}
	res.Env.Stores = stores
	return res, nil
}

// run returns the run that measured a workload.
func (r *Results) run(workload, store string) string {
	for _, rec := range r.records {
		if rec.Workload == workload && rec.Store == store {
			return rec.Run
		}
	}
	return ""
}

// Sort puts the measurements into the order of want.
func (r *Results) Sort(want []Planned) {
	place := func(p Planned) int {
		return slices.IndexFunc(want, func(w Planned) bool { return w.Workload == p.Workload && w.Store == p.Store })
	}
	slices.SortStableFunc(r.Plan, func(a, b Planned) int { return cmp.Compare(place(a), place(b)) })
}

// pick returns the records of p, or says what is missing.
func pick(records []Record, p Planned) (chosen []Record, lacking string) {
	for _, system := range p.Systems {
		for round := range p.Rounds {
			i := slices.IndexFunc(records, func(r Record) bool {
				return r.Workload == p.Workload && r.Store == p.Store && r.System == system && r.Round == round
			})
			if i < 0 {
				return nil, fmt.Sprintf("round %d of %d of %s was not made", round+1, p.Rounds, system)
			}
			chosen = append(chosen, records[i])
		}
	}
	return chosen, ""
}

// Values returns the values of a metric by round. A system that failed in any round
// has no values; failure then says why it failed.
func (r *Results) Values(workload, store, system, metric string) (values map[int]float64, failure string) {
	values = map[int]float64{}
	for _, rec := range r.records {
		if rec.Workload != workload || rec.Store != store || rec.System != system {
			continue
		}
		if rec.Error != "" {
			return nil, rec.Error
		}
		if v, ok := rec.Metrics[metric]; ok {
			values[rec.Round] = v
		}
	}
	return values, ""
}

// metrics returns the names of the metrics that any system has in p, in the order of
// tables.
func (r *Results) metrics(p Planned) []string {
	has := map[string]bool{}
	for _, rec := range r.records {
		if rec.Workload == p.Workload && rec.Store == p.Store {
			for m := range rec.Metrics {
				has[m] = true
			}
		}
	}
	var names []string
	for _, m := range Metrics {
		if has[m.Name] {
			names = append(names, m.Name)
		}
	}
	return names
}
