package dashboard

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/seed81422ce9/jobs/inspect"

	"github.com/seed81422ce9/jobs/broker"
)

// rates are jobs per second. Completed, retried and died are counted from the
// store's events, which it sends at most once; enqueued is what the counters
// grew by, and what left them.
type rates struct {
	Enqueued, Completed, Retried, Died float64
	// AtLeast: events were missed, the figures can be too low.
	AtLeast bool
	known   bool
}

// point is one moment in the charts: Unix milliseconds, depths, and rates per
// second. A nil means that it is not known.
type point [10]*float64

// depthStates are the states of a point, in its order.
var depthStates = [...]broker.State{broker.StatePending, broker.StateScheduled, broker.StateActive, broker.StateRetry, broker.StateDead}

func (s *snapshot) point() (p point) {
	p[0] = new(float64(s.taken.UnixMilli()))
	if s.err != nil {
		return p
	}
	for i, state := range depthStates {
		n := 0.0
		for _, q := range s.survey.Queues {
			n += float64(q.Listed(state))
		}
		p[1+i] = &n
	}
	if s.total.known {
		for i, v := range [...]float64{s.total.Enqueued, s.total.Completed, s.total.Retried, s.total.Died} {
			p[6+i] = &v
		}
	}
	return p
}

// ends counts how jobs of a queue ended.
type ends struct{ completed, retried, died, cancelled, missed int64 }

// sample is what the counters showed at a look.
type sample struct {
	at    time.Time
	live  map[string]int64 // jobs that have not ended, by queue
	ended map[string]ends  // since the meter began
}

// meter counts events while pages are open. A nil meter knows no rates.
type meter struct {
	mu      sync.Mutex
	ended   map[string]ends
	samples []sample
	queues  []string // watched
	stop    context.CancelFunc
}

const (
	rateWindow = 10 * time.Second // that rates are averaged over
	maxWatched = 500              // queues
)

// follow watches the queues of a snapshot. Where watching ends, or is refused,
// the next look begins it again.
func (m *meter) follow(ctx context.Context, i *inspect.Inspector, s *snapshot, wg *sync.WaitGroup) {
	if m == nil || s.err != nil || len(s.survey.Queues) > maxWatched {
		return
	}
	names := make([]string, 0, len(s.survey.Queues))
	for _, q := range s.survey.Queues {
		names = append(names, q.Name)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if slices.Equal(names, m.queues) || len(names) == 0 {
		return
	}
	if m.stop != nil {
		m.stop()
	}
	ctx, m.stop = context.WithCancel(ctx)
	m.queues = names
	if m.ended == nil {
		m.ended = make(map[string]ends)
	}
	wg.Go(func() { m.count(ctx, i, names) })
}

// rest stops watching.
func (m *meter) rest() {
	if m == nil {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.stop != nil {
		m.stop()
	}
	m.stop, m.queues, m.samples = nil, nil, nil
}

func (m *meter) count(ctx context.Context, i *inspect.Inspector, names []string) {
	events, err := i.Watch(ctx, names...)
	if err == nil {
		for e := range events {
			m.add(e, names)
		}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if ctx.Err() == nil { // nobody asked it to end
		m.queues, m.samples = nil, nil
	}
}

func (m *meter) add(e broker.Event, names []string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if e.Kind == broker.EventMissed {
		for _, name := range names { // of one of these
			n := m.ended[name]
			n.missed += e.Missed
			m.ended[name] = n
		}
		return
	}
	if e.Kind != broker.EventSettled {
		return
	}
	n := m.ended[e.Queue]
	switch e.State {
	case broker.StateCompleted:
		n.completed++
	case broker.StateRetry:
		n.retried++
	case broker.StateDead:
		n.died++
	case broker.StateCancelled:
		n.cancelled++
	}
	m.ended[e.Queue] = n
}

// rates takes a sample, and compares it with one of a while ago.
func (m *meter) rates(now time.Time, queues []inspect.QueueInfo) (map[string]rates, rates) {
	if m == nil {
		return nil, rates{}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.queues == nil {
		return nil, rates{} // it is not watching
	}
	newest := sample{at: now, live: make(map[string]int64, len(queues)), ended: make(map[string]ends, len(queues))}
	for _, q := range queues {
		for _, state := range broker.States() {
			if !state.Final() {
				newest.live[q.Name] += q.Counts[state]
			}
		}
		newest.ended[q.Name] = m.ended[q.Name]
	}
	for len(m.samples) > 1 && now.Sub(m.samples[1].at) >= rateWindow {
		m.samples = m.samples[1:]
	}
	m.samples = append(m.samples, newest)
	oldest := m.samples[0]
	span := now.Sub(oldest.at).Seconds()
	if span <= 0 {
		return nil, rates{}
	}
	by, total := make(map[string]rates, len(queues)), rates{known: true}
	for _, q := range queues {
		if _, before := oldest.live[q.Name]; !before {
			oldest.live[q.Name] = 0 // it has come since
		}
		was, is := oldest.ended[q.Name], newest.ended[q.Name]
		per := func(n int64) float64 { return max(0, float64(n)/span) }
		left := is.completed - was.completed + is.died - was.died + is.cancelled - was.cancelled
		r := rates{
			Enqueued:  per(newest.live[q.Name] - oldest.live[q.Name] + left),
			Completed: per(is.completed - was.completed),
			Retried:   per(is.retried - was.retried),
			Died:      per(is.died - was.died),
			AtLeast:   is.missed > was.missed,
			known:     true,
		}
		by[q.Name] = r
		total.Enqueued += r.Enqueued
		total.Completed += r.Completed
		total.Retried += r.Retried
		total.Died += r.Died
		total.AtLeast = total.AtLeast || r.AtLeast
	}
	return by, total
}
