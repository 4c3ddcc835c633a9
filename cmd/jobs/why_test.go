package main

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/seed81422ce9/jobs"
	"github.com/seed81422ce9/jobs/broker"
)

func TestEveryObstacleIsNamed(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	worker := func(types ...string) jobs.WorkerInfo {
		return jobs.WorkerInfo{ID: "w", Host: "h", Concurrency: 2, Types: types}
	}
	full := worker()
	full.Held = 2
	for _, c := range []struct {
		name    string
		job     broker.Job
		paused  bool
		workers []jobs.WorkerInfo
		want    []string // codes
		text    string   // in one of them
	}{
		{"in line", broker.Job{State: jobs.StatePending}, false, []jobs.WorkerInfo{worker("mail:*")}, []string{"queued"}, "in line with 4 others"},
		{"paused", broker.Job{State: jobs.StatePending}, true, []jobs.WorkerInfo{worker()}, []string{"paused"}, "the queue q is paused"},
		{"nobody there", broker.Job{State: jobs.StatePending}, false, nil, []string{"no-worker"}, "no live worker"},
		{"paused, and nobody there", broker.Job{State: jobs.StatePending}, true, nil, []string{"paused", "no-worker"}, ""},
		{"nobody knows it", broker.Job{State: jobs.StatePending}, false, []jobs.WorkerInfo{worker("report:*", "mail")}, []string{"unknown-type"}, "type mail:send"},
		{"all are busy", broker.Job{State: jobs.StatePending}, false, []jobs.WorkerInfo{full}, []string{"busy"}, "all slots"},
		{"not due", broker.Job{State: jobs.StateScheduled, RunAt: now.Add(90 * time.Minute)}, false, []jobs.WorkerInfo{worker()}, []string{"not-due"}, "in 1h30m"},
		{"due", broker.Job{State: jobs.StateScheduled, RunAt: now.Add(-time.Second)}, true, []jobs.WorkerInfo{worker()}, []string{"due", "paused"}, "since 1s"},
		{"failed", broker.Job{State: jobs.StateRetry, RunAt: now.Add(time.Second), Head: broker.Head{Failures: 2, Errors: broker.ErrorLog{Entries: []broker.Failure{{Message: "no answer"}}}}, Body: broker.Body{MaxRetries: 4}},
			false, []jobs.WorkerInfo{worker()}, []string{"not-due", "failed"}, "2 times of 5; its last error: no answer"},
		{"running", broker.Job{State: jobs.StateActive, Worker: "w"}, false, []jobs.WorkerInfo{full}, []string{"running"}, "worker w on h"},
		{"running, asked to end", broker.Job{State: jobs.StateActive, Worker: "w", CancelRequested: true}, false, []jobs.WorkerInfo{full}, []string{"running", "cancel-requested"}, ""},
		{"its worker died", broker.Job{State: jobs.StateActive, Worker: "gone"}, false, nil, []string{"running"}, "not alive"},
		{"dead", broker.Job{State: jobs.StateDead, Head: broker.Head{FinishedAt: now.Add(-time.Minute), Reason: broker.ReasonRetries}}, false, nil, []string{"dead"}, "since 1m ago (retries_spent)"},
		{"completed", broker.Job{State: jobs.StateCompleted, Head: broker.Head{FinishedAt: now.Add(-time.Minute)}}, false, nil, []string{"completed"}, ""},
		{"cancelled", broker.Job{State: jobs.StateCancelled, Head: broker.Head{FinishedAt: now.Add(-time.Minute)}}, false, nil, []string{"cancelled"}, ""},
		{"with a deadline", broker.Job{State: jobs.StatePending, Body: broker.Body{Deadline: now}}, true, nil, []string{"paused", "no-worker", "deadline"}, "2026-01-02"},
		{"unreadable", broker.Job{State: jobs.StatePending, Broken: errors.New("bad form")}, true, []jobs.WorkerInfo{worker()}, []string{"unreadable", "paused"}, "bad form"},
	} {
		c.job.Type = "mail:send"
		q := jobs.QueueInfo{Now: now, QueueInfo: broker.QueueInfo{Name: "q", Workers: c.workers, Policy: jobs.Policy{Paused: c.paused},
			Counts: map[jobs.State]int64{jobs.StatePending: 5}}}
		var codes, texts []string
		for _, r := range explain(&c.job, q) {
			codes, texts = append(codes, r.Code), append(texts, r.Text)
		}
		if !slices.Equal(codes, c.want) || !strings.Contains(strings.Join(texts, "\n"), c.text) {
			t.Errorf("%s: %q says %q, want %q with %q", c.name, codes, texts, c.want, c.text)
		}
	}
}

func TestSpansAreShort(t *testing.T) {
	t.Parallel()
	for d, want := range map[time.Duration]string{0: "", 1500 * time.Microsecond: "2ms", 12340 * time.Millisecond: "12.3s", 90 * time.Second: "1m30s",
		time.Minute: "1m", 90 * time.Minute: "1h30m", 3 * time.Hour: "3h", 50 * time.Hour: "2d2h", -time.Minute: "-1m"} {
		if got := span(d); got != want {
			t.Errorf("span(%v) is %q, want %q", d, got, want)
		}
	}
}
