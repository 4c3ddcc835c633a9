package broker

import (
	"cmp"
	"time"
)

// Bounds of a step of an examination.
const (
	DefaultExamine = 200  // records looked at in a step
	MaxExamine     = 1000 // the most that may be asked for
)

// ExamineRequest asks for one step of an examination.
type ExamineRequest struct {
	Now    time.Time
	Queue  string // this queue alone; empty means the whole store, its settings too
	Fix    bool   // repair what can be repaired
	Cursor string // of the step before; empty begins
	Limit  int    // records looked at in this step; 0 means DefaultExamine, at most MaxExamine
}

// Check refuses a request outside the limits and sets the default Limit.
func (r *ExamineRequest) Check() error {
	var err error
	if r.Queue != "" {
		err = CheckQueue(r.Queue)
	}
	if r.Limit < 0 || r.Limit > MaxExamine {
		err = cmp.Or(err, Invalid("limit", "is %d; use 1 to %d", r.Limit, MaxExamine))
	}
	if r.Limit == 0 {
		r.Limit = DefaultExamine
	}
	return About(err, "examine", r.Queue, "")
}

// Examined is what one step saw.
type Examined struct {
	Now      time.Time
	Findings []Finding
	Records  int    // looked at in this step
	Queue    string // that it was about, empty for the store as a whole
	Part     string // which part of it, for whoever watches
	Cursor   string // of the next step; empty at the end
}

// Finding is one thing that is wrong. Its backend fills in the kind, so that
// whoever shows a finding needs to know no backend.
type Finding struct {
	FindingKind
	Queue string // empty for the store as a whole
	ID    string // of the job, or the name of what else it is about
	What  string // what is wrong here, in one sentence
	Fixed bool   // it was repaired
	Left  string // why it was not, although that was asked for
}
