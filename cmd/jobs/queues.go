package main

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/seed81422ce9/jobs/inspect"

	"github.com/spf13/cobra"

	"github.com/seed81422ce9/jobs/broker"
)

// policyView is a policy as --json writes it; times are seconds.
type policyView struct {
	Paused              bool    `json:"paused"`
	MaxDepth            int64   `json:"max_depth"`
	RetainCompletedAge  float64 `json:"retain_completed_seconds"`
	RetainCompletedMost int64   `json:"retain_completed_count"`
	RetainDeadAge       float64 `json:"retain_dead_seconds"`
	RetainDeadMost      int64   `json:"retain_dead_count"`
	DuplicateSpan       float64 `json:"duplicate_span_seconds"`
	PriorityRound       int64   `json:"priority_round"`
}

func viewPolicy(p inspect.Policy) *policyView {
	return &policyView{p.Paused, p.MaxDepth, p.RetainCompleted.Age.Seconds(), p.RetainCompleted.Count,
		p.RetainDead.Age.Seconds(), p.RetainDead.Count, p.DuplicateSpan.Seconds(), p.PriorityRound}
}

func (a *app) queues() *cobra.Command {
	cmd := &cobra.Command{Use: "queues", Short: "List, pause, resume or remove queues, and change their policies", Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() }}
	ls := a.stats()
	ls.Use, ls.Short = "ls [QUEUE…]", "List queues with their counts, like stats"
	cmd.AddCommand(ls, a.pause("pause", "Pause queues: no more jobs are claimed, running jobs go on", (*inspect.Inspector).Pause),
		a.pause("resume", "Resume paused queues", (*inspect.Inspector).Resume), a.policy(), a.removeQueue())
	return cmd
}

func (a *app) policy() *cobra.Command {
	var maxDepth, completedMost, deadMost, round int64
	var completedAge, deadAge, duplicates time.Duration
	cmd := &cobra.Command{
		Use:   "policy QUEUE",
		Short: "Show a queue's policy, or change it",
		Long: `Show a queue's policy, or change the parts that are given, for all workers and
producers at once. Zero means no limit. Records of completed jobs are kept only
if --keep-completed or the job's own retention says for how long.`,
		Args: exactly("QUEUE"),
		RunE: func(cmd *cobra.Command, args []string) error {
			i, err := a.inspector(cmd.Context())
			if err != nil {
				return err
			}
			if _, err := i.Queue(cmd.Context(), args[0]); err != nil {
				return err // a policy for a name that was mistyped helps nobody
			}
			change := inspect.PolicyRequest{Queue: args[0]}
			given := cmd.Flags().Changed
			if given("max-depth") {
				change.MaxDepth = &maxDepth
			}
			if given("duplicate-span") {
				change.DuplicateSpan = &duplicates
			}
			if given("priority-round") {
				change.PriorityRound = &round
			}
			now, err := i.Policy(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			if given("keep-completed") || given("keep-completed-count") {
				change.RetainCompleted = &now.RetainCompleted
				set(given("keep-completed"), &change.RetainCompleted.Age, completedAge)
				set(given("keep-completed-count"), &change.RetainCompleted.Count, completedMost)
			}
			if given("keep-dead") || given("keep-dead-count") {
				change.RetainDead = &now.RetainDead
				set(given("keep-dead"), &change.RetainDead.Age, deadAge)
				set(given("keep-dead-count"), &change.RetainDead.Count, deadMost)
			}
			p, err := i.SetPolicy(cmd.Context(), change)
			if err != nil {
				return err
			}
			if a.json {
				return a.object(viewPolicy(p))
			}
			t := a.table("PAUSED", strconv.FormatBool(p.Paused))
			t.row("MAX DEPTH", orNone(count(p.MaxDepth)))
			t.row("KEEP COMPLETED", bound(p.RetainCompleted, "none, unless a job asks for it"))
			t.row("KEEP DEAD", bound(p.RetainDead, "all"))
			t.row("DUPLICATE SPAN", span(cmp.Or(p.DuplicateSpan, broker.DefaultDuplicateSpan)))
			t.row("PRIORITY ROUND", cmp.Or(count(p.PriorityRound), "none, urgent jobs go first"))
			return t.end()
		},
	}
	flags := cmd.Flags()
	flags.Int64Var(&maxDepth, "max-depth", 0, "maximum number of pending, scheduled and waiting jobs; more are refused")
	flags.DurationVar(&completedAge, "keep-completed", 0, "how long to keep records of completed and cancelled jobs")
	flags.Int64Var(&completedMost, "keep-completed-count", 0, "how many of these records to keep")
	flags.DurationVar(&deadAge, "keep-dead", 0, "how long to keep dead jobs")
	flags.Int64Var(&deadMost, "keep-dead-count", 0, "how many dead jobs to keep")
	flags.DurationVar(&duplicates, "duplicate-span", 0, "how long to refuse a given ID after its job is gone")
	flags.Int64Var(&round, "priority-round", 0,
		"of so many jobs in a row, at least one is of each priority that has pending jobs;\n4 to 1000, 0 for urgent jobs first")
	return cmd
}

// set sets a field whose flag was given.
func set[T any](given bool, field *T, value T) {
	if given {
		*field = value
	}
}

func orNone(s string) string {
	if s == "" {
		return "no limit"
	}
	return s
}

func bound(r inspect.Retention, zero string) string {
	var parts []string
	if r.Age > 0 {
		parts = append(parts, "for "+span(r.Age))
	}
	if r.Count > 0 {
		parts = append(parts, fmt.Sprintf("at most %d", r.Count))
	}
	if len(parts) == 0 {
		return zero
	}
	return strings.Join(parts, ", ")
}

func (a *app) removeQueue() *cobra.Command {
	return &cobra.Command{
		Use:   "remove QUEUE",
		Short: "Remove an empty queue and its policy",
		Args:  exactly("QUEUE"),
		RunE: func(cmd *cobra.Command, args []string) error {
			i, err := a.inspector(cmd.Context())
			if err != nil {
				return err
			}
			if err := i.RemoveQueue(cmd.Context(), args[0]); err != nil {
				return err
			}
			a.say("%s is removed.", plain(args[0]))
			return nil
		},
	}
}
