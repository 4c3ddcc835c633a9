package jobstest_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/seed81422ce9/jobs"
	"github.com/seed81422ce9/jobs/jobstest"
)

// options has each option with two values. A job with the first values is not found
// with the second value of any option, and the message names the field.
var options = []struct {
	field        string
	given, else_ jobs.Option
}{
	{"queue", jobs.WithQueue("default"), jobs.WithQueue("mail")},
	{"labels", jobs.WithLabels("gpu"), jobs.WithLabels("gpu", "ssd")},
	{"id", jobs.WithID("7"), jobs.WithID("8")},
	{"due", jobs.WithDelay(time.Hour), jobs.WithDelay(0)},
	{"priority", jobs.WithPriority(jobs.PriorityLow), jobs.WithPriority(jobs.PriorityNormal)},
	{"deadline", jobs.WithDeadline(time.Unix(4e9, 1)), jobs.WithDeadline(time.Time{})},
	{"timeout", jobs.WithTimeout(time.Minute), jobs.WithTimeout(time.Hour)},
	{"max retries", jobs.WithMaxRetries(0), jobs.WithMaxRetries(25)},
	{"backoff", jobs.WithBackoff(jobs.Backoff{Kind: jobs.BackoffLinear, Base: time.Second}), jobs.WithBackoff(jobs.Backoff{})},
	{"crash budget", jobs.WithCrashBudget(9), jobs.WithCrashBudget(0)},
	{"retention", jobs.WithRetention(time.Hour), jobs.WithRetention(0)},
	{"key", jobs.WithPartitionKey("acme"), jobs.WithPartitionKey("")},
	{"correlation ID", jobs.WithCorrelationID("c"), jobs.WithCorrelationID("")},
	{"idempotency key", jobs.WithIdempotencyKey("i"), jobs.WithIdempotencyKey("j")},
	{"type version", jobs.WithTypeVersion(3), jobs.WithTypeVersion(0)},
	{"source", jobs.WithSource("shop"), jobs.WithSource("")},
	{"payload ref", jobs.WithPayloadRef("s3"), jobs.WithPayloadRef("")},
	{"unique key", jobs.WithUniqueKey("u"), jobs.WithUniqueKey("v")},
	{"unique", jobs.WithUniqueUntilStarted(time.Hour), jobs.WithUniqueUntilStarted(0)},
	{`header "a"`, jobs.WithHeader("a", "1"), jobs.WithHeader("a", "2")},
}

func TestWith_ComparesWhatTheOptionsSet(t *testing.T) {
	t.Parallel()
	b := jobstest.New(t)
	var given []jobs.Option
	for _, o := range options {
		given = append(given, o.given)
	}
	add(t, b, goodbyeMail, goodbye{}, given...)
	jobstest.Enqueued(t, b, goodbyeMail, jobstest.With(given...))
	for _, o := range options {
		jobstest.Enqueued(t, b, goodbyeMail, jobstest.With(o.given))
		fake := inTest(t, func(t *fakeT) { jobstest.Enqueued(t, b, goodbyeMail, jobstest.With(o.else_)) })
		fake.wantText(t, fmt.Sprintf(`
no job of type "email:goodbye" matches:
  %[1]s: …
The nearest of 1 job of that type:
  1. job 7 in queue "default+gpu", scheduled, due in 1h0m0s
       %[1]s: want …, got …`, o.field))
	}
}

func TestWith_ATimeOfARunIsExactToTheMicrosecond(t *testing.T) {
	t.Parallel()
	b := jobstest.New(t)
	at := time.Now().Add(time.Hour)
	add(t, b, goodbyeMail, goodbye{}, jobs.WithRunAt(at))
	jobstest.Enqueued(t, b, goodbyeMail, jobstest.With(jobs.WithRunAt(at)), jobstest.Due(at, 0))
	jobstest.NotEnqueued(t, b, goodbyeMail, jobstest.With(jobs.WithRunAt(at.Add(time.Millisecond))))
	jobstest.NotEnqueued(t, b, goodbyeMail, jobstest.Due(at.Add(time.Second), time.Second/2))
}

func TestWith_AJobWithoutUniquenessIsNotUniqueUntilDone(t *testing.T) {
	t.Parallel()
	b := jobstest.New(t)
	add(t, b, goodbyeMail, goodbye{})
	jobstest.NotEnqueued(t, b, goodbyeMail, jobstest.With(jobs.WithUniqueUntilDone(0)))
	jobstest.Enqueued(t, b, goodbyeMail, jobstest.With(jobs.WithoutUnique()))
	add(t, b, goodbyeMail, goodbye{To: "x"}, jobs.WithUniqueUntilDone(0))
	jobstest.Enqueued(t, b, goodbyeMail, jobstest.With(jobs.WithUniqueUntilDone(0)))
}
