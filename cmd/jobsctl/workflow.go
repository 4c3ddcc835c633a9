package main

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/seed81422ce9/jobs"
	"github.com/seed81422ce9/jobs/workflow"
)

func (a *app) workflow() *cobra.Command {
	return group("workflow", "List, show and operate workflows", "",
		a.workflowList(), a.workflowShow(), a.workflowCancel(), a.workflowRetry(), a.workflowSignal(), a.workflowDelete())
}

// withClient returns what a command does with a client of the store, which is opened first.
func (a *app) withClient(run func(ctx context.Context, client *jobs.Client, args []string) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		b, err := a.broker(cmd.Context())
		if err != nil {
			return err
		}
		client := jobs.NewClient(b, jobs.ClientConfig{})
		defer client.Close()
		return run(cmd.Context(), client, args)
	}
}

func (a *app) workflowList() *cobra.Command {
	var o workflow.ListOptions
	var state workflow.State
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List workflows",
		Long: `List workflows, in any order. Nodes whose jobs were started count as started until
the workflow has seen their end.

States: starting, running, stopping, compensating, completed, failed, cancelled.`,
		Example: "  jobsctl workflow list --state failed",
		RunE: a.withClient(func(ctx context.Context, client *jobs.Client, _ []string) error {
			if err := checkWord("state", state, workflow.States()); err != nil {
				return err
			}
			l := a.newList(workflowColumns)
			for {
				page, err := workflow.List(ctx, client, o)
				if err != nil {
					return err
				}
				for i := range page.Workflows {
					if w := &page.Workflows[i]; state == "" || w.State == state {
						l.addWorkflow(w)
					}
				}
				if o.Cursor = page.Cursor; o.Cursor == "" {
					return l.end()
				}
			}
		}),
	}
	a.sortFlag(cmd, workflowColumns)
	cmd.Flags().StringVar((*string)(&state), "state", "", "only those in this state")
	completeWith(cmd, "state", workflow.States())
	cmd.Flags().BoolVar(&o.Nested, "nested", false, "only workflows that are nodes of another one")
	return cmd
}

var workflowColumns = []column{
	{head: "ID", least: 12},
	{head: "STATE"},
	{head: "NODES"},
	{head: "COMPLETED", rank: 1},
	{head: "STARTED", rank: 3},
	{head: "WAITING", rank: 4},
	{head: "OTHERS", rank: 5},
	{head: "CREATED", rank: 2},
	{head: "CAUSE", least: 10},
}

func (l *listing) addWorkflow(w *workflow.Info) {
	all := 0
	for _, n := range w.Counts {
		all += n
	}
	done, started, waiting := w.Counts[workflow.StateCompleted], w.Counts[workflow.StateStarted], w.Counts[workflow.StateWaiting]
	l.add(w, w.ID, w.State, all, blankZero(int64(done)), blankZero(int64(started)), blankZero(int64(waiting)),
		blankZero(int64(all-done-started-waiting)), w.Created, cause(w.Cause))
}

func (a *app) workflowShow() *cobra.Command {
	var all bool
	cmd := &cobra.Command{
		Use:   "show ID",
		Short: "Draw a workflow with the states of its nodes",
		Long: `Draw a workflow with the states of its nodes. A single node that comes after
another is below it. Several nodes that come after one are its branches. A node that
comes after several begins at the left again, and names them.`,
		Example: "  jobsctl workflow show order-42",
		RunE: a.withClient(func(ctx context.Context, client *jobs.Client, args []string) error {
			info, err := workflow.Get(ctx, client, args[0])
			if err != nil {
				return err
			}
			if a.structured() {
				return a.object(info)
			}
			a.say("%s is %s; created %s", plain(info.ID), info.State, clock(info.Created))
			for _, line := range []struct{ what, text string }{
				{"cause", info.Cause}, {"in workflow", info.Parent}, {"deadline", clock(info.Deadline)}, {"ended", clock(info.Ended)},
			} {
				if line.text != "" {
					a.say("%s: %s", line.what, plain(line.text))
				}
			}
			a.say("")
			d := drawing{app: a, all: all}
			d.draw(info.Nodes)
			return nil
		}),
	}
	cmd.Flags().BoolVar(&all, "all", false, "draw all nodes, also of large groups")
	return cmd
}

// workflowVerb completes a command that changes the workflow of its first argument, and says what was done. If it is grave,
// it asks first.
func (a *app) workflowVerb(grave bool, cmd *cobra.Command, done string,
	do func(ctx context.Context, client *jobs.Client, args []string) error) *cobra.Command {
	cmd.RunE = a.withClient(func(ctx context.Context, client *jobs.Client, args []string) error {
		if err := a.confirm(ctx, grave, "%s %s", cmd.Name(), plain(args[0])); err != nil {
			return err
		}
		if err := do(ctx, client, args); err != nil {
			return err
		}
		a.say("%s %s.", plain(args[0]), done)
		return nil
	})
	return cmd
}

func (a *app) workflowCancel() *cobra.Command {
	return a.workflowVerb(true, &cobra.Command{
		Use:   "cancel ID",
		Short: "Cancel a workflow",
		Long: `Cancel a workflow: running jobs are cancelled, no more nodes start, and
compensations run.`,
	}, "will be cancelled", func(ctx context.Context, client *jobs.Client, args []string) error {
		return workflow.Cancel(ctx, client, args[0], a.operator())
	})
}

