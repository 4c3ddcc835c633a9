package inspect

import (
	"slices"
	"testing"
	"time"

	"github.com/seed81422ce9/jobs"
	"github.com/seed81422ce9/jobs/broker"
)

func TestInspector_OfTypeListsEveryQueueAndState(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.enqueue(t, "mail", 3)
	b.die(t, 2, "no route")
	dead := b.inspector.Select(Query{Queue: "default", State: broker.StateDead}).Limit(1)
	if report, err := dead.Suppress(t.Context()); err != nil || report.Done != 1 {
		t.Fatalf("Suppress: %+v, %v", report, err)
	}
	mustEnqueue(t, b.client, jobs.NewTask("mail", []byte("later")), jobs.WithQueue("other"), jobs.WithDelay(time.Hour))
	mustEnqueue(t, b.client, jobs.NewTask("report", nil), jobs.WithQueue("other"))

	list := func(typ string, queues ...string) (found []string) {
		for job, err := range b.inspector.OfType(t.Context(), typ, queues...) {
			if err != nil {
				t.Fatal(err)
			}
			found = append(found, job.Queue+" "+job.State.String()+" "+string(job.Payload))
		}
		slices.Sort(found)
		return found
	}
	want := []string{"default dead ", "default dead ", "default pending ", "other scheduled later"}
	if got := list("mail"); !slices.Equal(got, want) {
		t.Errorf("of type mail: %q, want %q", got, want)
	}
	if got, want := list("mail", "other"), []string{"other scheduled later"}; !slices.Equal(got, want) {
		t.Errorf("of type mail in other: %q, want %q", got, want)
	}
	if got := list("nobody"); got != nil {
		t.Errorf("of a type without jobs: %q", got)
	}
	for range b.inspector.OfType(t.Context(), "mail") {
		break // the reader ends the listing
	}
	_ = b.Close()
	var errs []error
	for job, err := range b.inspector.OfType(t.Context(), "mail") {
		if job != nil || err == nil {
			t.Errorf("a closed store gives %v, %v; want an error", job, err)
		}
		errs = append(errs, err)
	}
	if len(errs) != 1 {
		t.Errorf("a closed store gives %d errors, want 1", len(errs))
	}
}
