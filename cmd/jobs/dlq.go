package main

import (
	"fmt"

	"github.com/seed81422ce9/jobs/broker"

	"github.com/spf13/cobra"
)

// dlq is the dead-letter queue: the jobs in state dead.
func (a *app) dlq() *cobra.Command {
	cmd := &cobra.Command{Use: "dlq", Short: "Look through dead jobs, send them back or remove them", Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() }}
	dead := broker.StateDead.String()
	ls := a.list()
	ls.Use, ls.Short, ls.Long, ls.Example = "list", "List dead jobs", "List dead jobs. Payloads are not shown.", ""
	fixState(ls, dead)
	requeue := a.redrive()
	requeue.Use = "requeue [ID…]"
	purge := a.deleteJobs()
	purge.Use, purge.Short = "purge", "Delete dead jobs"
	purge.Long = "Delete dead jobs: all with --all, or those that the flags select, such as\n--older-than 720h. --dry-run says how many these are and changes nothing."
	out := a.export()
	out.Short = "Write dead jobs to a file, to be imported into any store"
	for _, c := range []*cobra.Command{requeue, purge, out} {
		fixState(c, dead)
	}
	cmd.AddCommand(ls, requeue, purge, out, a.importJobs(),
		a.suppress("suppress", "Take dead jobs out of lists; they stay, and are counted as ever"),
		a.suppress("unsuppress", "Undo suppress"))
	return cmd
}

// fixState makes a command one for jobs of a single state.
func fixState(cmd *cobra.Command, state string) {
	flag := cmd.Flags().Lookup("state")
	flag.Hidden, flag.DefValue = true, state
	_ = flag.Value.Set(state) // any text is taken
	run := cmd.RunE
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if flag.Changed && flag.Value.String() != state {
			return &usageError{fmt.Sprintf("%s is for %s jobs", cmd.CommandPath(), state)}
		}
		return run(cmd, args)
	}
}

func (a *app) suppress(name, short string) *cobra.Command {
	cmd := a.decide(verb(name, short, short+".", broker.StateDead))
	fixState(cmd, broker.StateDead.String())
	return cmd
}
