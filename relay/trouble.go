package relay

import (
	"time"

	"github.com/seed81422ce9/jobs/broker"
)

// Bounds of the pause between two log entries about one series of failures. The first failure is logged
// at once; later pauses are as long as the series has lasted.
const (
	toldAgain    = 10 * time.Second
	toldAgainMax = 10 * time.Minute
)

// trouble is a series of failures of one kind. It belongs to one goroutine.
type trouble struct {
	*Relay
	text        string
	since, next time.Time
	reconnect   time.Time // when to open new connections
	failures    int
}

func (r *Relay) trouble(text string) *trouble { return &trouble{Relay: r, text: text} }

// has counts a failure, logs it, and shows it in Stats. After several leases
// the stores are asked to open new connections.
func (t *trouble) has(err error) {
	now := time.Now()
	bound := 3 * t.cfg.Lease
	if t.failures++; t.failures == 1 {
		t.since, t.next, t.reconnect = now, now, now.Add(bound)
	}
	t.obstacle(err)
	if broker.StoreFailed(err) && !now.Before(t.reconnect) {
		t.reconnect = now.Add(bound)
		t.cfg.From.Reconnect()
		t.cfg.To.Reconnect()
	}
	if now.Before(t.next) {
		return
	}
	t.next = now.Add(min(max(now.Sub(t.since), toldAgain), toldAgainMax))
	t.cfg.Logger.Warn(t.text, "queue", t.cfg.FromQueue, "error", err, "failures", t.failures,
		"lasting", now.Sub(t.since).Round(time.Millisecond))
}

// over ends the series.
func (t *trouble) over() {
	if t.failures == 0 {
		return
	}
	t.obstacle(nil)
	t.cfg.Logger.Info("jobs: the relay continues", "queue", t.cfg.FromQueue, "failures", t.failures,
		"after", time.Since(t.since).Round(time.Millisecond))
	t.failures = 0
}

// obstacle shows in Stats what the relay waits for.
func (r *Relay) obstacle(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.stats.Err = err
}
