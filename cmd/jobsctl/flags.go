package main

import (
	"context"
	"errors"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/seed81422ce9/jobs/internal/readable"
)

// spanValue is the value of a flag that takes a duration, with days and weeks as units
// too.
type spanValue time.Duration

func (v *spanValue) String() string {
	if *v == 0 {
		return "0" // the help leaves out a default of "0"
	}
	return time.Duration(*v).String()
}

func (v *spanValue) Type() string { return "duration" }

func (v *spanValue) Set(text string) error {
	d, err := readable.ParseSpan(text)
	if err != nil {
		return errors.New("write a number with a unit: 30s, 15m, 2h, 3d or 1w")
	}
	*v = spanValue(d)
	return nil
}

// mayBeEmpty are the flags whose text can be empty. Others have the annotation canBeEmpty where they can.
var mayBeEmpty = []string{"payload", "note"}

const canBeEmpty = "can be empty"

// meant refuses values of flags that have no meaning: columns to sort by that a list does not have, and values
// that could pass for no limit or no filter: negative numbers and durations, and an empty text. In a script that
// is a variable without a value, and a decision must not be about all queues, or another store, because of it.
func meant(flags *pflag.FlagSet) (err error) {
	flags.Visit(func(f *pflag.Flag) {
		_, rule := f.Value.(*ruleText) // its own error says what to write
		kind, value := f.Value.Type(), f.Value.String()
		_, empty := f.Annotations[canBeEmpty]
		empty = empty || slices.Contains(mayBeEmpty, f.Name)
		columns := f.Annotations[sortable]
		switch number := kind == "int" || kind == "float64" || kind == "duration"; {
		case number && !rule && strings.HasPrefix(value, "-"):
			err = misuse("--%s cannot be negative", f.Name)
		case (f.Name == "older-than" || f.Name == "newer-than") && value == "0":
			err = misuse("--%s must be more than zero", f.Name)
		case columns != nil && value != "" && !slices.Contains(columns, sortName(value)):
			err = misuse("--sort %q is not a column; use one of %s", value, strings.Join(columns, ", "))
		case kind == "string" && value == "" && !empty, kind == "stringSlice" && value == "[]":
			err = misuse("--%s is empty; leave it out, or give a value", f.Name)
		}
	})
	return err
}

// spanFlag is like flags.DurationVar, but also takes 3d and 2w.
func spanFlag(flags *pflag.FlagSet, d *time.Duration, name string, initial time.Duration, usage string) {
	*d = initial
	flags.Var((*spanValue)(d), name, usage)
}

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

// argsOf checks arguments as the use of a command says: "ls QUEUE [KEY…]" takes one or more.
func argsOf(use string) cobra.PositionalArgs {
	var names []string
	least, most := 0, 0
	words := strings.Fields(use)[1:]
	for i := 0; i < len(words); i++ {
		if strings.HasPrefix(words[i], "--") { // a flag that must be given, with its value
			i++
			continue
		}
		names = append(names, words[i])
		most++
		if !strings.HasPrefix(words[i], "[") {
			least++
		}
		if strings.Contains(words[i], "…") {
			most = math.MaxInt
		}
	}
	return func(cmd *cobra.Command, args []string) error {
		switch {
		case len(args) > 0 && len(names) == 0:
			return misuse("%s takes no arguments, but got %q", cmd.CommandPath(), args[0])
		case len(args) < least || len(args) > most:
			return misuse("%s takes %s, but got %s", cmd.CommandPath(), strings.Join(names, " "), plural(len(args), "argument"))
		}
		return nil
	}
}
