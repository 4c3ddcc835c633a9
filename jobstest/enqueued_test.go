package jobstest_test

import (
	"errors"
	"testing"
	"time"

	"github.com/seed81422ce9/jobs"
	"github.com/seed81422ce9/jobs/backends/membroker"
	"github.com/seed81422ce9/jobs/broker"
	"github.com/seed81422ce9/jobs/jobstest"
)

type welcome struct {
	To      string
	Name    string
	Address *address          `json:",omitempty"`
	Tags    []string          `json:",omitempty"`
	Vars    map[string]string `json:",omitempty"`
}

type address struct{ City, Street string }

type goodbye struct{ To string }

var (
	welcomeMail = jobs.Define[welcome]("email:welcome", jobs.WithQueue("mail"))
	goodbyeMail = jobs.Define[goodbye]("email:goodbye")
)

// add enqueues a job of a definition.
func add[T any](t testing.TB, b *jobstest.Broker, def jobs.Definition[T], args T, opts ...jobs.Option) *jobs.JobInfo {
	t.Helper()
	info, err := def.Enqueue(t.Context(), b.Client(), args, opts...)
	if err != nil && !errors.Is(err, jobs.ErrDuplicate) {
		t.Fatal(err)
	}
	return info
}

func TestEnqueued_FindsAJobWhateverItsQueueAndState(t *testing.T) {
	t.Parallel()
	b := jobstest.New(t)
	add(t, b, welcomeMail, welcome{To: "pending@x", Name: "Ada"}, jobs.WithPriority(jobs.PriorityUrgent))
	add(t, b, welcomeMail, welcome{To: "later@x"}, jobs.WithQueue("slow"), jobs.WithDelay(time.Hour))
	add(t, b, goodbyeMail, goodbye{To: "other@x"})

	got := jobstest.Enqueued(t, b, welcomeMail, jobstest.Args(welcome{To: "pending@x", Name: "Ada"}), jobstest.InState(jobs.StatePending))
	if got.Args.Name != "Ada" || got.Queue != "mail" || got.Priority != jobs.PriorityUrgent {
		t.Errorf("found %+v", got)
	}
	later := jobstest.Enqueued(t, b, welcomeMail, jobstest.Like(welcome{To: "later@x"}), jobstest.InState(jobs.StateScheduled),
		jobstest.With(jobs.WithQueue("slow"), jobs.WithDelay(time.Hour)), jobstest.Due(time.Now().Add(time.Hour), time.Minute))
	if later.RunAt.Sub(later.CreatedAt) != time.Hour {
		t.Errorf("it is due %v after its enqueue, want 1h", later.RunAt.Sub(later.CreatedAt))
	}
	jobstest.NotEnqueued(t, b, goodbyeMail, jobstest.Args(goodbye{To: "nobody@x"}))
	if all := jobstest.AllEnqueued(t, b, welcomeMail); len(all) != 2 || all[0].Args.To != "pending@x" || all[1].ID != later.ID {
		t.Errorf("AllEnqueued gives %+v, want both in the order of their enqueue", all)
	}
}

func TestEnqueued_FindsAJobThatIsDoneAndLeftNoRecord(t *testing.T) {
	t.Parallel()
	b := jobstest.New(t)
	add(t, b, goodbyeMail, goodbye{To: "ada@x"}, jobs.WithDelay(time.Hour))
	jobstest.Drain(t, b, goodbyeMail.Handler(nothing[goodbye]), jobstest.Everything())
	got := jobstest.Enqueued(t, b, goodbyeMail, jobstest.InState(jobs.StateCompleted), jobstest.With(jobs.WithDelay(time.Hour)))
	if got.Args.To != "ada@x" {
		t.Errorf("found %+v", got)
	}
}

func TestEnqueued_LooksIntoAnyBroker(t *testing.T) {
	t.Parallel()
	b := membroker.New()
	t.Cleanup(func() { b.Close() })
	client := jobs.NewClient(b, jobs.ClientConfig{})
	t.Cleanup(func() { client.Close() })
	for _, to := range []string{"a@x", "b@x"} {
		if _, err := goodbyeMail.Enqueue(t.Context(), client, goodbye{To: to}, jobs.WithDelay(time.Hour)); err != nil {
			t.Fatal(err)
		}
	}
	jobstest.Enqueued(t, b, goodbyeMail, jobstest.Args(goodbye{To: "b@x"}), jobstest.With(jobs.WithDelay(time.Hour)))
	fake := inTest(t, func(t *fakeT) {
		jobstest.Enqueued(t, b, goodbyeMail, jobstest.Args(goodbye{To: "b@x"}), jobstest.With(jobs.WithDelay(time.Minute)))
	})
	fake.wantText(t, `
no job of type "email:goodbye" matches:
  args: {To: "b@x"}
  due: 1m0s after the enqueue
The nearest of 2 jobs of that type:
  1. job … in queue "default", scheduled, due in …
       due: want 1m0s after the enqueue, got 1h0m0s after the enqueue
  2. job … in queue "default", scheduled, due in …
       args.To: want "b@x", got "a@x"
       due: want 1m0s after the enqueue, got 1h0m0s after the enqueue`)
}

