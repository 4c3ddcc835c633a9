package engine

import (
	"context"
	"log/slog"
	"time"

	"github.com/seed81422ce9/jobs/broker"
	"github.com/seed81422ce9/jobs/internal/history"
	"github.com/seed81422ce9/jobs/internal/sleep"
)

const (
	historyFirst    = 5 * time.Second // after the start: short, so that rates are soon known
	historyInterval = time.Minute
	historyIdle     = time.Hour // the longest interval while nothing happens in a store of this process
)

// keepHistory stores the history of the queues until ctx ends. Of the servers that share
// the store, one at a time stores it. It is a loop of its own, because it takes a while
// for many queues and no other loop should wait for that.
func (s *Server) keepHistory(ctx context.Context) {
	k := history.NewKeeper(s.broker, s.keeperID)
	var away outage
	traffic, idle := -1, historyInterval
	for wait := sleep.Jitter(historyFirst, 0.5); after(ctx, wait); {
		s.mu.Lock()
		now := -1
		if s.worker != nil {
			now = s.worker.traffic
		}
		s.mu.Unlock()
		if s.limits.InProcess && now == traffic { // no other process changes the store
			idle = min(2*idle, historyIdle)
			wait = idle
			continue
		}
		wait, idle, traffic = historyInterval, historyInterval, now
		callCtx, cancel := context.WithTimeout(ctx, historyInterval)
		err := s.postLatencies(callCtx)
		if err == nil {
			err = k.Turn(callCtx)
		}
		cancel()
		if err != nil {
			traffic = -1 // try again, even if nothing happens meanwhile
		}
		switch {
		case ctx.Err() != nil:
		case err == nil:
			away.ended()
		case away.failed(time.Now(), err):
			s.log.Log(ctx, slog.LevelWarn, "jobs: the history of queues could not be stored, trying again later", away.args()...)
		}
	}
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), LastEvents)
	defer cancel()
	k.Drop(last)
}

// measureLocked counts how long a job waited, unless that is zero, and how long its run
// took.
func (s *Server) measureLocked(queue int, waited, ran time.Duration) {
	l := &s.latencies[queue]
	if waited > 0 {
		l.WaitTimes.Add(waited)
	}
	l.RunTimes.Add(ran)
}

// postLatencies posts the latencies measured since the last post, for the server that
// keeps the history. Those that could not be posted are part of the next post.
func (s *Server) postLatencies(ctx context.Context) error {
	seen := make(map[string]history.Latency)
	s.mu.Lock()
	for i, l := range s.latencies {
		if l.RunTimes != nil {
			seen[s.names[i]] = l
			s.latencies[i] = history.Latency{}
		}
	}
	s.mu.Unlock()
	if len(seen) == 0 {
		return nil
	}
	again, err := history.Post(ctx, s.broker, s.keeperID, seen)
	if !again {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for queue, l := range seen {
		mine := &s.latencies[s.queueOf(queue)]
		*mine = mine.Plus(l)
	}
	return err
}

// waitedLocked returns how long a job waited for its first run since it was first due,
// or zero for later runs. Jobs that were rescheduled, redriven or held count as later
// runs, because their body does not say when they became due.
func (s *Server) waitedLocked(r *Run) time.Duration {
	j := r.Job
	if j.Epoch != int64(j.Deliveries) || j.Failures+j.Snoozes+j.Crashes > 0 {
		return 0
	}
	return measured(s.clock.at(r.started).Sub(j.CreatedAt) - j.DueAfter)
}

// measured bounds a duration for a settlement: zero would mean that nothing was
// measured, and a clock that was set could make it negative or too long.
func measured(d time.Duration) time.Duration {
	return min(max(d, time.Microsecond), broker.MaxDelay)
}
