package main

import (
	"cmp"
	"context"

	"github.com/oklog/ulid/v2"
	"github.com/spf13/cobra"

	"github.com/seed81422ce9/jobs/inspect"
)

func (a *app) copyJob() *cobra.Command {
	var queue, as string
	cmd := &cobra.Command{
		Use:   "copy ID",
		Short: "Enqueue a fresh job like this one",
		Long: `Enqueue a new job with the type, payload, headers, priority, keys and limits of
this one, which can be in any state and stays as it is. The copy runs at once, with
fresh retries and without a deadline. The copy is refused if another job holds its
unique key, or if the payload is a blob (claim check), which belongs to this job.`,
		Args: exactly("ID"),
		RunE: a.inspecting(func(ctx context.Context, i *inspect.Inspector, args []string) error {
			j, err := a.locate(ctx, i, queue, args[0])
			if err != nil {
				return err
			}
			id := cmp.Or(as, ulid.Make().String())
			if err := i.EnqueueCopy(ctx, j, id); err != nil {
				return err
			}
			return a.answer(map[string]string{"queue": j.Queue, "id": id, "copy_of": j.ID},
				"%s  %s  a copy of %s", plain(id), plain(j.Queue), plain(j.ID))
		}),
	}
	cmd.Flags().StringVarP(&queue, "queue", "q", "", "queue (default: look in all)")
	cmd.Flags().StringVar(&as, "id", "", "ID of the copy; a second copy with this ID is refused")
	return cmd
}