func TestEnqueued_ShowsTheNearestJobsFieldByField(t *testing.T) {
	t.Parallel()
	fake := inTest(t, func(t *fakeT) {
		b := jobstest.New(t)
		add(t, b, welcomeMail, welcome{To: "bob@x", Name: "Bob"}, jobs.WithQueue("slow"), jobs.WithDelay(time.Hour))
		add(t, b, welcomeMail, welcome{To: "ada@x", Name: "Ada", Address: &address{City: "Bern"}, Tags: []string{"new"},
			Vars: map[string]string{"plan": "free"}})
		jobstest.Enqueued(t, b, welcomeMail, jobstest.Args(welcome{To: "ada@x", Name: "Ada L.", Address: &address{City: "Basel"},
			Tags: []string{"new", "vip"}, Vars: map[string]string{"plan": "pro"}}),
			jobstest.With(jobs.WithQueue("mail"), jobs.WithHeader("trace", "1")))
		t.Error("the test goes on")
	})
	fake.wantText(t, `
no job of type "email:welcome" matches:
  args: {To: "ada@x", Name: "Ada L.", Address: {City: "Basel"}, Tags: ["new", "vip"], Vars: {"plan": "pro"}}
  queue: "mail"
  header "trace": "1"
The nearest of 2 jobs of that type:
  1. job … in queue "mail", pending
       args.Name: want "Ada L.", got "Ada"
       args.Address.City: want "Basel", got "Bern"
       args.Tags: want 2 elements ["new", "vip"], got 1 elements ["new"]
       args.Vars["plan"]: want "pro", got "free"
       header "trace": want "1", got none
  2. job … in queue "slow", scheduled, due in 1h0m0s
       args.To: want "ada@x", got "bob@x"
       args.Name: want "Ada L.", got "Bob"
       args.Address: want {City: "Basel"}, got nil
       args.Tags: want 2 elements ["new", "vip"], got 0 elements []
       args.Vars["plan"]: want "pro", got none
       queue: want "mail", got "slow"
       header "trace": want "1", got none`)
}

func TestEnqueued_SaysWhatWasRefusedAndWhy(t *testing.T) {
	t.Parallel()
	unique := jobs.WithUniqueKey("welcome:7")
	fake := inTest(t, func(t *fakeT) {
		b := jobstest.New(t)
		add(t, b, goodbyeMail, goodbye{}, unique)
		add(t, b, goodbyeMail, goodbye{To: "ada@x"}, unique)
		depth := int64(1)
		if _, err := b.Policy(t.Context(), broker.PolicyRequest{Queue: "default", MaxDepth: &depth}); err != nil {
			t.Fatal(err)
		}
		if _, err := goodbyeMail.Enqueue(t.Context(), b.Client(), goodbye{To: "eve@x"}); !errors.Is(err, jobs.ErrQueueFull) {
			t.Fatal(err)
		}
		jobstest.Enqueued(t, b, goodbyeMail, jobstest.Args(goodbye{To: "ada@x"}))
	})
	fake.wantText(t, `
no job of type "email:goodbye" matches:
  args: {To: "ada@x"}
A task that matches was not stored: a duplicate, by its unique key "welcome:7",
  of job … of type "email:goodbye" in queue "default", pending
A task of that type was not stored: … queue …
       args.To: want "ada@x", got "eve@x"
The nearest of 1 job of that type:
  1. job … in queue "default", pending
       args.To: want "ada@x", got ""`)
}

func TestEnqueued_SaysWhatWasEnqueuedInstead(t *testing.T) {
	t.Parallel()
	fake := inTest(t, func(t *fakeT) {
		b := jobstest.New(t)
		add(t, b, welcomeMail, welcome{})
		add(t, b, welcomeMail, welcome{})
		jobstest.Enqueued(t, b, goodbyeMail)
	})
	fake.wantText(t, `
no job of type "email:goodbye" was enqueued
Enqueued were:
  2 jobs of type "email:welcome"`)
	fake = inTest(t, func(t *fakeT) { jobstest.Enqueued(t, jobstest.New(t), goodbyeMail) })
	fake.wantText(t, `
no job of type "email:goodbye" was enqueued
Nothing was enqueued.`)
}

