package main

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
)

// readUse checks and completes the arguments of all commands as their Use says. It completes queues, states and contexts
// in flags, too.
func (a *app) readUse(cmd *cobra.Command) {
	if cmd.Args == nil { // groups have their own
		cmd.Args = argsOf(cmd.Use)
	}
	states := cobra.FixedCompletions(texts(listable), cobra.ShellCompDirectiveNoFileComp)
	for name, complete := range map[string]cobra.CompletionFunc{"queue": atOnce(a.queueNames), "state": states, "context": a.contextNames} {
		if cmd.Flags().Lookup(name) != nil {
			_ = cmd.RegisterFlagCompletionFunc(name, complete) // fails for flags that do not exist
		}
	}
	if strings.Contains(cmd.Use, "QUEUE") {
		cmd.ValidArgsFunction = atOnce(a.queueNames)
	}
	if strings.Contains(cmd.Use, "CONTEXT") {
		cmd.ValidArgsFunction = a.contextNames
	}
	if strings.Contains(cmd.Use, "SCHEDULE") {
		cmd.ValidArgsFunction = atOnce(a.scheduleNames)
	}
	for _, sub := range cmd.Commands() {
		a.readUse(sub)
	}
}

// completeWith adds completion with fixed words to a flag.
func completeWith[T any](cmd *cobra.Command, flag string, words []T) {
	_ = cmd.RegisterFlagCompletionFunc(flag, cobra.FixedCompletions(texts(words), cobra.ShellCompDirectiveNoFileComp)) // the flag exists
}

// checkWord refuses a word for a flag that is none of those that it takes.
func checkWord[T ~string](flag string, word T, all []T) error {
	if word != "" && !slices.Contains(all, word) {
		return misuse("--%s %q is none of %s", flag, word, joined(all))
	}
	return nil
}

// atOnce completes with names from the store, or with none if it does not answer at once:
// completion must not keep the user waiting.
func atOnce(read func(context.Context) []string) cobra.CompletionFunc {
	return func(cmd *cobra.Command, _ []string, _ string) (names []string, _ cobra.ShellCompDirective) {
		ctx, cancel := context.WithTimeout(cmd.Context(), 2*time.Second)
		defer cancel()
		for _, name := range read(ctx) {
			names = append(names, plain(name))
		}
		return names, cobra.ShellCompDirectiveNoFileComp
	}
}

func (a *app) queueNames(ctx context.Context) (names []string) {
	if i, err := a.inspector(ctx); err == nil {
		infos, _ := i.Queues(ctx)
		for _, q := range infos {
			names = append(names, q.Name)
		}
	}
	return names
}

func (a *app) scheduleNames(ctx context.Context) (names []string) {
	if s, err := a.schedules(ctx); err == nil {
		all, _ := s.List(ctx)
		for _, i := range all {
			names = append(names, i.ID)
		}
	}
	return names
}
