package unittest

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed81422ce9/jobs"
	"github.com/seed81422ce9/jobs/backends/membroker"
)

// begin unittest

func TestWebhook_AWebhookIsRetriedUntilTheOtherSideAnswers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := membroker.New()
		defer b.Close()
		began := time.Now()
		var runs []time.Duration
		server, err := jobs.NewServer(b, jobs.Config{RetryPolicy: jobs.Constant(10 * time.Minute)})
		if err != nil {
			t.Fatal(err)
		}
		server.Start(t.Context(), jobs.HandlerFunc(func(ctx context.Context, job *jobs.Job) error {
			runs = append(runs, time.Since(began))
			if job.Attempt() < 2 {
				return errors.New("503 from the other side")
			}
			return nil
		}))

		client := jobs.NewClient(b, jobs.ClientConfig{})
		if _, err := client.Enqueue(t.Context(), jobs.NewTask("webhook", nil), jobs.WithDelay(time.Hour)); err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * time.Hour) // virtual: the test takes milliseconds
		if err := server.Shutdown(t.Context()); err != nil {
			t.Error(err)
		}
		if len(runs) != 3 || runs[0] != time.Hour || runs[2] < 80*time.Minute {
			t.Errorf("the webhook ran after %v; want 1h, 1h10m and 1h20m", runs)
		}
	})
}

// end unittest
