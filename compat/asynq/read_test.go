package asynqcompat_test

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/seed81422ce9/jobs/broker"
	"github.com/seed81422ce9/jobs/compat/asynqdata"
)

// What asynq writes is what package asynqdata reads.
func TestStore_ReadsWhatAsynqWrites(t *testing.T) {
	r := asynqWrites(t)
	if *record != "" {
		recordTo(t, r, *record)
	}
	ctx := t.Context()
	store := asynqdata.NewStore(r)
	queues, err := store.Queues(ctx)
	want := []asynqdata.Queue{{Name: "bulk", Paused: true, Pending: int64(bulk()), Archived: 1},
		{Name: "critical", Paused: true, Pending: 1, Aggregating: 1},
		{Name: "default", Paused: true, Pending: 3, Scheduled: 1, Retry: 1, Archived: 2, Completed: 1}}
	if err != nil || !reflect.DeepEqual(queues, want) {
		t.Errorf("the queues are %+v, %v; want %+v", queues, err, want)
	}
	if _, err := store.Queues(ctx, "default", "defualt"); !errors.Is(err, broker.ErrNotFound) {
		t.Errorf("a queue that is not there: error %v, want ErrNotFound", err)
	}
	if n, err := store.Servers(ctx); n != 0 || err != nil {
		t.Errorf("%d servers are alive, %v; the one that was has shut down", n, err)
	}
	found := readAll(t, store, "default")
	for id, want := range map[string]string{
		"fails": `retry email:deliver {"user":1} retries=5 failures=1 errors=[0: mail server is away] due in 1h timeout=30m0s`,
		"hopeless": `dead email:deliver {"user":2} retries=5 failures=1 ` +
			`errors=[0: no such user: skip retry for the task] ended skip_retry timeout=30m0s`,
		"spent": `dead email:deliver {"user":3} retries=0 failures=1 errors=[0: mail server is away] ended retries_spent timeout=30m0s`,
		"first": `pending email:deliver {"user":5} retries=25 failures=0 errors=[] timeout=30m0s`,
		"second": "pending image:resize \xff\x00 bytes retries=3 failures=0 errors=[] timeout=1m30s deadline retention=2h0m0s " +
			"unique=asynq:image:resize:5e88242cbb3ee0f4264915525de865dd",
		"deadline": `pending image:resize  retries=25 failures=0 errors=[] timeout=876000h0m0s deadline`,
		"scheduled": `scheduled email:remind {"user":6} retries=25 failures=0 errors=[] due at 2040 timeout=30m0s ` +
			`unique=asynq:email:remind:5055e40d14a6b32cd5a976ee37d5bda7`,
	} {
		job, ok := found[id]
		if got := described(&job); !ok || got != want {
			t.Errorf("%s is\n%q, want\n%q", id, got, want)
		}
		if job.Body.Headers["trace"] != id || !job.Body.GivenID {
			t.Errorf("%s has headers %v and GivenID %t", id, job.Body.Headers, job.Body.GivenID)
		}
		if err := job.Check(broker.Limits{}); err != nil {
			t.Errorf("%s would be refused: %v", id, err)
		}
	}
	if len(found) != 7 {
		t.Errorf("%d tasks were read, want 7: neither the one that is completed nor one twice", len(found))
	}
	var order []string
	for job, err := range store.Tasks(ctx, "bulk", new(error)) {
		if err != nil {
			t.Fatal(err)
		}
		order = append(order, job.ID)
	}
	if n := bulk(); len(order) != n+1 || !slices.IsSorted(order[:n]) || order[n] != "kept-back" {
		t.Errorf("%d tasks of bulk were read, want %d: pending ones in their order, then the archived one", len(order), n+1)
	}
	periodic(t, store)
}

