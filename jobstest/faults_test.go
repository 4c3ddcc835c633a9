package jobstest_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"reflect"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed81422ce9/jobs"
	"github.com/seed81422ce9/jobs/broker"
	"github.com/seed81422ce9/jobs/jobstest"
	"github.com/seed81422ce9/jobs/workflow"
)

func TestFaults_TheNthCallFails(t *testing.T) {
	t.Parallel()
	b := jobstest.New(t)
	client := jobs.NewClient(b, jobs.ClientConfig{Retries: -1})
	defer client.Close()
	enqueue := func() error {
		_, err := goodbyeMail.Enqueue(t.Context(), client, goodbye{})
		return err
	}
	if err := enqueue(); err != nil {
		t.Fatal(err)
	}
	b.FailCall("Enqueue", 2)
	b.LoseReply("Enqueue", 3)
	for i, want := range []error{nil, jobs.ErrUnavailable, jobs.ErrOutcomeUnknown, nil} {
		if err := enqueue(); !errors.Is(err, want) {
			t.Errorf("call %d answers %v, want %v", i+1, err, want)
		}
	}
	if n := len(jobstest.AllEnqueued(t, b, goodbyeMail)); n != 4 {
		t.Errorf("%d jobs are stored, want 4: all but the one that was not sent", n)
	}
	fake := inTest(t, func(t *fakeT) { jobstest.New(t).FailCall("Inqueue", 1) })
	fake.wantText(t, `jobstest: FailCall: "Inqueue" is not a method of broker.Broker that can fail; these are: …`)
}

func TestFaults_AJobIsDeliveredTwice(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T) {
		b := jobstest.New(t)
		add(t, b, goodbyeMail, goodbye{To: "first"})
		add(t, b, goodbyeMail, goodbye{To: "second"})
		b.DeliverTwice(2)
		var ran []string
		report := jobstest.Drain(t, b, goodbyeMail.Handler(func(ctx context.Context, g goodbye, job *jobs.Job) error {
			steps, err := jobs.Step(ctx, job, "send", func(context.Context) (int, error) { return job.Delivery() + 7, nil })
			ran = append(ran, fmt.Sprint(g.To, " ", job.Delivery(), " ", steps))
			return err
		}))
		if want := []string{"first 0 7", "second 0 7", "second 1 7"}; !slices.Equal(ran, want) {
			t.Errorf("ran %q, want %q: what the first delivery stored is there in the second", ran, want)
		}
		if report.Runs != 3 || report.Completed != 2 || report.Lost != 1 || len(report.Failures) != 0 {
			t.Errorf("report %+v", report)
		}
	})
}

func TestFaults_ALeaseIsLost(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T) {
		b := jobstest.New(t)
		add(t, b, goodbyeMail, goodbye{})
		b.LoseLease(1)
		runs := 0
		report := jobstest.Drain(t, b, goodbyeMail.Handler(func(ctx context.Context, _ goodbye, job *jobs.Job) error {
			runs++
			err := job.SetCheckpoint(ctx, []byte("here"))
			if lost := runs == 1; errors.Is(err, jobs.ErrLeaseLost) != lost || errors.Is(context.Cause(ctx), jobs.ErrLeaseLost) != lost {
				t.Errorf("run %d: SetCheckpoint returns %v, the context ended for %v", runs, err, context.Cause(ctx))
			}
			if stored := jobstest.Enqueued(t, b, goodbyeMail); runs == 1 && stored.Kept != nil {
				t.Errorf("without a lease %v is stored", stored.Kept)
			}
			if runs == 2 && job.Attempt() != 0 {
				t.Error("the lost lease was charged as a failure")
			}
			return err
		}))
		if runs != 2 || report.Completed != 1 || report.Lost != 1 {
			t.Errorf("%d runs, report %+v", runs, report)
		}
	})
}

func TestFaults_AtRandomLoseNothing(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := jobstest.New(t)
		b.Faults(jobstest.Faults{Seed: 7, Unavailable: 0.1, ReplyLost: 0.2, LeaseLost: 0.2, Twice: 0.2})
		done := make(map[string]int)
		for i := range 50 {
			for { // until it is stored
				_, err := goodbyeMail.Enqueue(t.Context(), b.Client(), goodbye{To: fmt.Sprint(i)}, jobs.WithID(fmt.Sprint(i)))
				if err == nil || errors.Is(err, jobs.ErrDuplicate) {
					break
				}
			}
		}
		report := jobstest.Drain(t, b, goodbyeMail.Handler(func(ctx context.Context, g goodbye, job *jobs.Job) error {
			if err := job.SetCheckpoint(ctx, []byte(g.To)); err != nil {
				return err
			}
			done[g.To]++
			return nil
		}), jobstest.Everything())
		if len(done) != 50 || report.Completed != 50 || report.Lost == 0 {
			t.Errorf("%d of 50 jobs ran, report %+v", len(done), report)
		}
	})
}

