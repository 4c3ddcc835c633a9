package broker

import (
	"slices"
	"strings"
)

// ExaminePlan is the order in which a backend examines its store: first the parts of the
// store as a whole, then the parts of one queue after the other. An examination of one
// queue has only that queue's parts.
type ExaminePlan struct {
	Store []string
	Queue []string
}

// ExamineCursor is the position of an examination: a part, its queue, and the position
// within the part, which is empty at the beginning.
type ExamineCursor struct{ Part, Queue, Pos string }

func (c ExamineCursor) String() string { return c.Part + "\n" + c.Queue + "\n" + c.Pos }

// Read returns where a step begins. It returns ErrInvalid for a cursor that is not of
// this plan.
func (p ExaminePlan) Read(r *ExamineRequest) (c ExamineCursor, err error) {
	if r.Cursor == "" {
		c.Queue = r.Queue
		if parts := p.of(r); len(parts) > 0 {
			c.Part = parts[0]
		}
		return c, nil
	}
	fields := strings.SplitN(r.Cursor, "\n", 3)
	if len(fields) == 3 {
		c = ExamineCursor{Part: fields[0], Queue: fields[1], Pos: fields[2]}
		known := slices.Contains(p.Queue, c.Part) || r.Queue == "" && c.Queue == "" && slices.Contains(p.Store, c.Part)
		if known && (c.Queue == "" || CheckQueue(c.Queue) == nil) && (r.Queue == "" || r.Queue == c.Queue) {
			return c, nil
		}
	}
	err = Invalid("cursor", "%.64q belongs to no step of this examination; start with an empty one", r.Cursor)
	return c, About(err, "examine", r.Queue, "")
}

// of returns the parts that an examination begins with.
func (p ExaminePlan) of(r *ExamineRequest) []string {
	if r.Queue == "" && len(p.Store) > 0 {
		return p.Store
	}
	return p.Queue
}

// Next returns the cursor of the step after c. Argument pos is the position reached in
// the part; it is empty if the part is done. Function after returns the queue that
// follows a given one, or "" at the end.
func (p ExaminePlan) Next(r *ExamineRequest, c ExamineCursor, pos string, after func(queue string) (string, error)) (string, error) {
	if pos != "" {
		c.Pos = pos
		return c.String(), nil
	}
	c.Pos = ""
	parts := p.Queue
	if c.Queue == "" && slices.Contains(p.Store, c.Part) {
		parts = p.Store
	}
	if i := slices.Index(parts, c.Part) + 1; i < len(parts) {
		c.Part = parts[i]
		return c.String(), nil
	}
	if r.Queue != "" || len(p.Queue) == 0 {
		return "", nil
	}
	next, err := after(c.Queue)
	if err != nil || next == "" {
		return "", err
	}
	return ExamineCursor{Part: p.Queue[0], Queue: next}.String(), nil
}
