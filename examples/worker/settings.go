package main

import (
	"errors"
	"fmt"

	"github.com/caarlos0/env/v11"

	"github.com/seed81422ce9/jobs"
	"github.com/seed81422ce9/jobs/middleware"
)

// settings are the environment variables besides those of jobs.ConfigFromEnv. The worker does not handle
// a type of task whose variable is unset.
type settings struct {
	// Listen is the address of probes, stats and metrics. They reveal names of queues and
	// hosts, so by default only this machine can reach them.
	Listen string `env:"WORKER_LISTEN" envDefault:"127.0.0.1:8080"`

	// SMTPHost is the mail server for email:send.
	SMTPHost     string `env:"SMTP_HOST"`
	SMTPPort     int    `env:"SMTP_PORT" envDefault:"587"`
	SMTPFrom     string `env:"SMTP_FROM"`                       // the sender's address
	SMTPUsername string `env:"SMTP_USERNAME"`                   // empty: no authentication
	SMTPPassword string `env:"SMTP_PASSWORD"`                   //
	SMTPTLS      string `env:"SMTP_TLS" envDefault:"mandatory"` // mandatory (by STARTTLS), opportunistic or none

	// ImageDir is the directory of images for image:resize, which cannot reach files
	// outside of it.
	ImageDir string `env:"IMAGE_DIR"`
}

func readSettings() (settings, error) {
	s, err := env.ParseAs[settings]()
	switch {
	case err != nil:
		return s, err
	case s.SMTPHost == "" && s.ImageDir == "":
		err = errors.New("there is nothing to handle: set SMTP_HOST to send mail, IMAGE_DIR to resize images, or both")
	case s.SMTPHost != "" && s.SMTPFrom == "":
		err = errors.New("SMTP_FROM is not set: mail needs a sender's address")
	}
	return s, err
}

// handlers returns the handlers that the settings allow.
func (s settings) handlers(metrics *measured) (*jobs.ServeMux, error) {
	mux := jobs.NewServeMux()
	if s.SMTPHost != "" {
		m, err := newMailer(s)
		if err != nil {
			return nil, fmt.Errorf("the mail server's settings: %w", err)
		}
		// A mail that was sent is not sent again when its job is delivered again, for example
		// after a crash.
		jobs.Handle(mux, SendEmail, m.send, middleware.Dedup(middleware.DedupConfig{
			Marks: metrics.Broker(), Key: effect, OnDuplicate: metrics.OnDuplicate,
		}))
	}
	if s.ImageDir != "" {
		r, err := newResizer(s.ImageDir)
		if err != nil {
			return nil, fmt.Errorf("IMAGE_DIR: %w", err)
		}
		jobs.Handle(mux, ResizeImage, r.resize)
	}
	return mux, nil
}
