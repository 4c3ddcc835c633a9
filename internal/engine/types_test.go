package engine

import (
	"context"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed81422ce9/jobs/broker"
)

// asideServer is a server none of whose loops runs and whose slots begin nothing. It
// lets one job of the type slow run at a time, and has accepted n of them from each
// queue: the first is ready.
func asideServer(t *testing.T, opts Options, n int, queues ...string) (*Server, *worker) {
	t.Helper()
	opts.Queues = make(map[string]int)
	for _, q := range queues {
		opts.Queues[q] = 1
	}
	opts.TypeLimits = []TypeLimit{{Pattern: "slow", Max: 1}}
	opts.TypeLimitOf = func(typ string) int {
		if typ == "slow" {
			return 0
		}
		return -1
	}
	s, w := still(t, newStore(), opts)
	s.values = context.Background()
	s.slots.waking = true
	for _, q := range queues {
		s.acceptLocked(w, slowJobs(q, n), 0, time.Now())
	}
	return s, w
}

func slowJobs(queue string, n int) []broker.Job {
	jobs := make([]broker.Job, n)
	for i := range jobs {
		jobs[i] = broker.Job{Queue: queue, ID: queue + strconv.Itoa(i), Body: broker.Body{Type: "slow"}}
	}
	return jobs
}

// begin puts the first ready run into a slot.
func begin(s *Server) *Run {
	r := s.slots.ready.pop()
	s.slots.running, s.slots.active = append(s.slots.running, r), s.slots.active+1
	return r
}

func wantAside(t *testing.T, s *Server, when string, ready, aside int) {
	t.Helper()
	if r, a := s.slots.ready.len(), s.slots.types[0].aside.len(); r != ready || a != aside {
		t.Fatalf("%s: %d are ready and %d wait for their type, want %d and %d", when, r, a, ready, aside)
	}
}

func TestServer_NoMoreOfAQueueWaitForTheirTypeThanThereAreSlots(t *testing.T) {
	t.Parallel()
	s, w := asideServer(t, Options{Concurrency: 2}, 6, testQueue)
	wantAside(t, s, "6 jobs for 2 slots", 1, 2)
	if len(w.done) != 3 {
		t.Errorf("%d jobs are given back, want the other 3", len(w.done))
	}
	s.acceptLocked(w, []broker.Job{{Queue: testQueue, ID: "quick"}}, 0, time.Now())
	if s.slots.ready.len() != 2 {
		t.Error("a job of another type is not ready")
	}
}

func TestServer_AJobThatNoLongerWaitsForItsTypeFreesItsQueue(t *testing.T) {
	t.Parallel()
	s, _ := asideServer(t, Options{Concurrency: 2}, 1, "a", "b")
	begin(s)
	f := &s.fetcher
	f.state, f.exhausted, f.excluded[s.queueOf("b")] = fetchFull, true, true
	s.leaveLocked(0, s.slots.running[0], broker.Complete(nil))
	wantAside(t, s, "when the job of the other queue has ended", 1, 0)
	if f.state != fetchAwake || f.exhausted {
		t.Error("the loop does not look at the queue that has room again")
	}
}

func TestServer_WhatWaitsForItsTypeTakesNoRoomOfAClaimUnderWay(t *testing.T) {
	t.Parallel()
	s, w := asideServer(t, Options{Concurrency: 2}, 2, testQueue)
	begin(s)
	s.fetcher.asked = 2
	s.leaveLocked(0, s.slots.running[0], broker.Complete(nil))
	wantAside(t, s, "while a claim for both slots is under way", 0, 1)
	s.fetcher.asked = 0
	s.acceptLocked(w, nil, 0, time.Now())
	wantAside(t, s, "when the claim gave nothing", 1, 0)
}

func TestServer_NothingThatWaitsForItsTypeBeginsInADrain(t *testing.T) {
	t.Parallel()
	s, _ := asideServer(t, Options{Concurrency: 2}, 2, testQueue)
	begin(s)
	s.drainLocked(nil)
	s.leaveLocked(0, s.slots.running[0], broker.Complete(nil))
	wantAside(t, s, "in a drain", 0, 1)
}

