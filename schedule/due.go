package schedule

import "time"

// plan computes the ticks of one schedule.
type plan struct {
	timing
	start, end time.Time
	offset     time.Duration
	misfire    Misfire
}

func (r *record) plan(id string) (*plan, error) {
	timing, err := Spec{r.Spec, r.Zone}.parse(r.Start)
	if err != nil {
		return nil, err
	}
	return &plan{timing, r.Start, r.End, r.offset(id), r.Misfire}, nil
}

// from returns the time after which ticks are to be decided.
func (r *record) from(through time.Time) time.Time { return later(through, r.Since) }

// isAhead reports whether a stored time is far ahead of now: the store's clock was ahead when it was stored,
// or is behind now. Nothing here can tell which, so only a repair lowers such a time. Small steps of the clock
// change nothing.
func isAhead(t, now time.Time) bool { return t.Sub(now) > Grace }

// after returns the first tick after t. If next is past the end, ok is false.
func (p *plan) after(t time.Time) (time.Time, bool) {
	if before := p.start.Add(-1); !p.start.IsZero() && t.Before(before) {
		t = before
	}
	next, ok := p.next(t)
	return next, ok && (p.end.IsZero() || !next.After(p.end))
}

// dueAt returns when a tick runs. following is the time of the next tick, even if it is past the end; zero
// if there is none.
func (p *plan) dueAt(tick, following time.Time) time.Time {
	offset := p.offset
	if !following.IsZero() {
		offset %= following.Sub(tick)
	}
	return tick.Add(offset)
}

// due are the ticks to run, and the counts of those that are dropped. The counts
// are lower bounds if there were more than maxSteps ticks.
type due struct {
	ticks   []time.Time // to run, oldest first
	late    int64       // dropped: older than the misfire window
	many    int64       // dropped: more than the misfire policy runs
	through time.Time   // the last tick that was due
	next    time.Time   // when the next one runs; zero if there is none
}

// maxSteps bounds how many ticks are counted one by one: enough for a schedule of
// every second that did not run for a day.
const maxSteps = 100_000

// dueBetween finds the ticks after from that are due at now.
func (p *plan) dueBetween(from, now time.Time) due {
	d, more := p.scan(from, now)
	oldest := d
	// Only the newest ticks run. So bisect for a start time after which there are few enough ticks to
	// count. Ticks are at least a second apart, so this ends.
	for early, late := from, now; more; {
		since := early.Add(late.Sub(early) / 2)
		if d, more = p.scan(since, now); more {
			early = since
		} else if more = d.through.Equal(since); more { // no tick since then
			late = since
		}
	}
	d.late = max(d.late, oldest.late)
	d.many = max(d.many, oldest.many+int64(len(oldest.ticks)-len(d.ticks)))
	return d
}

// scan counts ticks one by one; more is true if there are too many.
func (p *plan) scan(from, now time.Time) (d due, more bool) {
	d.through = from
	tick, ok := p.after(from)
	for n := 0; ok; n++ {
		following, further := p.after(tick)
		at := p.dueAt(tick, following)
		if at.After(now) {
			d.next = at
			break
		}
		if n == maxSteps {
			return d, true
		}
		d.through = tick
		if p.misfire.Window == 0 || now.Sub(at) <= p.misfire.Window {
			d.ticks = append(d.ticks, tick)
		} else {
			d.late++
		}
		if len(d.ticks) > p.misfire.Max {
			d.ticks = d.ticks[1:]
			d.many++
		}
		tick, ok = following, further
	}
	return d, false
}
