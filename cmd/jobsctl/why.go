package main

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/seed81422ce9/jobs/inspect"
)

func (a *app) why() *cobra.Command {
	var queue string
	cmd := &cobra.Command{
		Use:   "why ID",
		Short: "Explain why a job has not run, or how it ended",
		Args:  exactly("ID"),
		RunE: a.inspecting(func(ctx context.Context, i *inspect.Inspector, args []string) error {
			j, err := a.locate(ctx, i, queue, args[0])
			if err != nil {
				return err
			}
			evidence, err := i.Evidence(ctx, j)
			if err != nil {
				return err
			}
			reasons := inspect.Explain(evidence)
			if a.structured() {
				return a.object(map[string]any{"queue": j.Queue, "id": j.ID, "state": j.State.String(), "reasons": reasons})
			}
			a.say("%s is %s.", plain(j.ID), j.State)
			for _, r := range reasons {
				a.say("- %s", plain(r.Text))
			}
			return nil
		}),
	}
	cmd.Flags().StringVarP(&queue, "queue", "q", "", "queue (default: look in all)")
	return cmd
}