func TestServer_AnAuditEndsWhatWaitsForItsTypeAndIsNotHeld(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s, w := asideServer(t, Options{Concurrency: 2}, 2, testQueue) // the store knows none of them
		pass(time.Second)
		s.audit(t.Context(), w)
		wantAside(t, s, "after the audit", 2, 0)
		if err := s.slots.ready.at(1).hasEnded(); err != broker.ErrLeaseLost {
			t.Errorf("its context ended with %v, want broker.ErrLeaseLost", err)
		}
	})
}

func TestServer_ACarefulJobThatWaitedForItsTypeHasItsWholePatience(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s, w := asideServer(t, Options{Concurrency: 2}, 1, testQueue)
		jobs := slowJobs(testQueue, 2)
		jobs[0].Crashes = 1
		s.acceptLocked(w, jobs, 0, time.Now())
		begin(s)
		pass(time.Hour)
		s.mu.Lock()
		s.leaveLocked(0, s.slots.running[0], broker.Complete(nil))
		wantAside(t, s, "when the first has ended", 0, 1)
		if s.slots.guarded.len() != 1 {
			t.Fatalf("%d careful jobs wait for their turn, want 1", s.slots.guarded.len())
		}
		if left := time.Until(s.slots.guarded.peek().patient); left != patienceMin {
			t.Errorf("it waits for its turn for %v, want %v", left, patienceMin)
		}
		s.mu.Unlock()
		pass(patienceMin + time.Millisecond)
		wantAside(t, s, "when the careful job was put off", 1, 0)
	})
}

func TestServer_AStaleJobMakesRoomForAnotherOfItsType(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s, _ := asideServer(t, Options{Concurrency: 2}, 2, testQueue)
		ran := ""
		s.policy = handler(func(_ context.Context, j *broker.Job) error { ran += j.ID; return nil })
		s.mu.Lock()
		s.slots.waking = false // there are slots
		s.slots.watched = prefetchStale
		s.releaseStaleLocked(time.Now())
		s.mu.Unlock()
		synctest.Wait()
		if ran != testQueue+"1" {
			t.Errorf("the handler ran for %q, want the second job alone", ran)
		}
		s.Drain()
		s.stopSlots(0)
	})
}

func TestServer_AJobWaitsBehindThoseThatWaitForItsType(t *testing.T) {
	t.Parallel()
	s, w := asideServer(t, Options{Concurrency: 4}, 2, testQueue)
	begin(s)
	s.fetcher.asked = 4
	s.leaveLocked(0, s.slots.running[0], broker.Complete(nil))
	wantAside(t, s, "while a claim for all slots is under way", 0, 1)
	s.fetcher.asked = 0
	s.acceptLocked(w, []broker.Job{{Queue: testQueue, ID: "new", Body: broker.Body{Type: "slow"}}}, 0, time.Now())
	wantAside(t, s, "when the claim gave a job", 1, 1)
	if first := s.slots.ready.peek().Job.ID; first != testQueue+"1" {
		t.Errorf("%s is next, want the job that waited before", first)
	}
}

// Two claims under way could bring twice what may wait aside.
func TestServer_OneClaimAtATimeIsUnderWayWhileATypeIsFull(t *testing.T) {
	t.Parallel()
	s, _ := asideServer(t, Options{Concurrency: 4}, 1, testQueue)
	f := &s.fetcher
	f.gave, f.measured, f.took = true, true, time.Microsecond
	if s.plentyLocked() {
		t.Error("a second claim goes out beside the first while the type has no room")
	}
	begin(s)
	s.leaveLocked(0, s.slots.running[0], broker.Complete(nil))
	if f.took = time.Microsecond; !s.plentyLocked() {
		t.Error("no second claim goes out although the type has room")
	}
}
