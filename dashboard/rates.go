package dashboard

import (
	"cmp"
	"context"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/seed81422ce9/jobs/broker"
	"github.com/seed81422ce9/jobs/inspect"
	"github.com/seed81422ce9/jobs/internal/figures"
)

// pace says how fast a queue works, or all queues together: rates over about the last ten seconds, and
// results of about the last five minutes.
type pace struct {
	Enqueued, Completed, Retried, Died float64
	Known                              bool

	Lately inspect.Work // without a span for all queues
	Even   bool         // Lately is known
	Gone   time.Duration
	Ends   bool // the pending jobs will be gone at these rates
	Stuck  bool // there are pending jobs, and they do not get fewer
}

// Failed returns the share of runs that failed or crashed in the last minutes.
func (p pace) Failed() string {
	if p.Lately.Completed+p.Lately.Failed+p.Lately.Crashed == 0 {
		return "–"
	}
	if rate := p.Lately.FailureRate(); rate > 0 && rate < 0.01 {
		return "<1 %"
	}
	return strconv.FormatFloat(100*p.Lately.FailureRate(), 'f', 0, 64) + " %"
}

// Waits returns p50, p95 and p99 of how long jobs waited for their first run in the
// last minutes; Runs does so of how long runs took. They are empty if workers reported
// none.
func (p pace) Waits() []string { return percentiles(p.Lately.Latency.WaitTimes) }
func (p pace) Runs() []string  { return percentiles(p.Lately.Latency.RunTimes) }

// LongWait returns how long 95 % of the jobs waited at most.
func (p pace) LongWait() string {
	if all := p.Waits(); len(all) > 1 {
		return all[1]
	}
	return "–"
}

func percentiles(t inspect.Times) []string {
	if t.Count() == 0 {
		return nil
	}
	return []string{about(t.Quantile(0.50)), about(t.Quantile(0.95)), about(t.Quantile(0.99))}
}

// GoneIn returns when the pending jobs will be gone, or a dash if there are none or it
// is unknown.
func (p pace) GoneIn() string {
	switch {
	case p.Ends:
		return "about " + span(p.Gone)
	case p.Even && p.Stuck:
		return "it grows"
	}
	return "–"
}

// point is one moment in the live charts: Unix milliseconds, depths, and rates per
// second. Unknown values are nil.
type point [10]*float64

// depthStates are the states of a point's depths, in its order.
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
	if s.total.Known {
		for i, v := range [...]float64{s.total.Enqueued, s.total.Completed, s.total.Retried, s.total.Died} {
			p[6+i] = &v
		}
	}
	return p
}

// pacer computes paces of queues from the totals of looks and the history in the store.
type pacer struct {
	mu    sync.Mutex
	live  figures.Rates
	seen  time.Time       // the last look that counted
	bases map[string]base // the queues some minutes ago
	whole *base           // all queues together, if there are too many
	asked time.Time       // when the history was last read
}

// base is a point of the history, with the latencies reported since.
type base struct {
	at      time.Time
	totals  inspect.Totals
	latency inspect.Latency
}

// until returns what was done from a base until a look.
func (b *base) until(at time.Time, totals inspect.Totals) inspect.Work {
	return inspect.Work{Span: max(at.Sub(b.at), 0), Totals: totals.Since(b.totals), Latency: b.latency}
}

const (
	baseInterval = time.Minute      // the history has a point per minute
	baseTimeout  = 2 * time.Second  // a look waits for it, and a page for the look
	baseSpan     = 5 * time.Minute  // as Inspector.Lately
	maxPaced     = 500              // queues whose histories are read: those with the largest backlog
	maxPause     = 30 * time.Second // if there was no look for longer, rates start again
)

