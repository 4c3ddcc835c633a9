package dashboard

import (
	"context"

	"github.com/seed81422ce9/jobs/broker"
	"github.com/seed81422ce9/jobs/inspect"
)

// queueMore is what a queue's page shows only when it is opened, because it takes
// further calls.
type queueMore struct {
	Note   *inspect.PauseNote
	Groups []group // the largest groups of dead jobs
	Looked int     // dead jobs that were grouped
	All    bool    // Groups are all groups
}

const (
	queueDead   = 500 // dead jobs that a queue's page groups
	queueGroups = 5   // groups that it shows
)

func (h *Handler) queueMore(ctx context.Context, q *inspect.QueueInfo) (*queueMore, error) {
	m := new(queueMore)
	note, known, err := h.inspector.PauseNote(ctx, q.Name)
	if err != nil {
		return nil, err
	}
	if known && note.Paused == q.Policy.Paused {
		m.Note = &note
	}
	if q.Listed(broker.StateDead) == 0 {
		return m, nil
	}
	groups, all, err := h.inspector.DeadGroups(ctx, queueDead, q.Name)
	if err != nil {
		return nil, err
	}
	m.Looked, m.All = groups.Looked, all
	for _, g := range groups.List() {
		if len(m.Groups) < queueGroups {
			m.Groups = append(m.Groups, group{Group: g})
		}
	}
	return m, nil
}

// held says how many of the active jobs of a queue run, and how many are prefetched.
// Workers do not report to which queues their prefetched jobs belong: they are divided
// in proportion, so the numbers are approximate.
type held struct {
	Running, Ahead int
	About          bool
}

func heldOf(q *inspect.QueueInfo, all []inspect.WorkerInfo) (h held) {
	whole := make(map[string]inspect.WorkerInfo, len(all))
	for _, w := range all {
		whole[w.ID] = w
	}
	for _, w := range q.Workers {
		total := max(whole[w.ID].Held, w.Held)
		ahead := max(total-w.Concurrency, 0)
		if ahead > 0 && total > w.Held {
			ahead, h.About = ahead*w.Held/total, true
		}
		h.Ahead += ahead
		h.Running += w.Held - ahead
	}
	return h
}
