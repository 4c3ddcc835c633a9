package engine

import (
	"context"
	"time"

	"github.com/seed81422ce9/jobs/broker"
)

// Bounds of one settle.
const (
	maxSettleItems = broker.MaxClaim
	maxSettleBytes = 4 << 20
	maxUnsettled   = 4 * broker.MaxClaim // beyond it nothing more is claimed
)

// settler sends outcomes. Whatever ended since its last call returned goes out
// at once, so that waiting adds no delay and load makes the batches. A claim
// that does not wait carries them instead when one is about to be made.
// Guarded by Server.mu, but for poke.
type settler struct {
	poke      chan struct{}
	parked    bool
	unsettled int
	away      outage               // settles that failed in a row
	answered  time.Time            // when the store last took outcomes, or the first of those that wait came
	flushed   chan struct{}        // closed when nothing is left to settle; made by who waits for it
	keeping   map[*broker.Job]*Run // whose keep was not answered yet
}

func (t *settler) init() { t.poke = make(chan struct{}, 1) }

// settleLocked notes how a lease of w ended.
func (s *Server) settleLocked(w *worker, j *broker.Job, o broker.Outcome) {
	s.settleAtLocked(w, broker.Settlement{Job: j, Outcome: o}, time.Now())
}

func (s *Server) settleAtLocked(w *worker, item broker.Settlement, now time.Time) {
	w.done = append(w.done, item)
	if s.settler.unsettled++; s.settler.unsettled == 1 {
		s.settler.answered = now
	}
	if w == s.worker && s.fetcher.carries(now) {
		return
	}
	s.settler.wakeFor(s)
}

// carries reports whether the loop that claims will soon look at what there is
// to settle.
func (f *fetcher) carries(now time.Time) bool {
	return !now.Before(f.alone) && (f.state == fetchAbout || f.state == fetchCalling && now.Sub(f.began) < youngCall)
}

// wakeFor wakes the settler if there is something that it can send.
func (t *settler) wakeFor(s *Server) {
	if !t.parked {
		return
	}
	for _, w := range s.workers {
		if w.sendable() {
			t.parked = false
			poke(t.poke)
			return
		}
	}
}

// sendable reports whether a settle of w could be sent now.
func (w *worker) sendable() bool { return !w.calling && (len(w.items) > 0 || len(w.done) > 0) }

// batchLocked makes the next settle of w, or repeats the one that was not answered.
func (s *Server) batchLocked(w *worker) broker.SettleRequest {
	w.calling = true
	if len(w.items) == 0 {
		n, size := 0, 0
		for n < len(w.done) && n < w.batchLimit && size < maxSettleBytes {
			size += outcomeSize(w.done[n].Outcome)
			n++
		}
		w.number++
		if n == len(w.done) {
			w.items, w.done = w.done, w.items
		} else {
			w.items = append(w.items, w.done[:n]...)
			rest := copy(w.done, w.done[n:])
			clear(w.done[rest:])
			w.done = w.done[:rest]
		}
	}
	return broker.SettleRequest{Worker: w.id, Number: w.number, Items: w.items, History: s.opts.ErrorHistory}
}

func outcomeSize(o broker.Outcome) int {
	size := len(o.Result()) + o.Kept().Size()
	if f := o.Failure(); f != nil {
		size += min(len(f.Message), broker.MaxErrorBytes) + min(len(f.Stack), broker.MaxErrorBytes)
	}
	return size
}

// carryLocked is what a claim of w takes along: nothing for a lease after a claim
// failed, since one that is too slow for its time takes the outcomes down with it.
func (s *Server) carryLocked(w *worker) broker.SettleRequest {
	if !w.sendable() || len(w.items) > 0 || time.Now().Before(s.fetcher.alone) {
		return broker.SettleRequest{}
	}
	return s.batchLocked(w)
}

// settleLoop sends what no claim carries.
func (s *Server) settleLoop(ctx context.Context) {
	for ctx.Err() == nil {
		w, req := s.nextSettle()
		if w == nil {
			select {
			case <-s.settler.poke:
			case <-ctx.Done():
			}
			continue
		}
		sent := time.Now()
		callCtx, cancel := context.WithTimeout(ctx, serverCallTimeout)
		verdicts, err := s.broker.Settle(callCtx, req)
		cancel()
		if failures := s.answered(w, verdicts, err, time.Since(sent)); failures > 0 {
			after(ctx, backoff(failures))
		}
	}
}

// nextSettle chooses a worker that has something to settle, oldest first.
func (s *Server) nextSettle() (*worker, broker.SettleRequest) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	for _, w := range s.workers {
		if !w.sendable() || w == s.worker && len(w.items) == 0 && s.fetcher.carries(now) {
			continue
		}
		return w, s.batchLocked(w)
	}
	s.settler.parked = true
	return nil, broker.SettleRequest{}
}
