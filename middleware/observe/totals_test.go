package observe

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed81422ce9/jobs"
	"github.com/seed81422ce9/jobs/backends/membroker"
	"github.com/seed81422ce9/jobs/broker"
)

func TestTotals_ALineAtEachIntervalSaysHowRunsEnded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		log := slog.New(slog.NewTextHandler(&out, &slog.HandlerOptions{ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
			if a.Key == slog.TimeKey || a.Key == slog.LevelKey {
				return slog.Attr{}
			}
			return a
		}}))
		b := membroker.New()
		defer b.Close()
		client := jobs.NewClient(b, jobs.ClientConfig{})
		defer client.Close()
		server, err := jobs.NewServer(b, jobs.Config{Logger: slog.New(slog.DiscardHandler),
			RetryPolicy: jobs.Constant(90 * time.Second),
			Extensions:  []jobs.Extension{Totals(TotalsConfig{Interval: time.Minute, Logger: log})}})
		if err != nil {
			t.Fatal(err)
		}
		err = server.Start(context.Background(), jobs.HandlerFunc(func(_ context.Context, job *jobs.Job) error {
			switch job.Type() {
			case "fails once":
				if job.Attempt() == 0 {
					return errors.New("busy")
				}
			case "refused":
				return fmt.Errorf("%w: never", jobs.SkipRetry)
			case "later":
				return jobs.Snooze(time.Hour)
			case "useless":
				return jobs.Cancel(errors.New("too late"))
			}
			return nil
		}))
		if err != nil {
			t.Fatal(err)
		}
		for _, typ := range []string{"good", "good", "fails once", "refused", "later", "useless"} {
			if _, err := client.Enqueue(t.Context(), jobs.NewTask(typ, nil)); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(10*time.Minute + time.Second)
		if _, err := client.Enqueue(t.Context(), jobs.NewTask("good", nil)); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if err := server.Shutdown(t.Context()); err != nil {
			t.Error(err)
		}
		const want = `msg="jobs: totals" span=1m0s completed=2 retried=1 dead=1 cancelled=1 snoozed=1 released=0
msg="jobs: totals" span=1m0s completed=1 retried=0 dead=0 cancelled=0 snoozed=0 released=0
msg="jobs: totals" span=1s completed=1 retried=0 dead=0 cancelled=0 snoozed=0 released=0
`
		if out.String() != want {
			t.Errorf("the log is\n%s\nwant\n%s", &out, want)
		}
	})
}

func TestTotals_CountOnlyWhatTheStoreAcceptedOfTheApplication(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	tot := &totals{log: slog.New(slog.NewTextHandler(&out, nil))}
	item := broker.Settlement{Job: &broker.Job{}, Outcome: broker.Complete(nil)}
	keep := broker.Settlement{Job: &broker.Job{}, Outcome: broker.Keep(broker.Kept{Checkpoint: []byte("1")})}
	tot.count(jobs.SettleEvent{Items: []broker.Settlement{item, item, item, keep},
		Verdicts: []broker.Verdict{{Queue: "a"}, {Queue: "a", Err: jobs.ErrLeaseLost}, {Queue: "@schedules"}, {Queue: "a"}}})
	tot.count(jobs.SettleEvent{Items: []broker.Settlement{item}, Err: jobs.ErrUnavailable})
	tot.line(t.Context(), time.Minute)
	tot.line(t.Context(), time.Minute) // nothing since
	if n := strings.Count(out.String(), "completed=1 retried=0"); n != 1 || strings.Count(out.String(), "\n") != 1 {
		t.Errorf("the log is %q, want one line with one run", &out)
	}
}
