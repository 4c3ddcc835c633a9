package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/seed81422ce9/jobs/broker"
	"github.com/seed81422ce9/jobs/inspect"
)

// dlq is the dead-letter queue: the jobs in state dead.
func (a *app) dlq() *cobra.Command {
	dead := broker.StateDead.String()
	ls := a.list()
	ls.Use, ls.Short, ls.Long, ls.Example = "list", "List dead jobs", "List dead jobs. Payloads are not shown.", ""
	fixState(ls, dead)
	redrive := a.redrive()
	purge := a.deleteJobs()
	purge.Use, purge.Short = "purge [ID…]", "Delete dead jobs"
	purge.Long = "Delete dead jobs: those with the IDs, or those that the flags select, such as\n--older-than 30d, or all with --all. " +
		"A job in another state is refused. --dry-run\nonly counts them. The command asks before it changes anything."
	out := a.export()
	out.Short = "Export dead jobs to a file"
	for _, c := range []*cobra.Command{redrive, purge, out} {
		fixState(c, dead)
	}
	return group("dlq", "List, redrive, export or delete dead jobs", "",
		ls, a.deadGroups(), redrive, a.undoRedrive(), purge, out, a.importJobs(),
		a.suppress(broker.OpSuppress, "Leave dead jobs out of lists and alerts; they are counted apart"),
		a.suppress(broker.OpUnsuppress, "Show suppressed dead jobs in lists again"))
}

// fixState limits a command to jobs of one state, as if the user always gave --state.
func fixState(cmd *cobra.Command, state string) {
	flag := cmd.Flags().Lookup("state")
	flag.Hidden, flag.DefValue = true, state
	_ = cmd.Flags().Set("state", state) // the flag takes any text
	run := cmd.RunE
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if flag.Value.String() != state {
			return misuse("%s works on %s jobs only", cmd.CommandPath(), state)
		}
		return run(cmd, args)
	}
}

func (a *app) suppress(kind broker.OperationKind, short string) *cobra.Command {
	cmd := a.decide(verb(kind, short, short+".", broker.StateDead))
	fixState(cmd, broker.StateDead.String())
	return cmd
}

func (a *app) undoRedrive() *cobra.Command {
	return &cobra.Command{
		Use:   "undo FILE",
		Short: "Make redriven jobs dead again, if no worker has claimed them",
		Long: `Make redriven jobs dead again, with the errors, counts and times that they had. FILE
is what "jobsctl dlq export" wrote before the redrive; - is the standard input. A job
that a worker has claimed since, or that changed otherwise, is refused and left alone.
If many jobs were redriven, pause the queue first.`,
		Example: "  jobsctl dlq export --group 3f2a90c1 --out before.ndjson\n  jobsctl dlq redrive --group 3f2a90c1\n" +
			"  jobsctl dlq undo before.ndjson",
		RunE: a.inspecting(func(ctx context.Context, i *inspect.Inspector, args []string) error {
			in, err := a.file(args[0])
			if err != nil {
				return err
			}
			defer in.Close()
			d := &decision{Verb: inspect.Verb{Name: "undo", Done: "dead again"}}
			r, err := i.UndoExported(ctx, in)
			if err != nil {
				a.interrupted(d, r, 0)
				return err
			}
			return a.report(d, r, false)
		}),
	}
}

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
