package jobs

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/seed81422ce9/jobs/broker"
)

const (
	serverCallTimeout = 5 * time.Second // of one call to the broker, beyond the wait of a claim
	youngCall         = 10 * time.Millisecond
)

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
	patience  time.Duration // that prefetched jobs have been shown, see releaseStale
	looked    time.Time

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
	f.mix = newMix(s.names, s.cfg.Queues, s.cfg.StrictPriority)
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
		call := s.nextClaim(ctx, now)
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

// nextClaim decides what the loop does now: a claim that does not wait, or
// sleep, with or without a claim that waits meanwhile.
func (s *Server) nextClaim(ctx context.Context, now time.Time) claimCall {
	f, w := &s.fetcher, s.worker
	s.releaseStale(now)
	s.giveUpSurplus()
	var sleep claimCall
	switch {
	case s.isDrain || w == nil || !w.registered || w.lost:
		f.state = fetchOff
	case now.Before(f.notBefore):
		f.state, sleep.until = fetchOff, f.notBefore
	case f.flying > 0 && !s.roomAhead():
		return sleep
	case now.Before(s.pace()):
		f.state, sleep.until = fetchCalling, s.pace()
		return sleep
	default:
		if !f.due.IsZero() && !now.Before(f.due) {
			f.due, f.exhausted = time.Time{}, false
		}
		call, ok := s.planClaim()
		if ok && (!f.exhausted || f.gave && !f.waiting && w.sendable()) {
			f.state, f.began = fetchCalling, now
			call.req.Settle = s.carry(w)
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
				s.claimWaiting(ctx, call)
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

// earliest is the sooner of two times, of which zero is none.
func earliest(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}

// planClaim divides what may be claimed among the queues; ok is false when
// that is nothing.
func (s *Server) planClaim() (call claimCall, ok bool) {
	f := &s.fetcher
	want, free := s.want()
	want = f.size.most(want)
	if call.ahead = s.plenty(); call.ahead {
		want = min(want, s.capacity()/3) // one third is under way, one is on its way, one is here
	}
	for i := range s.names {
		f.room[i] = want
		if limit := s.slots.limit[i]; limit > 0 {
			f.room[i] = max(0, min(want, free, limit-s.slots.held[i]))
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

// claimWaiting has a claim wait in the background.
func (s *Server) claimWaiting(ctx context.Context, call claimCall) {
	f := &s.fetcher
	ctx, f.giveUp = context.WithCancel(ctx)
	f.waiting, f.surplus = true, call.surplus
	copy(f.unwaited, f.excluded)
	call.req.Queues = append([]broker.Share(nil), call.req.Queues...)
	// An audit waits for it, and has to be over within a lease. Readiness needs
	// an answer now and then.
	call.req.Wait = min(jitter(s.cfg.PollInterval, 0.25), s.cfg.Lease/3, s.cfg.ReadinessWindow/5)
	giveUp := f.giveUp
	s.claimers.Go(func() {
		defer giveUp()
		s.claim(ctx, &call)
	})
}

// claim makes the call and takes in its answer.
func (s *Server) claim(ctx context.Context, call *claimCall) {
	s.mu.Lock()
	calls := s.calls
	calls.Add(1)
	s.mu.Unlock()
	defer calls.Done()

	waited := call.req.Wait > 0
	if !waited && len(call.req.Settle.Items) == 0 {
		defer time.AfterFunc(youngCall, s.settleMeanwhile).Stop()
	}
	sent := time.Now()
	callCtx, cancel := context.WithTimeout(ctx, call.req.Wait+serverCallTimeout)
	reply, err := s.broker.Claim(callCtx, call.req)
	cancel()
	now := time.Now()
	if hook := s.cfg.Hooks.Claim; hook != nil && ctx.Err() == nil {
		hook(ClaimEvent{Now: reply.Now, Jobs: reply.Jobs, Asked: call.req.Max, Waited: waited, Took: now.Sub(sent), Err: err})
	}
	if len(call.req.Settle.Items) > 0 {
		settleErr := reply.SettleErr
		if settleErr == nil && err != nil {
			// Of what the claim carried this says nothing, whatever it is.
			settleErr = fmt.Errorf("sent with a claim that failed: %v", err)
		}
		s.answered(call.worker, reply.Verdicts, settleErr, now.Sub(sent))
	}

	size := answerSize(reply.Jobs)
	s.mu.Lock()
	defer s.unlock()
	f := &s.fetcher
	if waited {
		f.waiting = false
		f.wake()
	} else {
		f.flying--
		f.asked -= call.req.Max
		if f.flying == 0 && f.state == fetchCalling {
			f.state = fetchAbout
		}
	}
	s.accept(call.worker, reply.Jobs, size, now)
	if broker.MayHaveApplied(err) {
		s.doubt(call.worker, ctx.Err() == nil) // nobody runs what the claim may have leased
	}
	if ctx.Err() != nil {
		return // given up: it says nothing of the store
	}
	if err != nil {
		s.claimFailed(call.worker, err, call.req.Max, len(reply.Jobs) > 0, now)
		return
	}
	if f.away.ended() {
		s.note(slog.LevelInfo, "jobs: claiming works again", "worker", call.worker.id)
	}
	took := now.Sub(sent)
	if waited {
		took = quickClaim // how long the answer took by itself, nobody knows
	}
	f.size.answered(call.req.Bytes, len(reply.Jobs), size, took)
	f.succeeded = now
	s.clock.set(reply.Now, now)
	f.got, f.gave, f.replied = len(reply.Jobs), len(reply.Jobs) > 0, now
	full := len(reply.Jobs) >= call.req.Max || reply.More
	f.exhausted = !full
	if reply.NextDue.After(reply.Now) { // what is due and not given is held back, by a pause for example
		f.dueAt(now.Add(reply.NextDue.Sub(reply.Now)))
	}
	if !waited {
		f.trip += (now.Sub(sent) - f.trip) / 8
	} else if s.limits.NoWait && !f.gave {
		f.pollAt = now.Add(call.req.Wait)
	}
	clear(f.gained)
	for i := range reply.Jobs {
		f.gained[s.queueOf(reply.Jobs[i].Queue)]++
	}
	f.mix.served(call.req.Queues, call.first, f.gained, full)
}

// settleMeanwhile has outcomes go out on their own because the claim under way
// takes too long for them to wait for the next one.
func (s *Server) settleMeanwhile() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.settler.wakeFor(s)
}

// claimFailed lets the loop pause, unless some queue gave something all the
// same, and has the heartbeat look when the store does not know the worker.
func (s *Server) claimFailed(w *worker, err error, asked int, gave bool, now time.Time) {
	f := &s.fetcher
	f.alone = now.Add(s.cfg.Lease)
	if f.away.failed(now, err) {
		s.note(s.loudness(now.Sub(f.away.since)), "jobs: a claim failed, trying again until it works", f.away.args("worker", w.id)...)
	}
	if gave {
		f.succeeded = now
	} else {
		f.notBefore = now.Add(backoff(f.away.failures))
	}
	switch {
	case errors.Is(err, ErrClosed):
		s.drainLocked(err)
	case errors.Is(err, broker.ErrWorkerGone):
		poke(s.renewNow)
	case broker.MayHaveApplied(err):
		f.size.lost(asked)
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
