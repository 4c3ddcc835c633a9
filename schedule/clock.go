package schedule

import (
	"time"

	"github.com/seed81422ce9/jobs/broker"
)

// All clock arithmetic is in this file. The rule:
//
// A line that does not match every hour means wall-clock times. Each of them
// fires once. If the clock is put forward over some of them, they fire as one at
// the first instant after the gap. If the clock is put back, only their first
// occurrence fires.
//
// A line that matches every hour follows elapsed time. Times that the clock skips
// are skipped, and those that it repeats are repeated: every ten minutes stays
// every ten minutes.
//
// Times are searched within the spans in which the zone's offset is constant.
// Within a span, no clock changes; the rule applies at its edges. So it does not
// matter by how much a clock changes, or at what time of day.

// wall is a wall-clock time, without a zone.
type wall struct{ year, month, day, hour, minute, second int }

func wallOf(t time.Time, offset int) wall {
	t = t.UTC().Add(time.Duration(offset) * time.Second)
	year, month, day := t.Date()
	return wall{year, int(month), day, t.Hour(), t.Minute(), t.Second()}
}

// instant returns when a clock with the offset shows w.
func (w wall) instant(offset int) time.Time {
	return time.Date(w.year, time.Month(w.month), w.day, w.hour, w.minute, w.second, 0, time.UTC).
		Add(-time.Duration(offset) * time.Second)
}

// next returns the line's first time after t by the clocks of a zone; ok is
// false if it has none.
func (c *cronLine) next(t time.Time, zone *time.Location) (next time.Time, ok bool) {
	for t = t.Truncate(time.Second).Add(time.Second); t.Before(broker.MaxTime); {
		start, end := t.In(zone).ZoneBounds()
		_, offset := t.In(zone).Zone()
		from := wallOf(t, offset)
		if !start.IsZero() && !c.everyHour {
			_, before := start.Add(-1).In(zone).Zone()
			if offset > before && t.Equal(start) && c.firesWithin(wallOf(start, before), wallOf(start, offset)) {
				return start, true
			}
			if again := start.Add(time.Duration(before-offset) * time.Second); t.Before(again) { // the clock has shown these times already
				from = wallOf(again, offset)
			}
		}
		w, ok := c.nextWall(from)
		if !ok {
			return time.Time{}, false
		}
		if next = w.instant(offset); end.IsZero() || next.Before(end) {
			return next, next.Before(broker.MaxTime)
		}
		t = end
	}
	return time.Time{}, false
}

// firesWithin reports whether the line has a time in [from, to).
func (c *cronLine) firesWithin(from, to wall) bool {
	w, ok := c.nextWall(from)
	return ok && w.instant(0).Before(to.instant(0))
}

// horizon is how many years are searched. The rarest time is a given weekday on
// the 29th of February, which comes after 40 years at most.
const horizon = 50

// nextWall returns the line's first time that is not before w, by a clock that
// never changes.
func (c *cronLine) nextWall(w wall) (wall, bool) {
	for last := w.year + horizon; w.year <= last; {
		month, ok := after(c.month, w.month)
		if !ok {
			w = wall{year: w.year + 1, month: 1, day: 1}
			continue
		}
		if month != w.month {
			w = wall{year: w.year, month: month, day: 1}
		}
		for length := daysIn(w.year, w.month); w.day <= length; w = (wall{year: w.year, month: w.month, day: w.day + 1}) {
			if !c.matchesDay(w, length) {
				continue
			}
			if at, ok := c.nextInDay(w); ok {
				return at, true
			}
		}
		w = wall{year: w.year, month: w.month + 1, day: 1}
	}
	return wall{}, false
}

// nextInDay returns the line's first time on the day of w that is not before w.
func (c *cronLine) nextInDay(w wall) (wall, bool) {
	for hour, ok := after(c.hour, w.hour); ok; hour, ok = after(c.hour, hour+1) {
		if hour > w.hour {
			w.minute, w.second = 0, 0
		}
		for minute, ok := after(c.minute, w.minute); ok; minute, ok = after(c.minute, minute+1) {
			if minute > w.minute {
				w.second = 0
			}
			if second, ok := after(c.second, w.second); ok {
				return wall{w.year, w.month, w.day, hour, minute, second}, true
			}
		}
	}
	return wall{}, false
}

// matchesDay reports whether the line fires on a day. If it restricts both the
// day of the month and the weekday, one of them is enough.
func (c *cronLine) matchesDay(w wall, length int) bool {
	weekday := int(time.Date(w.year, time.Month(w.month), w.day, 0, 0, 0, 0, time.UTC).Weekday())
	byDay := c.day>>w.day&1 == 1 || c.lastDay && w.day == length
	byWeekday := c.weekday>>weekday&1 == 1 || c.nth[weekday]>>((w.day+6)/7)&1 == 1
	if c.anyDay || c.anyWeekday {
		return byDay && byWeekday
	}
	return byDay || byWeekday
}

func daysIn(year, month int) int {
	return time.Date(year, time.Month(month)+1, 0, 0, 0, 0, 0, time.UTC).Day()
}
