package membroker

import (
	"testing"
	"time"

	"github.com/seed81422ce9/jobs/broker"
)

// Calls may come between two microseconds; nothing may be early for it.
func TestClock_NothingIsClaimedAFractionOfAMicrosecondEarly(t *testing.T) {
	t.Parallel()
	b := New()
	defer b.Close()
	register(t, b, "w", "q")
	start := time.Unix(1_800_000_000, 300)
	byDelay, byTime := newTestJob("q", "by delay"), newTestJob("q", "by time")
	byDelay.Delay, byTime.RunAt = time.Second, start.Add(time.Second)
	if _, err := b.Enqueue(t.Context(), broker.EnqueueRequest{Now: start, Jobs: []broker.NewJob{byDelay, byTime}}); err != nil {
		t.Fatal(err)
	}
	for _, step := range []struct {
		after time.Duration
		want  int
	}{
		{time.Second - 300*time.Nanosecond, 0},
		{time.Second + 699*time.Nanosecond, 0},
		{time.Second + 700*time.Nanosecond, 2},
	} {
		req := claimRequest("w", 2, 0, "q")
		req.Now = start.Add(step.after)
		got, err := b.Claim(t.Context(), req)
		if err != nil || len(got.Jobs) != step.want {
			t.Errorf("%v after the enqueue a claim gives %v, %v; want %d jobs", step.after, ids(got.Jobs), err, step.want)
		}
	}
}

func TestStore_AdvancePutsTheClockAheadForWhoWaitsToo(t *testing.T) {
	t.Parallel()
	store := NewStore()
	b := store.Open()
	defer b.Close()
	register(t, b, "w", "q")
	job := newTestJob("q", "later")
	job.Delay = 24 * time.Hour
	began := time.Now()
	if _, err := b.Enqueue(t.Context(), broker.EnqueueRequest{Jobs: []broker.NewJob{job}}); err != nil {
		t.Fatal(err)
	}
	got := make(chan broker.Claimed, 1)
	go func() {
		claimed, err := b.Claim(t.Context(), claimRequest("w", 1, time.Hour, "q"))
		if err != nil {
			t.Error(err)
		}
		got <- claimed
	}()
	for b.waits() == 0 {
		time.Sleep(time.Millisecond)
	}
	store.Advance(24 * time.Hour)
	claimed := <-got
	if len(claimed.Jobs) != 1 || claimed.Now.Sub(began) < 24*time.Hour {
		t.Errorf("the claim that waited gives %v at %v, want the job of the day after", ids(claimed.Jobs), claimed.Now)
	}
	store.Advance(-time.Hour)
	if now, err := b.Ping(t.Context()); err != nil || now.Before(claimed.Now) {
		t.Errorf("after a negative Advance the clock shows %v (%v), before %v", now, err, claimed.Now)
	}
}

// waits is how many claims of the handle wait.
func (b *Broker) waits() int {
	b.store.mu.Lock()
	defer b.store.mu.Unlock()
	return len(b.waiting)
}
