package jobstest_test

import (
	"testing"
	"time"

	"github.com/seed81422ce9/jobs"
	"github.com/seed81422ce9/jobs/jobstest"
)

// A task that replaces another one is no second job: the first one has its arguments.
func TestEnqueued_AReplacedJobIsThereOnce(t *testing.T) {
	t.Parallel()
	b := jobstest.New(t)
	unique := jobs.WithUniqueKey("cart:7")
	first := add(t, b, goodbyeMail, goodbye{To: "old@x"}, unique, jobs.WithUniqueReplace())
	add(t, b, goodbyeMail, goodbye{To: "new@x"}, unique, jobs.WithUniqueReplace(), jobs.WithHeader("trace", "2"))
	check := func() {
		t.Helper()
		got := jobstest.Enqueued(t, b, goodbyeMail)
		if got.ID != first.ID || got.Args.To != "new@x" || got.Headers["trace"] != "2" {
			t.Errorf("found %+v; want the first job with the new arguments", got)
		}
		jobstest.EnqueuedInOrder(t, b, jobstest.Expect(goodbyeMail, jobstest.Args(goodbye{To: "new@x"})))
	}
	check()
	jobstest.Drain(t, b, goodbyeMail.Handler(nothing[goodbye]))
	check() // no record is left
}

func TestEnqueued_ADebouncedJobIsDueWhenTheLastTaskSaid(t *testing.T) {
	t.Parallel()
	b := jobstest.New(t)
	debounce := []jobs.Option{jobs.WithUniqueKey("cart:7"), jobs.WithUniqueDebounce(time.Hour, 24*time.Hour)}
	add(t, b, goodbyeMail, goodbye{To: "old@x"}, debounce...)
	b.Advance(40 * time.Minute)
	add(t, b, goodbyeMail, goodbye{To: "new@x"}, debounce...)
	due := jobstest.Due(b.Now().Add(time.Hour), time.Second)
	jobstest.Enqueued(t, b, goodbyeMail, jobstest.Args(goodbye{To: "new@x"}), due, jobstest.With(debounce...))
	jobstest.Drain(t, b, goodbyeMail.Handler(nothing[goodbye]), jobstest.Everything())
	jobstest.Enqueued(t, b, goodbyeMail, jobstest.InState(jobs.StateCompleted), due, jobstest.With(debounce...))
}
