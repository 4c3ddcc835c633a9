package engine

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/seed81422ce9/jobs/broker"
)

// Bounds of one settle. Results and errors of 4 MB take some ten milliseconds of a store.
const (
	maxSettleItems = broker.MaxClaim
	maxSettleBytes = 4 << 20
	maxUnsettled   = 4 * broker.MaxClaim // with more outcomes, four full calls, the server claims nothing
)

// settler sends outcomes. When a call has returned, it sends at once all that came
// meanwhile: no outcome waits for a batch to fill, and under load batches are large.
// When a claim that does not wait is about to be made, the claim carries them instead.
// Guarded by Server.mu, except poke.
type settler struct {
	poke      chan struct{}
	parked    bool
	unsettled int
	away      outage               // settles that failed in a row
	answered  time.Time            // when the store last took outcomes, or the oldest unsettled one came
	closed    bool                 // the broker was closed: nothing will be settled any more
	flushed   chan struct{}        // closed when nothing is left to settle, or can be; nil unless a drain waits for that
	keeping   map[*broker.Job]*Run // runs whose keep was not answered yet
}

func (t *settler) init() { t.poke = make(chan struct{}, 1) }

// settleLocked has the outcome of a lease of w sent.
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

// wakeFor wakes the settler if it can send something.
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

// batchLocked returns the next settle of w, or the last one if it was not answered.
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

// carryLocked returns the outcomes that a claim of w carries. For the time of a lease after
// a claim failed, it returns none: a claim that times out would delay them.
func (s *Server) carryLocked(w *worker) broker.SettleRequest {
	if !w.sendable() || len(w.items) > 0 || time.Now().Before(s.fetcher.alone) {
		return broker.SettleRequest{}
	}
	return s.batchLocked(w)
}

// settleLoop sends the outcomes that no claim carries.
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

// nextSettle returns the oldest worker that has something to settle, and the request.
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

// answered handles the answer to the settle of w under way. It returns how many
// attempts have failed in a row.
func (s *Server) answered(w *worker, verdicts []broker.Verdict, err error, took time.Duration) int {
	items := w.items // they do not change while w is calling
	ended := err != nil && (errors.Is(err, broker.ErrLeaseLost) || errors.Is(err, broker.ErrWorkerGone))
	answered := len(verdicts) == len(items) || ended
	left := 0 // items to send again
	var failed error
	if answered && !ended {
		s.mu.Lock()
		s.excuseLocked(w, items, verdicts, time.Now())
		s.mu.Unlock()
		items, verdicts, left, failed = unanswered(items, verdicts)
	}
	if hook := s.opts.Hooks.Settle; hook != nil {
		e := SettleEvent{Items: items[left:], Took: took, Err: err}
		if answered && !ended {
			e.Verdicts, e.Err = verdicts[left:], failed
		}
		hook(e)
	}

	s.mu.Lock()
	defer s.unlock()
	now := time.Now()
	w.calling = false
	t := &s.settler
	if !answered && refused(err) {
		s.splitRefusedLocked(w, err)
		t.wakeFor(s)
		return 0
	}
	if answered {
		t.answered = now
		s.endedLocked(w, items[left:], verdicts[left:], now)
		w.items = items[:left]
	} else if left, failed = len(items), err; errors.Is(err, broker.ErrClosed) {
		s.drainLocked(err)
		t.closed = true
		s.flushedLocked()
	}
	if left > 0 {
		if t.away.failed(now, failed) {
			s.logLocked(t.away.level(now, s.opts.Lease), "jobs: a settle failed, repeating it until it is answered",
				t.away.args("worker", w.id, "items", left)...)
		}
		t.wakeFor(s)
		return t.away.failures
	}
	if t.away.ended() {
		s.logLocked(slog.LevelInfo, "jobs: settling works again", "worker", w.id)
	}
	w.batchLimit = min(2*w.batchLimit, maxSettleItems)
	s.forgetEndedLocked(w)
	return 0
}

