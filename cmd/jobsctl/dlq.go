package main

import (
	"context"

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
