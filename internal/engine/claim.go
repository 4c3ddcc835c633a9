package engine

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/seed81422ce9/jobs/broker"
	"github.com/seed81422ce9/jobs/internal/sleep"
)

// claimWaitingLocked makes, in the background, a claim that waits for jobs.
func (s *Server) claimWaitingLocked(ctx context.Context, call claimCall) {
	f := &s.fetcher
	ctx, f.giveUp = context.WithCancel(ctx)
	f.waiting, f.surplus = true, call.surplus
	copy(f.unwaited, f.excluded)
	call.req.Queues = append([]broker.Share(nil), call.req.Queues...)
	// An audit waits for this claim, and must end within a lease. Ready needs an
	// answer within its window.
	call.req.Wait = min(sleep.Jitter(s.opts.PollInterval, 0.25), s.opts.Lease/3, s.opts.ReadinessWindow/5)
	giveUp := f.giveUp
	s.claimers.Go(func() {
		defer giveUp()
		s.claim(ctx, &call)
	})
}

// claim makes a call and handles its answer.
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
	if hook := s.opts.Hooks.Claim; hook != nil && ctx.Err() == nil {
		hook(ClaimEvent{Now: reply.Now, Jobs: reply.Jobs, Asked: call.req.Max, Waited: waited, Took: now.Sub(sent), Err: err})
	}
	if len(call.req.Settle.Items) > 0 {
		settleErr := reply.SettleErr
		if settleErr == nil && err != nil {
			// The claim's error says nothing about the outcomes that it carried.
			settleErr = fmt.Errorf("sent with a claim that failed: %v", brief(err))
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
			f.state = fetchAwake
		}
	}
	s.acceptLocked(call.worker, reply.Jobs, size, now)
	if broker.MayHaveApplied(err) {
		s.doubtLocked(call.worker, ctx.Err() == nil) // the claim may have leased jobs
	}
	if ctx.Err() != nil {
		return // it was given up, so its error says nothing about the store
	}
	if err != nil {
		s.claimFailedLocked(call.worker, err, call.req.Max, len(reply.Jobs) > 0, now)
		return
	}
	if f.away.ended() {
		s.logLocked(slog.LevelInfo, "jobs: claiming works again", "worker", call.worker.id)
	}
	took := now.Sub(sent)
	if waited {
		took = quickClaim // the time without the wait is unknown
	}
	f.size.answered(call.req.Bytes, len(reply.Jobs), size, took)
	f.succeeded = now
	s.clock.set(reply.Now, now)
	f.got, f.gave, f.replied = len(reply.Jobs), len(reply.Jobs) > 0, now
	full := len(reply.Jobs) >= call.req.Max || reply.More
	f.exhausted = !full && !call.narrow
	if s.limits.NoWait && reply.NextDue.After(reply.Now) { // due jobs that the claim did not return are held back, by a pause for example
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
	f.mix.served(call.req.Queues, f.gained, full)
	f.steps.answered(call, sent, now.Sub(sent), full)
}

// settleMeanwhile makes the settler send outcomes, because the claim under way takes
// too long for them to wait for the next one.
func (s *Server) settleMeanwhile() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.settler.wakeFor(s)
}

// claimFailedLocked makes the loop pause, unless some queue returned jobs, and wakes the
// heartbeat if the store does not know the worker.
func (s *Server) claimFailedLocked(w *worker, err error, asked int, gave bool, now time.Time) {
	f := &s.fetcher
	f.alone = now.Add(s.opts.Lease)
	if f.away.failed(now, err) {
		s.logLocked(f.away.level(now, s.opts.Lease), "jobs: a claim failed, trying again until it works", f.away.args("worker", w.id)...)
	}
	if gave {
		f.succeeded = now
	} else {
		f.notBefore = now.Add(backoff(f.away.failures))
	}
	switch {
	case errors.Is(err, broker.ErrClosed):
		s.drainLocked(err)
	case errors.Is(err, broker.ErrWorkerGone):
		poke(s.renewNow)
	case broker.MayHaveApplied(err):
		f.size.lost(asked)
	}
}

// claimSize is how much a claim may ask for: what the connection can carry well within the
// timeout of a call, as earlier answers have shown. Guarded by Server.mu.
type claimSize struct {
	jobs  int
	bytes int
	mean  int // bytes of a job in the last answers
}

const (
	// firstClaimBytes takes a second over 10 Mbit/s, a fifth of a call's time.
	firstClaimBytes = 1 << 20
	leastClaimBytes = 16 << 10 // some jobs, also over a connection of 100 kbit/s
	mostClaimBytes  = broker.DefaultClaimBytes

	quickClaim = serverCallTimeout / 8 // after a quicker answer, ask for twice the bytes
	slowClaim  = serverCallTimeout / 2 // after a slower answer, ask for half the bytes
)

func (z *claimSize) init() { *z = claimSize{jobs: broker.MaxClaim, bytes: firstClaimBytes} }

// most returns how many jobs to ask for instead of want: at most twice as many as
// probably fit into the bytes, since a store may lock all jobs that it is asked for.
func (z *claimSize) most(want int) int {
	return min(want, z.jobs, max(1, 2*z.bytes/max(z.mean, 1)))
}

// lost halves the size after the answer to a claim of asked jobs was lost.
func (z *claimSize) lost(asked int) {
	z.jobs = max(1, min(z.jobs, asked)/2)
	z.bytes = max(leastClaimBytes, z.bytes/2)
}

// answered adapts the size to an answer: the bytes that were asked for, the jobs and
// bytes that came, and how long it took.
func (z *claimSize) answered(asked, jobs, size int, took time.Duration) {
	z.jobs = min(2*z.jobs, broker.MaxClaim)
	if jobs == 0 {
		return
	}
	z.mean += (size/jobs - z.mean) / 2
	switch {
	case took > slowClaim:
		z.bytes = max(leastClaimBytes, z.bytes/2)
	case took < quickClaim && size >= asked:
		z.bytes = min(max(z.bytes, 2*asked), mostClaimBytes)
	}
}

// answerSize returns the bytes of the payloads and headers in an answer.
func answerSize(jobs []broker.Job) int {
	size := 0
	for i := range jobs {
		size += len(jobs[i].Payload)
		for k, v := range jobs[i].Headers {
			size += len(k) + len(v)
		}
	}
	return size
}