// The jobs of a lost answer are found by listing what the server holds, which can fail, too.
func TestLoseReply_OfAClaimAndAFailureRightAfterIt(t *testing.T) {
	t.Parallel()
	b := jobstest.New(t)
	add(t, b, goodbyeMail, goodbye{})
	b.LoseReply("Claim", 1)
	b.FailCall("Find", 1)
	report := jobstest.Drain(t, b, goodbyeMail.Handler(nothing[goodbye]))
	if report.Completed != 1 {
		t.Errorf("%d jobs were completed, want 1", report.Completed)
	}
}

// A workflow goes on at the next due time only if somebody wakes it.
func TestFaults_DoNotStopAWorkflow(t *testing.T) {
	t.Parallel()
	quiet := slog.New(slog.DiscardHandler)
	for _, method := range []string{"Find", "Operate"} {
		for n := 1; n <= 12; n++ {
			b := jobstest.New(t)
			cfg := jobstest.Config{Extensions: []jobs.Extension{workflow.Extension(b.Client(), workflow.ExtensionConfig{Logger: quiet})}}
			task := jobs.NewTask("task", nil)
			wf := workflow.New("w").Add(workflow.Chain(workflow.Node{Name: "a", Task: task}, workflow.Node{Name: "b", Task: task}))
			wf.Retention = time.Hour
			if err := workflow.Start(t.Context(), b.Client(), wf); err != nil {
				t.Fatal(err)
			}
			b.FailCall(method, n)
			report := jobstest.Drain(t, b, jobs.HandlerFunc(func(context.Context, *jobs.Job) error { return nil }), cfg, jobstest.Everything())
			if report.Completed != 2 {
				t.Errorf("after call %d of %s failed, %d nodes were completed, want 2", n, method, report.Completed)
			}
		}
	}
}

func TestFaults_TheSeedIsToldAndMakesThemTheSame(t *testing.T) {
	t.Parallel()
	run := func() (failed []int) {
		b := jobstest.New(t)
		b.Faults(jobstest.Faults{Seed: 42, Unavailable: 0.5, Methods: []string{"Ping"}})
		for i := range 20 {
			if _, err := b.Ping(t.Context()); err != nil {
				failed = append(failed, i)
			}
		}
		return failed
	}
	if a, b := run(), run(); !slices.Equal(a, b) || len(a) == 0 || len(a) == 20 {
		t.Errorf("with one seed the calls %v and %v failed, want the same, and some", a, b)
	}
	fake := inTest(t, func(t *fakeT) {
		b := jobstest.New(t)
		b.Faults(jobstest.Faults{Seed: 42})
		t.Error("no")
	})
	if want := "jobstest: the seed of the faults was 42"; !slices.Contains(fake.logs, want) {
		t.Errorf("the log of a test that failed is %q, want %q", fake.logs, want)
	}
}

// A real server has the same faults, since its loops use the same broker.
func TestFaults_BefallAServerToo(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := jobstest.New(t)
		b.DeliverTwice(1)
		b.LoseReply("Settle", 2)
		add(t, b, goodbyeMail, goodbye{})
		deliveries := []int{}
		server, err := jobs.NewServer(b, jobs.Config{Logger: slog.New(slog.DiscardHandler)})
		if err == nil {
			err = server.Start(context.Background(), goodbyeMail.Handler(func(_ context.Context, _ goodbye, job *jobs.Job) error {
				deliveries = append(deliveries, job.Delivery())
				return nil
			}))
		}
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		if err := server.Shutdown(t.Context()); err != nil {
			t.Error(err)
		}
		if !slices.Equal(deliveries, []int{0, 1}) {
			t.Errorf("deliveries %v, want the first and one more", deliveries)
		}
	})
}

// A fault that never happens lets a test pass that shows nothing.
func TestFaults_RefuseWhatNeverHappens(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		ask  func(*jobstest.Broker)
		want string
	}{
		"a method": {func(b *jobstest.Broker) { b.Faults(jobstest.Faults{Methods: []string{"enqueue"}, Unavailable: 1}) },
			`jobstest: Faults.Methods: "enqueue" is not …`},
		"a probability": {func(b *jobstest.Broker) { b.Faults(jobstest.Faults{ReplyLost: 20}) }, `jobstest: Faults.ReplyLost is 20; use …`},
		"FailCall":      {func(b *jobstest.Broker) { b.FailCall("Enqueue", 0) }, `jobstest: FailCall: n is 0; use …`},
		"LoseReply":     {func(b *jobstest.Broker) { b.LoseReply("Keys", -1) }, `jobstest: LoseReply: n is -1; use …`},
		"DeliverTwice":  {func(b *jobstest.Broker) { b.DeliverTwice(0) }, `jobstest: DeliverTwice: n is 0; use …`},
		"LoseLease":     {func(b *jobstest.Broker) { b.LoseLease(0) }, `jobstest: LoseLease: n is 0; use …`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inTest(t, func(t *fakeT) { c.ask(jobstest.New(t)) }).wantText(t, c.want)
		})
	}
}

func TestFaults_EveryMethodOfTheBrokerCanFail(t *testing.T) {
	t.Parallel()
	b := jobstest.New(t)
	methods := reflect.TypeFor[broker.Broker]()
	for i := range methods.NumMethod() {
		m := methods.Method(i)
		if m.Type.NumIn() > 0 && m.Type.In(0) == reflect.TypeFor[context.Context]() {
			b.FailCall(m.Name, 1)
		}
	}
}
