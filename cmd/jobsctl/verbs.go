package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
)

// sameWords are words that mean the same in every group: what a user learned
// of one group works in all, and so do singular and plural.
var sameWords = [][]string{
	{"ls", "list"},
	{"delete", "remove", "rm", "purge"},
	{"redrive", "requeue"},
	{"queues", "queue"}, {"workers", "worker"}, {"schedule", "schedules"}, {"workflow", "workflows"},
	{"keys", "key"}, {"context", "contexts"}, {"events", "event"},
}

// suggestedFor are words of other tools, by the verb that a mistake with them
// suggests.
var suggestedFor = map[string][]string{
	"copy":       {"clone", "duplicate", "again"},
	"cancel":     {"stop", "kill", "abort"},
	"delete":     {"drop", "destroy"},
	"dlq":        {"dead", "morgue", "graveyard"},
	"doctor":     {"check", "fsck", "verify"},
	"enqueue":    {"push", "add", "create", "submit"},
	"move":       {"mv", "transfer"},
	"undo":       {"revert", "undelete"},
	"redrive":    {"retry", "rerun", "replay", "resurrect"},
	"reschedule": {"snooze", "delay", "defer"},
	"show":       {"get", "describe", "inspect", "cat"},
	"stats":      {"status", "info", "summary", "count"},
	"suppress":   {"hide", "mute", "silence", "ack"},
	"why":        {"explain", "reason"},
	"workers":    {"servers", "consumers", "processes"},
}

// group is a command that is nothing without one of its verbs.
func group(use, short, long string, verbs ...*cobra.Command) *cobra.Command {
	cmd := &cobra.Command{Use: use, Short: short, Long: long}
	cmd.AddCommand(verbs...)
	needsVerb(cmd)
	return cmd
}

// needsVerb has a group without a verb list its verbs and fail, and one with
// an unknown verb suggest others.
func needsVerb(cmd *cobra.Command) {
	cmd.SuggestionsMinimumDistance = 2
	cmd.Args = func(cmd *cobra.Command, args []string) error {
		if len(args) == 0 {
			return nil
		}
		text := fmt.Sprintf("there is no %s %s", cmd.CommandPath(), args[0])
		if like := suggestions(cmd, args[0]); len(like) > 0 {
			text += "; did you mean " + strings.Join(like, " or ") + "?"
		}
		return &usageError{text}
	}
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		cmd.SetOut(cmd.ErrOrStderr())
		if err := cmd.Help(); err != nil {
			return err
		}
		return &usageError{"give one of its commands"}
	}
}

// suggestions returns the verbs of a group that a user who wrote word may have
// meant.
func suggestions(cmd *cobra.Command, word string) []string {
	names := cmd.SuggestionsFor(word)
	for _, sub := range cmd.Commands() { // cobra suggests no aliases
		if slices.Contains(sub.Aliases, strings.ToLower(word)) {
			names = append(names, sub.Name())
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// nameVerbs gives the commands of a tree the words of sameWords and
// suggestedFor.
func nameVerbs(cmd *cobra.Command) {
	taken := make(map[string]bool)
	for _, sub := range cmd.Commands() {
		taken[sub.Name()] = true
	}
	for _, sub := range cmd.Commands() {
		for _, same := range sameWords {
			if !slices.Contains(same, sub.Name()) {
				continue
			}
			for _, name := range same {
				if !taken[name] {
					taken[name] = true
					sub.Aliases = append(sub.Aliases, name)
				}
			}
		}
		sub.SuggestFor = append(sub.SuggestFor, suggestedFor[sub.Name()]...)
		nameVerbs(sub)
	}
}
