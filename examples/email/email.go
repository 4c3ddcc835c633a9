package main

import (
	"context"
	"errors"
	"fmt"
	"net/smtp"
	"net/textproto"
	"strings"
	"time"

	"github.com/seed81422ce9/jobs"
)

const queue = "mail"

// begin define

// Mail is what a job needs to know.
type Mail struct {
	To      string `json:"to"`
	Subject string `json:"subject"`
	Text    string `json:"text"`
}

// SendMail is the task. Mail that is a day late is of no use.
var SendMail = jobs.Define[Mail]("mail:send",
	jobs.WithQueue(queue), jobs.WithTimeout(time.Minute), jobs.WithMaxRetries(12))

// Send enqueues a mail. While a mail waits, the same mail is not enqueued again, for example because
// somebody pressed the button twice.
func Send(ctx context.Context, client *jobs.Client, m Mail) error {
	_, err := SendMail.Enqueue(ctx, client, m, jobs.WithUniqueUntilDone(time.Hour), jobs.WithDeadline(time.Now().Add(24*time.Hour)))
	if errors.Is(err, jobs.ErrDuplicate) {
		return nil
	}
	return err
}

// end define

// Sender sends mail.
type Sender interface {
	// Send sends a mail. Mails with the same key are the same mail.
	Send(ctx context.Context, key string, m Mail) error
}

// begin classify

// deliver sends a mail, and says what an answer of the mail server means.
func deliver(ctx context.Context, s Sender, m Mail, key string) error {
	err := s.Send(ctx, key, m)
	reply, ok := errors.AsType[*textproto.Error](err)
	switch {
	case !ok:
		return err // nil, or a broken connection, after which the job is retried
	case reply.Code == 421 || reply.Code == 450: // busy, or greylisted: the server asks to try again later
		return jobs.RetryAfter(5*time.Minute, err)
	case reply.Code >= 500: // there is no such mailbox, and there will be none
		return fmt.Errorf("%w: %w", jobs.SkipRetry, err)
	}
	return err
}

// end classify

// server is a Sender that uses SMTP.
type server struct{ addr, from string }

func (s server) Send(_ context.Context, key string, m Mail) error {
	if strings.ContainsAny(m.To+m.Subject, "\r\n") {
		return fmt.Errorf("%w: an address or a subject has a line break", jobs.SkipRetry)
	}
	text := fmt.Sprintf("From: %s\r\nTo: %s\r\nSubject: %s\r\nMessage-ID: <%s@jobs>\r\n\r\n%s", s.from, m.To, m.Subject, key, m.Text)
	return smtp.SendMail(s.addr, nil, s.from, []string{m.To}, []byte(text))
}
