package main

import (
	"cmp"
	"context"
	"errors"
	"iter"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/seed81422ce9/jobs"
	"github.com/seed81422ce9/jobs/broker"
	"github.com/seed81422ce9/jobs/inspect"
	"github.com/seed81422ce9/jobs/schedule"
	"github.com/seed81422ce9/jobs/workflow"
)

// errUnhealthy says that errors remain in the store.
var errUnhealthy = errors.New("errors remain in the store, see above")

func (a *app) doctor() *cobra.Command {
	var e inspect.Examination
	var all bool
	cmd := &cobra.Command{
		Use:   "doctor",
		Short: "Find contradictions in the store, and repair them",
		Long: `Find keys or rows that contradict each other, settings that lose jobs, queues
without workers, schedules that do not tick, and workflows that stopped or whose
own job was deleted. The command works in small steps; you can run it at any time,
while workers run. Without --fix it changes nothing.

--fix repairs each finding in the step that found it, and asks for confirmation
first. No repair removes a job that can still run or be looked at, but for nodes of
workflows that are gone; docs/doctor.md says what each repair does.

The exit code is 8 if errors remain. Warnings do not count.`,
		Example: "  jobsctl doctor\n  jobsctl doctor --queue mail --fix\n  jobsctl doctor --json | jq .code",
		RunE: a.inspecting(func(ctx context.Context, i *inspect.Inspector, _ []string) error {
			if err := a.confirm(ctx, e.Fix, "repair the store"); err != nil {
				return err
			}
			shown := a.progress("examining", 0)
			defer shown.end()
			records := 0
			e.OnStep = func(step broker.Examined) {
				records += step.Records
				shown.Describe(strings.TrimSpace(plain(step.Queue) + " " + step.Part))
				shown.at(records)
			}
			r := diagnosis{all: all}
			examinations := []iter.Seq2[inspect.Finding, error]{i.Examine(ctx, e)}
			if e.Queue == "" || e.Queue == schedule.Queue {
				examinations = append(examinations, schedule.New(a.store, "").Examine(ctx, e.Fix))
			}
			if e.Queue == "" || e.Queue == workflow.Queue {
				client := jobs.NewClient(a.store, jobs.ClientConfig{})
				defer client.Close()
				examinations = append(examinations, workflow.Examine(ctx, client, e.Fix))
			}
			for _, findings := range examinations {
				for f, err := range findings {
					if err != nil {
						shown.end()
						a.sayFindings(&r, e.Fix)
						return err
					}
					r.add(f)
					if err := a.object(viewOf(f)); err != nil {
						return err
					}
				}
			}
			shown.end()
			if a.sayFindings(&r, e.Fix) > 0 {
				return errUnhealthy
			}
			return nil
		}),
	}
	cmd.Flags().StringVarP(&e.Queue, "queue", "q", "", "examine only this queue, and not the server (default: all)")
	cmd.Flags().BoolVar(&e.Fix, "fix", false, "repair findings")
	cmd.Flags().BoolVar(&all, "all", false, "show all findings, not five of each kind")
	return cmd
}

// shownOfEach is how many findings of each kind are listed; the others are counted.
const shownOfEach = 5

// diagnosis collects findings by kind and queue.
type diagnosis struct {
	all    bool
	groups []*sameFindings
}

type sameFindings struct {
	kind  broker.FindingKind
	queue string
	first []inspect.Finding
	count int
	fixed int
	left  []string // why repairs were not possible
}

func (d *diagnosis) add(f inspect.Finding) {
	at := slices.IndexFunc(d.groups, func(g *sameFindings) bool { return g.kind == f.FindingKind && g.queue == f.Queue })
	if at < 0 {
		at = len(d.groups)
		d.groups = append(d.groups, &sameFindings{kind: f.FindingKind, queue: f.Queue})
	}
	g := d.groups[at]
	if g.count++; d.all || g.count <= shownOfEach {
		g.first = append(g.first, f)
	}
	if f.Fixed {
		g.fixed++
	} else if f.Left != "" && !slices.Contains(g.left, f.Left) {
		g.left = append(g.left, f.Left)
	}
}

// sayFindings says what was found, errors first, and returns how many errors remain.
func (a *app) sayFindings(d *diagnosis, fix bool) (remain int) {
	slices.SortStableFunc(d.groups, func(x, y *sameFindings) int {
		return cmp.Or(cmp.Compare(level(x.kind), level(y.kind)), strings.Compare(x.queue, y.queue))
	})
	found, fixed, fixable := make(map[string]int), 0, 0
	for _, g := range d.groups {
		kind, left := g.kind, g.count-g.fixed
		found[level(kind)] += g.count
		fixed += g.fixed
		if kind.Repair != "" {
			fixable += left
		}
		if !kind.Warning {
			remain += left
		}
		about := "the store"
		if g.queue != "" {
			about = "queue " + g.queue
		}
		a.say("%s: %s in %s (%d)", level(kind), kind.Code, plain(about), g.count)
		for _, f := range g.first {
			a.say("  %s", plain(strings.TrimPrefix(f.ID+": "+f.What, ": ")))
		}
		if more := g.count - len(g.first); more > 0 {
			a.say("  and %d more; --all shows them", more)
		}
		a.say("  Means: %s.", kind.Means)
		if g.fixed > 0 {
			a.say("  Repaired %d: %s.", g.fixed, kind.Repair)
		}
		if left == 0 {
			continue
		}
		if len(g.left) > 0 && kind.Repair != "" {
			a.say("  Not repaired %d: %s.", left, plain(strings.Join(g.left, "; ")))
		} else if !fix && kind.Repair != "" {
			a.say("  --fix: %s.", kind.Repair)
		}
		if kind.Advice != "" && (fix || kind.Repair == "") {
			a.say("  To do: %s.", kind.Advice)
		}
	}
	errs, warnings := plural(found["error"], "error"), plural(found["warning"], "warning")
	switch {
	case len(d.groups) == 0:
		a.say("Nothing is wrong.")
	case fix:
		a.say("Found %s and %s, repaired %s.", errs, warnings, number(fixed))
	default:
		a.say("Found %s and %s; --fix can repair %s.", errs, warnings, number(fixable))
	}
	return remain
}

func level(k broker.FindingKind) string {
	if k.Warning {
		return "warning"
	}
	return "error"
}

// findingView is a finding as -o json writes it.
type findingView struct {
	Level  string `json:"level"`
	Code   string `json:"code"`
	Queue  string `json:"queue,omitempty"`
	ID     string `json:"id,omitempty"`
	What   string `json:"what"`
	Means  string `json:"means"`
	Repair string `json:"repair,omitempty"`
	Advice string `json:"advice,omitempty"`
	Fixed  bool   `json:"fixed"`
	Left   string `json:"left,omitempty"`
}

func viewOf(f inspect.Finding) findingView {
	return findingView{level(f.FindingKind), f.Code, f.Queue, f.ID, f.What, f.Means, f.Repair, f.Advice, f.Fixed, f.Left}
}
