package inspect

import (
	"cmp"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/seed81422ce9/jobs/broker"
	"github.com/seed81422ce9/jobs/internal/parked"
)

func TestWhy_EveryObstacleIsNamed(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	worker := func(types ...string) WorkerInfo {
		return WorkerInfo{ID: "w", Host: "h", Concurrency: 2, Types: types, Until: now.Add(time.Minute)}
	}
	full, silent := worker(), worker()
	full.Held, silent.Until = 2, now.Add(-time.Minute)
	for _, c := range []struct {
		name    string
		job     broker.Job
		paused  bool
		workers []WorkerInfo
		want    []string // codes
		text    string   // part of one text
	}{
		{"queued", broker.Job{State: broker.StatePending}, false, []WorkerInfo{worker("mail:*")}, []string{"queued"}, "4 other jobs"},
		{"paused", broker.Job{State: broker.StatePending}, true, []WorkerInfo{worker()}, []string{"paused"}, "the queue q is paused"},
		{"nobody there", broker.Job{State: broker.StatePending}, false, nil, []string{"no-worker"}, "no live worker serves the queue q"},
		{"nobody has its label", broker.Job{Queue: "q+gpu", State: broker.StatePending}, false, nil, []string{"no-worker"},
			"no live worker of the queue q offers the label gpu"},
		{"nobody has its labels", broker.Job{Queue: "q+gpu+ssd", State: broker.StatePending}, false, nil, []string{"no-worker"},
			"of the queue q offers all of the labels gpu, ssd"},
		{"its worker died, and nobody has its label", broker.Job{Queue: "q+gpu", State: broker.StateActive, Worker: "w"}, false,
			[]WorkerInfo{silent}, []string{"running", "no-worker"}, "the label gpu"},
		{"paused, and nobody there", broker.Job{State: broker.StatePending}, true, nil, []string{"paused", "no-worker"}, ""},
		{"nobody knows it", broker.Job{State: broker.StatePending}, false, []WorkerInfo{worker("report:*", "mail")}, []string{"unknown-type"},
			"type mail:send"},
		{"all are busy", broker.Job{State: broker.StatePending}, false, []WorkerInfo{full}, []string{"busy"}, "all slots"},
		{"not due", broker.Job{State: broker.StateScheduled, RunAt: now.Add(90 * time.Minute)}, false, []WorkerInfo{worker()},
			[]string{"not-due"}, "in 1h30m"},
		{"a node", broker.Job{State: broker.StateScheduled, RunAt: parked.Until,
			Body: broker.Body{Headers: map[string]string{parked.HeaderWorkflow: "order-42", parked.HeaderNode: "ship"}}},
			false, []WorkerInfo{worker()}, []string{"workflow"}, `"ship" of the workflow order-42`},
		{"due", broker.Job{State: broker.StateScheduled, RunAt: now.Add(-time.Second)}, true, []WorkerInfo{worker()}, []string{"due", "paused"},
			"due for 1s"},
		{"failed", broker.Job{State: broker.StateRetry, RunAt: now.Add(time.Second),
			Head: broker.Head{Failures: 2, Errors: broker.ErrorLog{Entries: []broker.Failure{{Message: "no answer"}}}},
			Body: broker.Body{MaxRetries: 4}},
			false, []WorkerInfo{worker()}, []string{"not-due", "failed"}, "last error: no answer"},
		{"running", broker.Job{State: broker.StateActive, Worker: "w"}, false, []WorkerInfo{full}, []string{"running"}, "worker w on h"},
		{"running, asked to end", broker.Job{State: broker.StateActive, Worker: "w", CancelRequested: true}, false, []WorkerInfo{full},
			[]string{"running", "cancel-requested"}, ""},
		{"its worker died", broker.Job{State: broker.StateActive, Worker: "w"}, false, []WorkerInfo{silent, {ID: "v", Until: now.Add(1)}},
			[]string{"running"}, "worker w on h (PID 0, ), whose lease ran out 1m ago"},
		{"its worker died, and nobody is there", broker.Job{State: broker.StateActive, Worker: "w"}, false, []WorkerInfo{silent},
			[]string{"running", "no-worker"}, ""},
		{"its worker is gone", broker.Job{State: broker.StateActive, Worker: "gone"}, false, []WorkerInfo{worker()}, []string{"running"},
			"which is gone"},
		{"a worker at the end of its lease", broker.Job{State: broker.StatePending}, false, []WorkerInfo{{ID: "w", Until: now}},
			[]string{"no-worker"}, "no live worker"},
		{"only a dead worker there", broker.Job{State: broker.StatePending}, false, []WorkerInfo{silent}, []string{"no-worker"},
			"no live worker"},
		{"dead", broker.Job{State: broker.StateDead, Head: broker.Head{FinishedAt: now.Add(-time.Minute), Reason: broker.ReasonRetries}}, false,
			nil, []string{"dead"}, "it died 1m ago (retries_spent)"},
		{"completed", broker.Job{State: broker.StateCompleted, Head: broker.Head{FinishedAt: now.Add(-time.Minute)}}, false, nil,
			[]string{"completed"}, ""},
		{"cancelled", broker.Job{State: broker.StateCancelled, Head: broker.Head{FinishedAt: now.Add(-time.Minute)}}, false, nil,
			[]string{"cancelled"}, ""},
		{"held by a move", broker.Job{State: broker.StateWaiting, HeldFrom: broker.StateRetry, Holder: "move:01J/mail"}, false, nil,
			[]string{"held"}, "a move to 01J/mail"},
		{"held by another", broker.Job{State: broker.StateWaiting, HeldFrom: broker.StatePending, Holder: "a workflow"}, false, nil,
			[]string{"held"}, `"a workflow" holds it`},
		{"with a deadline", broker.Job{State: broker.StatePending, Body: broker.Body{Deadline: now}}, true, nil,
			[]string{"paused", "no-worker", "deadline"}, "2026-01-02"},
		{"unreadable", broker.Job{State: broker.StatePending, Broken: errors.New("bad form")}, true, []WorkerInfo{worker()},
			[]string{"unreadable", "paused"}, "bad form"},
	} {
		c.job.Type = "mail:send"
		q := QueueInfo{Now: now, QueueInfo: broker.QueueInfo{Name: cmp.Or(c.job.Queue, "q"), Workers: c.workers, Policy: Policy{Paused: c.paused},
			Counts: map[broker.State]int64{broker.StatePending: 5}}}
		var codes, texts []string
		for _, r := range Explain(Evidence{Job: &c.job, Queue: q}) {
			codes, texts = append(codes, r.Code), append(texts, r.Text)
		}
		if !slices.Equal(codes, c.want) || !strings.Contains(strings.Join(texts, "\n"), c.text) {
			t.Errorf("%s: %q says %q, want %q with %q", c.name, codes, texts, c.want, c.text)
		}
	}
}
