package asynqcompat_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/hibiken/asynq"

	"github.com/seed81422ce9/jobs/broker"
	asynqcompat "github.com/seed81422ce9/jobs/compat/asynq"
	"github.com/seed81422ce9/jobs/jobstest"
)

// What a task of asynq returns decides as it does there.
func TestHandler_ErrorsMeanWhatTheyMeanInAsynq(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		returns error
		state   broker.State // after all retries
		runs    int
		reason  broker.DeadReason
	}{
		"nil":        {nil, broker.StateCompleted, 1, broker.ReasonNone},
		"an error":   {errors.New("away"), broker.StateDead, 3, broker.ReasonRetries},
		"SkipRetry":  {fmt.Errorf("bad payload: %w", asynq.SkipRetry), broker.StateDead, 1, broker.ReasonSkipRetry},
		"RevokeTask": {fmt.Errorf("no use: %w", asynq.RevokeTask), broker.StateCancelled, 1, broker.ReasonNone},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := jobstest.New(t)
			info, err := client(t, b).Enqueue(asynq.NewTask("t", nil), asynq.MaxRetry(2), asynq.Retention(1000*time.Hour))
			if err != nil {
				t.Fatal(err)
			}
			runs := 0
			mux := asynq.NewServeMux()
			mux.HandleFunc("t", func(context.Context, *asynq.Task) error { runs++; return c.returns })
			jobstest.Drain(t, b, asynqcompat.Handler(mux), jobstest.Everything())
			job := stored(t, b, "default", info.ID)
			if job.State != c.state || runs != c.runs || job.Reason != c.reason {
				t.Errorf("the job is %v (%v) after %d runs; want %v (%v) after %d", job.State, job.Reason, runs, c.state, c.reason, c.runs)
			}
			if c.returns != nil && job.Errors.Last().Message != c.returns.Error() && c.state != broker.StateCancelled {
				t.Errorf("its error is %q, want %q", job.Errors.Last().Message, c.returns)
			}
		})
	}
}

// A program in the shape of asynq's own examples: a function, a type, middleware and
// a pattern, on one mux.
func TestHandler_MuxAndMiddlewareRunUnchanged(t *testing.T) {
	t.Parallel()
	b := jobstest.New(t)
	c := client(t, b)
	var log []string
	mux := asynq.NewServeMux()
	mux.Use(func(next asynq.Handler) asynq.Handler {
		return asynq.HandlerFunc(func(ctx context.Context, task *asynq.Task) error {
			err := next.ProcessTask(ctx, task)
			log = append(log, fmt.Sprintf("%s: %v", task.Type(), err))
			return err
		})
	})
	mux.HandleFunc("email:deliver", deliver)
	mux.Handle("image:", new(resizer)) // a prefix

	for _, task := range []*asynq.Task{
		asynq.NewTask("email:deliver", []byte(`{"UserID":42}`)),
		asynq.NewTask("email:deliver", []byte(`{`)),
		asynq.NewTaskWithHeaders("image:resize", []byte("https://example.com/a.jpg"), map[string]string{"width": "100"},
			asynq.Queue("images"), asynq.Retention(time.Hour), asynq.TaskID("image-1"), asynq.Timeout(time.Minute)),
		asynq.NewTask("unheard:of", nil),
	} {
		if _, err := c.Enqueue(task); err != nil {
			t.Fatal(err)
		}
	}
	report := jobstest.Drain(t, b, asynqcompat.Handler(mux), jobstest.Config{Queues: map[string]int{"default": 1, "images": 1}})
	want := map[string]bool{"email:deliver: <nil>": true, "email:deliver: not JSON: skip retry for the task": true,
		"image:resize: <nil>": true,
		`unheard:of: handler not found for task "unheard:of"`: true}
	for _, line := range log {
		if !want[line] {
			t.Errorf("the middleware saw %q", line)
		}
		delete(want, line)
	}
	if len(want) > 0 {
		t.Errorf("the middleware did not see %v", want)
	}
	if report.Completed != 2 || report.Dead != 1 {
		t.Errorf("2 jobs are to be completed, and 1 dead: %+v", report)
	}
	image := stored(t, b, "images", "image-1")
	if string(image.Result) != "100 wide, image-1 of images, run 0 of 25" {
		t.Errorf("the result is %q", image.Result)
	}
}

// A server without a handler for a type uses up no retry: another one may have it.
func TestHandler_UnknownTypesWaitForAnotherServer(t *testing.T) {
	t.Parallel()
	b := jobstest.New(t)
	info, err := client(t, b).Enqueue(asynq.NewTask("t", nil), asynq.MaxRetry(0))
	if err != nil {
		t.Fatal(err)
	}
	jobstest.Drain(t, b, asynqcompat.Handler(asynq.NewServeMux()))
	if job := stored(t, b, "default", info.ID); job.State != broker.StateRetry || job.Failures != 0 {
		t.Errorf("the job is %v with %d failures, want retry with none", job.State, job.Failures)
	}
}

// Outside of a handler there is no task.
func TestContext_OutsideOfAHandlerNothingIsKnown(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	if _, ok := asynqcompat.GetTaskID(ctx); ok {
		t.Error("there is a task ID")
	}
	if _, ok := asynqcompat.GetRetryCount(ctx); ok {
		t.Error("there is a retry count")
	}
	if _, ok := asynqcompat.GetMaxRetry(ctx); ok {
		t.Error("there is a maximum of retries")
	}
	if _, ok := asynqcompat.GetQueueName(ctx); ok {
		t.Error("there is a queue")
	}
	if asynqcompat.ResultWriter(ctx, asynq.NewTask("t", nil)) != nil {
		t.Error("there is a result writer")
	}
}

func TestRetryPolicy_AsksTheFunctionOfAsynq(t *testing.T) {
	t.Parallel()
	b := jobstest.New(t)
	info, err := client(t, b).Enqueue(asynq.NewTaskWithHeaders("t", []byte("p"), map[string]string{"h": "v"}))
	if err != nil {
		t.Fatal(err)
	}
	var asked []string
	policy := asynqcompat.RetryPolicy(func(n int, err error, task *asynq.Task) time.Duration {
		asked = append(asked, fmt.Sprintf("%d %v %s %s %v", n, err, task.Type(), task.Payload(), task.Headers()))
		return time.Duration(n+1) * time.Hour
	})
	jobstest.Drain(t, b, asynqcompat.Handler(asynq.HandlerFunc(func(context.Context, *asynq.Task) error { return errors.New("away") })),
		jobstest.Config{RetryPolicy: policy}, jobstest.Ahead(90*time.Minute))
	job := stored(t, b, "default", info.ID)
	if fmt.Sprint(asked) != "[0 away t p map[h:v] 1 away t p map[h:v]]" || job.Failures != 2 {
		t.Errorf("the function was asked %v, and the job failed %d times in an hour and a half; want twice", asked, job.Failures)
	}
	if wait := job.RunAt.Sub(job.Errors.Last().At); wait.Round(time.Second) != 2*time.Hour {
		t.Errorf("after the second failure the job waits %v, want 2h", wait)
	}
}
