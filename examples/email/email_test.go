package main

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/textproto"
	"strings"
	"testing"
	"time"

	"github.com/seed81422ce9/jobs"
	"github.com/seed81422ce9/jobs/jobstest"
)

var hello = Mail{To: "ada@example.com", Subject: "Welcome", Text: "Hello, Ada."}

// answers is a mail server that gives these answers in turn, and then accepts
// everything.
type answers struct {
	errs []error
	sent []string
}

func (a *answers) Send(_ context.Context, _ string, m Mail) error {
	if len(a.errs) > 0 {
		err := a.errs[0]
		a.errs = a.errs[1:]
		return err
	}
	a.sent = append(a.sent, m.To)
	return nil
}

func TestSend_TheButtonPressedTwiceIsOneMail(t *testing.T) {
	t.Parallel()
	b := jobstest.New(t)
	for range 2 {
		if err := Send(t.Context(), b.Client(), hello); err != nil {
			t.Fatal(err)
		}
	}
	jobstest.Enqueued(t, b, SendMail, jobstest.Args(hello)) // exactly one
	var a answers
	b.DeliverTwice(1) // the worker dies after it has sent the mail
	jobstest.Drain(t, b, Handlers(b, &a), jobstest.Everything())
	if len(a.sent) != 1 {
		t.Errorf("sent to %q, want one mail", a.sent)
	}
}

func TestDeliver_AnswersOfTheMailServerDecide(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		answer  error
		outcome string
		delay   time.Duration // 0: that of the policy
	}{
		{nil, jobs.EndedCompleted, 0},
		{io.ErrUnexpectedEOF, jobs.EndedRetried, 0},
		{&textproto.Error{Code: 450, Msg: "greylisted"}, jobs.EndedRetried, 5 * time.Minute},
		{&textproto.Error{Code: 452, Msg: "no room"}, jobs.EndedRetried, 0},
		{&textproto.Error{Code: 550, Msg: "no such mailbox"}, jobs.EndedDead, 0},
	} {
		result := jobstest.Run(t, Handlers(jobstest.New(t), &answers{errs: []error{c.answer}}), SendMail, hello)
		if result.Outcome != c.outcome || c.delay != 0 && result.Delay != c.delay {
			t.Errorf("after %v: %v, want %s and a delay of %v", c.answer, result, c.outcome, c.delay)
		}
	}
}

func TestRun_SendsOrSaysHowItIsUsed(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	if err := run(t.Context(), nil, nil, &out); err != nil || !strings.Contains(out.String(), "to ada@example.com: Welcome: Hello, Ada.") {
		t.Errorf("it printed %q, %v", &out, err)
	}
	if err := run(t.Context(), []string{"try", "twice"}, nil, &out); err == nil || errors.Is(err, jobs.ErrUnavailable) {
		t.Errorf("wrong use: %v, want a line of usage", err)
	}
}
