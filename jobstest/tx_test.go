package jobstest_test

import (
	"errors"
	"testing"

	"github.com/seed81422ce9/jobs"
	"github.com/seed81422ce9/jobs/jobstest"
)

func TestTx_JobsExistOnceItIsCommitted(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T) {
		b := jobstest.New(t)
		tx := b.Begin()
		in := b.Client().In(tx)
		if _, err := goodbyeMail.Enqueue(t.Context(), in, goodbye{To: "ada@x"}, jobs.WithUniqueKey("ada")); err != nil {
			t.Fatal(err)
		}
		if _, err := goodbyeMail.Enqueue(t.Context(), in, goodbye{To: "twice@x"}, jobs.WithUniqueKey("ada")); !errors.Is(err, jobs.ErrDuplicate) {
			t.Errorf("a duplicate in the transaction answers %v", err)
		}
		jobstest.NotEnqueued(t, b, goodbyeMail)
		if err := tx.Commit(); err != nil {
			t.Fatal(err)
		}
		jobstest.Enqueued(t, b, goodbyeMail, jobstest.Args(goodbye{To: "ada@x"}), jobstest.With(jobs.WithUniqueKey("ada")))
		if _, err := goodbyeMail.Enqueue(t.Context(), in, goodbye{}); !errors.Is(err, jobs.ErrInvalid) {
			t.Errorf("after the commit it answers %v, want ErrInvalid", err)
		}
		if err := tx.Rollback(); err == nil {
			t.Error("a rollback after the commit succeeds")
		}
		jobstest.Enqueued(t, b, goodbyeMail)
	})
}

func TestTx_ThatIsRolledBackLeavesNothing(t *testing.T) {
	t.Parallel()
	b := jobstest.New(t)
	for range 2 { // an ID that was rolled back is free
		tx := b.Begin()
		if _, err := goodbyeMail.Enqueue(t.Context(), b.Client().In(tx), goodbye{To: "ada@x"}, jobs.WithID("7")); err != nil {
			t.Fatal(err)
		}
		if err := tx.Rollback(); err != nil {
			t.Error(err)
		}
	}
	open := b.Begin()
	add(t, b, welcomeMail, welcome{})
	if _, err := goodbyeMail.Enqueue(t.Context(), b.Client().In(open), goodbye{To: "eve@x"}); err != nil {
		t.Fatal(err)
	}
	fake := inTest(t, func(t *fakeT) { jobstest.Enqueued(t, b, goodbyeMail, jobstest.Args(goodbye{To: "ada@x"})) })
	fake.wantText(t, `
no job of type "email:goodbye" matches:
  args: {To: "ada@x"}
A task that matches was not stored: it was in a transaction that was rolled back
A task that matches was not stored: it was in a transaction that was rolled back
A task of that type was not stored: it is in a transaction that is not committed yet
       args.To: want "ada@x", got "eve@x"
Enqueued were:
  1 job of type "email:welcome"`)
	if err := open.Rollback(); err != nil {
		t.Error(err)
	}
}

func TestTx_CommitStoresAllOrNothing(t *testing.T) {
	t.Parallel()
	b := jobstest.New(t)
	tx := b.Begin()
	for _, to := range []string{"first@x", "second@x"} {
		if _, err := goodbyeMail.Enqueue(t.Context(), b.Client().In(tx), goodbye{To: to}, jobs.WithUniqueKey(to)); err != nil {
			t.Fatal(err)
		}
	}
	add(t, b, welcomeMail, welcome{}, jobs.WithQueue("default"), jobs.WithUniqueKey("second@x"))
	if err := tx.Commit(); !errors.Is(err, jobs.ErrDuplicate) {
		t.Errorf("Commit answers %v, want ErrDuplicate", err)
	}
	jobstest.NotEnqueued(t, b, goodbyeMail)
}

func TestTx_ThatIsForgottenFailsTheTest(t *testing.T) {
	t.Parallel()
	fake := inTest(t, func(t *fakeT) {
		b := jobstest.New(t)
		if _, err := goodbyeMail.Enqueue(t.Context(), b.Client().In(b.Begin()), goodbye{}); err != nil {
			t.Fatal(err)
		}
	})
	fake.wantText(t, "a transaction with 1 job was neither committed nor rolled back")
}
