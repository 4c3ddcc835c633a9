package pgbroker

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/seed81422ce9/jobs/broker"
)

// How often a claim that waits looks by itself. Without notifications the
// pauses grow from the first to the last as long as nothing comes.
const (
	pollFirst     = 10 * time.Millisecond
	pollLast      = 250 * time.Millisecond
	pollListening = 3 * time.Second
)

// lookTime bounds a look whose caller no longer does.
const lookTime = 10 * time.Second

// claimWaiting claims until something came, the time is up, or ctx ends. It
// looks first, unless that is known to be in vain, and again when it is woken,
// when the next job is due, and now and then: only for pending jobs, when these
// are all that can have come. Between the looks it holds nothing of the store's.
// §17.
func (b *Broker) claimWaiting(ctx context.Context, req *broker.ClaimRequest) (broker.Claimed, error) {
	queues := make([]string, 0, len(req.Queues))
	for _, s := range req.Queues {
		queues = append(queues, s.Queue)
	}
	p := b.waker.wait(distinct(queues))
	defer b.waker.leave(p)
	end := time.Now().Add(req.Wait)
	timer := time.NewTimer(0)
	defer timer.Stop()
	pause, woken, passes := pollFirst, true, 0
	for {
		listening := b.listen()
		var got claimed
		var err error
		var known *standing
		pending := false
		if woken && listening {
			known, pending = b.quiet.tell(req, b.waker.sofar())
		}
		if known == nil || pending {
			got, err = b.claimFor(ctx, req, known)
		} else {
			got.Now, got.NextDue = known.time(), known.due
		}
		if err != nil || len(got.Jobs) > 0 || got.More && !got.passed || !time.Now().Before(end) {
			return got.Claimed, err
		}
		wait := jitter(pause)
		if pause = min(pause*3/2, pollLast); listening {
			wait = jitter(b.poll)
		}
		if !got.NextDue.IsZero() {
			wait = min(wait, max(got.NextDue.Sub(got.Now), 0)) // both by the store's clock
		}
		if got.passed {
			wait = min(wait, jitter(passedPause<<min(passes, 5)))
			passes++
		} else {
			passes = 0
		}
		timer.Reset(min(wait, time.Until(end)))
		woken = false
		select {
		case <-p.woken:
			pause, woken = pollFirst, true
		case <-timer.C:
		case <-ctx.Done():
			return got.Claimed, broker.About(ctx.Err(), "claim", "", "")
		case <-b.closed:
			return got.Claimed, broker.About(broker.ErrClosed, "claim", "", "")
		}
	}
}

// claimFor is one look of a claim that waits. The store may lease jobs for a
// look whose caller has just gone: then they are put back at once.
func (b *Broker) claimFor(ctx context.Context, req *broker.ClaimRequest, known *standing) (claimed, error) {
	type answer struct {
		got claimed
		err error
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

// jitter spreads pauses, so that processes that began together part company.
func jitter(d time.Duration) time.Duration {
	return d*3/4 + rand.N(d/2)
}

// wakeOthers wakes claims that wait, of a transaction that has ended and did not
// itself tell those of other processes.
func (b *Broker) wakeOthers(queue string) {
	b.waker.announce(queue, true)
	b.waker.announced(queue, true, nil, nil)
}
