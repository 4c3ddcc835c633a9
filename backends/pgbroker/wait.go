package pgbroker

import (
	"context"
	"time"

	"github.com/seed81422ce9/jobs/broker"
)

// How often a waiting claim polls. Without notifications, the pauses grow from pollFirst to
// pollLast while the process gets no jobs. With notifications, all processes that wait for a
// queue together make one poll every pollListening.
const (
	pollFirst     = 10 * time.Millisecond
	pollLast      = time.Second
	pollSoon      = 250 * time.Millisecond // for jobs that the last look may not have seen yet
	pollListening = 3 * time.Second
)

// pollShare is how many polls per second the workers of a queue that never listen make together. With more
// workers, each polls less often.
const pollShare = 4

// pollLongest returns the longest pause between the polls of a process that gets no notifications.
func (b *Broker) pollLongest() time.Duration {
	return max(pollLast, time.Duration(b.pollers.Load())*pollLast/pollShare)
}

// lookTime bounds a look, which continues even if its caller has gone.
const lookTime = 10 * time.Second

// claimWaiting claims until it gets jobs, the time is up, or ctx ends. It looks at once, unless
// the last claim took all claimable jobs and no wake-up came since. It looks again when it is
// woken, when the next job is due, and at intervals. It looks only for pending jobs if the
// wake-ups were only about these. Between the looks it holds no connection and no lock. §17.
func (b *Broker) claimWaiting(ctx context.Context, req *broker.ClaimRequest) (broker.Claimed, error) {
	queues := distinct(queuesOf(req.Queues))
	p := b.waker.wait(queues)
	defer b.waker.leave(p)
	end := time.Now().Add(req.Wait)
	timer := time.NewTimer(0)
	defer timer.Stop()
	pause, woken, passes, entered := time.Duration(b.pause.Load()), true, 0, false
	fleet := b.pollLongest() > pollLast
	for {
		listening, looked := b.listen(), time.Now()
		awaited := listening && b.waker.known(queues) // other processes wake this one
		var known *lastLook
		if woken && (awaited || fleet && b.polls()) {
			known = b.last.tell(req, queues, b.waker, b.pollPause())
			if known != nil && !awaited && (!known.quiet || time.Since(known.at) >= pause) {
				known = nil
			}
		}
		if known != nil {
			looked = known.at
		}
		got, err := b.look(ctx, req, known)
		if err != nil {
			b.waker.forget(queues...)
		}
		if len(got.Jobs) > 0 {
			pause = 0
		}
		b.pause.Store(int64(pause))
		if err != nil || len(got.Jobs) > 0 || got.More && !got.passed || !time.Now().Before(end) {
			return got.Claimed, err
		}
		if listening && !awaited {
			if b.enterWaiters(ctx, queues) == nil && b.waker.known(queues) {
				entered = true
				continue // look again, for jobs that came before this process was registered
			}
			listening = false
		}
		wait := jitter(max(pause, pollFirst))
		switch {
		case listening:
			wait, pause = b.pollPause()-time.Since(looked), min(max(pause, pollFirst)*3/2, pollLast)
		case known != nil:
			wait = pause - time.Since(looked)
		default:
			pause = min(max(pause, pollFirst)*3/2, b.pollLongest())
		}
		if entered { // a transaction that did not see the registration yet may have committed after the look
			wait, entered = min(wait, pollSoon), false
		}
		next, regular := got.NextDue, wait
		if listening && b.waker.hasPeers() {
			next = b.dues.Next(req.Worker, queues, next)
		}
		if !next.IsZero() {
			wait = min(wait, max(next.Sub(got.Now), 0)) // both by the store's clock
		}
		if got.passed {
			wait = min(wait, jitter(passedPause<<min(passes, 5)))
			passes++
		} else {
			passes = 0
		}
		left := time.Until(end)
		timer.Reset(min(wait, left))
		woken = false
		select {
		case <-p.woken:
			pause, woken = 0, true
		case <-timer.C:
			if left < wait && (listening || fleet && b.polls()) {
				b.pause.Store(int64(pause))
				return got.Claimed, nil
			}
			if listening {
				_ = b.enterWaiters(ctx, queues) // the number of processes that share the polls may have changed
			}
			if wait == regular {
				b.dues.Called(queues...) // the worker that watched the due times may have died
			}
		case <-ctx.Done():
			return got.Claimed, broker.About(ctx.Err(), "claim", "", "")
		case <-b.closed:
			return got.Claimed, broker.About(broker.ErrClosed, "claim", "", "")
		}
	}
}

// look makes one look of a waiting claim, in the queues of which known says that they may have pending jobs. If the
// store leases jobs after the caller has gone, look releases them at once.
func (b *Broker) look(ctx context.Context, req *broker.ClaimRequest, known *lastLook) (claimed, error) {
	type answer struct {
		got claimed
		err error
	}
	if known != nil && len(known.called) == 0 {
		return claimed{Claimed: broker.Claimed{Now: known.time(), NextDue: known.due}}, nil
	} else if known != nil {
		some := *req
		some.Queues = known.called
		req = &some
	}
	answered, gone := make(chan answer), make(chan struct{})
	started := b.tasks.start(func(context.Context) {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), lookTime)
		defer cancel()
		got, err := b.claim(ctx, req, known)
		select {
		case answered <- answer{got, err}:
		case <-gone:
			if len(got.Jobs) > 0 {
				b.release(ctx, poolSession{b}, req.Worker, time.Time{}, got.Jobs)
			}
		}
	})
	if !started {
		return claimed{}, broker.About(broker.ErrClosed, "claim", "", "")
	}
	select {
	case a := <-answered:
		return a.got, a.err
	case <-ctx.Done():
		close(gone)
		return claimed{}, broker.About(ctx.Err(), "claim", "", "")
	}
}

// wakeOthers wakes waiting claims after a transaction that sent no wake-up.
func (b *Broker) wakeOthers(queue string) { b.waker.announced(queue, true, manyJobs, nil, nil) }
