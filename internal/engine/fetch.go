package engine

import (
	"context"
	"sync"
	"time"

	"github.com/seed81422ce9/jobs/broker"
)

// youngCall is how long outcomes wait for a claim under way, so that the next one carries
// them; after that they are sent on their own.
const youngCall = 10 * time.Millisecond

// fetcher claims jobs for free slots. Busy, it goes round in claims that do
// not wait and carry what there is to settle: one round trip a turn. Once
// everything claimable was claimed, one claim waits for more in the background,
// and outcomes go out on their own. While handlers are quick and there is plenty,
// a second claim is under way when the answer to the first comes, so that the
// store works on one while this process works on the other. Guarded by
// Server.mu, but for poke.
type fetcher struct {
	poke  chan struct{} // wakes the loop
	state fetchState
	mix   *mix
	size  claimSize

	exhausted bool      // the last claim took everything
	gave      bool      // and that was something
	got       int       // how much it was
	replied   time.Time // when it was answered
	due       time.Time // when a scheduled job is due; zero when none is known
	away      outage    // claims that failed in a row
	alone     time.Time // until when claims carry no outcomes
	notBefore time.Time // pause after a failure
	succeeded time.Time // last answer of the store
	began     time.Time // of the last claim that does not wait
	flying    int       // such claims under way
	asked     int       // how many jobs they ask for
	trip      time.Duration
	took      time.Duration // of handlers, see measure
	measured  bool

	waiting  bool               // a claim waits
	surplus  int                // of the jobs it asks for, those beyond the slots that were free
	giveUp   context.CancelFunc // ends its wait
	pollAt   time.Time          // no claim waits before that, where the store cannot
	excluded []bool             // queues without room in the last claim
	unwaited []bool             // and in the one that waits

	room   []int
	gained []int // jobs of the last answer, by queue
	shares []broker.Share
}

type fetchState uint8

const (
	fetchOff   fetchState = iota // no worker is registered, or a failed claim is not over
	fetchAbout                   // awake: what there is to settle, it will see
	fetchCalling
	fetchFull // no slot is free: the next one that frees wakes it
	fetchIdle // waits for jobs
)

func (f *fetcher) init(s *Server) {
	n := len(s.names)
	f.poke = make(chan struct{}, 1)
	f.size.init()
	f.mix = newMix(s.names, s.opts.Queues, s.opts.StrictPriority)
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
	first   int       // shares by weight
	surplus int       // of its jobs, those for which no slot is free
	ahead   bool      // the loop goes on meanwhile
	until   time.Time // no claim: sleep until then, zero means until woken
}

// fetch is the loop, until ctx ends. Claims that do not wait are under calls: a
// drain does not leave it open what they did.
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

// claimNoMore leaves what there is to settle to the settler.
func (s *Server) claimNoMore() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fetcher.state = fetchOff
	s.settler.wakeFor(s)
}

// nextClaimLocked decides what the loop does now: a claim that does not wait, or
// sleep, with or without a claim that waits meanwhile.
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
		call, ok := s.planClaimLocked()
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

// planClaimLocked divides what may be claimed among the queues; ok is false when
// that is nothing.
func (s *Server) planClaimLocked() (call claimCall, ok bool) {
	f := &s.fetcher
	want, free := s.wantLocked()
	want = f.size.most(want)
	if call.ahead = s.plentyLocked(); call.ahead {
		want = min(want, max(1, s.capacityLocked()/3)) // one third is under way, one is on its way, one is here
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
			f.giveUp() // the claim that waits would not see this queue's jobs
		}
	}
	f.shares, call.first = f.mix.plan(f.shares[:0], want, f.room)
	call.worker = s.worker
	call.req = broker.ClaimRequest{Worker: s.worker.id, Queues: f.shares, Max: want, Bytes: f.size.bytes}
	call.surplus = want - free
	return call, len(f.shares) > 0
}

// freed takes note that a queue may have room again. If it had none, the loop
// looks at once, and the outcome of what made room goes along.
func (f *fetcher) freed(queue int, now time.Time) {
	if !f.excluded[queue] {
		return
	}
	f.exhausted = false
	switch f.state {
	case fetchFull:
		f.succeeded = now // it had no reason to claim
		fallthrough
	case fetchIdle:
		f.state = fetchAbout
		f.wake()
	}
}

// dueAt takes note that a job will be due.
func (f *fetcher) dueAt(t time.Time) {
	if f.due.IsZero() || t.Before(f.due) {
		f.due = t
		if f.state == fetchIdle || f.state == fetchFull {
			f.wake()
		}
	}
}

// carries reports whether the loop that claims will soon look at what there is
// to settle.
func (f *fetcher) carries(now time.Time) bool {
	return !now.Before(f.alone) && (f.state == fetchAbout || f.state == fetchCalling && now.Sub(f.began) < youngCall)
}
