package inspect_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/seed81422ce9/jobs/backends/membroker"
	"github.com/seed81422ce9/jobs/broker"
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

// 30 jobs in 60 are no limit without a unit.
func TestInspect_ARateWithoutAUnitIsRefused(t *testing.T) {
	t.Parallel()
	b := membroker.New()
	defer b.Close()
	rate := &inspect.Rate{Jobs: 30, Per: 60}
	for name, change := range map[string]inspect.PolicyRequest{
		"rate": {Queue: "q", Rate: rate}, "key rate": {Queue: "q", KeyRate: rate}, "retry rate": {Queue: "q", RetryRate: rate},
		"rate of a key": {Queue: "q", Key: "k", Rate: rate},
	} {
		_, err := inspect.New(b).SetPolicy(t.Context(), change)
		if !errors.Is(err, broker.ErrInvalid) || !strings.Contains(err.Error(), "rate per: invalid: is 60ns; use 1ms or more") {
			t.Errorf("%s: the error is %v", name, err)
		}
	}
	least := &inspect.Rate{Jobs: 1, Per: time.Millisecond}
	if _, err := inspect.New(b).SetPolicy(t.Context(), inspect.PolicyRequest{Queue: "q", Rate: least}); err != nil {
		t.Errorf("a job a millisecond: %v", err)
	}
}
