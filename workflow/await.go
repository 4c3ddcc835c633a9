package workflow

import (
	"context"

	"github.com/seed81422ce9/jobs"
)

// Await waits like Wait and decodes the result, which a handler set with SetResult, into an R. A
// []byte is returned as it is, and is empty if there is no result. The errors are those of
// jobs.Await.
func Await[R any](ctx context.Context, client *jobs.Client, id string) (result R, err error) {
	if _, err := open(ctx, client); err != nil {
		return result, about(err, "await workflow", id)
	}
	if raw, ok := any(&result).(*[]byte); ok {
		*raw, err = Wait(ctx, client, id)
		return result, err
	}
	return jobs.Await[R](ctx, client, Queue, id)
}
