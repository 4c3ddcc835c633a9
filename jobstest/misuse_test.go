package jobstest_test

import (
	"context"
	"testing"
	"time"

	"github.com/seed81422ce9/jobs"
	"github.com/seed81422ce9/jobs/backends/membroker"
	"github.com/seed81422ce9/jobs/broker"
	"github.com/seed81422ce9/jobs/jobstest"
)

// misuses are mistakes of a test's author, with the message that each ends in.
var misuses = map[string]struct {
	f    func(t *fakeT, b *jobstest.Broker)
	text string
}{
	"Where without a function": {func(t *fakeT, b *jobstest.Broker) {
		jobstest.Enqueued(t, b, goodbyeMail, jobstest.Where[goodbye]("any", nil))
	}, `jobstest: Where("any") has no function; pass one that returns whether the arguments are right`},
	"Due that is never met": {func(t *fakeT, b *jobstest.Broker) {
		jobstest.Enqueued(t, b, goodbyeMail, jobstest.Due(b.Now(), -time.Second))
	}, "jobstest: Due: giveOrTake is -1s; use zero or more"},
	"InState of no state": {func(t *fakeT, b *jobstest.Broker) {
		jobstest.NotEnqueued(t, b, goodbyeMail, jobstest.InState())
	}, "jobstest: InState was given no state, so no job would match"},
	"no broker": {func(t *fakeT, _ *jobstest.Broker) {
		jobstest.Enqueued(t, nil, goodbyeMail)
	}, "jobstest: the broker is nil; use the one that New returned, or the one of the code under test"},
	"a nil test broker": {func(t *fakeT, _ *jobstest.Broker) {
		jobstest.NotEnqueued(t, (*jobstest.Broker)(nil), goodbyeMail)
	}, "jobstest: the broker is nil; use the one that New returned, or the one of the code under test"},
	"a nil broker of another kind": {func(t *fakeT, _ *jobstest.Broker) {
		jobstest.EnqueuedInOrder(t, (*membroker.Broker)(nil), jobstest.Expect(goodbyeMail))
	}, "jobstest: the broker is nil; use the one that New returned, or the one of the code under test"},
	"Drain without a broker": {func(t *fakeT, _ *jobstest.Broker) {
		jobstest.Drain(t, nil, goodbyeMail.Handler(nothing[goodbye]))
	}, "jobstest: Drain: the broker is nil; use the one that New returned"},
	"Drain without a handler": {func(t *fakeT, b *jobstest.Broker) {
		jobstest.Drain(t, b, nil)
	}, "jobstest: Drain: jobs: handler: invalid: is nil; pass a ServeMux or a HandlerFunc"},
	"Run without a handler": {func(t *fakeT, _ *jobstest.Broker) {
		jobstest.Run(t, nil, goodbyeMail, goodbye{})
	}, "jobstest: jobs: handler: invalid: is nil; pass a ServeMux or a HandlerFunc"},
	"a negative attempt": {func(t *fakeT, _ *jobstest.Broker) {
		jobstest.NewJob(t, goodbyeMail, goodbye{}, jobstest.Attempt(-1))
	}, "jobstest: the job cannot be enqueued: …"},
	"no context": {func(t *fakeT, _ *jobstest.Broker) {
		var none context.Context
		jobstest.Run(t, goodbyeMail.Handler(nothing[goodbye]), goodbyeMail, goodbye{}, jobstest.Values(none))
	}, "jobstest: Values: the context is nil; use t.Context()"},
	"no transaction": {func(t *fakeT, b *jobstest.Broker) {
		var tx *jobstest.Tx
		if _, err := b.Client().In(tx).Enqueue(t.Context(), jobs.NewTask("x", nil)); err != nil {
			t.Error(err)
		}
	}, "…transaction: invalid: is nil…"},
	"arguments by pointer": {func(t *fakeT, b *jobstest.Broker) {
		jobstest.Enqueued(t, b, goodbyeMail, jobstest.Args(&goodbye{}))
	}, "jobstest: args was given *jobstest_test.goodbye, but the arguments of \"email:goodbye\" are jobstest_test.goodbye"},
	"a closed broker": {func(t *fakeT, b *jobstest.Broker) {
		b.Close()
		jobstest.Enqueued(t, b, goodbyeMail)
	}, "…"},
	"a nil context of a job": {func(t *fakeT, _ *jobstest.Broker) {
		jobstest.Context(t, nil)
	}, "jobstest: Context: the job is nil; NewJob makes one"},
	"faults that cannot all come": {func(t *fakeT, b *jobstest.Broker) {
		b.Faults(jobstest.Faults{Unavailable: 0.6, ReplyLost: 0.6})
	}, "jobstest: Faults.Unavailable and Faults.ReplyLost add up to 1.2; a call has one of them at most, use 1 or less together"},
	"losses that cannot all come": {func(t *fakeT, b *jobstest.Broker) {
		b.Faults(jobstest.Faults{LeaseLost: 1, Twice: 0.5})
	}, "jobstest: Faults.LeaseLost and Faults.Twice add up to 1.5; a delivery has one of them at most, use 1 or less together"},
	"no effects": {func(t *fakeT, _ *jobstest.Broker) {
		jobstest.CheckIdempotent(t, goodbyeMail.Handler(nothing[goodbye]), goodbyeMail, goodbye{}, nil)
	}, "jobstest: CheckIdempotent needs to see what the handler does: effects is nil"},
}

func TestMisuse_EndsTheTestInPlainWords(t *testing.T) {
	t.Parallel()
	for name, m := range misuses {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			fake := inTest(t, func(f *fakeT) {
				defer func() {
					if p := recover(); p != nil {
						t.Errorf("it panicked: %v", p)
					}
				}()
				b := jobstest.New(f)
				add(f, b, goodbyeMail, goodbye{})
				m.f(f, b)
			})
			fake.wantText(t, m.text)
		})
	}
}

// What a test's author checks in Cleanup is found, though the context of the test has ended.
func TestEnqueued_WorksInACleanup(t *testing.T) {
	t.Parallel()
	fake := inTest(t, func(t *fakeT) {
		b := jobstest.New(t)
		add(t, b, goodbyeMail, goodbye{})
		t.Cleanup(func() {
			jobstest.Enqueued(t, b, goodbyeMail, jobstest.InState(broker.StatePending))
		})
	})
	if fake.text() != "" {
		t.Errorf("the message is\n%s", fake.text())
	}
}
