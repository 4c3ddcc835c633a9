package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
)

// sameWords are words that mean the same in every group, so that what a user learned in
// one group works in all.
var sameWords = [][]string{
	{"ls", "list"},
	{"delete", "remove", "rm", "purge"},
	{"redrive", "requeue"},
	{"queues", "queue"}, {"workers", "worker"}, {"schedule", "schedules"}, {"workflow", "workflows"},
	{"keys", "key"}, {"context", "contexts"}, {"events", "event"},
}

// suggestedFor are words of other tools, by the verb that is suggested instead.
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

// group returns a command that needs one of its verbs.
func group(use, short, long string, verbs ...*cobra.Command) *cobra.Command {
	cmd := &cobra.Command{Use: use, Short: short, Long: long}
	cmd.AddCommand(verbs...)
	needsVerb(cmd)
	return cmd
}

// needsVerb makes a group fail without a verb, after its help, and suggest verbs for an
// unknown one.
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
		return misuse("%s", text)
	}
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		cmd.SetOut(cmd.ErrOrStderr())
		if err := cmd.Help(); err != nil {
			return err
		}
		return misuse("give one of these commands")
	}
}

// suggestions returns the verbs of a group that the user may have meant by word.
func suggestions(cmd *cobra.Command, word string) []string {
	names := cmd.SuggestionsFor(word)
	for _, sub := range cmd.Commands() { // cobra does not suggest aliases
		if slices.Contains(sub.Aliases, strings.ToLower(word)) {
			names = append(names, sub.Name())
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// nameVerbs adds the aliases of sameWords and suggestedFor to the commands of a tree.
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
