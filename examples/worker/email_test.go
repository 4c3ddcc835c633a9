package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"testing"

	"github.com/seed81422ce9/jobs"
	"github.com/seed81422ce9/jobs/broker"
)

// mailServer is an SMTP server that accepts any mail, or answers a command with another
// line.
type mailServer struct {
	answers map[string]string // by the command's first word; "." is the end of the data
	mails   chan string       // what was delivered
	port    int
}

func newMailServer(t *testing.T, answers map[string]string) *mailServer {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	s := &mailServer{answers: answers, mails: make(chan string, 10), port: l.Addr().(*net.TCPAddr).Port}
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			s.talk(conn)
		}
	}()
	return s
}

func (s *mailServer) talk(conn net.Conn) {
	defer conn.Close()
	fmt.Fprint(conn, "220 here\r\n")
	lines := bufio.NewScanner(conn)
	for lines.Scan() {
		command, _, _ := strings.Cut(strings.ToUpper(lines.Text()), " ")
		if answer, ok := s.answers[command]; ok {
			fmt.Fprint(conn, answer+"\r\n")
			continue
		}
		switch command {
		case "EHLO":
			fmt.Fprint(conn, "250-here\r\n250 8BITMIME\r\n")
		case "QUIT":
			fmt.Fprint(conn, "221 bye\r\n")
			return
		case "DATA":
			fmt.Fprint(conn, "354 go on\r\n")
			var mail strings.Builder
			for lines.Scan() && lines.Text() != "." {
				mail.WriteString(lines.Text() + "\n")
			}
			if answer, ok := s.answers["."]; ok {
				fmt.Fprint(conn, answer+"\r\n")
				continue
			}
			s.mails <- mail.String()
			fmt.Fprint(conn, "250 taken\r\n")
		default:
			fmt.Fprint(conn, "250 fine\r\n")
		}
	}
}

// mailer returns a mailer that sends to the server.
func (s *mailServer) mailer(t *testing.T) *mailer {
	t.Helper()
	m, err := newMailer(settings{SMTPHost: "127.0.0.1", SMTPPort: s.port, SMTPFrom: "Jobs <jobs@example.com>", SMTPTLS: "none"})
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func aJob(id string) *jobs.Job { return jobs.NewJob(&broker.Job{Queue: "default", ID: id}) }

var hello = Email{To: []string{"ada@example.com", "bob@example.com"}, Subject: "Grüße", Text: "Hello.", HTML: "<p>Hello.</p>"}

func TestEmail_AnEmailIsDeliveredWithBothBodies(t *testing.T) {
	t.Parallel()
	s := newMailServer(t, nil)
	if err := s.mailer(t).send(t.Context(), hello, aJob("1")); err != nil {
		t.Fatal(err)
	}
	mail := <-s.mails
	for _, want := range []string{`From: "Jobs" <jobs@example.com>`, "To: <ada@example.com>, <bob@example.com>",
		"Subject: =?UTF-8?q?Gr=C3=BC=C3=9Fe?=", "text/plain", "text/html", "<p>Hello.</p>"} {
		if !strings.Contains(mail, want) {
			t.Errorf("the mail does not contain %q:\n%s", want, mail)
		}
	}
}

func TestEmail_ASecondDeliveryOfAJobHasTheSameMessageID(t *testing.T) {
	t.Parallel()
	s := newMailServer(t, nil)
	m := s.mailer(t)
	ids := make(map[string]int)
	for _, id := range []string{"1", "1", "2", "\r\nBcc: eve@example.com"} {
		if err := m.send(t.Context(), hello, aJob(id)); err != nil {
			t.Fatal(err)
		}
		mail := <-s.mails
		if strings.Contains(mail, "eve") {
			t.Errorf("a job's ID came into the mail:\n%s", mail)
		}
		for line := range strings.Lines(mail) {
			if strings.HasPrefix(line, "Message-ID:") {
				ids[line]++
			}
		}
	}
	if len(ids) != 3 {
		t.Errorf("the Message-IDs of jobs 1, 1, 2 and 3 are %v, want three", ids)
	}
}

func TestEmail_TheMailServersAnswerDecidesWhetherToTryAgain(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name     string
		answers  map[string]string
		ok, dead bool
		code     string
	}{
		{"no such recipient", map[string]string{"RCPT": "550 5.1.1 <ada@example.com>: no such user"}, false, true, "SMTP_550"},
		{"mailbox busy", map[string]string{"RCPT": "450 <ada@example.com> is busy"}, false, false, "SMTP_450"},
		{"content refused", map[string]string{".": "554 looks like spam"}, false, true, "SMTP_554"},
		{"server busy", map[string]string{".": "421 come back later"}, false, false, "SMTP_421"},
		{"confused after it took the mail", map[string]string{"RSET": "500 what?", "QUIT": "500 what?"}, true, false, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			job := aJob("1")
			err := newMailServer(t, c.answers).mailer(t).send(t.Context(), hello, job)
			if code := jobs.EndingOf(t.Context(), job, err).Code; code != c.code {
				t.Errorf("the error's code is %q, want %q", code, c.code)
			}
			if (err == nil) != c.ok || errors.Is(err, jobs.SkipRetry) != c.dead {
				t.Errorf("the error is %v; want none: %v, never again: %v", err, c.ok, c.dead)
			}
			if err != nil && strings.Contains(err.Error(), "ada") {
				t.Errorf("the error, which is logged and kept, names a recipient: %v", err)
			}
		})
	}
}

func TestEmail_AnEmailThatCannotBeSentIsNotTried(t *testing.T) {
	t.Parallel()
	s := newMailServer(t, nil)
	for _, e := range []Email{{}, {To: []string{"not an address"}}, {To: []string{"ada@example.com", ""}}} {
		if err := s.mailer(t).send(t.Context(), e, aJob("1")); !errors.Is(err, jobs.SkipRetry) || strings.Contains(err.Error(), "ada") {
			t.Errorf("to %q: %v, want SkipRetry without an address", e.To, err)
		}
	}
}

func TestEmail_AMailServerThatIsAwayIsTriedAgain(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l.Close()
	s := &mailServer{port: l.Addr().(*net.TCPAddr).Port}
	if err := s.mailer(t).send(context.Background(), hello, aJob("1")); err == nil || errors.Is(err, jobs.SkipRetry) {
		t.Errorf("without a server on port %s the error is %v, want one to try again", strconv.Itoa(s.port), err)
	}
}
