package relay

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/seed81422ce9/jobs/broker"
	"github.com/seed81422ce9/jobs/internal/sleep"
)

const (
	// stepBytes bounds the payloads that a claim returns: a Redis script stores this much in about 20
	// ms.
	stepBytes = 4 << 20
	// waitMax is how long a claim waits for jobs.
	waitMax = time.Minute
	// pollEvery is the time between claims at a store whose claims do not wait.
	pollEvery = 200 * time.Millisecond
)

// carry moves jobs until the context drain ends or, with StopWhenEmpty, no job is left. The context both
// ends when drain or the term ends. The relay holds one batch at a time; the claim of the next one
// settles it.
func (t *term) carry(drain, both context.Context) error {
	for attempt := 0; t.alive.Err() == nil; {
		if len(t.batch) == 0 {
			t.target.over()
			if drain.Err() != nil {
				return t.settle()
			}
			if err := t.claim(both); err != nil || t.idle && t.cfg.StopWhenEmpty {
				return err
			}
		}
		before := len(t.batch)
		why := t.send()
		if len(t.batch) == 0 {
			attempt = 0
			continue
		}
		if errors.Is(why, broker.ErrClosed) || t.alive.Err() != nil {
			return why
		}
		// Settle the decided jobs now, since the rest may have to wait long.
		if err := t.settle(); err != nil || drain.Err() != nil {
			return err
		}
		if len(t.batch) < before {
			attempt = 0
		}
		t.target.has(why)
		if sleep.For(both, t.patience(why, attempt)) == nil {
			attempt++
		}
	}
	return errLost
}

// patience returns the pause before jobs are sent again. It stays short for a full
// queue, which has room as soon as its workers complete a few jobs.
func (t *term) patience(why error, attempt int) time.Duration {
	if errors.Is(why, broker.ErrQueueFull) {
		attempt = min(attempt, 4)
	}
	return pause(attempt)
}

// claim settles the decided jobs and takes the next batch. It waits for one if the
// last claim found none.
func (t *term) claim(both context.Context) error {
	req := broker.ClaimRequest{Worker: t.worker, Queues: []broker.Share{{Queue: t.cfg.FromQueue, Max: t.cfg.Batch}}, Max: t.cfg.Batch,
		Bytes: stepBytes}
	if len(t.done) > broker.MaxClaim { // an inherited batch can be larger than one settle
		if err := t.settle(); err != nil {
			return err
		}
	}
	ctx, timeout := t.alive, callTimeout
	switch {
	case len(t.done) > 0:
		req.Settle = t.settlement(t.done)
	case t.idle && t.cfg.From.Limits().NoWait:
		if sleep.For(both, pollEvery) != nil {
			return nil
		}
	case t.idle:
		if req.Wait = waitMax; t.nextDue > 0 {
			req.Wait = min(waitMax, t.nextDue)
		}
		ctx, timeout = both, timeout+req.Wait
	}
	trouble := t.trouble("jobs: the source of the relay is away")
	var reply broker.Claimed
	for attempt := 0; ; attempt++ {
		one, cancel := context.WithTimeout(ctx, timeout)
		var err error
		reply, err = t.cfg.From.Claim(one, req)
		cancel()
		if err == nil {
			break
		}
		if both.Err() != nil && t.alive.Err() == nil {
			return nil // the relay drains
		}
		if broker.MayHaveApplied(err) || !errors.Is(err, broker.ErrUnavailable) {
			return err
		}
		trouble.has(err)
		if sleep.For(both, pause(attempt)) != nil {
			return nil
		}
	}
	trouble.over()
	t.clock(reply.Now)
	if len(t.done) > 0 {
		if err := t.settled(t.done, reply.Verdicts, reply.SettleErr); err != nil {
			return err
		}
		t.done = t.done[:0]
	}
	t.take(reply)
	return nil
}

// take adds the jobs of a claim to the batch.
func (t *term) take(reply broker.Claimed) {
	t.idle, t.nextDue = len(reply.Jobs) == 0 && !reply.More, 0
	if !reply.NextDue.IsZero() {
		t.nextDue = max(reply.NextDue.Sub(reply.Now), time.Millisecond)
	}
	t.cancels.Clear()
	for i := range reply.Jobs {
		j := &reply.Jobs[i]
		refused := strings.HasPrefix(j.Errors.Last().Code, refusedPrefix) // redriven since, so the target does not have it
		t.batch = append(t.batch, item{job: j, fresh: j.Deliveries == 0 || refused})
	}
	t.holding()
}

func (t *term) settlement(items []broker.Settlement) broker.SettleRequest {
	t.number++
	return broker.SettleRequest{Worker: t.worker, Number: t.number, Items: items}
}

// settle settles the decided jobs at the source. An error after which the source
// may or may not have applied the call ends the term.
func (t *term) settle() error {
	for len(t.done) > 0 {
		some := t.done[:min(len(t.done), broker.MaxClaim)]
		verdicts, err := call(t.alive, t.cfg.From.Settle, t.settlement(some))
		if errors.Is(err, broker.ErrUnavailable) && !broker.MayHaveApplied(err) {
			return nil // the next settle includes these again
		}
		if err := t.settled(some, verdicts, err); err != nil {
			return err
		}
		t.done = t.done[len(some):]
	}
	return nil
}

// settled records the answer to a settle.
func (t *term) settled(items []broker.Settlement, verdicts []broker.Verdict, err error) error {
	for i := range verdicts {
		if err == nil && broker.StoreFailed(verdicts[i].Err) {
			err = verdicts[i].Err
		}
	}
	if err != nil {
		return err
	}
	t.holding()
	t.mu.Lock()
	defer t.mu.Unlock()
	for i, v := range verdicts {
		switch o := items[i].Outcome; {
		case v.Err != nil: // the lease is lost; the worker that has the job now settles it
		case o.Kind() == broker.OutcomeComplete:
			t.stats.Relayed++
		case o.Kind() == broker.OutcomeDie:
			t.stats.Refused[Refusal(o.Failure().Code)]++
		}
	}
	return nil
}
