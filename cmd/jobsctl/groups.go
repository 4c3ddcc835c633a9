package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/seed81422ce9/jobs/inspect"
)

// groupView is a group of dead jobs as -o json writes it.
type groupView struct {
	Group   string     `json:"group"` // its ID
	Count   int        `json:"count"`
	Type    string     `json:"type"`
	Error   string     `json:"error"` // the common part of the messages
	Message string     `json:"message"`
	Reasons []string   `json:"reasons"`
	Queues  []string   `json:"queues"`
	First   *time.Time `json:"first"`
	Last    *time.Time `json:"last"`
	Example string     `json:"example"`

	PerMinute   float64   `json:"per_minute"`   // deaths per minute between First and Last
	Deaths      []int     `json:"deaths"`       // in each of equal parts of the time from DeathsFrom to DeathsUntil
	DeathsFrom  time.Time `json:"deaths_from"`  // the same for all groups
	DeathsUntil time.Time `json:"deaths_until"` // the same for all groups
}

// defaultLooked is the default of --limit: stores read this many jobs in about a second.
const defaultLooked = 5000

func (a *app) deadGroups() *cobra.Command {
	var queue string
	var limit int
	cmd := &cobra.Command{
		Use:   "groups",
		Short: "Group dead jobs by type and error, the group with the newest job first",
		Long: `Group dead jobs by type and error. Errors that differ only in numbers, IDs and quoted
texts are alike. The command examines the newest dead jobs of each queue in turn, up
to --limit.

RATE is how fast the examined jobs of the group died, between FIRST and LAST. TREND
shows when: each sign is a twelfth of the time between the oldest and the newest job
of all groups, and is higher where more jobs of the group died.

"jobsctl dlq redrive --group ID" redrives a group, in all queues or in that of
--queue. It shows the exact number of jobs, asks for confirmation, and reports how
many it changed.`,
		Example: "  jobsctl dlq groups\n  jobsctl dlq list --group 3f2a90c1\n  jobsctl dlq redrive --group 3f2a90c1",
		RunE: a.inspecting(func(ctx context.Context, i *inspect.Inspector, _ []string) error {
			l := a.newList(groupColumns)
			if queue != "" {
				if _, err := i.Queue(ctx, queue); err != nil {
					return err
				}
			}
			groups, all, err := i.DeadGroups(ctx, limit, oneQueue(queue)...)
			if err != nil {
				return err
			}
			list := groups.List()
			slices.SortStableFunc(list, func(a, b inspect.Group) int { return b.Last.Compare(a.Last) })
			from, until := extent(list)
			for _, g := range list {
				deaths := g.Deaths(from, until, trendParts)
				v := groupView{g.ID(), g.Count, g.Type, g.Fingerprint, g.Message, g.Reasons, g.Queues, at(g.First), at(g.Last), g.Examples[0].ID,
					g.PerMinute(), deaths, from, until}
				l.add(v, g.Count, g.ID(), rate(g.PerMinute()), trend(deaths), g.Type, cause(g.Fingerprint), strings.Join(g.Reasons, " "),
					g.First, g.Last, strings.Join(g.Queues, " "), g.Examples[0].ID)
			}
			if err := l.end(); err != nil {
				return err
			}
			if !all {
				a.say("These are groups of the %s newest dead jobs; there are more (--limit).", number(groups.Looked))
			}
			if groups.Others > 0 {
				a.say("%s more jobs have other types or errors: at most %s groups are made.", number(groups.Others), number(inspect.MaxGroups))
			}
			return nil
		}),
	}
	cmd.Flags().StringVarP(&queue, "queue", "q", "", "queue (default: all)")
	cmd.Flags().IntVarP(&limit, "limit", "n", defaultLooked, "number of dead jobs to examine; 0 for all")
	a.sortFlag(cmd, groupColumns)
	return cmd
}

var groupColumns = []column{
	{head: "COUNT"},
	{head: "GROUP"},
	{head: "RATE", rank: 2},
	{head: "TREND", rank: 3},
	{head: "TYPE", least: 8},
	{head: "ERROR", least: 12},
	{head: "REASON", rank: 6, least: 8},
	{head: "FIRST", rank: 5},
	{head: "LAST", rank: 1},
	{head: "QUEUES", rank: 4, least: 6},
	{head: "EXAMPLE", wide: true},
}

// extent returns when the first and the last job of all groups died.
func extent(groups []inspect.Group) (from, until time.Time) {
	if len(groups) == 0 {
		return from, until
	}
	return slices.MinFunc(groups, func(a, b inspect.Group) int { return a.First.Compare(b.First) }).First,
		slices.MaxFunc(groups, func(a, b inspect.Group) int { return a.Last.Compare(b.Last) }).Last
}

// trendParts is how many characters a trend has: enough to show a shape, few enough for
// a narrow terminal.
const trendParts = 12

// trend returns numbers as a row of bars; the greatest number has the full height.
func trend(counts []int) string {
	signs := []rune("▁▂▃▄▅▆▇█")
	most := slices.Max(counts)
	var b strings.Builder
	for _, n := range counts {
		if n == 0 {
			b.WriteByte('.')
			continue
		}
		b.WriteRune(signs[(n*len(signs)-1)/most])
	}
	return b.String()
}

// rate returns a cell with a number per minute, hour or day; it is blank if the rate is
// unknown.
func rate(perMinute float64) cell {
	text := ""
	switch {
	case perMinute <= 0:
	case perMinute >= 1:
		text = fmt.Sprintf("%.0f/min", perMinute)
	case perMinute*60 >= 1:
		text = fmt.Sprintf("%.0f/h", perMinute*60)
	default:
		text = fmt.Sprintf("%.2g/d", perMinute*60*24)
	}
	return cell{text: text, key: int64(perMinute * 1e6)}
}
