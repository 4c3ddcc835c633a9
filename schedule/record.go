package schedule

import (
	"encoding/json"
	"fmt"
	"hash/fnv"
	"time"

	"github.com/seed81422ce9/jobs/broker"
	"github.com/seed81422ce9/jobs/internal/reserved"
)

// record is the stored form of a schedule, the payload of its job.
type record struct {
	Version int               `json:"v"`
	Owner   string            `json:"owner"`
	Spec    string            `json:"spec"`
	Zone    string            `json:"zone,omitempty"`
	Start   time.Time         `json:"start,omitzero"`
	End     time.Time         `json:"end,omitzero"`
	Jitter  reserved.Duration `json:"jitter,omitzero"`
	Expiry  reserved.Duration `json:"expiry,omitzero"`
	Misfire Misfire           `json:"misfire"`
	Overlap Overlap           `json:"overlap"`
	Job     job               `json:"job"`
	Paused  string            `json:"paused,omitempty"` // who created it paused
	Since   time.Time         `json:"since"`            // when its times last changed: earlier ticks do not count
	Born    time.Time         `json:"born"`             // when it was created: state with another value belongs to a deleted schedule
}

// recordVersion is the newest version that this program knows.
const recordVersion = 1

// MarshalJSON writes the window in readable form, such as "1m0s".
func (m Misfire) MarshalJSON() ([]byte, error) {
	return json.Marshal(misfireForm{m.Max, reserved.Duration(m.Window)})
}

// UnmarshalJSON reads what MarshalJSON writes.
func (m *Misfire) UnmarshalJSON(text []byte) error {
	var form misfireForm
	err := json.Unmarshal(text, &form)
	*m = Misfire{form.Max, time.Duration(form.Window)}
	return err
}

type misfireForm struct {
	Max    int               `json:"max"`
	Window reserved.Duration `json:"window,omitzero"`
}

const (
	maxID      = 200 // bytes: the ID of a tick's job, with its time, may have 255
	maxMisfire = 1000
)

// newRecord checks a definition and returns its stored form, without Since and
// Born.
func newRecord(d Definition, owner string, limits broker.Limits) (*record, error) {
	s := settings{record: record{Version: recordVersion, Owner: owner, Spec: d.Spec.text, Zone: d.Spec.zone,
		Misfire: MisfireOne, Overlap: OverlapAllow}}
	for _, option := range d.Options {
		if option != nil {
			option.apply(&s)
		}
	}
	if err := checkID(d.ID); err != nil {
		return nil, err
	}
	if err := broker.CheckName("owner", owner); err != nil {
		return nil, err
	}
	if s.paused {
		if err := broker.CheckName("paused by", s.Paused); err != nil {
			return nil, err
		}
	}
	if err := s.check(); err != nil {
		return nil, err
	}
	p, err := s.plan(d.ID)
	if err != nil {
		return nil, err
	}
	for field, d := range map[string]time.Duration{"misfire window": s.Misfire.Window, "expiry": time.Duration(s.Expiry)} {
		if d > 0 && d < time.Second { // a tick is handled a moment after its time, so none would ever run
			return nil, broker.Invalid(field, "is %v; use 1s or more, or 0 for none", d)
		}
	}
	if s.Expiry > 0 && s.Jitter >= s.Expiry {
		return nil, broker.Invalid("expiry", "is %v, and the jitter of %v can delay ticks past it, so that they never run; make it longer",
			time.Duration(s.Expiry), time.Duration(s.Jitter))
	}
	if _, ok := p.after(time.Time{}); !ok && !s.Start.IsZero() {
		return nil, broker.Invalid("spec", "%q never fires between the start and the end", d.Spec.text)
	}
	if d.err != nil {
		return nil, d.err
	}
	draft, err := d.Task.Draft(s.job...)
	if err == nil {
		s.Job, err = newJob(draft)
	}
	if err == nil {
		probe := s.newJob(d.ID, tick{At: broker.MaxTime.Add(-time.Hour * 24 * 366)})
		err = probe.Check(limits)
	}
	if err == nil {
		err = s.checkSize(len(draft.Body.Payload), limits.PayloadLimit())
	}
	if err != nil {
		return nil, err
	}
	return &s.record, nil
}

// longerTimes is by how many bytes Since and Born, once set, can make the stored form longer.
const longerTimes = 32

// checkSize refuses a definition that does not fit into the payload of the schedule's own job.
func (r *record) checkSize(payload, limit int) error {
	if size := len(reserved.Encode(r)) + longerTimes; size > limit {
		return &broker.Error{Field: "payload", Err: broker.ErrTooLarge, Hint: fmt.Sprintf("%d bytes, and the definition, which contains it "+
			"as text or in base64, has %d; the limit is %d; store it elsewhere and pass a reference", payload, size, limit)}
	}
	return nil
}

func checkID(id string) error {
	if err := broker.CheckName("id", id); err != nil {
		return err
	}
	if len(id) > maxID {
		return broker.Invalid("id", "has %d bytes, the limit is %d; shorten it", len(id), maxID)
	}
	return nil
}

func (r *record) check() error {
	switch {
	case r.Misfire.Max < 1 || r.Misfire.Max > maxMisfire:
		return broker.Invalid("misfire", "runs up to %d ticks; use 1 to %d", r.Misfire.Max, maxMisfire)
	case !r.End.IsZero() && r.End.Before(r.Start):
		return broker.Invalid("end", "is before the start; swap them")
	}
	switch r.Overlap {
	case OverlapAllow, OverlapSkip, OverlapBuffer, OverlapCancel:
	default:
		return broker.Invalid("overlap", "%q is none of allow, skip, buffer and cancel", r.Overlap)
	}
	for _, d := range []struct {
		field string
		value time.Duration
	}{{"misfire window", r.Misfire.Window}, {"jitter", time.Duration(r.Jitter)}, {"expiry", time.Duration(r.Expiry)}} {
		if err := broker.CheckDuration(d.field, d.value); err != nil {
			return err
		}
	}
	if err := broker.CheckTime("start", r.Start); err != nil {
		return err
	}
	return broker.CheckTime("end", r.End)
}

// sameTimes reports whether two records have the same ticks.
func (r *record) sameTimes(other *record) bool {
	return r.Spec == other.Spec && r.Zone == other.Zone && r.Start.Equal(other.Start) && r.End.Equal(other.End) && r.Jitter == other.Jitter
}

// decode reads a record.
func decode(payload []byte) (*record, error) {
	r := new(record)
	if err := reserved.Decode(payload, "definition", recordVersion, r); err != nil {
		return nil, err
	}
	if err := r.check(); err != nil {
		return nil, fmt.Errorf("%w: the definition: %w", broker.ErrMalformed, err)
	}
	return r, nil
}

// offset returns the delay of a schedule's ticks, which dueAt can shorten.
func (r *record) offset(id string) time.Duration {
	if r.Jitter <= 0 {
		return 0
	}
	h := fnv.New64a()
	h.Write([]byte(id))
	sum := h.Sum64()
	sum ^= sum >> 33 // mix: the last bytes of an ID, often a number, change few bits of the sum
	sum *= 0xff51afd7ed558ccd
	sum ^= sum >> 33
	return time.Duration(sum % uint64(r.Jitter)).Truncate(time.Microsecond)
}
