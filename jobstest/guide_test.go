package jobstest_test

import (
	"context"
	"errors"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed81422ce9/jobs"
	"github.com/seed81422ce9/jobs/broker"
	"github.com/seed81422ce9/jobs/jobstest"
	"github.com/seed81422ce9/jobs/middleware"
	"github.com/seed81422ce9/jobs/schedule"
	"github.com/seed81422ce9/jobs/workflow"
)

// The application that docs/guide/testing.md tests.

// begin app

// Welcome is what the welcome mail needs to know.
type Welcome struct{ To, Name string }

var (
	WelcomeEmail = jobs.Define[Welcome]("email:welcome", jobs.WithQueue("mail"))
	TipsEmail    = jobs.Define[Welcome]("email:tips", jobs.WithQueue("mail"))
)

// Signup registers people.
type Signup struct{ Client *jobs.Client }

// Register sends a welcome mail, and tips three days later.
func (s Signup) Register(ctx context.Context, to, name string) error {
	if !strings.Contains(to, "@") {
		return errors.New("this is no address")
	}
	if _, err := WelcomeEmail.Enqueue(ctx, s.Client, Welcome{to, name}, jobs.WithUniqueKey("welcome:"+to)); err != nil {
		return err
	}
	_, err := TipsEmail.Enqueue(ctx, s.Client, Welcome{to, name}, jobs.WithDelay(72*time.Hour), jobs.WithPriority(jobs.PriorityLow))
	return err
}

// Mailer sends mail, once for each key.
type Mailer interface {
	Send(ctx context.Context, key, to, text string) error
}

// Handlers are the handlers of all mails.
func Handlers(m Mailer) *jobs.ServeMux {
	mux := jobs.NewServeMux()
	jobs.Handle(mux, WelcomeEmail, func(ctx context.Context, w Welcome, job *jobs.Job) error {
		return m.Send(ctx, job.ID(), w.To, "Welcome, "+w.Name)
	})
	jobs.Handle(mux, TipsEmail, func(ctx context.Context, w Welcome, job *jobs.Job) error {
		return m.Send(ctx, job.ID(), w.To, "Tips for "+w.Name)
	})
	return mux
}

// end app

// fakeMailer remembers what it sent.
type fakeMailer struct {
	Sent []string
	err  error // what the next call returns
	keys map[string]bool
}

func (m *fakeMailer) Send(_ context.Context, key, to, text string) error {
	if err := m.err; err != nil {
		m.err = nil
		return err
	}
	if m.keys[key] {
		return nil
	}
	if m.keys == nil {
		m.keys = make(map[string]bool)
	}
	m.keys[key] = true
	m.Sent = append(m.Sent, to+": "+text)
	return nil
}

// begin enqueued

func TestRegister_SendsAWelcomeMail(t *testing.T) {
	t.Parallel()
	b := jobstest.New(t) // closed when the test is over
	if err := (Signup{b.Client()}).Register(t.Context(), "ada@example.com", "Ada"); err != nil {
		t.Fatal(err)
	}
	mail := jobstest.Enqueued(t, b, WelcomeEmail)
	if mail.Args.Name != "Ada" {
		t.Errorf("the mail is for %q", mail.Args.Name)
	}
	jobstest.Enqueued(t, b, TipsEmail,
		jobstest.Args(Welcome{To: "ada@example.com", Name: "Ada"}),
		jobstest.With(jobs.WithDelay(72*time.Hour), jobs.WithPriority(jobs.PriorityLow)))
}

// end enqueued

func TestGuide_ShowsTheMessageOfATestThatFails(t *testing.T) {
	t.Parallel()
	guide, err := os.ReadFile("../docs/guide/testing.md")
	if err != nil {
		t.Fatal(err)
	}
	_, message, _ := strings.Cut(string(guide), "refused:\n\n```\n")
	message, _, _ = strings.Cut(message, "```\n")
	fake := inTest(t, func(t *fakeT) {
		b := jobstest.New(t)
		ada, bob := Welcome{"ada@example.com", "Ada"}, Welcome{"bob@example.com", "Bob"}
		add(t, b, WelcomeEmail, bob, jobs.WithID("4711"), jobs.WithUniqueKey("welcome:ada@example.com"))
		jobstest.Drain(t, b, jobs.HandlerFunc(func(context.Context, *jobs.Job) error { return errors.New("connection refused") }),
			jobstest.Config{RetryPolicy: jobs.Constant(8 * time.Second)})
		add(t, b, WelcomeEmail, ada, jobs.WithID("4712"), jobs.WithQueue("slow"), jobs.WithDelay(time.Hour))
		add(t, b, WelcomeEmail, ada, jobs.WithUniqueKey("welcome:ada@example.com"))
		jobstest.Enqueued(t, b, WelcomeEmail, jobstest.Args(ada), jobstest.With(jobs.WithQueue("mail")))
	})
	if fake.text()+"\n" != message {
		t.Errorf("the guide shows\n%s\nand the message is\n%s", message, fake.text())
	}
}

