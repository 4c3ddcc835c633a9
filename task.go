package jobs

// Task is what a producer hands to Client.Enqueue: a type, which chooses the
// handler, and a payload, which is the handler's to read. A Task can be
// enqueued any number of times and from several goroutines.
type Task struct {
	typ     string
	payload []byte
	options []Option
}

// NewTask makes a task. The options are its defaults; those given to Enqueue
// come after them and win. NewTask keeps payload, which must not change before
// the last Enqueue of the task has returned. Nothing is checked here: Enqueue
// refuses what is outside the limits.
func NewTask(typ string, payload []byte, defaults ...Option) *Task {
	return &Task{typ: typ, payload: payload, options: defaults}
}

// Type is the task's type.
func (t *Task) Type() string { return t.typ }

// Payload is the task's payload, not a copy.
func (t *Task) Payload() []byte { return t.payload }
