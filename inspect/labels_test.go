package inspect

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/seed81422ce9/jobs"
	"github.com/seed81422ce9/jobs/broker"
)

func TestInspect_QueuesOfAPatternAreThoseOfTheQueueAndItsLabels(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	for _, labels := range [][]string{nil, {"gpu"}, {"gpu", "ssd"}} {
		b.enqueue(t, "image", 1, jobs.WithQueue("images"), jobs.WithLabels(labels...))
	}
	b.enqueue(t, "image", 1, jobs.WithQueue("images2"))
	names := func(queues []QueueInfo, err error) (list []string) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		for _, q := range queues {
			list = append(list, q.Name)
		}
		return list
	}
	of := []string{"images", "images+gpu", "images+gpu+ssd"}
	if got := names(b.inspector.Queues(t.Context(), "images+*")); !slices.Equal(got, of) {
		t.Errorf("images+* is %q, want %q", got, of)
	}
	if got, want := names(b.inspector.Overview(t.Context(), "images+*", "default")),
		append([]string{"default"}, of...); !slices.Equal(got, want) {
		t.Errorf("images+* and default are %q, want %q", got, want)
	}
	if got := names(b.inspector.Queues(t.Context(), "images+gpu")); !slices.Equal(got, []string{"images+gpu"}) {
		t.Errorf("images+gpu is %q", got)
	}
	if got := names(b.inspector.Queues(t.Context(), "nothing+*")); len(got) > 0 {
		t.Errorf("nothing+* is %q", got)
	}
	if _, err := b.inspector.Queue(t.Context(), "images+*"); !errors.Is(err, broker.ErrInvalid) ||
		!strings.Contains(err.Error(), "several queues") {
		t.Errorf("one queue named images+*: %v", err)
	}
}
