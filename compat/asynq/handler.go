package asynqcompat

import (
	"bytes"
	"context"
	"errors"
	"io"
	"time"

	"github.com/hibiken/asynq"

	"github.com/seed81422ce9/jobs"
)

// Handler turns a handler of asynq, such as a *asynq.ServeMux, into a handler for a jobs.Server.
func Handler(h asynq.Handler) jobs.Handler {
	if h == nil {
		panic("asynqcompat: Handler(nil)")
	}
	return jobs.HandlerFunc(func(ctx context.Context, job *jobs.Job) error {
		return outcome(h.ProcessTask(ctx, task(job.Type(), job.Payload(), job.Headers())))
	})
}

func task(typ string, payload []byte, headers map[string]string) *asynq.Task {
	return asynq.NewTaskWithHeaders(typ, payload, headers)
}

// outcome returns the error with which a job ends as the task would in asynq.
func outcome(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, asynq.RevokeTask):
		return jobs.Cancel(err)
	case errors.Is(err, asynq.SkipRetry):
		return &meaning{err, jobs.SkipRetry}
	case errors.Is(err, asynq.ErrHandlerNotFound):
		return &meaning{err, jobs.ErrUnknownType}
	}
	return err
}

// meaning is an error of asynq and the error of package jobs that means the same.
type meaning struct{ err, means error }

func (m *meaning) Error() string   { return m.err.Error() }
func (m *meaning) Unwrap() []error { return []error{m.means, m.err} }

// RetryPolicy turns a function of asynq, such as asynq.DefaultRetryDelayFunc, into a retry policy for
// jobs.Config.RetryPolicy. The function gets a task with type, payload and headers.
func RetryPolicy(f asynq.RetryDelayFunc) jobs.RetryFunc {
	return func(attempt int, err error, job *jobs.Job) time.Duration {
		return f(attempt, err, task(job.Type(), job.Payload(), job.Headers()))
	}
}

// GetTaskID is asynq.GetTaskID for handlers under either server.
func GetTaskID(ctx context.Context) (id string, ok bool) {
	if job := jobs.JobFromContext(ctx); job != nil {
		return job.ID(), true
	}
	return asynq.GetTaskID(ctx)
}

// GetRetryCount is asynq.GetRetryCount for handlers under either server: how many
// failures were charged before this run.
func GetRetryCount(ctx context.Context) (n int, ok bool) {
	if job := jobs.JobFromContext(ctx); job != nil {
		return job.Attempt(), true
	}
	return asynq.GetRetryCount(ctx)
}

// GetMaxRetry is asynq.GetMaxRetry for handlers under either server.
func GetMaxRetry(ctx context.Context) (n int, ok bool) {
	if job := jobs.JobFromContext(ctx); job != nil {
		return job.MaxRetries(), true
	}
	return asynq.GetMaxRetry(ctx)
}

// GetQueueName is asynq.GetQueueName for handlers under either server.
func GetQueueName(ctx context.Context) (name string, ok bool) {
	if job := jobs.JobFromContext(ctx); job != nil {
		return job.Queue(), true
	}
	return asynq.GetQueueName(ctx)
}

// ResultWriter is task.ResultWriter() for handlers under either server. As in asynq, a write replaces
// what was written before. The result is stored when the handler returns nil; asynq stores it at once.
// It is kept as long as the task's retention says. Outside of a handler, ResultWriter returns nil.
func ResultWriter(ctx context.Context, task *asynq.Task) io.Writer {
	if job := jobs.JobFromContext(ctx); job != nil {
		return resultWriter{job}
	}
	if w := task.ResultWriter(); w != nil {
		return w
	}
	return nil
}

type resultWriter struct{ job *jobs.Job }

func (w resultWriter) Write(p []byte) (int, error) {
	w.job.SetResult(bytes.Clone(p))
	return len(p), nil
}
