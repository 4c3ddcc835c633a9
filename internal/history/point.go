// Package history keeps in the store what queues have done: a point a minute for a day, and a point an
// hour for 90 days. One server of a store writes it. Every program can read it.
package history

import (
	"errors"
	"time"

	"github.com/seed81422ce9/jobs/broker"
)

// Point holds the totals and the counts of a queue at a time.
type Point struct {
	At                     time.Time
	Totals                 broker.Totals
	Pending, Active, Retry int64
	Dead                   int64 // without suppressed ones
	Paused                 bool
	Latency                Latency // as posted by servers, a minute or two behind Totals
}

// PointOf returns the point of a queue.
func PointOf(q *broker.QueueInfo) Point {
	return Point{At: q.AsOf, Totals: q.Totals, Pending: q.Counts[broker.StatePending], Active: q.Counts[broker.StateActive],
		Retry: q.Counts[broker.StateRetry], Dead: q.Listed(broker.StateDead), Paused: q.Policy.Paused}
}

// All stands for the whole store. No queue has this name.
const All = ""

// PointOfAll returns the sum of all queues except reserved ones. It is paused if every queue is.
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

// Rising changes the totals of points so that they never fall. The totals of the whole store fall when
// a queue is removed. What else happened between these two points is lost.
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
	is, was := p.numbers(), q.numbers()
	for i := range is {
		if *is[i] != *was[i] {
			return false
		}
	}
	return p.Paused == q.Paused && p.Latency.Since(q.Latency).empty()
}

// numbers are the counts of a point.
func (p *Point) numbers() []*int64 {
	t := &p.Totals
	return []*int64{&t.Enqueued, &t.Claimed, &t.Completed, &t.Failed, &t.Retried, &t.Dead, &t.Crashed, &t.Cancelled, &t.Expired,
		&t.Waits, &t.WaitedMicros, &t.Runs, &t.RanMicros, &p.Pending, &p.Active, &p.Retry, &p.Dead}
}

const paused = 1

// encode returns the stored form of points. Each point is a row of numbers: the difference of its time
// from that of the point before, its flags, the differences of its counts, and the durations counted
// since then. Differences are stored because they are small. Later versions append their fields.
func encode(points []Point) (b []byte) {
	var before Point
	for _, p := range points {
		flags := int64(0)
		if p.Paused {
			flags = paused
		}
		row := []int64{seconds(p.At) - seconds(before.At), flags}
		was, is := before.numbers(), p.numbers()
		for i := range is {
			row = append(row, *is[i]-*was[i])
		}
		b = appendNumbers(b, p.Latency.Since(before.Latency).append(row))
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

// decode is the inverse of encode. It skips numbers that it does not know.
func decode(b []byte) (points []Point, err error) {
	var before Point
	for len(b) > 0 {
		var row []int64
		if row, b, err = parseNumbers(b); err != nil {
			return nil, err
		}
		p := before
		to := p.numbers()
		if len(row) < 2+len(to) {
			return nil, errMalformed
		}
		p.At = time.Unix(seconds(before.At)+row[0], 0).UTC()
		p.Paused = row[1]&paused > 0
		for i := range to {
			*to[i] += row[2+i]
		}
		since, err := parseLatency(row[2+len(to):])
		if err != nil {
			return nil, err
		}
		p.Latency = before.Latency.Plus(since)
		points, before = append(points, p), p
	}
	return points, nil
}
