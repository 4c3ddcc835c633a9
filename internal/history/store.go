package history

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"time"

	"github.com/seed81422ce9/jobs/broker"
)

// series is a spacing of points. They are stored in parts, each of which is a mark
// that lapses by itself, so that a queue's history is bounded.
type series struct {
	name string
	step time.Duration // between two points
	part time.Duration // in one mark: some 60 points or fewer, so that a write is small
	keep time.Duration
}

var (
	minutes = series{"m", time.Minute, time.Hour, 24 * time.Hour}
	hours   = series{"h", time.Hour, 24 * time.Hour, 90 * 24 * time.Hour}
)

// mark names the part that has the points of a time. Names of queues may be as long
// as those of marks.
func (s series) mark(queue string, at time.Time) string {
	sum := sha256.Sum256([]byte(queue))
	return fmt.Sprintf("history/%s/%s/%d", hex.EncodeToString(sum[:12]), s.name, at.Unix()/int64(s.part/time.Second))
}

// owner is who holds the marks of parts: whoever writes. Fences keep two apart.
const owner = "history"

// marker is the part of a store that a history is kept in.
type marker interface {
	Mark(ctx context.Context, req broker.MarkRequest) (broker.Marked, error)
}

// add stores a point, and the one before it if the part does not have that. It does
// nothing where the part has a point of the same step or of a later one: another
// server was first, or the clock was set back.
func (s series) add(ctx context.Context, m marker, queue string, before, p Point) error {
	name := s.mark(queue, p.At)
	ttl := s.keep + s.part + s.step
	got, err := m.Mark(ctx, broker.MarkRequest{Action: broker.MarkTake, Name: name, Owner: owner, TTL: ttl})
	if err != nil || !got.Held {
		return err
	}
	points, err := decode(got.Value)
	if err != nil {
		points = nil // a part that nobody can read is begun anew
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
		return nil, nil // of a newer release, or damaged: the rest is told all the same
	}
	return points, nil
}

// latest is what was last stored of a queue's waits and runs. Where servers stood
// still for a day, counts begin anew.
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

// Read returns the points of a queue between now-span and now, oldest first, and
// before them the last earlier one of the parts that it reads: a minute apart for up
// to a day, else an hour. Where nothing happened there are no points.
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