func periodic(t *testing.T, store *asynqdata.Store) {
	t.Helper()
	entries, err := store.Periodic(t.Context())
	if err != nil || len(entries) != 4 {
		t.Fatalf("there are %d periodic entries, %v; want 4", len(entries), err)
	}
	next := func(text string) time.Time {
		at, err := time.Parse(time.RFC3339, text)
		if err != nil {
			t.Fatal(err)
		}
		return at
	}
	ids := make(map[string]bool)
	for _, e := range entries {
		ids[e.ID()] = true
		d, err := e.Definition("Europe/Berlin")
		if e.Spec == "@daily" {
			if !errors.Is(err, broker.ErrInvalid) || !strings.Contains(err.Error(), "ProcessIn(1m0s)") {
				t.Errorf("an option without an equivalent: error %v", err)
			}
			continue
		}
		if err != nil {
			t.Error(err)
			continue
		}
		want := map[string]time.Time{
			"30 3 * * *":                     next("2030-01-01T02:30:00Z"), // the scheduler's zone
			"CRON_TZ=Asia/Tokyo 0 9 * * 1-5": next("2030-01-01T00:00:00Z"), // its own
			"@every 90s":                     next("2029-12-31T23:01:30Z"),
		}[e.Spec]
		times, err := d.Spec.Next(next("2029-12-31T23:00:00Z"), 1)
		if err != nil || len(times) != 1 || !times[0].Equal(want) {
			t.Errorf("%q becomes %q, which is next due at %v, %v; want %v", e.Spec, d.Spec, times, err, want)
		}
		if d.Task.Type() != "report" || string(d.Task.Payload()) != e.Spec {
			t.Errorf("%q enqueues %s %q", e.Spec, d.Task.Type(), d.Task.Payload())
		}
	}
	if len(ids) != 4 {
		t.Errorf("4 entries have %d IDs", len(ids))
	}
}

func readAll(t *testing.T, store *asynqdata.Store, queue string) map[string]broker.NewJob {
	t.Helper()
	var failed error
	found := make(map[string]broker.NewJob)
	for job, err := range store.Tasks(t.Context(), queue, &failed) {
		if err != nil {
			t.Error(err)
		}
		if _, twice := found[job.ID]; twice || job.Queue != queue {
			t.Errorf("%s of %s was read again, or of another queue", job.ID, job.Queue)
		}
		found[job.ID] = job
	}
	if failed != nil {
		t.Fatal(failed)
	}
	return found
}

// described is what matters of a job, in a line.
func described(j *broker.NewJob) string {
	if j.Restore == nil {
		return "nothing"
	}
	h, b := &j.Restore.Head, &j.Body
	var errs []string
	for _, e := range h.Errors.Entries {
		errs = append(errs, fmt.Sprintf("%d: %s", e.Attempt, e.Message))
	}
	text := fmt.Sprintf("%v %s %s retries=%d failures=%d errors=%v", j.Restore.State, b.Type, b.Payload, b.MaxRetries, h.Failures, errs)
	switch {
	case j.RunAt.Equal(later):
		text += " due at 2040"
	case !j.RunAt.IsZero():
		text += " due in " + strings.TrimSuffix(time.Until(j.RunAt).Round(30*time.Minute).String(), "0m0s")
	}
	if !h.FinishedAt.IsZero() {
		text += " ended " + h.Reason.String()
	}
	text += " timeout=" + b.Timeout.String()
	if b.Deadline.Equal(later) {
		text += " deadline"
	}
	if b.Retention > 0 {
		text += " retention=" + b.Retention.String()
	}
	if b.Unique.Key != "" {
		text += " unique=" + b.Unique.Key
	}
	return text
}

// A store that goes away is an error, and not the end of the tasks.
func TestStore_SaysThatReadingEndedEarly(t *testing.T) {
	r := asynqWrites(t)
	store := asynqdata.NewStore(r)
	var failed error
	n := 0
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	for range store.Tasks(ctx, "bulk", &failed) {
		if n++; n == 100 {
			cancel()
		}
	}
	if n >= 1101 || !errors.Is(failed, context.Canceled) {
		t.Errorf("reading ended after %d tasks with error %v", n, failed)
	}
}
