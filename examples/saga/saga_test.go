package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/seed81422ce9/jobs"
	"github.com/seed81422ce9/jobs/backends/membroker"
	"github.com/seed81422ce9/jobs/jobstest"
	"github.com/seed81422ce9/jobs/workflow"
)

// company records what it did, and refuses one thing.
type company struct {
	did     []string
	refuses string
	flaky   int // calls that fail before one succeeds
}

func (c *company) Book(_ context.Context, what, _ string) error {
	if c.flaky > 0 {
		c.flaky--
		return errors.New("connection refused")
	}
	if what == c.refuses {
		return fmt.Errorf("%w: none is left", jobs.SkipRetry)
	}
	c.did = append(c.did, "+"+what)
	return nil
}

func (c *company) Cancel(_ context.Context, what, _ string) error {
	c.did = append(c.did, "-"+what)
	return nil
}

func TestSaga_BooksAllOrCancelsWhatItBooked(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		company company
		did     []string
		state   workflow.State
	}{
		"all is booked":             {company{}, []string{"+flight", "+hotel", "+car"}, workflow.StateCompleted},
		"a bad connection is no no": {company{flaky: 2}, []string{"+flight", "+hotel", "+car"}, workflow.StateCompleted},
		"the last is refused": {company{refuses: "car"}, []string{"+flight", "+hotel", "-car", "-hotel", "-flight"},
			workflow.StateFailed},
		"the first is refused":        {company{refuses: "flight"}, []string{"-flight"}, workflow.StateFailed},
		"one that cannot be reached":  {company{flaky: 4}, []string{"-flight"}, workflow.StateFailed},
		"one that is reached at last": {company{flaky: 3}, []string{"+flight", "+hotel", "+car"}, workflow.StateCompleted},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := jobstest.New(t)
			if err := Book(t.Context(), b.Client(), Trip{"trip-1"}); err != nil {
				t.Fatal(err)
			}
			if err := Book(t.Context(), b.Client(), Trip{"trip-1"}); !errors.Is(err, jobs.ErrDuplicate) {
				t.Errorf("booked again: %v, want %v", err, jobs.ErrDuplicate)
			}
			jobstest.Drain(t, b, Handlers(&c.company), jobstest.Config(Config(b.Client())), jobstest.Everything())
			info, err := workflow.Get(t.Context(), b.Client(), "trip-1")
			if err != nil || info.State != c.state || !slices.Equal(c.company.did, c.did) {
				t.Errorf("the trip is %v, %v, after %q; want %v after %q", info.State, err, c.company.did, c.state, c.did)
			}
		})
	}
}

func TestRun_SaysHowItWent(t *testing.T) {
	t.Parallel()
	for full, last := range map[bool]string{false: "have a good trip", true: "the trip is off"} {
		var out bytes.Buffer
		if err := run(t.Context(), membroker.New(), printed{&out, full}); err != nil || !strings.Contains(out.String(), last) {
			t.Errorf("it printed %q, %v; want %q at the end", &out, err, last)
		}
	}
}
