package broker_test

import (
	"bytes"
	"testing"
	"time"

	"github.com/seed81422ce9/jobs/broker"
)

func TestQuery_Matches(t *testing.T) {
	t.Parallel()
	at := time.Unix(1_800_000_000, 0)
	dead := broker.Job{ID: "a", State: broker.StateDead, CreatedAt: at, Body: broker.Body{Type: "t", Key: "k"},
		Head: broker.Head{Reason: broker.ReasonRetries, FinishedAt: at.Add(time.Hour),
			Errors: broker.ErrorLog{Entries: []broker.Failure{{Message: "no route"}}}}}
	suppressed, retry, active, held := dead, dead, dead, dead
	suppressed.Suppressed = true
	retry.State, retry.RunAt = broker.StateRetry, at.Add(time.Hour)
	active.State, active.Worker = broker.StateActive, "w"
	held.State, held.HeldFrom, held.RunAt = broker.StateWaiting, broker.StateRetry, at.Add(time.Hour)
	for _, c := range []struct {
		what  string
		query broker.Query
		job   broker.Job
		want  bool
	}{
		{"any", broker.Query{}, dead, true},
		{"its state", broker.Query{State: broker.StateDead}, dead, true},
		{"another state", broker.Query{State: broker.StateRetry}, dead, false},
		{"its worker", broker.Query{Worker: "w"}, active, true},
		{"another worker", broker.Query{Worker: "v"}, active, false},
		{"its key", broker.Query{Key: "k"}, dead, true},
		{"another key", broker.Query{Key: "other"}, dead, false},
		{"its type", broker.Query{Type: "t"}, dead, true},
		{"another type", broker.Query{Type: "other"}, dead, false},
		{"its reason", broker.Query{Reason: broker.ReasonRetries}, dead, true},
		{"another reason", broker.Query{Reason: broker.ReasonExpired}, dead, false},
		{"a part of its error", broker.Query{ErrorText: "route"}, dead, true},
		{"another error", broker.Query{ErrorText: "other"}, dead, false},
		{"a suppressed job", broker.Query{}, suppressed, false},
		{"suppressed jobs too", broker.Query{Suppressed: true}, suppressed, true},
		{"its IDs, whatever else", broker.Query{IDs: []string{"a"}, Type: "other"}, suppressed, true},
		{"ended at After", broker.Query{After: at.Add(time.Hour)}, dead, true},
		{"ended before After", broker.Query{After: at.Add(time.Hour + time.Microsecond)}, dead, false},
		{"ended at Before", broker.Query{Before: at.Add(time.Hour)}, dead, false},
		{"ended at Before, in its microsecond", broker.Query{Before: at.Add(time.Hour + 1)}, dead, true},
		{"due at After", broker.Query{After: at.Add(time.Hour)}, retry, true},
		{"due at Before", broker.Query{Before: at.Add(time.Hour)}, retry, false},
		{"a held job by its creation", broker.Query{Before: at.Add(time.Second)}, held, true},
		{"an active job by its creation", broker.Query{After: at.Add(time.Second)}, active, false},
	} {
		if got := c.query.Matches(&c.job); got != c.want {
			t.Errorf("%s: matches %t, want %t", c.what, got, c.want)
		}
		tail, body := broker.AppendTail(nil, &c.job.Head), broker.AppendBody(nil, &c.job.Body)
		n := c.query.Needles()
		has := bytes.HasPrefix(tail, n.TailBegins) && bytes.Contains(tail, n.Tail) && bytes.Contains(body, n.Body)
		if c.want && !has {
			t.Errorf("%s: the job matches, and its stored form lacks needles: %q", c.what, n)
		}
		if sieved := c.query.Type+c.query.ErrorText != "" || c.query.Reason != broker.ReasonNone; sieved && !c.want && has {
			t.Errorf("%s: the job does not match, and its stored form has all needles: %q", c.what, n)
		}
	}
}

func TestWorkerInfo_Alive(t *testing.T) {
	t.Parallel()
	w := broker.WorkerInfo{Until: time.Unix(1_800_000_000, 0)}
	for _, c := range []struct {
		after time.Duration
		want  bool
	}{{-time.Microsecond, true}, {0, false}, {time.Microsecond, false}} {
		if got := w.Alive(w.Until.Add(c.after)); got != c.want {
			t.Errorf("%v after its end a worker is alive: %t, want %t", c.after, got, c.want)
		}
	}
}
