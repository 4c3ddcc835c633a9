package jobstest_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/seed81422ce9/jobs"
	"github.com/seed81422ce9/jobs/jobstest"
)

func TestGuide_StepsOfAnEarlierRun(t *testing.T) {
	t.Parallel()
	transfer := jobs.Define[int]("transfer")
	var done []string
	h := transfer.Handler(func(ctx context.Context, amount int, job *jobs.Job) error {
		for _, step := range []string{"withdraw", "deposit"} {
			if _, err := jobs.Step(ctx, job, step, func(context.Context) (string, error) {
				done = append(done, step)
				return "ok", nil
			}); err != nil {
				return err
			}
		}
		return nil
	})
	// begin steps
	jobstest.Run(t, h, transfer, 100,
		jobstest.StepDone("withdraw", "ok"),             // Step does not call it again
		jobstest.Checkpoint([]byte("page 7")),           // Job.Checkpoint returns it
		jobstest.With(jobs.WithTimeout(10*time.Second))) // any option of a job
	// end steps
	if fmt.Sprint(done) != "[deposit]" {
		t.Errorf("the steps %v were done, want deposit alone", done)
	}
}

func TestGuide_AFunctionThatAHandlerCalls(t *testing.T) {
	t.Parallel()
	audit := func(ctx context.Context) string { return jobs.JobFromContext(ctx).Type() }
	// begin context
	job := jobstest.NewJob(t, WelcomeEmail, Welcome{To: "ada@example.com"}, jobstest.Attempt(1))
	ctx := jobstest.Context(t, job) // JobFromContext finds the job in it
	if got := audit(ctx); got != "email:welcome" {
		t.Errorf("audited %q", got)
	}
	// end context
}
