package broker

import "time"

// PutOff counts the snoozes in a row that had one cause (Outcome.Because), so that their
// delays can grow and end at a limit. A store only carries it. Read it with
// Head.PutOffFor: once the job was charged for something else, it is over.
type PutOff struct {
	Cause   string
	Times   int       // in a row
	Since   time.Time // the time of the first
	Charged int       // failures, crashes and snoozes of the job after the last
}

// PutOffFor returns how often the job was put off for cause, if the last outcome that
// charged anything did so. Otherwise the result is zero. A release charges nothing.
func (h *Head) PutOffFor(cause string) PutOff {
	if p := h.PutOff; p != nil && p.Cause == cause && p.Charged == h.charged() {
		return *p
	}
	return PutOff{}
}

func (h *Head) charged() int { return h.Failures + h.Crashes + h.Snoozes }

// again returns what h has after one more snooze like p.
func (p *PutOff) again(h *Head) *PutOff {
	next := h.PutOffFor(p.Cause)
	if next.Times == 0 {
		next = *p
	}
	next.Times++
	next.Charged = h.charged() + 1
	return &next
}

// Because returns o, a Snooze, with its cause: a short name, such as "unknown_type". The
// job's Head.PutOff then counts the snoozes in a row for this cause, the first one at
// the given time.
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

func (w *writer) putOff(p *PutOff) {
	from := len(w.b)
	w.str(putOffCause, p.Cause)
	w.int(putOffTimes, int64(p.Times))
	w.time(putOffSince, p.Since)
	w.int(putOffCharged, int64(p.Charged))
	w.enclose(tailPutOff, from)
}

func parsePutOff(p []byte) (*PutOff, error) {
	off := new(PutOff)
	err := fields(p, func(field int, v int64, p []byte) error {
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