// unanswered returns the items with those of queues in which the store failed at the front, in
// their order, with their verdicts, the number of these, and the first one's error. They
// are sent again under the number of the same settle: each queue compares numbers on its
// own. It changes neither argument: an audit may be reading the items.
func unanswered(items []broker.Settlement, verdicts []broker.Verdict) (
	sorted []broker.Settlement, answers []broker.Verdict, left int, err error,
) {
	var failed map[string]bool
	for i := range verdicts {
		if e := verdicts[i].Err; broker.StoreFailed(e) {
			if failed == nil {
				failed, err = make(map[string]bool), e
			}
			failed[items[i].Job.Queue] = true
		}
	}
	if failed == nil {
		return items, verdicts, 0, nil
	}
	sorted, answers = make([]broker.Settlement, 0, len(items)), make([]broker.Verdict, 0, len(items))
	for _, again := range []bool{true, false} {
		for i := range items {
			if failed[items[i].Job.Queue] == again {
				sorted, answers = append(sorted, items[i]), append(answers, verdicts[i])
			}
		}
		if again {
			left = len(sorted)
		}
	}
	return sorted, answers, left, err
}

// endedLocked handles the verdicts on outcomes; without verdicts all leases were lost.
func (s *Server) endedLocked(w *worker, items []broker.Settlement, verdicts []broker.Verdict, now time.Time) {
	lost, ended, why := 0, 0, broker.ErrLeaseLost
	for i := range items {
		if items[i].Outcome.Kind() == broker.OutcomeKeep {
			err := broker.ErrLeaseLost
			if len(verdicts) > 0 {
				err = verdicts[i].Err
			}
			s.keptLocked(&items[i], err, now)
			continue
		}
		ended++
		if w.ended != nil {
			w.ended[leaseOf(items[i].Job)] = true
		}
		w.held[s.queueOf(items[i].Job.Queue)]--
		switch {
		case len(verdicts) == 0:
			lost++
		case verdicts[i].Err != nil:
			lost++
			why = verdicts[i].Err
		case verdicts[i].State == broker.StateRetry && s.limits.NoWait:
			s.fetcher.dueAt(now.Add(items[i].Outcome.Delay()))
		}
	}
	s.inTx.forget(items)
	w.leases -= ended
	w.traffic++
	s.pruner.soon(now)
	full := s.settler.unsettled > maxUnsettled
	s.settler.unsettled -= len(items)
	clear(items)
	if full {
		s.fetcher.wake()
	}
	if lost > 0 {
		s.logLocked(slog.LevelWarn, "jobs: outcomes were refused, the jobs run again elsewhere",
			"worker", w.id, "jobs", lost, "error", why)
	}
	s.flushedLocked()
}

// flushedLocked ends the wait of a drain if nothing is left to settle, or can be.
func (s *Server) flushedLocked() {
	if t := &s.settler; t.flushed != nil && (t.unsettled == 0 || t.closed) {
		close(t.flushed)
		t.flushed = nil
	}
}

// refused reports whether err says that the store will never accept this request.
func refused(err error) bool {
	return errors.Is(err, broker.ErrInvalid) || errors.Is(err, broker.ErrTooLarge) || errors.Is(err, broker.ErrUnsupported) ||
		errors.Is(err, broker.ErrMalformed)
}

// splitRefusedLocked finds the outcome for which a batch was refused, by sending smaller
// batches, so that the others are settled. The policy replaces the refused outcome with a
// failure. If the failure is refused, too, the server drops the outcome and counts the
// lease as lost. The store still has the lease: the next audit releases the job.
func (s *Server) splitRefusedLocked(w *worker, err error) {
	n := len(w.items)
	if n > 1 {
		w.batchLimit = max(1, n/2)
		w.done = append(append(make([]broker.Settlement, 0, n+len(w.done)), w.items...), w.done...)
		clear(w.items)
		w.items = w.items[:0]
		return
	}
	item := w.items[0]
	if item.Outcome.Kind() == broker.OutcomeKeep {
		s.endedLocked(w, w.items, []broker.Verdict{{Err: err}}, time.Now())
		w.items = w.items[:0]
		return
	}
	s.logLocked(slog.LevelError, "jobs: an outcome was refused", "queue", item.Job.Queue, "id", item.Job.ID, "outcome",
		item.Outcome.Kind().String(), "error", err)
	if w.refused == item.Job {
		s.endedLocked(w, w.items, nil, time.Now())
		w.items = w.items[:0]
		return
	}
	w.refused = item.Job
	w.items[0].Outcome = s.policy.Refused(item.Job, w.id, s.clock.at(time.Now()), err)
	if k := item.Outcome.Kept(); k != nil {
		w.items[0].Outcome = w.items[0].Outcome.With(*k)
	}
	w.number++
}
