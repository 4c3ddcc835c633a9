package engine

import (
	"context"
	"sync"
	"time"

	"github.com/seed81422ce9/jobs/broker"
)

// youngCall is how long outcomes wait for a claim under way, so that the next claim carries
// them. After that they are sent without a claim.
const youngCall = 10 * time.Millisecond

// fetcher claims jobs for free slots. While the queues have jobs, it makes claims that
// do not wait and that carry outcomes to settle: one round trip an iteration. When no
// job is left to claim, one claim waits for more in the background, and the settler
// sends outcomes. While handlers are quick and many jobs are pending, a second claim is
// under way when the answer to the first comes. So the store works on one claim while
// this process works on the other. Guarded by Server.mu, except poke.
type fetcher struct {
	poke  chan struct{} // wakes the loop
	state fetchState
	mix   *mix
	steps steps
	size  claimSize

	exhausted bool          // the last claim returned all there was
	gave      bool          // the last claim returned jobs
	got       int           // how many
	replied   time.Time     // when it was answered
	due       time.Time     // when a scheduled job is due; zero if none is known
	away      outage        // claims that failed in a row
	alone     time.Time     // until when claims carry no outcomes
	notBefore time.Time     // end of the pause after a failure
	succeeded time.Time     // last answer of the store
	began     time.Time     // of the last claim that does not wait
	flying    int           // claims under way that do not wait
	asked     int           // how many jobs they ask for
	trip      time.Duration // mean duration of such claims
	took      time.Duration // of handlers, see measure
	measured  bool

	waiting  bool               // a claim waits
	surplus  int                // how many jobs it asks for beyond the free slots
	giveUp   context.CancelFunc // ends its wait
	pollAt   time.Time          // when to claim again, if the store cannot wait
	excluded []bool             // queues without room in the last claim
	unwaited []bool             // queues without room in the claim that waits

	room   []int
	gained []int // jobs of the last answer, by queue
	shares []broker.Share
}

type fetchState uint8

const (
	fetchOff     fetchState = iota // no worker is registered, or the pause after a failed claim
	fetchAwake                     // about to claim: the claim will carry outcomes
	fetchCalling                   // a claim is under way
	fetchFull                      // no slot is free: a run that leaves its slot wakes the loop
	fetchIdle                      // waits for jobs
)

func (f *fetcher) init(s *Server) {
	n := len(s.names)
	f.poke = make(chan struct{}, 1)
	f.size.init()
	f.mix = newMix(s.names, s.opts.Queues, s.opts.StrictPriority)
	f.steps.mix = f.mix
	f.excluded, f.unwaited = make([]bool, n), make([]bool, n)
	f.room, f.gained = make([]int, n), make([]int, n)
}

// wake wakes the loop from any state.
func (f *fetcher) wake() { poke(f.poke) }

// poke wakes the loop that waits on c.
func poke(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// claimCall is one claim.
type claimCall struct {
	worker  *worker
	req     broker.ClaimRequest
	narrow  bool      // it leaves out queues that seem empty
	surplus int       // how many jobs it asks for beyond the free slots
	ahead   bool      // the loop goes on while the call is under way
	until   time.Time // without a claim: sleep until then, zero means until woken
}

// fetch is the loop that claims. It ends with ctx. Its claims that do not wait end with
// calls instead, so that a drain gets their answers.
func (s *Server) fetch(ctx, calls context.Context) {
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	defer s.claimNoMore()
	var ahead sync.WaitGroup
	defer ahead.Wait()
	for ctx.Err() == nil {
		s.mu.Lock()
		now := time.Now()
		call := s.nextClaimLocked(ctx, now)
		if s.slots.ready.len() > 0 {
			call.until = earliest(call.until, now.Add(prefetchLook))
		}
		s.mu.Unlock()
		if call.worker != nil && call.ahead {
			ahead.Go(func() {
				s.claim(calls, &call)
				s.fetcher.wake()
			})
			continue
		}
		if call.worker != nil {
			s.claim(calls, &call)
			continue
		}
		timer.Stop()
		if !call.until.IsZero() {
			timer.Reset(time.Until(call.until))
		}
		select {
		case <-s.fetcher.poke:
		case <-timer.C:
		case <-ctx.Done():
		}
	}
}

// claimNoMore makes the settler send all outcomes from now on.
func (s *Server) claimNoMore() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fetcher.state = fetchOff
	s.settler.wakeFor(s)
}

