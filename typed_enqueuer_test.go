package jobs

import (
	"context"
	"errors"
	"testing"
)

// lines is an Enqueuer of a test that stores nothing.
type lines struct{ types []string }

func (l *lines) Enqueue(_ context.Context, task *Task, _ ...Option) (*JobInfo, error) {
	l.types = append(l.types, task.Type()+" "+string(task.Payload()))
	return &JobInfo{ID: "1"}, nil
}

func (l *lines) EnqueueMany(context.Context, []*Task, ...Option) ([]Receipt, error) { return nil, nil }

func TestTyped_EnqueuesThroughWhateverItIsGiven(t *testing.T) {
	t.Parallel()
	var l lines
	d := Define[int]("count")
	if info, err := d.Enqueue(t.Context(), &l, 7); err != nil || info.ID != "1" || len(l.types) != 1 || l.types[0] != "count 7" {
		t.Errorf("the fake got %q, and the caller %v, %v", l.types, info, err)
	}
	for name, to := range map[string]Enqueuer{"nil": nil, "a nil Client": (*Client)(nil)} {
		if _, err := d.Enqueue(t.Context(), to, 7); !errors.Is(err, ErrInvalid) {
			t.Errorf("to %s: %v, want %v", name, err, ErrInvalid)
		}
	}
}
