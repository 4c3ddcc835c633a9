package broker

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
)

// Kept is what a job's handler stored while it ran (§30): what it needs to continue in
// the job's next run, and its progress. A store only carries it.
type Kept struct {
	Checkpoint []byte     // only the handler reads it
	Steps      []DoneStep // in the order in which they were done
	Progress   Progress
}

// DoneStep is a step of a handler that is done and is not repeated.
type DoneStep struct {
	Name   string
	Result []byte
}

// Progress is what a handler reports of its progress.
type Progress struct {
	Done, Total int64  // in the handler's unit; a Total of 0 means unknown
	Note        string // at most MaxProgressNote bytes
}

// IsZero reports whether the handler reported nothing.
func (p Progress) IsZero() bool { return p == Progress{} }

// String returns text for people: "30 of 120 (25 %): sending".
func (p Progress) String() string {
	s := fmt.Sprint(p.Done)
	if p.Total > 0 {
		s = fmt.Sprintf("%d of %d (%d %%)", p.Done, p.Total, int64(min(float64(p.Done)/float64(p.Total), 1)*100))
	}
	switch {
	case p.Note == "":
		return s
	case p.Done == 0 && p.Total == 0:
		return p.Note
	}
	return s + ": " + p.Note
}

// stepOverhead is how many bytes a step counts beyond its name and result, so that many
// empty steps are bounded, too.
const stepOverhead = 8

// Size returns the bytes that count towards MaxKept: the checkpoint, and the name and the
// result of each step, with 8 bytes more.
func (k *Kept) Size() int {
	if k == nil {
		return 0
	}
	size := len(k.Checkpoint)
	for _, s := range k.Steps {
		size += len(s.Name) + len(s.Result) + stepOverhead
	}
	return size
}

// Check refuses a Kept outside the limits.
func (k *Kept) Check() error {
	if k == nil {
		return nil
	}
	if size := k.Size(); size > MaxKept {
		return tooLarge("checkpoint and steps", size, MaxKept, "store it elsewhere and keep a reference")
	}
	for _, s := range k.Steps {
		if err := CheckName("step", s.Name); err != nil {
			return err
		}
	}
	switch p := &k.Progress; {
	case p.Done < 0 || p.Total < 0:
		return Invalid("progress", "is %d of %d; use zero or more", p.Done, p.Total)
	case len(p.Note) > MaxProgressNote:
		return tooLarge("progress note", len(p.Note), MaxProgressNote, "shorten it")
	}
	return nil
}

// String returns a text for the messages of failed tests.
func (k *Kept) String() string {
	if k == nil {
		return "none"
	}
	var steps []string
	for _, s := range k.Steps {
		steps = append(steps, fmt.Sprintf("%.40q: %.40q", s.Name, s.Result))
	}
	return fmt.Sprintf("{%d bytes %.40q, steps [%s], progress %v}", len(k.Checkpoint), k.Checkpoint, strings.Join(steps, ", "), k.Progress)
}

// Clone returns a copy that shares nothing with k, or nil for nil.
func (k *Kept) Clone() *Kept {
	if k == nil {
		return nil
	}
	c := &Kept{Checkpoint: bytes.Clone(k.Checkpoint), Steps: slices.Clone(k.Steps), Progress: k.Progress}
	for i := range c.Steps {
		c.Steps[i].Result = bytes.Clone(c.Steps[i].Result)
	}
	return c
}

// orNone returns k, or nil if k is empty, which is not stored.
func (k *Kept) orNone() *Kept {
	if k == nil || len(k.Checkpoint) == 0 && len(k.Steps) == 0 && k.Progress.IsZero() {
		return nil
	}
	return k
}

// done returns what stays of k when the job completes: its progress.
func (k *Kept) done() *Kept {
	if k == nil {
		return nil
	}
	return (&Kept{Progress: k.Progress}).orNone()
}

// Field numbers of a step in the tail of a head.
const (
	stepName = iota + 1
	stepResult
)

// kept writes the fields of a tail that k needs.
func (w *writer) kept(k *Kept) {
	w.bytes(tailCheckpoint, k.Checkpoint)
	for _, s := range k.Steps {
		from := len(w.b)
		w.str(stepName, s.Name)
		w.bytes(stepResult, s.Result)
		w.enclose(tailStep, from)
	}
	w.int(tailDone, k.Progress.Done)
	w.int(tailTotal, k.Progress.Total)
	w.str(tailNote, k.Progress.Note)
}

// parse reads a field that writer.kept wrote.
func (k *Kept) parse(field int, v int64, p []byte) error {
	switch field {
	case tailCheckpoint:
		k.Checkpoint = p
	case tailStep:
		var s DoneStep
		err := fields(p, func(field int, _ int64, p []byte) error {
			switch field {
			case stepName:
				s.Name = string(p)
			case stepResult:
				s.Result = p
			}
			return nil
		})
		k.Steps = append(k.Steps, s)
		return err
	case tailDone:
		k.Progress.Done = v
	case tailTotal:
		k.Progress.Total = v
	case tailNote:
		k.Progress.Note = string(p)
	}
	return nil
}
