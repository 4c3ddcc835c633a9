package inspect

import (
	"context"
	"sync"
	"time"

	"github.com/seed81422ce9/jobs/broker"
	"github.com/seed81422ce9/jobs/internal/history"
)

// Point is the state of a queue at a time: its counts, and its totals since it was
// created.
type Point = history.Point

// Totals counts what happened in a queue; see package broker.
type Totals = broker.Totals

// Latency is how long jobs waited for their first run (WaitTimes), and how long runs
// took (RunTimes). Servers count both in buckets and report them once a minute, so
// Quantile is within 12 %, and latencies are a minute or two behind the totals. The
// last minute of a server that crashes is missing. Latencies of several periods or
// queues can be added (Plus).
type Latency = history.Latency

// Times counts durations; 95 % of them are at most Quantile(0.95).
type Times = history.Times

// History returns what a queue did in the last span, oldest first: one point per minute
// for up to a day, and one per hour for up to 90 days. The first point may be from
// shortly before the span; the last is the present. Where nothing happened, there are
// fewer points. A server writes the points, so there are none for times without a
// running server. The error is ErrNotFound if the queue does not exist.
//
// An empty name means all queues together, without those of the framework. The totals
// are sums, without the minute in which a queue was removed.
func (i *Inspector) History(ctx context.Context, queue string, span time.Duration) ([]Point, error) {
	if queue == history.All {
		return i.historyOfAll(ctx, span)
	}
	infos, err := i.Queues(ctx, queue)
	if err == nil && len(infos) != 1 {
		err = broker.About(broker.ErrNotFound, "history", queue, "")
	}
	if err != nil {
		return nil, err
	}
	points, err := history.Read(ctx, marks{i}, queue, infos[0].Now, span)
	return withNow(points, pointOf(&infos[0])), err
}

func (i *Inspector) historyOfAll(ctx context.Context, span time.Duration) ([]Point, error) {
	reply, err := call(ctx, i, broker.Broker.Queues, broker.QueuesRequest{})
	if err != nil {
		return nil, err
	}
	points, err := history.Read(ctx, marks{i}, history.All, reply.Now, span)
	return history.Rising(withNow(points, history.PointOfAll(reply.Queues, reply.Now))), err
}

// withNow appends the present point, with the latencies of the point before: servers
// have not reported newer ones.
func withNow(points []Point, now Point) []Point {
	if n := len(points); n > 0 {
		now.Latency = points[n-1].Latency
	}
	return append(points, now)
}

// Period is a part of a history: what a queue did between two points, and its state at
// the end.
type Period struct {
	Work
	Until Point
}

// Periods divides a history of a span into at most n parts of equal length, oldest
// first. Each goes from the last point before it to its own last point. A part without
// points is merged into the next one.
func Periods(points []Point, span time.Duration, n int) (all []Period) {
	if len(points) < 2 || n < 1 || span < time.Duration(n) {
		return nil
	}
	now := points[len(points)-1].At
	length := span / time.Duration(n)
	before := points[0]
	for at, p := range points[1:] {
		if at+2 < len(points) && now.Sub(p.At)/length == now.Sub(points[at+2].At)/length {
			continue // not the last point of this period
		}
		all = append(all, Period{WorkBetween(before, p), p})
		before = p
	}
	return all
}

// Deploy is when the first server of a version of a program appeared. A server records
// it, within about a minute; see History.
type Deploy = history.Deploy

// Deploys returns the deploys since a time, oldest first, of programs that serve a
// queue, or of all programs if the name is empty. The store keeps the newest 100 for at
// most 90 days.
func (i *Inspector) Deploys(ctx context.Context, queue string, since time.Time) ([]Deploy, error) {
	return history.ReadDeploys(ctx, marks{i}, queue, since)
}

func pointOf(q *QueueInfo) Point {
	p := history.PointOf(&q.QueueInfo)
	if p.At.IsZero() {
		p.At = q.Now
	}
	return p
}

// marks are the marks of the store. A store without marks seems to have none that is held.
type marks struct{ i *Inspector }

func (m marks) Mark(ctx context.Context, req broker.MarkRequest) (broker.Marked, error) {
	if err := m.i.check(ctx); err != nil || m.i.broker.Limits().NoMark {
		return broker.Marked{}, err
	}
	return call(ctx, m.i, broker.Broker.Mark, req)
}

// Work is what a queue did in Span: the difference of its totals, and the latencies
// that servers reported in that time. The latencies may cover slightly more or fewer
// jobs than the totals.
type Work struct {
	Span time.Duration
	Totals
	Latency Latency
}

// WorkBetween returns what happened from one point to a later one.
func WorkBetween(from, to Point) Work {
	return Work{max(to.At.Sub(from.At), 0), to.Totals.Since(from.Totals), to.Latency.Since(from.Latency)}
}

// Known reports whether there was an earlier point to compare with.
func (w Work) Known() bool { return w.Span > 0 }

// PerSecond returns n as a rate per second.
func (w Work) PerSecond(n int64) float64 {
	if w.Span <= 0 {
		return 0
	}
	return float64(n) / w.Span.Seconds()
}

// Ended returns how many jobs ended: completed, dead or cancelled.
func (w Work) Ended() int64 { return w.Completed + w.Dead + w.Cancelled }

// Gone returns how long it takes until a backlog is gone at these rates, and false if
// the backlog does not shrink.
func (w Work) Gone(backlog int64) (time.Duration, bool) {
	net := w.PerSecond(w.Ended() - w.Enqueued)
	if backlog == 0 {
		return 0, true
	}
	if seconds := float64(backlog) / net; net > 0 && seconds < broker.MaxDelay.Seconds() {
		return time.Duration(seconds * float64(time.Second)), true
	}
	return 0, false
}

// lately is how far back Lately looks: long enough for steady figures, short enough to
// describe the present.
const lately = 5 * time.Minute

// Lately returns what queues did in about the last five minutes, by name, from the
// history and their present totals. A queue without an earlier point has no entry.
func (i *Inspector) Lately(ctx context.Context, queues []QueueInfo) (map[string]Work, error) {
	all := make(map[string]Work, len(queues))
	var mu sync.Mutex
	var failed error
	var group sync.WaitGroup
	slots := make(chan struct{}, 16) // concurrent calls
	for n := range queues {
		q := &queues[n]
		slots <- struct{}{}
		group.Go(func() {
			defer func() { <-slots }()
			w, err := i.lately(ctx, q)
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				failed = err
			} else if w.Known() {
				all[q.Name] = w
			}
		})
	}
	group.Wait()
	return all, failed
}

func (i *Inspector) lately(ctx context.Context, q *QueueInfo) (w Work, err error) {
	now := pointOf(q)
	points, err := history.Read(ctx, marks{i}, q.Name, now.At, lately)
	if err != nil || len(points) == 0 {
		return w, err
	}
	points = withNow(points, now)
	w = WorkBetween(points[0], points[len(points)-1])
	if w.Totals == (Totals{}) { // nothing happened since that point
		w.Span = lately
	}
	return w, nil
}
