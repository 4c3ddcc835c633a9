package schedule

import (
	"strings"
	"time"
	_ "time/tzdata" // for containers without zone files

	"github.com/seed81422ce9/jobs/broker"
)

// Spec says at which times a schedule ticks. Cron and Every return one.
type Spec struct{ text, zone string }

// Cron returns the spec of a cron line by the clocks of a zone. The fields are
// minute, hour, day of the month, month and weekday, separated by spaces, and
// optionally the second before them. A field is *, a value, a range 1-5, a step
// */10 or 8-18/2, or a comma-separated list of these. Months and weekdays have
// English names of three letters. Sunday is 0 or 7. The day L is the last one of
// the month. MON#1 is the first Monday of the month. If both the day and the
// weekday are restricted, one of them is enough, as in cron. A step such as */2
// restricts its field, which some crons see differently.
//
// The line can also be @hourly, @daily (or @midnight), @weekly, @monthly,
// @yearly (or @annually), or @every with a duration; see Every.
//
// The zone is a name of the tz database, "Europe/Berlin" for example. An empty
// one means UTC. "Local" is refused, because it differs between servers.
//
// When clocks change, a line that restricts the hour fires once for each of its
// times: times in a gap fire at the first instant after it, and times that occur
// twice fire the first time. A line that matches every hour follows elapsed time.
func Cron(line, zone string) Spec {
	return Spec{text: strings.Join(strings.Fields(line), " "), zone: zone}
}

// Every returns the spec of an interval of whole seconds, from one to those of 100 years. Ticks are
// counted from the start that WithStart sets, otherwise from 1970 in UTC:
// Every(time.Hour) ticks at full hours, whenever the schedule was created.
func Every(interval time.Duration) Spec { return Spec{text: everyPrefix + interval.String()} }

const everyPrefix = "@every "

// String returns the line, and the zone if it has one.
func (s Spec) String() string {
	if s.zone == "" {
		return s.text
	}
	return s.text + " " + s.zone
}

// Next returns the first n times after t, or fewer if there are not as many. The
// error says what is wrong with the spec.
func (s Spec) Next(t time.Time, n int) ([]time.Time, error) {
	timing, err := s.parse(time.Time{})
	if err != nil {
		return nil, err
	}
	var times []time.Time
	for range n {
		next, ok := timing.next(t)
		if !ok {
			break
		}
		times, t = append(times, next), next
	}
	return times, nil
}

// timing computes nominal times.
type timing interface {
	// next returns the first time after t.
	next(t time.Time) (next time.Time, ok bool)
}

// parse parses the spec; intervals are counted from anchor.
func (s Spec) parse(anchor time.Time) (timing, error) {
	zone, err := s.location()
	if err != nil {
		return nil, err
	}
	if text, ok := strings.CutPrefix(s.text, everyPrefix); ok {
		interval, err := time.ParseDuration(text)
		if err != nil || interval < time.Second || interval%time.Second != 0 || interval > broker.MaxDelay {
			return nil, broker.Invalid("spec", "%q has no interval of whole seconds, from 1s to %v; use @every 90s for example",
				s.text, broker.MaxDelay)
		}
		if anchor.IsZero() {
			anchor = time.Unix(0, 0).UTC()
		}
		return every{interval, anchor}, nil
	}
	line, err := parseCron(s.text)
	if err != nil {
		return nil, err
	}
	return calendar{line, zone}, nil
}

func (s Spec) location() (*time.Location, error) {
	switch s.zone {
	case "":
		return time.UTC, nil
	case "Local":
		return nil, broker.Invalid("zone", "is Local, which differs between servers; name a zone, Europe/Berlin for example")
	}
	zone, err := time.LoadLocation(s.zone)
	if err != nil {
		return nil, broker.Invalid("zone", "%q is unknown; use a name of the tz database, Europe/Berlin for example", s.zone)
	}
	return zone, nil
}

// calendar is a cron line in a zone.
type calendar struct {
	line *cronLine
	zone *time.Location
}

func (c calendar) next(t time.Time) (time.Time, bool) {
	next, ok := c.line.next(t, c.zone)
	return next.UTC(), ok
}

// every is an interval counted from a time.
type every struct {
	interval time.Duration
	anchor   time.Time
}

func (e every) next(t time.Time) (time.Time, bool) {
	// In seconds, since a time.Duration holds at most 292 years.
	step := int64(e.interval / time.Second)
	passed := t.Unix() - e.anchor.Unix()
	if t.Nanosecond() < e.anchor.Nanosecond() {
		passed--
	}
	n := passed / step
	if passed%step < 0 {
		n--
	}
	next := time.Unix(e.anchor.Unix()+(n+1)*step, int64(e.anchor.Nanosecond())).UTC()
	return next, next.Before(broker.MaxTime)
}