// base reads, once a minute, the points of the history from some minutes ago. After an error it keeps
// the earlier data.
func (m *pacer) base(ctx context.Context, i *inspect.Inspector, queues []inspect.QueueInfo) {
	m.mu.Lock()
	now := time.Now()
	if !m.asked.IsZero() && now.Sub(m.asked) < baseInterval {
		m.mu.Unlock()
		return
	}
	m.asked = now
	m.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, baseTimeout)
	defer cancel()
	var whole *base
	if len(queues) > maxPaced {
		points, err := i.History(ctx, "", baseSpan)
		if err != nil {
			return
		}
		if n := len(points); n > 1 {
			w := inspect.WorkBetween(points[0], points[n-1])
			whole = &base{points[0].At, points[n-1].Totals.Since(w.Totals), w.Latency}
		}
		queues = slices.Clone(queues)
		slices.SortStableFunc(queues, func(a, b inspect.QueueInfo) int { return cmp.Compare(backlog(&b), backlog(&a)) })
		queues = queues[:maxPaced]
	}
	lately, err := i.Lately(ctx, queues)
	if err != nil {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.whole, m.bases = whole, make(map[string]base, len(queues))
	for n := range queues {
		q := &queues[n]
		if w, ok := lately[q.Name]; ok {
			m.bases[q.Name] = base{q.AsOf.Add(-w.Span), q.Totals.Since(w.Totals), w.Latency}
		}
	}
}

// paces adds a look and returns the paces of all queues by name, and of all together.
func (m *pacer) paces(queues []inspect.QueueInfo) (map[string]pace, pace) {
	m.mu.Lock()
	defer m.mu.Unlock()
	now := time.Now()
	if m.live == nil || now.Sub(m.seen) > maxPause {
		m.live = make(figures.Rates)
	}
	m.seen = now
	m.live.Add(queues)
	by := make(map[string]pace, len(queues))
	var total pace
	var backlog int64
	var sum inspect.Totals
	net := 0.0 // jobs per second that end, minus those that arrive
	for n := range queues {
		q := &queues[n]
		p := m.of(q)
		by[q.Name] = p
		total.Enqueued += p.Enqueued
		total.Completed += p.Completed
		total.Retried += p.Retried
		total.Died += p.Died
		total.Known = total.Known || p.Known
		total.Even = total.Even || p.Even
		total.Lately.Totals = total.Lately.Plus(p.Lately.Totals)
		total.Lately.Latency = total.Lately.Latency.Plus(p.Lately.Latency)
		if !broker.Reserved(q.Name) { // as in the history
			sum = sum.Plus(q.Totals)
		}
		backlog += q.Counts[broker.StatePending]
		net += p.Lately.PerSecond(p.Lately.Ended() - p.Lately.Enqueued)
	}
	if m.whole != nil && len(queues) > 0 {
		w := m.whole.until(queues[0].AsOf, sum)
		total.Lately, total.Even, net = w, w.Known(), w.PerSecond(w.Ended()-w.Enqueued)
	}
	if seconds := float64(backlog) / net; total.Even && backlog > 0 && net > 0 && seconds < broker.MaxDelay.Seconds() {
		total.Gone, total.Ends = time.Duration(seconds*float64(time.Second)), true
	}
	total.Stuck = total.Even && backlog > 0 && !total.Ends
	return by, total
}

func (m *pacer) of(q *inspect.QueueInfo) (p pace) {
	if from, ok := m.bases[q.Name]; ok {
		p.Lately = from.until(q.AsOf, q.Totals)
		p.Even = p.Lately.Known()
	}
	now := m.live.Work(q.Name)
	if !now.Known() { // the first look: use the history of the last minutes
		now = p.Lately
	}
	if now.Known() {
		p.Known = true
		p.Enqueued, p.Completed = now.PerSecond(now.Enqueued), now.PerSecond(now.Completed)
		p.Retried, p.Died = now.PerSecond(now.Retried), now.PerSecond(now.Dead)
	}
	if backlog := q.Counts[broker.StatePending]; p.Even && backlog > 0 {
		p.Gone, p.Ends = p.Lately.Gone(backlog)
		p.Stuck = !p.Ends
	}
	return p
}
