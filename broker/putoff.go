package broker

import "time"

// PutOff counts the snoozes of a job that had one cause (Outcome.Because), so that their
// delays can grow and end at a limit. Snoozes with other causes may come between them: what
// has a cause did not run the job. A store only carries it. Read it with Head.PutOffFor: once
// the job was charged for something without a cause, it is over.
type PutOff struct {
	Cause   string
	Times   int
	Since   time.Time // the time of the first
	Charged int       // failures, crashes and snoozes of the job after its last snooze with a cause
}

// maxPutOffs is the number of causes that a head keeps, the latest ones. More at a time are hardly
// possible: the packages here have fewer.
const maxPutOffs = 8

// PutOffFor returns how often the job was put off for cause since it was last charged for
// something without a cause. Otherwise the result is zero. A release charges nothing.
func (h *Head) PutOffFor(cause string) PutOff {
	for _, p := range h.PutOffs {
		if p.Cause == cause && p.Charged == h.charged() {
			return p
		}
	}
	return PutOff{}
}

func (h *Head) charged() int { return h.Failures + h.Crashes + h.Snoozes }

// again returns what h has after one more snooze like p.
func (p *PutOff) again(h *Head) []PutOff {
	next, after := *p, h.charged()+1
	var all []PutOff
	for _, other := range h.PutOffs {
		switch {
		case other.Charged != h.charged(): // it is over
		case other.Cause == p.Cause:
			next = other
		default:
			other.Charged = after
			all = append(all, other)
		}
	}
	next.Times++
	next.Charged = after
	all = append(all, next)
	return all[max(0, len(all)-maxPutOffs):]
}

// Because returns o, a Snooze, with its cause: a short name, such as "unknown_type". The
// job's Head.PutOffs then count the snoozes for this cause, the first one at the given time.
func (o Outcome) Because(cause string, at time.Time) Outcome {
	o.putOff = &PutOff{Cause: cause, Since: FromMicros(Micros(at))}
	return o
}

func (p *PutOff) check() error {
	if p == nil {
		return nil
	}
	return CheckName("cause", p.Cause)
}

// Field numbers of a PutOff in the tail of a head.
const (
	putOffCause = iota + 1
	putOffTimes
	putOffSince
	putOffCharged
)

func (w *writer) putOff(p PutOff) {
	from := len(w.b)
	w.str(putOffCause, p.Cause)
	w.int(putOffTimes, int64(p.Times))
	w.time(putOffSince, p.Since)
	w.int(putOffCharged, int64(p.Charged))
	w.enclose(tailPutOff, from)
}

func parsePutOff(p []byte) (off PutOff, err error) {
	err = fields(p, func(field int, v int64, p []byte) error {
		switch field {
		case putOffCause:
			off.Cause = string(p)
		case putOffTimes:
			off.Times = int(v)
		case putOffSince:
			off.Since = FromMicros(v)
		case putOffCharged:
			off.Charged = int(v)
		}
		return nil
	})
	return off, err
}
