package main

import (
	"strings"
	"time"

	"github.com/seed81422ce9/jobs/inspect"

	"github.com/spf13/cobra"
)

// groupView is a group of dead jobs as --json writes it.
type groupView struct {
	Count   int        `json:"count"`
	Type    string     `json:"type"`
	Error   string     `json:"error"` // what the messages have in common
	Message string     `json:"message"`
	Reasons []string   `json:"reasons"`
	Queues  []string   `json:"queues"`
	First   *time.Time `json:"first"`
	Last    *time.Time `json:"last"`
	Example string     `json:"example"`
}

// defaultLooked is how many dead jobs are looked at unless --limit says otherwise:
// the newest, in about a second.
const defaultLooked = 5000

func (a *app) deadGroups() *cobra.Command {
	var queue, sort string
	var limit int
	cmd := &cobra.Command{
		Use:   "groups",
		Short: "Group dead jobs by type and error, the largest group first",
		Long: `Group dead jobs by type and error: numbers, IDs and quoted texts are taken as alike.
It looks at the newest of each queue, in turn, up to --limit. Decide about a group
with --type and --error, for example jobsctl dlq redrive --type T --error TEXT.`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			l, err := a.newList(groupColumns, sort)
			if err != nil {
				return err
			}
			i, err := a.inspector(cmd.Context())
			if err != nil {
				return err
			}
			var queues []string
			if queue != "" {
				if _, err := i.Queue(cmd.Context(), queue); err != nil {
					return err
				}
				queues = []string{queue}
			}
			groups, all, err := i.DeadGroups(cmd.Context(), limit, queues...)
			if err != nil {
				return err
			}
			for _, g := range groups.List() {
				if err := l.add(viewGroup(g), g.Count, g.Type, g.Fingerprint, strings.Join(g.Reasons, " "), g.First, g.Last,
					strings.Join(g.Queues, " "), g.Examples[0].ID); err != nil {
					return err
				}
			}
			if err := l.end(); err != nil {
				return err
			}
			if !all {
				a.say("Of the %d newest dead jobs; there are more (--limit).", groups.Looked)
			}
			return nil
		},
	}
	cmd.Flags().StringVarP(&queue, "queue", "q", "", "queue (default: all)")
	cmd.Flags().IntVarP(&limit, "limit", "n", defaultLooked, "dead jobs that are looked at")
	sortFlag(cmd, &sort, groupColumns)
	return cmd
}

var groupColumns = []column{
	{head: "COUNT"},
	{head: "TYPE", shape: shape{least: 8}},
	{head: "ERROR", shape: shape{least: 12}},
	{head: "REASON", shape: shape{rank: 3, least: 8}},
	{head: "FIRST", shape: shape{rank: 4}},
	{head: "LAST", shape: shape{rank: 2}},
	{head: "QUEUES", shape: shape{rank: 1, least: 6}},
	{head: "EXAMPLE", wide: true},
}

func viewGroup(g inspect.Group) groupView {
	return groupView{g.Count, g.Type, g.Fingerprint, g.Message, g.Reasons, g.Queues, at(g.First), at(g.Last), g.Examples[0].ID}
}
