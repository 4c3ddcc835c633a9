package asynqcompat_test

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/hibiken/asynq"

	asynqcompat "github.com/seed81422ce9/jobs/compat/asynq"
)

// The handlers of the tests, as somebody writes them for asynq.

type delivery struct{ UserID int }

func deliver(_ context.Context, task *asynq.Task) error {
	var d delivery
	if err := json.Unmarshal(task.Payload(), &d); err != nil {
		return fmt.Errorf("not JSON: %w", asynq.SkipRetry)
	}
	return nil
}

type resizer struct{}

func (*resizer) ProcessTask(ctx context.Context, task *asynq.Task) error {
	if _, ok := ctx.Deadline(); !ok {
		return fmt.Errorf("the context has no deadline, although the task has a timeout")
	}
	id, _ := asynqcompat.GetTaskID(ctx)
	queue, _ := asynqcompat.GetQueueName(ctx)
	n, _ := asynqcompat.GetRetryCount(ctx)
	of, _ := asynqcompat.GetMaxRetry(ctx)
	_, err := fmt.Fprintf(asynqcompat.ResultWriter(ctx, task), "%s wide, %s of %s, run %d of %d", task.Headers()["width"], id, queue, n, of)
	return err
}
