package engine

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"log/slog"
	"time"

	"github.com/seed81422ce9/jobs/broker"
	"github.com/seed81422ce9/jobs/internal/guard"
)

const (
	markGrace = 24 * time.Hour // a mark outlives its run, so that a late reclaim finds it
	markOwner = "handler"
)

// marks records in the store which guarded jobs have begun: a job that crashed again is
// charged only if its handler had begun.
type marks struct {
	broker  broker.Broker
	log     *slog.Logger
	reports *guard.Reports
	lease   time.Duration
	off     bool // the store has no marks
}

// name returns the name of the mark of a job's lease. Deliveries rises when a lease is
// settled, and not when the job is reclaimed.
func (m *marks) name(j *broker.Job) string {
	sum := sha256.Sum256(fmt.Appendf(nil, "%q %q %d", j.Queue, j.ID, j.Deliveries))
	return "begun:" + hex.EncodeToString(sum[:])
}

// begin stores that the handler of a job begins. It returns the mark's fence, and false
// if the mark could not be stored; the job must not run then.
func (m *marks) begin(r *Run) (fence int64, ok bool) {
	ttl := broker.MaxDelay
	if !r.end.IsZero() {
		ttl = min(max(r.end.Sub(r.started), 0)+markGrace+10*m.lease, ttl)
	}
	marked, err := m.call(broker.MarkRequest{Name: m.name(r.Job), Action: broker.MarkTake, Owner: markOwner, TTL: ttl})
	if err != nil {
		m.reports.Report(m.log, "mark", slog.LevelWarn, "jobs: a job that crashed before cannot be marked as begun, it is snoozed",
			"queue", r.Job.Queue, "id", r.Job.ID, "type", r.Job.Type, "error", err)
	}
	return marked.Fence, err == nil && marked.Held
}

// end removes the mark: a later crash is not caused by the handler.
func (m *marks) end(j *broker.Job, fence int64) {
	if _, err := m.call(broker.MarkRequest{Name: m.name(j), Action: broker.MarkDrop, Owner: markOwner, Fence: fence}); err != nil {
		m.reports.Report(m.log, "mark", slog.LevelWarn, "jobs: the mark of a job that crashed before cannot be removed",
			"queue", j.Queue, "id", j.ID, "type", j.Type, "error", err)
	}
}

// had reports whether the handler of a reclaimed job had begun, and removes the
// mark.
func (m *marks) had(j *broker.Job) (begun bool, err error) {
	marked, err := m.call(broker.MarkRequest{Name: m.name(j), Action: broker.MarkRead})
	if err != nil || !marked.Held {
		return false, err
	}
	m.end(j, marked.Fence)
	return true, nil
}

func (m *marks) call(req broker.MarkRequest) (broker.Marked, error) {
	ctx, cancel := context.WithTimeout(context.Background(), serverCallTimeout)
	defer cancel()
	return m.broker.Mark(ctx, req)
}

// innocent returns, for each guarded job among those reclaimed, whether it is not charged
// because the store has no mark of it or the marks cannot be read.
func (m *marks) innocent(jobs []broker.Job, isGuarded func(*broker.Job) bool) map[*broker.Job]bool {
	found := make(map[*broker.Job]bool)
	var failed error
	for i := range jobs {
		j := &jobs[i]
		if !isGuarded(j) || m.off {
			continue
		}
		begun := false
		if failed == nil {
			begun, failed = m.had(j)
		}
		found[j] = !begun
	}
	if failed != nil {
		m.reports.Report(m.log, "mark", slog.LevelWarn,
			"jobs: the marks of a server that died cannot be read, its jobs go back without a charge", "error", failed)
	}
	return found
}
