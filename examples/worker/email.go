package main

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net/mail"
	"strconv"
	"strings"
	"time"

	smtp "github.com/wneessen/go-mail"

	"github.com/seed81422ce9/jobs"
)

// Email is the argument of email:send. It is sent to all of To or to nobody.
type Email struct {
	To      []string `json:"to"`
	Subject string   `json:"subject"`
	Text    string   `json:"text"`
	HTML    string   `json:"html,omitempty"`
}

// SendEmail is the task of sending an email.
var SendEmail = jobs.Define[Email]("email:send", jobs.WithTimeout(time.Minute))

// mailer sends email through one server, with one connection per email.
type mailer struct {
	client *smtp.Client
	from   *mail.Address
}

// tlsPolicies are the values of SMTP_TLS.
var tlsPolicies = map[string]smtp.TLSPolicy{
	"mandatory": smtp.TLSMandatory, "opportunistic": smtp.TLSOpportunistic, "none": smtp.NoTLS,
}

func newMailer(s settings) (*mailer, error) {
	from, err := mail.ParseAddress(s.SMTPFrom)
	if err != nil {
		return nil, errors.New("SMTP_FROM is not an address; write it like jobs@example.com")
	}
	policy, ok := tlsPolicies[s.SMTPTLS]
	if !ok {
		return nil, fmt.Errorf("SMTP_TLS is %q; write mandatory, opportunistic or none", s.SMTPTLS)
	}
	options := []smtp.Option{smtp.WithPort(s.SMTPPort), smtp.WithTLSPolicy(policy), smtp.WithTimeout(15 * time.Second)}
	if s.SMTPUsername != "" {
		options = append(options, smtp.WithSMTPAuth(smtp.SMTPAuthAutoDiscover),
			smtp.WithUsername(s.SMTPUsername), smtp.WithPassword(s.SMTPPassword))
	}
	client, err := smtp.NewClient(s.SMTPHost, options...)
	return &mailer{client: client, from: from}, err
}

// send sends one email. Errors contain neither addresses nor contents, because they are
// logged and stored with the job.
func (m *mailer) send(ctx context.Context, e Email, job *jobs.Job) error {
	msg, err := m.compose(e, job)
	if err != nil {
		return err
	}
	conn, err := m.client.DialToSMTPClientWithContext(ctx)
	if err != nil {
		return fmt.Errorf("connecting to the mail server: %w", err)
	}
	err = m.client.SendWithSMTPClient(conn, msg)
	// An error after the server accepted the mail is no reason to send it again.
	_ = conn.Quit()
	_ = conn.Close() // Quit does not close if the server answers with an error
	if err == nil || msg.IsDelivered() {
		return nil
	}
	var refusal *smtp.SendError
	if !errors.As(err, &refusal) {
		return errors.New("the mail was not sent")
	}
	code := refusal.ErrorCode()
	err = fmt.Errorf("the mail was not sent: %v: status %d %s", refusal.Reason, code, refusal.EnhancedStatusCode())
	if code >= 500 { // permanent; 4xx may succeed later
		err = fmt.Errorf("%w: %v", jobs.SkipRetry, err)
	}
	if code == 0 { // the connection failed
		return err
	}
	return jobs.Classified(err, jobs.Classification{Code: "SMTP_" + strconv.Itoa(code)})
}

// effect returns the name of a job's effect: the producer's idempotency key, or else
// the job itself.
func effect(job *jobs.Job) string {
	return cmp.Or(job.IdempotencyKey(), job.Queue()+"/"+job.ID())
}

// compose makes the message. The same effect has the same Message-ID, by which mail
// servers and programs recognise a duplicate.
func (m *mailer) compose(e Email, job *jobs.Job) (*smtp.Msg, error) {
	msg := smtp.NewMsg()
	if err := msg.From(m.from.String()); err != nil {
		return nil, fmt.Errorf("%w: the sender's address is not valid", jobs.SkipRetry)
	}
	if len(e.To) == 0 || msg.To(e.To...) != nil {
		return nil, fmt.Errorf("%w: one of %d addresses is not valid, or there is none", jobs.SkipRetry, len(e.To))
	}
	msg.Subject(e.Subject)
	id := sha256.Sum256([]byte(effect(job))) // the effect may contain any bytes
	msg.SetMessageIDWithValue(hex.EncodeToString(id[:16]) + "@" + domain(m.from.Address))
	msg.SetDateWithValue(job.CreatedAt())
	msg.SetBodyString(smtp.TypeTextPlain, e.Text)
	if e.HTML != "" {
		msg.AddAlternativeString(smtp.TypeTextHTML, e.HTML)
	}
	return msg, nil
}

// domain returns the part of an address after the @.
func domain(address string) string {
	return address[strings.LastIndexByte(address, '@')+1:]
}
