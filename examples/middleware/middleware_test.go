package middleware

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/seed81422ce9/jobs"
	"github.com/seed81422ce9/jobs/jobstest"
)

var invoice = jobs.Define[string]("invoice")

func TestTenant_IsTheKeyOfEachJobThatHasNone(t *testing.T) {
	t.Parallel()
	b := jobstest.New(t)
	client := jobs.NewClient(b, jobs.ClientConfig{Middleware: []jobs.EnqueueMiddleware{Tenant()}})
	defer client.Close()
	ctx := WithTenant(t.Context(), "acme")
	for _, opts := range [][]jobs.Option{nil, {jobs.WithPartitionKey("other")}} {
		if _, err := invoice.Enqueue(ctx, client, "1", opts...); err != nil {
			t.Fatal(err)
		}
	}
	jobstest.Enqueued(t, b, invoice, jobstest.With(jobs.WithPartitionKey("acme")))
	jobstest.Enqueued(t, b, invoice, jobstest.With(jobs.WithPartitionKey("other")))
}

func TestAudit_LogsHowEachRunEnds(t *testing.T) {
	t.Parallel()
	for outcome, handle := range map[string]func() error{
		jobs.EndedCompleted: func() error { return nil },
		jobs.EndedRetried:   func() error { return errors.New("busy") },
		jobs.EndedDead:      func() error { return fmt.Errorf("%w: never", jobs.SkipRetry) },
		"panic":             func() error { panic("a mistake") },
	} {
		var log bytes.Buffer
		var tenant string
		h := Audit(slog.New(slog.NewTextHandler(&log, nil)))(jobs.HandlerFunc(func(ctx context.Context, _ *jobs.Job) error {
			tenant = TenantOf(ctx)
			return handle()
		}))
		jobstest.Run(t, h, invoice, "1", jobstest.With(jobs.WithPartitionKey("acme")), jobstest.MayPanic())
		if outcome == "panic" {
			outcome = jobs.EndedRetried
		}
		line := log.String()
		if !strings.Contains(line, "tenant=acme type=invoice") || !strings.Contains(line, "outcome="+outcome) || tenant != "acme" {
			t.Errorf("the line is %q, and the handler's tenant %q; want outcome=%s of acme", line, tenant, outcome)
		}
	}
}