func TestEnqueued_WantsOneJobNotTwo(t *testing.T) {
	t.Parallel()
	fake := inTest(t, func(t *fakeT) {
		b := jobstest.New(t)
		add(t, b, goodbyeMail, goodbye{To: "ada@x"})
		add(t, b, goodbyeMail, goodbye{To: "ada@x"}, jobs.WithDelay(time.Hour))
		jobstest.Enqueued(t, b, goodbyeMail, jobstest.Args(goodbye{To: "ada@x"}))
	})
	fake.wantText(t, `
2 jobs of type "email:goodbye" match, want one:
  args: {To: "ada@x"}
  1. job … in queue "default", pending, payload "{\"To\":\"ada@x\"}"
  2. job … in queue "default", scheduled, due in 1h0m0s, payload "{\"To\":\"ada@x\"}"
  Match more of it, or use AllEnqueued.`)
}

func TestNotEnqueued_ShowsTheJobsThatThereAre(t *testing.T) {
	t.Parallel()
	fake := inTest(t, func(t *fakeT) {
		b := jobstest.New(t)
		add(t, b, goodbyeMail, goodbye{To: "ada@x"}, jobs.WithQueue("mail"))
		jobstest.NotEnqueued(t, b, goodbyeMail, jobstest.Where("mail to x", func(g goodbye) bool { return g.To == "ada@x" }))
		jobstest.NotEnqueued(t, b, goodbyeMail, jobstest.Args(goodbye{}))
	})
	fake.wantText(t, `
1 job of type "email:goodbye" matches, want none with:
  args: mail to x
  1. job … in queue "mail", pending, payload "{\"To\":\"ada@x\"}"`)
}

func TestEnqueued_RefusesMatchesThatCannotBe(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		match jobstest.Match
		want  string
	}{
		{jobstest.Args(welcome{}), `jobstest: args was given jobstest_test.welcome, ` +
			`but the arguments of "email:goodbye" are jobstest_test.goodbye`},
		{jobstest.Where("x", func(welcome) bool { return true }), `jobstest: Where was given jobstest_test.welcome, but …`},
		{jobstest.With(jobs.WithQueue("@schedules")), `jobstest: With: …queue…`},
	} {
		fake := inTest(t, func(t *fakeT) { jobstest.NotEnqueued(t, jobstest.New(t), goodbyeMail, c.match) })
		fake.wantText(t, c.want)
	}
}

func TestEnqueued_ACallThatIsRepeatedIsNoRefusal(t *testing.T) {
	t.Parallel()
	fake := inTest(t, func(t *fakeT) {
		b := jobstest.New(t)
		b.LoseReply("Enqueue", 1)
		add(t, b, goodbyeMail, goodbye{To: "ada@x"})
		jobstest.Enqueued(t, b, goodbyeMail, jobstest.Args(goodbye{To: "eve@x"}))
	})
	fake.wantText(t, `
no job of type "email:goodbye" matches:
  args: {To: "eve@x"}
The nearest of 1 job of that type:
  1. job … in queue "default", pending
       args.To: want "eve@x", got "ada@x"`)
}

func TestEnqueued_AJobThatWasMovedIsThereOnce(t *testing.T) {
	t.Parallel()
	b := jobstest.New(t)
	info := add(t, b, goodbyeMail, goodbye{To: "ada@x"})
	page, err := b.Find(t.Context(), broker.Query{Queue: info.Queue, IDs: []string{info.ID}})
	if err != nil || len(page.Jobs) != 1 {
		t.Fatal(page, err)
	}
	moved := page.Jobs[0].Copy()
	moved.Queue = "elsewhere"
	if _, err := b.Enqueue(t.Context(), broker.EnqueueRequest{Jobs: []broker.NewJob{moved}}); err != nil {
		t.Fatal(err)
	}
	if _, err := b.Operate(t.Context(), broker.Operation{Kind: broker.OpDelete, Refs: []broker.Ref{page.Jobs[0].Ref()}}); err != nil {
		t.Fatal(err)
	}
	if got := jobstest.Enqueued(t, b, goodbyeMail); got.Queue != "elsewhere" {
		t.Errorf("it is found in queue %q", got.Queue)
	}
}
