package main

import (
	"context"
	"strings"
	"time"

	"github.com/spf13/cobra"
)

// completeNames adds completion of queues and states to all flags that take them.
func (a *app) completeNames(cmd *cobra.Command) {
	states := cobra.FixedCompletions(stateNames(), cobra.ShellCompDirectiveNoFileComp)
	for name, complete := range map[string]cobra.CompletionFunc{"queue": a.queueNames, "state": states, "context": a.contextNames} {
		if cmd.Flags().Lookup(name) != nil {
			_ = cmd.RegisterFlagCompletionFunc(name, complete) // fails for flags that do not exist
		}
	}
	if strings.Contains(cmd.Use, "QUEUE") {
		cmd.ValidArgsFunction = a.queueNames
	}
	if strings.Contains(cmd.Use, "CONTEXT") {
		cmd.ValidArgsFunction = a.contextNames
	}
	if strings.Contains(cmd.Use, "SCHEDULE") {
		cmd.ValidArgsFunction = a.scheduleNames
	}
	for _, sub := range cmd.Commands() {
		a.completeNames(sub)
	}
}

// completeWith adds completion with fixed words to a flag.
func completeWith[T ~string](cmd *cobra.Command, flag string, words []T) {
	_ = cmd.RegisterFlagCompletionFunc(flag, cobra.FixedCompletions(texts(words), cobra.ShellCompDirectiveNoFileComp)) // the flag exists
}

// queueNames returns the queues of the store, or none if it does not answer at once:
// completion must not keep the user waiting.
func (a *app) queueNames(cmd *cobra.Command, _ []string, _ string) (names []string, _ cobra.ShellCompDirective) {
	ctx, cancel := context.WithTimeout(cmd.Context(), 2*time.Second)
	defer cancel()
	if i, err := a.inspector(ctx); err == nil {
		infos, _ := i.Queues(ctx)
		for _, q := range infos {
			names = append(names, plain(q.Name))
		}
	}
	return names, cobra.ShellCompDirectiveNoFileComp
}
