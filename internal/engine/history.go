package engine

import (
	"context"
	"log/slog"
	"time"

	"github.com/seed81422ce9/jobs/internal/history"
	"github.com/seed81422ce9/jobs/internal/sleep"
)

const (
	historyFirst    = 5 * time.Second // after the start: short, so that rates are soon known
	historyInterval = time.Minute
	historyIdle     = time.Hour // the longest interval in a process of its own where nothing happens
)

// keepHistory has the store keep what its queues did, as one of the servers that
// share it, until ctx ends. It has a goroutine of its own: a store with many queues
// takes a while, and nothing else is to wait for that.
func (s *Server) keepHistory(ctx context.Context) {
	k := history.NewKeeper(s.broker, s.opts.NewID())
	var away outage
	traffic, idle := -1, historyInterval
	for wait := sleep.Jitter(historyFirst, 0.5); after(ctx, wait); {
		s.mu.Lock()
		now := -1
		if s.worker != nil {
			now = s.worker.traffic
		}
		s.mu.Unlock()
		if s.limits.InProcess && now == traffic { // nobody else does something
			idle = min(2*idle, historyIdle)
			wait = idle
			continue
		}
		wait, idle, traffic = historyInterval, historyInterval, now
		callCtx, cancel := context.WithTimeout(ctx, historyInterval)
		err := k.Turn(callCtx)
		cancel()
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
