package broker

import (
	"cmp"
	"time"
)

// Bounds of a step of an examination: a step should hold up a store for some milliseconds.
const (
	DefaultExamine = 200  // records examined in a step
	MaxExamine     = 1000 // the most that a request may ask for
)

// ExamineRequest asks for one step of an examination.
type ExamineRequest struct {
	Now    time.Time
	Queue  string // only this queue; empty means the whole store and its settings
	Fix    bool   // repair what can be repaired
	Cursor string // of the step before; empty begins
	Limit  int    // records examined in this step; 0 means DefaultExamine, at most MaxExamine
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

// Examined is the result of one step.
type Examined struct {
	Now      time.Time
	Findings []Finding
	Records  int    // examined in this step
	Queue    string // examined in this step; empty for the store as a whole
	Part     string // of the queue or store, to show progress
	Cursor   string // of the next step; empty at the end
}

// Finding is one fault. The backend fills in the kind, so that a program can show
// findings of any backend.
type Finding struct {
	FindingKind
	Queue string // empty for the store as a whole
	ID    string // of the job, or the name of the mark, worker or key
	What  string // what is wrong here, in one sentence
	Fixed bool   // it was repaired
	Left  string // with Fix: why it was not repaired
}
