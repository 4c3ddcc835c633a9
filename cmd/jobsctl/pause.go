package main

import (
	"cmp"
	"context"
	"errors"

	"github.com/spf13/cobra"

	"github.com/seed81422ce9/jobs/inspect"
)

func (a *app) pause(verb, what string, do func(*inspect.Inspector, context.Context, string) error) *cobra.Command {
	var by, note string
	cmd := &cobra.Command{
		Use:   verb + " QUEUE…",
		Short: what,
		Long: what + `.
images+* means images and its queues for jobs that require labels, without those that
are created later. "jobsctl queues policy" and "jobsctl why" say who paused a queue,
when and why.`,
		RunE: a.inspecting(func(ctx context.Context, i *inspect.Inspector, args []string) error {
			i = i.As(cmp.Or(by, a.operator())).WithNote(note)
			var errs []error
			for _, name := range args {
				queues, err := readQueues(ctx, i.Queues, name) // otherwise a mistyped name would create a queue
				errs = append(errs, err)
				for _, q := range queues {
					err := do(i, ctx, q.Name)
					if err == nil {
						a.say("%s is %sd.", plain(q.Name), verb)
					}
					errs = append(errs, err)
				}
			}
			return errors.Join(errs...)
		}),
	}
	cmd.Flags().StringVar(&by, "by", "", "who decides, for others to see (default: the user and host)")
	cmd.Flags().StringVar(&note, "note", "", "why, for others to see")
	return cmd
}
