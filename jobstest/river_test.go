package jobstest_test

import (
	"context"
	"strings"
	"testing"

	"github.com/seed81422ce9/jobs"
	"github.com/seed81422ce9/jobs/jobstest"
)

// The examples in River's documentation of its test helpers, with this package.
// River's need a database and a transaction that is rolled back; these do not.

type message struct {
	Message string `json:"message"`
}

var (
	required       = jobs.Define[message]("required")
	firstRequired  = jobs.Define[message]("first_required")
	secondRequired = jobs.Define[message]("second_required")
)

// RequireInsertedTx: one job, inserted in a transaction, found there and returned.
func TestRiver_RequireInserted(t *testing.T) {
	t.Parallel()
	b := jobstest.New(t)
	tx := b.Begin()
	if _, err := required.Enqueue(t.Context(), b.Client().In(tx), message{"Hello."}); err != nil {
		t.Fatal(err)
	}
	if err := tx.Commit(); err != nil {
		t.Fatal(err)
	}
	job := jobstest.Enqueued(t, b, required)
	if job.Args.Message != "Hello." {
		t.Errorf("the message is %q", job.Args.Message)
	}

	// RequireInsertedOpts: River's priority 1 and its default queue.
	jobstest.Enqueued(t, b, required, jobstest.With(jobs.WithQueue(jobs.DefaultQueue), jobs.WithPriority(jobs.PriorityNormal)))

	// RequireNotInserted.
	jobstest.NotEnqueued(t, b, firstRequired)
}

// The failure that River's page shows: "No jobs found with kind: required".
func TestRiver_RequireInsertedFailsWithoutInsert(t *testing.T) {
	t.Parallel()
	f := inTest(t, func(t *fakeT) { jobstest.Enqueued(t, jobstest.New(t), required) })
	if text := strings.Join(f.messages, "\n"); !f.failed || !strings.Contains(text, `no job of type "required"`) {
		t.Errorf("failed: %v, with %q", f.failed, text)
	}
}

// RequireManyInserted: several jobs, of several kinds, in their order.
func TestRiver_RequireManyInserted(t *testing.T) {
	t.Parallel()
	b := jobstest.New(t)
	add(t, b, firstRequired, message{"Hello from first."})
	add(t, b, secondRequired, message{"Hello from second."})
	add(t, b, firstRequired, message{"Hello from first (again)."})

	jobstest.EnqueuedInOrder(t, b, jobstest.Expect(firstRequired), jobstest.Expect(secondRequired), jobstest.Expect(firstRequired))
	jobstest.EnqueuedInOrder(t, b, jobstest.Expect(secondRequired,
		jobstest.With(jobs.WithQueue(jobs.DefaultQueue), jobs.WithPriority(jobs.PriorityNormal))))
	first := jobstest.AllEnqueued(t, b, firstRequired)
	if len(first) != 2 || first[0].Args.Message != "Hello from first." || first[1].Args.Message != "Hello from first (again)." {
		t.Errorf("the jobs of the first kind are %+v", first)
	}
}

// NewWorker and Work: one job, from arguments, by the worker's code.
func TestRiver_Worker(t *testing.T) {
	t.Parallel()
	var said string
	hello := jobs.Define[struct{ Name string }]("example")
	h := hello.Handler(func(_ context.Context, args struct{ Name string }, _ *jobs.Job) error {
		said = "Hello, " + args.Name + "!"
		return nil
	})
	result := jobstest.Run(t, h, hello, struct{ Name string }{"River"})
	if result.Outcome != jobs.EndedCompleted || said != "Hello, River!" {
		t.Errorf("%v, said %q", result, said)
	}

	// WorkJob: a job that was inserted before.
	b := jobstest.New(t)
	add(t, b, hello, struct{ Name string }{"again"})
	if report := jobstest.Drain(t, b, h); report.Completed != 1 || said != "Hello, again!" {
		t.Errorf("report %+v, said %q", report, said)
	}
}
