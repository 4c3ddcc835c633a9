package pgbroker

import (
	"testing"
	"time"

	"github.com/seed81422ce9/jobs/broker"
)

// Without notifications an idle process looks less and less often, also from one claim to the next,
// and often again once it gets a job.
func TestPoll_AnIdleProcessLooksLessOften(t *testing.T) {
	t.Parallel()
	f := openAs(t, Config{PollOnly: true})
	f.worker("w")
	claim := func() []broker.Job {
		got, err := f.Claim(t.Context(), broker.ClaimRequest{Worker: "w", Max: 1, Wait: 50 * time.Millisecond,
			Queues: []broker.Share{{Queue: "q", Max: 1}}})
		f.check(err)
		return got.Jobs
	}
	eventually(t, "that the pauses are the longest", func() bool {
		claim()
		return time.Duration(f.pause.Load()) == pollLast
	})
	f.accept(f, job("a"))
	eventually(t, "that the job is claimed", func() bool { return len(claim()) == 1 })
	if pause := time.Duration(f.pause.Load()); pause != 0 {
		t.Errorf("after a job the next pause is %v, want the first", pause)
	}
}