// begin notenqueued

func TestRegister_RefusesWhatIsNoAddress(t *testing.T) {
	t.Parallel()
	b := jobstest.New(t)
	if err := (Signup{b.Client()}).Register(t.Context(), "ada", "Ada"); err == nil {
		t.Error("it was accepted")
	}
	jobstest.NotEnqueued(t, b, WelcomeEmail)
}

// end notenqueued

func TestGuide_WaysToMatch(t *testing.T) {
	t.Parallel()
	b := jobstest.New(t)
	if err := (Signup{b.Client()}).Register(t.Context(), "ada@example.com", "Ada"); err != nil {
		t.Fatal(err)
	}
	// begin match
	jobstest.Enqueued(t, b, WelcomeEmail,
		jobstest.Like(Welcome{To: "ada@example.com"}), // the fields that are not zero
		jobstest.Where("a short name", func(w Welcome) bool { return len(w.Name) < 5 }),
		jobstest.With(jobs.WithQueue("mail"), jobs.WithUniqueKey("welcome:ada@example.com")),
		jobstest.InState(jobs.StatePending))
	jobstest.Enqueued(t, b, TipsEmail,
		jobstest.Due(time.Now().Add(72*time.Hour), time.Minute)) // give or take a minute
	// end match

	// begin order
	jobstest.EnqueuedInOrder(t, b,
		jobstest.Expect(WelcomeEmail, jobstest.Like(Welcome{Name: "Ada"})),
		jobstest.Expect(TipsEmail))
	// end order

	// begin all
	for _, mail := range jobstest.AllEnqueued(t, b, WelcomeEmail) {
		t.Log(mail.ID, mail.State, mail.Args.To)
	}
	// end all
}

// begin run

func TestWelcome_IsSent(t *testing.T) {
	t.Parallel()
	mailer := &fakeMailer{}
	result := jobstest.Run(t, Handlers(mailer), WelcomeEmail, Welcome{To: "ada@example.com", Name: "Ada"})
	if result.Outcome != jobs.EndedCompleted || len(mailer.Sent) != 1 {
		t.Errorf("%v, sent %q", result, mailer.Sent)
	}
}

func TestWelcome_IsTriedAgainIfTheMailServerIsDown(t *testing.T) {
	t.Parallel()
	mailer := &fakeMailer{err: errors.New("connection refused")}
	result := jobstest.Run(t, Handlers(mailer), WelcomeEmail, Welcome{To: "ada@example.com"},
		jobstest.Attempt(2), // it has failed twice
		jobstest.With(jobs.WithMaxRetries(5)),
		jobstest.Config{RetryPolicy: jobs.Linear(time.Minute, time.Hour)})
	if result.Outcome != jobs.EndedRetried || result.Delay != 3*time.Minute {
		t.Errorf("%v, want a retry in 3 minutes", result)
	}
}

// end run

// begin readme

func TestSignup_SendsTwoMails(t *testing.T) {
	t.Parallel()
	b, mailer := jobstest.New(t), &fakeMailer{}
	if err := (Signup{b.Client()}).Register(t.Context(), "ada@example.com", "Ada"); err != nil { // the code under test
		t.Fatal(err)
	}
	jobstest.Enqueued(t, b, WelcomeEmail, jobstest.Args(Welcome{To: "ada@example.com", Name: "Ada"}))
	jobstest.Enqueued(t, b, TipsEmail, jobstest.With(jobs.WithDelay(72*time.Hour)))

	report := jobstest.Drain(t, b, Handlers(mailer), jobstest.Everything()) // three days, in a millisecond
	if report.Completed != 2 || len(mailer.Sent) != 2 {
		t.Errorf("report %+v, sent %q", report, mailer.Sent)
	}
}

// end readme

// begin drain

func TestSignup_FromTheFormToTheMails(t *testing.T) {
	t.Parallel()
	b, mailer := jobstest.New(t), &fakeMailer{err: errors.New("connection refused")}
	if err := (Signup{b.Client()}).Register(t.Context(), "ada@example.com", "Ada"); err != nil {
		t.Fatal(err)
	}
	report := jobstest.Drain(t, b, Handlers(mailer)) // what is due
	if report.Retried != 1 || len(mailer.Sent) != 0 {
		t.Errorf("report %+v, sent %q", report, mailer.Sent)
	}
	jobstest.Drain(t, b, Handlers(mailer), jobstest.Ahead(time.Minute)) // and what comes within a minute
	if len(mailer.Sent) != 1 {
		t.Errorf("after a minute %q were sent", mailer.Sent)
	}
	report = jobstest.Drain(t, b, Handlers(mailer), jobstest.Everything(), jobstest.NoFailures())
	if len(mailer.Sent) != 2 || report.Passed < 71*time.Hour {
		t.Errorf("after %v %q were sent", report.Passed, mailer.Sent)
	}
}

