package pgbroker

import (
	"strconv"
	"testing"
	"time"

	"github.com/seed81422ce9/jobs/broker"
	"github.com/seed81422ce9/jobs/internal/testenv"
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
	testenv.Eventually(t, "that the pauses are the longest", func() bool {
		claim()
		return time.Duration(f.pause.Load()) == pollLast
	})
	f.accept(f, job("a"))
	testenv.Eventually(t, "that the job is claimed", func() bool { return len(claim()) == 1 })
	if pause := time.Duration(f.pause.Load()); pause != 0 {
		t.Errorf("after a job the next pause is %v, want the first", pause)
	}
}

// Processes that get no notifications share the looks: with more workers each looks less often, also from one
// claim to the next. A process finds at once what it enqueues itself.
func TestPoll_AFleetSharesItsLooks(t *testing.T) {
	t.Parallel()
	f := openAs(t, Config{PollOnly: true})
	for n := range 4 * pollShare {
		f.worker(strconv.Itoa(n))
	}
	f.counted.Store(time.Now().Add(time.Hour).UnixNano()) // the host's clock was set back since: they are counted again
	f.worker("w")
	if got, want := f.pollLongest(), (4*pollShare+1)*pollLast/pollShare; got != want {
		t.Fatalf("the longest pause of one of %d workers is %v, want %v", 4*pollShare+1, got, want)
	}
	claim := func() []broker.Job {
		got, err := f.Claim(t.Context(), broker.ClaimRequest{Worker: "w", Max: 2, Wait: 20 * time.Millisecond,
			Queues: []broker.Share{{Queue: "q", Max: 2}}})
		f.check(err)
		return got.Jobs
	}
	f.pause.Store(int64(time.Hour))
	claim()
	before := f.pool.Stat().AcquireCount()
	for range 5 {
		claim()
	}
	if n := f.pool.Stat().AcquireCount() - before; n != 0 {
		t.Errorf("claims within the pause used a connection %d times, want none", n)
	}
	f.accept(f, job("a"))
	if got := claim(); len(got) != 1 {
		t.Errorf("a claim after an enqueue of its own process took %d jobs, want 1", len(got))
	}
}
