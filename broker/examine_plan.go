package broker

import (
	"slices"
	"strings"
)

// ExaminePlan is the order in which a backend examines its store: first the
// parts about the store as a whole, then those of one queue after the other. An
// examination of one queue has that queue's parts alone.
type ExaminePlan struct {
	Store []string
	Queue []string
}

// ExamineCursor is where an examination stands: a part, the queue it is about,
// and how far that part has come, empty at its beginning.
type ExamineCursor struct{ Part, Queue, Pos string }

func (c ExamineCursor) String() string { return c.Part + "\n" + c.Queue + "\n" + c.Pos }

// Read says where a step begins. Its error is ErrInvalid, for a cursor that no
// step of this plan gave.
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
	return c, About(Invalid("cursor", "%.64q is of no step of this examination; start with an empty one", r.Cursor), "examine", r.Queue, "")
}

// of lists the parts that an examination begins with.
func (p ExaminePlan) of(r *ExamineRequest) []string {
	if r.Queue == "" && len(p.Store) > 0 {
		return p.Store
	}
	return p.Queue
}

// Next is the cursor of the step after c, whose part has come to pos: empty
// when that part is over. After names the queue behind one, or "" at the end.
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