// end drain

// begin bubble

func TestSignup_InABubble(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b, began := jobstest.New(t), time.Now()
		if err := (Signup{b.Client()}).Register(t.Context(), "ada@example.com", "Ada"); err != nil {
			t.Fatal(err)
		}
		jobstest.Drain(t, b, Handlers(&fakeMailer{}), jobstest.Everything())
		if passed := time.Since(began); passed != 72*time.Hour {
			t.Errorf("%v passed, want 72 hours", passed)
		}
	})
}

// end bubble

// begin tx

// PlaceOrder stores an order and enqueues its mail in one transaction; in production
// inTx is client.In(pg.Tx(tx)).
func PlaceOrder(ctx context.Context, inTx *jobs.Client, total int) error {
	if _, err := WelcomeEmail.Enqueue(ctx, inTx, Welcome{Name: "order"}); err != nil {
		return err
	}
	if total > 1000 {
		return errors.New("over the limit")
	}
	return nil
}

func TestPlaceOrder_NoMailIfTheOrderIsRefused(t *testing.T) {
	t.Parallel()
	b := jobstest.New(t)
	for _, total := range []int{100, 5000} {
		tx := b.Begin()
		if err := PlaceOrder(t.Context(), b.Client().In(tx), total); err != nil {
			tx.Rollback()
		} else if err := tx.Commit(); err != nil {
			t.Error(err)
		}
	}
	jobstest.Enqueued(t, b, WelcomeEmail) // one, not two
}

// end tx

// begin faults

func TestSignup_ALostAnswerSendsNoSecondMail(t *testing.T) {
	t.Parallel()
	b, mailer := jobstest.New(t), &fakeMailer{}
	b.LoseReply("Enqueue", 1) // stored, but the client is not told: it repeats the call
	b.DeliverTwice(1)         // the server dies after the handler has returned
	if err := (Signup{b.Client()}).Register(t.Context(), "ada@example.com", "Ada"); err != nil {
		t.Fatal(err)
	}
	jobstest.Drain(t, b, Handlers(mailer))
	if len(mailer.Sent) != 1 {
		t.Errorf("sent %q, want one mail", mailer.Sent)
	}
}

// end faults

// begin idempotent

func TestWelcome_CanBeDeliveredAgain(t *testing.T) {
	t.Parallel()
	mailer := &fakeMailer{}
	jobstest.CheckIdempotent(t, Handlers(mailer), WelcomeEmail, Welcome{To: "ada@example.com"},
		func() any { return mailer.Sent })
}

// end idempotent

func TestGuide_AServerOfYourOwnConfig(t *testing.T) {
	t.Parallel()
	b := jobstest.New(t)
	if err := (Signup{b.Client()}).Register(t.Context(), "ada@example.com", "Ada"); err != nil {
		t.Fatal(err)
	}
	mux := Handlers(&fakeMailer{})
	// begin config
	report := jobstest.Drain(t, b, mux, jobstest.Config{
		Middleware: []jobs.Middleware{middleware.Timeout(middleware.TimeoutConfig{Soft: time.Minute})},
		Extensions: []jobs.Extension{
			workflow.Extension(b.Client(), workflow.ExtensionConfig{}),
			schedule.New(b, "shop").Extension(b.Client(), schedule.ExtensionConfig{Definitions: []schedule.Definition{
				schedule.Define("weekly", schedule.Cron("0 9 * * 1", "UTC"), TipsEmail, Welcome{To: "all@example.com"}),
			}}),
		},
	}, jobstest.Ahead(28*24*time.Hour)) // four Mondays
	if report.Completed != 6 { // the welcome, the tips, four weekly mails
		t.Errorf("report %+v", report)
	}
	// end config
}

func TestGuide_AStoreOfProduction(t *testing.T) {
	t.Parallel()
	var b broker.Broker = jobstest.New(t)
	client := jobs.NewClient(b, jobs.ClientConfig{})
	t.Cleanup(func() { client.Close() })
	if err := (Signup{client}).Register(t.Context(), "ada@example.com", "Ada"); err != nil {
		t.Fatal(err)
	}
	// begin production
	jobstest.Enqueued(t, b, WelcomeEmail, jobstest.Like(Welcome{Name: "Ada"})) // b is Redis or Postgres
	// end production
}

func TestGuide_TasksOfBytes(t *testing.T) {
	t.Parallel()
	b := jobstest.New(t)
	if _, err := b.Client().Enqueue(t.Context(), jobs.NewTask("image:resize", []byte("7.png"))); err != nil {
		t.Fatal(err)
	}
	// begin raw
	jobstest.Enqueued(t, b, jobstest.Raw("image:resize"), jobstest.Args([]byte("7.png")))
	// end raw
}