func (a *app) workflowDelete() *cobra.Command {
	return a.workflowVerb(true, &cobra.Command{
		Use:   "delete ID",
		Short: "Delete a workflow that has ended",
		Long:  "Delete a workflow that has ended, with its nodes and their results.",
	}, "was deleted", func(ctx context.Context, client *jobs.Client, args []string) error {
		return workflow.Delete(ctx, client, args[0])
	})
}

func (a *app) workflowRetry() *cobra.Command {
	return a.workflowVerb(false, &cobra.Command{
		Use:   "retry ID [NODE…]",
		Short: "Resume a workflow that failed",
		Long: `Resume a workflow that failed: the nodes that made it fail run again, and
then the rest. The named nodes run again too, if they did not complete. If compensations
failed, only these run again.`,
	}, "continues", func(ctx context.Context, client *jobs.Client, args []string) error {
		return workflow.Retry(ctx, client, args[0], args[1:]...)
	})
}

func (a *app) workflowSignal() *cobra.Command {
	var payload string
	cmd := &cobra.Command{
		Use:   "signal ID NAME",
		Short: "Send a signal to a workflow",
		Long: `Send a signal to a workflow, which may not have been started yet. A signal is sent
once: a second one of the same name is refused.`,
		Example: `  jobsctl workflow signal invoice-7 approve --payload '"Ada"'`,
		RunE: a.withClient(func(ctx context.Context, client *jobs.Client, args []string) error {
			if err := workflow.Signal(ctx, client, args[0], args[1], []byte(payload)); err != nil {
				return err
			}
			a.say("%s has the signal %s.", plain(args[0]), plain(args[1]))
			return nil
		}),
	}
	cmd.Flags().StringVar(&payload, "payload", "", "what the signal carries, usually JSON")
	return cmd
}

// drawing draws a graph as a tree: a node that comes after exactly one other node is
// its child.
type drawing struct {
	*app
	all   bool
	kids  map[string][]*workflow.NodeInfo
	width int
}

// maxGroup is how many successors of a node are drawn; the others are counted.
const maxGroup = 20

func (d *drawing) draw(nodes []workflow.NodeInfo) {
	d.kids = make(map[string][]*workflow.NodeInfo)
	var roots []*workflow.NodeInfo
	for i := range nodes {
		n := &nodes[i]
		d.width = min(max(d.width, len([]rune(n.Name))+3*min(n.Level, 4)), 50)
		if before := slices.Concat(n.After, n.AfterAny); len(before) == 1 {
			d.kids[before[0]] = append(d.kids[before[0]], n)
		} else {
			roots = append(roots, n)
		}
	}
	d.group(roots, func(n *workflow.NodeInfo, _ bool) { d.node(n, "", "") })
}

// group draws nodes that run side by side, and counts those beyond maxGroup.
func (d *drawing) group(nodes []*workflow.NodeInfo, draw func(n *workflow.NodeInfo, last bool)) {
	shown := len(nodes)
	if shown > maxGroup && !d.all {
		shown = maxGroup
	}
	for i, n := range nodes[:shown] {
		draw(n, i == len(nodes)-1)
	}
	rest := make(map[workflow.State]int)
	var states []workflow.State
	for _, n := range nodes[shown:] {
		if rest[n.State] == 0 {
			states = append(states, n.State)
		}
		rest[n.State]++
	}
	for _, s := range states {
		d.say("   … and %d more, %s (--all shows them)", rest[s], s)
	}
}

// node draws a node after its branch, and then its successors below it.
func (d *drawing) node(n *workflow.NodeInfo, branch, below string) {
	text := fmt.Sprintf("%s %s", sign(n.State), plain(n.Name))
	pad := max(d.width+4-len([]rune(branch+text)), 1)
	line := branch + text + strings.Repeat(" ", pad) + string(n.State)
	if before := slices.Concat(n.After, n.AfterAny); len(before) > 1 {
		line += ", after " + short(plain(strings.Join(before, ", ")), 60)
	}
	if n.Signal != "" {
		line += ", signal " + plain(n.Signal)
	}
	if n.Workflow != "" {
		line += ", workflow " + plain(n.Workflow)
	}
	if n.AddedBy != "" {
		line += ", added by " + plain(n.AddedBy)
	}
	if n.Compensation != "" && n.Compensation != workflow.StateWaiting {
		line += ", compensation " + string(n.Compensation)
	}
	if n.Error != "" && n.State != workflow.StateCompleted {
		line += ": " + short(plain(cause(n.Error)), 60)
	}
	d.say("%s", line)
	kids := d.kids[n.Name]
	if len(kids) == 1 {
		d.node(kids[0], below, below)
		return
	}
	d.group(kids, func(kid *workflow.NodeInfo, last bool) {
		if last {
			d.node(kid, below+"└─ ", below+"   ")
		} else {
			d.node(kid, below+"├─ ", below+"│  ")
		}
	})
}

// sign returns a symbol for a state, so that color is not needed.
func sign(s workflow.State) string {
	switch s {
	case workflow.StateCompleted:
		return "✓"
	case workflow.StateWaiting:
		return "·"
	case workflow.StateSkipped:
		return "-"
	case workflow.StateDead, workflow.StateGone, workflow.StateExpired, workflow.StateCancelled:
		return "✗"
	}
	return "▸"
}
