package inspect_test

import (
	"testing"

	"github.com/seed81422ce9/jobs/backends/membroker"
	"github.com/seed81422ce9/jobs/inspect"
)

// A program can set the limits of a queue before its first job.
func TestInspect_APolicyCreatesItsQueue(t *testing.T) {
	t.Parallel()
	b := membroker.New()
	defer b.Close()
	inspector := inspect.New(b)
	if _, err := inspector.SetPolicy(t.Context(), inspect.PolicyRequest{Queue: "geocoder", MaxActive: new(int64(3))}); err != nil {
		t.Fatal(err)
	}
	if err := inspector.Pause(t.Context(), "reports"); err != nil {
		t.Fatal(err)
	}
	for queue, want := range map[string]inspect.Policy{"geocoder": {MaxActive: 3}, "reports": {Paused: true}} {
		info, err := inspector.Queue(t.Context(), queue)
		if err != nil || info.Policy.MaxActive != want.MaxActive || info.Policy.Paused != want.Paused {
			t.Errorf("queue %s: %+v, %v, want %+v", queue, info.Policy, err, want)
		}
	}
}
