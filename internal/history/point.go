// Package history keeps, in the store itself, what queues have done: a point a
// minute for a day, and one an hour for 90 days. One server of a store writes, and
// everybody can read.
package history

import (
	"encoding/binary"
	"errors"
	"time"

	"github.com/seed81422ce9/jobs/broker"
)

// Point is what a queue had and had done at a time.
type Point struct {
	At                     time.Time
	Totals                 broker.Totals
	Pending, Active, Retry int64
	Dead                   int64 // but for suppressed ones
	Paused                 bool
}

// PointOf is a queue as it was described.
func PointOf(q *broker.QueueInfo) Point {
	return Point{At: q.AsOf, Totals: q.Totals, Pending: q.Counts[broker.StatePending], Active: q.Counts[broker.StateActive],
		Retry: q.Counts[broker.StateRetry], Dead: q.Listed(broker.StateDead), Paused: q.Policy.Paused}
}

// All is the name under which the points of the whole store are kept. No queue has it.
const All = ""

// PointOfAll is the sum of queues, but for those of the framework. It is paused when
// each of them is.
func PointOfAll(queues []broker.QueueInfo, now time.Time) Point {
	all := Point{At: now}
	open := false
	for i := range queues {
		if broker.Reserved(queues[i].Name) {
			continue
		}
		p := PointOf(&queues[i])
		all.Totals = all.Totals.Plus(p.Totals)
		all.Pending += p.Pending
		all.Active += p.Active
		all.Retry += p.Retry
		all.Dead += p.Dead
		open = open || !p.Paused
		all.Paused = !open
	}
	return all
}

// Rising makes totals that never fall of points: with a queue that was removed its
// totals left those of the whole store. What else happened in that step is not told.
func Rising(points []Point) []Point {
	var was broker.Totals
	for i, p := range points {
		is := p.Totals
		if i == 0 {
			was = is
			continue
		}
		step := is.Since(was)
		if step == is && was != (broker.Totals{}) { // one of them fell
			step = broker.Totals{}
		}
		points[i].Totals = points[i-1].Totals.Plus(step)
		was = is
	}
	return points
}

// Still reports whether nothing happened between two points.
func (p Point) Still(q Point) bool {
	p.At = q.At
	return p == q
}

// numbers are the fields of a stored point. What is added later comes behind them.
func (p *Point) numbers() []*int64 {
	t := &p.Totals
	return []*int64{&t.Enqueued, &t.Claimed, &t.Completed, &t.Failed, &t.Retried, &t.Dead, &t.Crashed, &t.Cancelled, &t.Expired,
		&t.Waits, &t.WaitedMicros, &t.Runs, &t.RanMicros, &p.Pending, &p.Active, &p.Retry, &p.Dead}
}

const paused = 1

// encode is the stored form of points: of each the number of its fields, and by how
// much they differ from those of the point before, which is little.
func encode(points []Point) (b []byte) {
	var before Point
	for _, p := range points {
		was, is := before.numbers(), p.numbers()
		b = binary.AppendUvarint(b, uint64(len(is)+2))
		b = binary.AppendVarint(b, seconds(p.At)-seconds(before.At))
		flags := int64(0)
		if p.Paused {
			flags = paused
		}
		b = binary.AppendVarint(b, flags)
		for i := range is {
			b = binary.AppendVarint(b, *is[i]-*was[i])
		}
		before = p
	}
	return b
}

func seconds(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.Unix()
}

var errMalformed = errors.New("history: a stored part cannot be read")

// decode is the inverse of encode. Fields that it does not know it skips.
func decode(b []byte) (points []Point, err error) {
	next := func() (v int64) {
		v, n := binary.Varint(b)
		if n <= 0 {
			err = errMalformed
			return 0
		}
		b = b[n:]
		return v
	}
	var before Point
	for len(b) > 0 && err == nil {
		fields, n := binary.Uvarint(b)
		if n <= 0 || fields > 1000 {
			return nil, errMalformed
		}
		b = b[n:]
		p := before
		p.At = time.Unix(seconds(before.At)+next(), 0).UTC()
		p.Paused = next()&paused > 0
		to := p.numbers()
		for i := range int(fields) - 2 {
			if d := next(); i < len(to) {
				*to[i] += d
			}
		}
		points, before = append(points, p), p
	}
	if err != nil {
		return nil, err
	}
	return points, nil
}
