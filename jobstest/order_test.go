package jobstest_test

import (
	"testing"

	"github.com/seed81422ce9/jobs/jobstest"
)

func TestEnqueuedInOrder_WantsTheseJobsAndNoOthersOfTheirTypes(t *testing.T) {
	t.Parallel()
	b := jobstest.New(t)
	add(t, b, welcomeMail, welcome{To: "ada@x"})
	add(t, b, goodbyeMail, goodbye{To: "bob@x"})
	add(t, b, welcomeMail, welcome{To: "eve@x"})
	jobstest.EnqueuedInOrder(t, b, jobstest.Expect(welcomeMail), jobstest.Expect(goodbyeMail, jobstest.Args(goodbye{To: "bob@x"})),
		jobstest.Expect(welcomeMail, jobstest.Like(welcome{To: "eve@x"})))
	jobstest.EnqueuedInOrder(t, b, jobstest.Expect(goodbyeMail)) // the others are of another type

	fake := inTest(t, func(t *fakeT) {
		jobstest.EnqueuedInOrder(t, b, jobstest.Expect(welcomeMail, jobstest.Like(welcome{To: "eve@x", Name: "Eve"})),
			jobstest.Expect(welcomeMail))
		jobstest.EnqueuedInOrder(t, b, jobstest.Expect(goodbyeMail), jobstest.Expect(goodbyeMail))
		jobstest.EnqueuedInOrder(t, b, jobstest.Expect(goodbyeMail), jobstest.Expect(welcomeMail))
	})
	fake.wantText(t, `
jobs were not enqueued as they should have been, in order:
  1. email:welcome, but args.To: want "eve@x", got "ada@x"; args.Name: want "Eve", got ""
  2. email:welcome, as expected
jobs were not enqueued as they should have been, in order:
  1. email:goodbye, as expected
  2. want email:goodbye, got nothing
jobs were not enqueued as they should have been, in order:
  1. want email:goodbye, got email:welcome "{\"To\":\"ada@x\",\"Name\":\"\"}"
  2. want email:welcome, got email:goodbye "{\"To\":\"bob@x\"}"
  3. want nothing more, got email:welcome "{\"To\":\"eve@x\",\"Name\":\"\"}"`)
}