// nextClaimLocked decides what the loop does now: make a claim that does not wait, or
// sleep, with or without a claim that waits in the background.
func (s *Server) nextClaimLocked(ctx context.Context, now time.Time) claimCall {
	f, w := &s.fetcher, s.worker
	s.releaseStaleLocked(now)
	s.giveUpSurplusLocked()
	var sleep claimCall
	switch {
	case s.slots.closed || w == nil || !w.registered || w.lost:
		f.state = fetchOff
	case now.Before(f.notBefore):
		f.state, sleep.until = fetchOff, f.notBefore
	case f.flying > 0 && !s.roomAheadLocked():
		return sleep
	case now.Before(s.paceLocked()):
		f.state, sleep.until = fetchCalling, s.paceLocked()
		return sleep
	default:
		if !f.due.IsZero() && !now.Before(f.due) {
			f.due, f.exhausted = time.Time{}, false
		}
		call, ok := s.planClaimLocked(now)
		if ok && (!f.exhausted || f.gave && !f.waiting && w.sendable()) {
			f.state, f.began = fetchCalling, now
			call.req.Settle = s.carryLocked(w)
			if call.ahead {
				call.req.Queues = append([]broker.Share(nil), call.req.Queues...)
			}
			f.flying++
			f.asked += call.req.Max
			return call
		}
		f.state = fetchFull
		if ok {
			f.state = fetchIdle
			if !f.waiting && !now.Before(f.pollAt) {
				s.claimWaitingLocked(ctx, call)
			}
		}
		sleep.until = f.due
		if now.Before(f.pollAt) {
			sleep.until = earliest(f.due, f.pollAt)
		}
	}
	s.settler.wakeFor(s)
	return sleep
}

// planClaimLocked divides the jobs that a claim may ask for among the queues; ok is
// false if there are none.
func (s *Server) planClaimLocked(now time.Time) (call claimCall, ok bool) {
	f := &s.fetcher
	want, free := s.wantLocked()
	want = f.size.most(want)
	if call.ahead = s.plentyLocked(); call.ahead {
		want = min(want, max(1, s.capacityLocked()/3)) // two claims and the jobs that run share the capacity
	}
	for i := range s.names {
		f.room[i] = want
		if limit := s.slots.limit[i]; limit > 0 {
			f.room[i] = max(0, min(want, free, limit-s.slots.held[i]))
		}
		if len(s.slots.types) > 0 {
			f.room[i] = min(f.room[i], s.slots.asideRoom(i))
		}
		f.excluded[i] = f.room[i] == 0
		if f.waiting && f.unwaited[i] && !f.excluded[i] && f.exhausted {
			f.giveUp() // the claim that waits does not ask for this queue's jobs
		}
	}
	call.narrow = f.steps.narrow(f.room, now)
	var first int
	f.shares, first = f.mix.plan(f.shares[:0], want, f.room, f.steps.jobs(call.ahead))
	if call.narrow {
		f.shares = f.shares[:min(len(f.shares), 2*first)]
	}
	call.worker = s.worker
	call.req = broker.ClaimRequest{Worker: s.worker.id, Queues: f.shares, Max: want, Bytes: f.size.bytes}
	call.surplus = want - free
	return call, len(f.shares) > 0
}

// freed records that a queue may have room again. If it had none, the loop claims at
// once, and the claim carries the outcome of the run that made room.
func (f *fetcher) freed(queue int, now time.Time) {
	if !f.excluded[queue] {
		return
	}
	f.exhausted = false
	switch f.state {
	case fetchFull:
		f.succeeded = now // there was no reason to claim until now
		fallthrough
	case fetchIdle:
		f.state = fetchAwake
		f.wake()
	}
}

// dueAt records when a job will be due.
func (f *fetcher) dueAt(t time.Time) {
	if f.due.IsZero() || t.Before(f.due) {
		f.due = t
		if f.state == fetchIdle || f.state == fetchFull {
			f.wake()
		}
	}
}

// carries reports whether the next claim will soon carry outcomes.
func (f *fetcher) carries(now time.Time) bool {
	return !now.Before(f.alone) && (f.state == fetchAwake || f.state == fetchCalling && now.Sub(f.began) < youngCall)
}
