package history

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"time"

	"github.com/seed81422ce9/jobs/broker"
)

// series is a sequence of points at equal distances. They are stored in parts. Each part is a mark
// that expires by itself, which bounds the history of a queue.
type series struct {
	name string
	step time.Duration // between two points
	part time.Duration // of one mark: 60 points or fewer, so that a write is small
	keep time.Duration
}

var (
	minutes = series{"m", time.Minute, time.Hour, 24 * time.Hour}
	hours   = series{"h", time.Hour, 24 * time.Hour, 90 * 24 * time.Hour}
)

// mark returns the name of the part that holds the points of a time. It hashes the name of the queue,
// which may be as long as that of a mark.
func (s series) mark(queue string, at time.Time) string {
	sum := sha256.Sum256([]byte(queue))
	return fmt.Sprintf("history/%s/%s/%d", hex.EncodeToString(sum[:12]), s.name, at.Unix()/int64(s.part/time.Second))
}

// owner holds the marks of parts. All keepers share this name; fences tell their writes apart.
const owner = "history"

// marker is the part of a broker that a history needs.
type marker interface {
	Mark(ctx context.Context, req broker.MarkRequest) (broker.Marked, error)
}

// add stores a point, and the point before it if the part does not have it. add does nothing if the part
// has a point of the same step or of a later one: another server was first, or the clock was set back.
func (s series) add(ctx context.Context, m marker, queue string, before, p Point) error {
	name := s.mark(queue, p.At)
	ttl := s.keep + s.part + s.step
	got, err := m.Mark(ctx, broker.MarkRequest{Action: broker.MarkTake, Name: name, Owner: owner, TTL: ttl})
	if err != nil || !got.Held {
		return err
	}
	points, err := decode(got.Value)
	if err != nil {
		points = nil // the new part replaces one that cannot be read
	}
	if n := len(points); n > 0 {
		last := points[n-1]
		if !p.At.Truncate(s.step).After(last.At.Truncate(s.step)) {
			return nil
		}
		if !before.At.After(last.At) {
			before.At = time.Time{}
		}
	}
	if !before.At.IsZero() {
		points = append(points, before)
	}
	_, err = m.Mark(ctx, broker.MarkRequest{Action: broker.MarkSet, Name: name, Owner: owner, Fence: got.Fence, TTL: ttl,
		Value: encode(append(points, p))})
	return err
}

// read returns the points of a part.
func (s series) read(ctx context.Context, m marker, queue string, at time.Time) ([]Point, error) {
	got, err := m.Mark(ctx, broker.MarkRequest{Action: broker.MarkRead, Name: s.mark(queue, at)})
	if err != nil || !got.Held {
		return nil, err
	}
	points, err := decode(got.Value)
	if err != nil {
		return nil, nil // of a newer release, or damaged; the other parts can be read
	}
	return points, nil
}

// latest returns the waits and runs that were stored last for a queue. If no server ran for a day,
// counts start at zero.
func latest(ctx context.Context, m marker, queue string, now time.Time) (Latency, error) {
	for _, part := range []struct {
		of series
		at time.Time
	}{{minutes, now}, {minutes, now.Add(-minutes.part)}, {hours, now}, {hours, now.Add(-hours.part)}} {
		points, err := part.of.read(ctx, m, queue, part.at)
		if err != nil {
			return Latency{}, err
		}
		if n := len(points); n > 0 {
			return points[n-1].Latency, nil
		}
	}
	return Latency{}, nil
}

// Read returns the points of a queue between now-span and now, oldest first, preceded by the last
// earlier point of the parts that it reads. Points are a minute apart for a span of up to a day, else
// an hour. There are no points for times at which nothing happened.
func Read(ctx context.Context, m marker, queue string, now time.Time, span time.Duration) ([]Point, error) {
	s := minutes
	if span > minutes.keep {
		s = hours
	}
	from := now.Add(-min(span, s.keep))
	var all []Point
	for at := from.Truncate(s.part); !at.After(now); at = at.Add(s.part) {
		points, err := s.read(ctx, m, queue, at)
		if err != nil {
			return nil, err
		}
		for _, p := range points {
			switch n := len(all); {
			case p.At.After(now) || n > 0 && !p.At.After(all[n-1].At):
			case n == 1 && !p.At.After(from):
				all[0] = p
			default:
				all = append(all, p)
			}
		}
	}
	return all, nil
}
