// Command email shows one kind of job from end to end: an application enqueues a mail,
// and a worker sends it once, with retries that suit a mail server.
//
//	email send TO SUBJECT    enqueue a mail, whose text is read from standard input
//	email work               send what is enqueued, until Ctrl-C
//	email try                both, in memory: it needs no server
//
// JOBS_BROKER is the URL of the store (redis://…, postgres://…), SMTP_ADDR the address
// of the mail server. Without SMTP_ADDR, mails are printed.
package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"os"
	"strings"
	"time"

	"github.com/seed81422ce9/jobs"
	"github.com/seed81422ce9/jobs/backends"
	"github.com/seed81422ce9/jobs/broker"
	"github.com/seed81422ce9/jobs/middleware"
)

func main() {
	if err := run(context.Background(), os.Args[1:], os.Stdin, os.Stdout); err != nil {
		log.Fatal("email: ", err)
	}
}

// run runs the program.
func run(ctx context.Context, args []string, in io.Reader, out io.Writer) error {
	verb := "try"
	if len(args) > 0 {
		verb = args[0]
	}
	url := os.Getenv("JOBS_BROKER")
	if verb == "try" {
		url = "memory://"
	}
	b, err := backends.Open(ctx, url)
	if err != nil {
		return err
	}
	defer b.Close()
	client := jobs.NewClient(b, jobs.ClientConfig{})
	defer client.Close()
	var sender Sender = printer{out}
	if addr := os.Getenv("SMTP_ADDR"); addr != "" {
		sender = server{addr: addr, from: cmp.Or(os.Getenv("SMTP_FROM"), "jobs@localhost")}
	}
	switch {
	case verb == "send" && len(args) == 3:
		text, err := io.ReadAll(in)
		if err != nil {
			return err
		}
		return Send(ctx, client, Mail{To: args[1], Subject: args[2], Text: string(text)})
	case verb == "work" && len(args) == 1:
		return work(ctx, b, sender)
	case verb == "try" && len(args) < 2:
		return try(ctx, b, client, sender)
	}
	return errors.New("usage: email send TO SUBJECT, email work, or email try")
}

// work handles mails until it is asked to end.
func work(ctx context.Context, b broker.Broker, sender Sender) error {
	s, err := jobs.NewServer(b, jobs.Config{Queues: map[string]int{queue: 1}})
	if err != nil {
		return err
	}
	return s.Run(ctx, Handlers(b, sender))
}

// try enqueues one mail and sends it.
func try(ctx context.Context, b broker.Broker, client *jobs.Client, sender Sender) error {
	welcome := Mail{To: "ada@example.com", Subject: "Welcome", Text: "Hello, Ada."}
	info, err := SendMail.Enqueue(ctx, client, welcome, jobs.WithRetention(time.Hour)) // Wait needs the record
	if err != nil {
		return err
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	ended := make(chan error, 1)
	go func() { ended <- work(ctx, b, sender) }()
	if _, err := client.Wait(ctx, info.Queue, info.ID); err != nil {
		return err
	}
	stop()
	return <-ended
}

// Handlers returns the handlers of this program. A mail that was sent is not sent again
// if its job is delivered again.
func Handlers(marks middleware.Marks, sender Sender) *jobs.ServeMux {
	mux := jobs.NewServeMux()
	jobs.Handle(mux, SendMail, func(ctx context.Context, m Mail, job *jobs.Job) error {
		return deliver(ctx, sender, m, cmp.Or(job.IdempotencyKey(), job.ID()))
	}, middleware.Dedup(middleware.DedupConfig{Marks: marks, Key: func(j *jobs.Job) string { return cmp.Or(j.IdempotencyKey(), j.ID()) }}))
	return mux
}

// printer is a Sender that prints.
type printer struct{ out io.Writer }

func (p printer) Send(_ context.Context, _ string, m Mail) error {
	_, err := fmt.Fprintf(p.out, "to %s: %s: %s\n", m.To, m.Subject, strings.TrimSpace(m.Text))
	return err
}
