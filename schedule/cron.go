package schedule

import (
	"fmt"
	"math/bits"
	"strconv"
	"strings"

	"github.com/seed81422ce9/jobs/broker"
)

// cronLine is a parsed line: the set of values of each field, as bits.
type cronLine struct {
	second, minute, hour, day, month, weekday uint64

	lastDay bool     // the days include L, the last one of the month
	nth     [7]uint8 // by weekday: bit n for its nth in the month, MON#1 for example

	anyDay, anyWeekday bool // the field matches every value
	everyHour          bool // the line follows elapsed time, see clock.go
}

// field is one of the six fields of a line.
type field struct {
	name     string
	min, max int
	names    []string // of the values from min on
}

var (
	seconds  = field{name: "second", max: 59}
	minutes  = field{name: "minute", max: 59}
	hours    = field{name: "hour", max: 23}
	days     = field{name: "day of the month", min: 1, max: 31}
	months   = field{name: "month", min: 1, max: 12, names: strings.Fields("jan feb mar apr may jun jul aug sep oct nov dec")}
	weekdays = field{name: "weekday", max: 7, names: strings.Fields("sun mon tue wed thu fri sat sun")}
)

var shorthands = map[string]string{
	"@yearly": "0 0 1 1 *", "@annually": "0 0 1 1 *", "@monthly": "0 0 1 * *", "@weekly": "0 0 * * 0",
	"@daily": "0 0 * * *", "@midnight": "0 0 * * *", "@hourly": "0 * * * *",
}

// parseCron parses a cron line: five fields, six fields that begin with the second, or a shorthand such
// as @daily.
func parseCron(line string) (*cronLine, error) {
	words := strings.Fields(line)
	if len(words) > 0 && strings.Contains(words[0], "TZ=") {
		return nil, broker.Invalid("spec", "%q begins with a zone; give the zone apart from the line, as Cron(line, zone)", line)
	}
	if len(words) == 1 && strings.HasPrefix(words[0], "@") {
		full, ok := shorthands[strings.ToLower(words[0])]
		if !ok {
			return nil, broker.Invalid("spec",
				"%q is none of @hourly, @daily, @midnight, @weekly, @monthly, @yearly and @every <duration>", line)
		}
		words = strings.Fields(full)
	}
	if len(words) == 5 {
		words = append([]string{"0"}, words...)
	}
	if len(words) != 6 {
		return nil, broker.Invalid("spec",
			"%q has %d fields; give it minute, hour, day, month and weekday, and optionally the second before them", line, len(words))
	}
	c := new(cronLine)
	var err error
	parse := func(f field, text string, set *uint64, extra func(string) (bool, error)) {
		if err == nil {
			if *set, err = f.parse(text, extra); err != nil {
				err = broker.Invalid("spec", "%q: the %s %v", line, f.name, err)
			}
		}
	}
	parse(seconds, words[0], &c.second, nil)
	parse(minutes, words[1], &c.minute, nil)
	parse(hours, words[2], &c.hour, nil)
	parse(days, words[3], &c.day, c.lastOfMonth)
	parse(months, words[4], &c.month, nil)
	parse(weekdays, words[5], &c.weekday, c.nthWeekday)
	if err != nil {
		return nil, err
	}
	c.weekday = (c.weekday | c.weekday>>7) & 0x7f // 7 is Sunday too
	c.anyDay, c.anyWeekday = c.day == days.all(), c.weekday == 0x7f
	c.everyHour = c.hour == hours.all()
	if _, ok := c.nextWall(wall{year: 2000, month: 1, day: 1}); !ok {
		return nil, broker.Invalid("spec", "%q never fires: no month that it names has such a day", line)
	}
	return c, nil
}

// lastOfMonth parses L.
func (c *cronLine) lastOfMonth(text string) (bool, error) {
	if text != "L" && text != "l" {
		return false, nil
	}
	c.lastDay = true
	return true, nil
}

// nthWeekday parses MON#2, the second Monday of the month.
func (c *cronLine) nthWeekday(text string) (bool, error) {
	name, number, ok := strings.Cut(text, "#")
	if !ok {
		return false, nil
	}
	day, err := weekdays.value(name)
	if err != nil {
		return false, err
	}
	n, err := strconv.Atoi(number)
	if err != nil || n < 1 || n > 5 {
		return false, fmt.Errorf("has %q; # is followed by 1 to 5", text)
	}
	c.nth[day%7] |= 1 << n
	return true, nil
}

func (f field) all() uint64 { return f.span(f.min, f.max, 1) }

func (f field) span(from, to, step int) (set uint64) {
	for v := from; v <= to; v += step {
		set |= 1 << v
	}
	return set
}

// parse parses a list of values, ranges and steps. extra parses the forms that
// only this field has.
func (f field) parse(text string, extra func(string) (bool, error)) (set uint64, err error) {
	for part := range strings.SplitSeq(text, ",") {
		if extra != nil {
			if ok, err := extra(part); err != nil || ok {
				if err != nil {
					return 0, err
				}
				continue
			}
		}
		one, err := f.parsePart(part)
		if err != nil {
			return 0, err
		}
		set |= one
	}
	return set, nil
}

func (f field) parsePart(part string) (uint64, error) {
	span, stepText, stepped := strings.Cut(part, "/")
	from, to, step := f.min, f.max, 1
	if f.max == 7 { // Sunday must not count twice
		to = 6
	}
	var err error
	if stepped {
		if step, err = strconv.Atoi(stepText); err != nil || step < 1 || step > f.max {
			return 0, fmt.Errorf("has the step %q; use 1 to %d", stepText, f.max)
		}
	}
	if span != "*" && span != "?" {
		first, last, ranged := strings.Cut(span, "-")
		if from, err = f.value(first); err != nil {
			return 0, err
		}
		switch {
		case ranged:
			if to, err = f.value(last); err != nil {
				return 0, err
			}
			if to < from && f.max == 7 && to == 0 {
				to = 7 // FRI-SUN
			}
		case !stepped:
			to = from
		}
	}
	if to < from {
		return 0, fmt.Errorf("has the range %q, which goes backwards; write it as two", span)
	}
	return f.span(from, to, step), nil
}

// value parses a number or a name.
func (f field) value(text string) (int, error) {
	for i, name := range f.names {
		if strings.EqualFold(text, name) {
			return f.min + i, nil
		}
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < f.min || n > f.max || len(text) > 2 || text[0] == '+' {
		return 0, fmt.Errorf("has %q; use %d to %d", text, f.min, f.max)
	}
	return n, nil
}

// after returns the first value of a set that is at least v; ok is false if
// there is none.
func after(set uint64, v int) (int, bool) {
	rest := set >> v << v
	return bits.TrailingZeros64(rest), rest != 0
}
