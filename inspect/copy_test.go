package inspect

import (
	"errors"
	"testing"
	"time"

	"github.com/seed81422ce9/jobs"
	"github.com/seed81422ce9/jobs/broker"
)

// A copy has an old payload: it must not replace what was enqueued since.
func TestEnqueueCopy_LeavesAnotherJobOfTheUniqueKeyAlone(t *testing.T) {
	t.Parallel()
	for name, option := range map[string]jobs.Option{
		"replace":   jobs.WithUniqueReplace(),
		"keep last": jobs.WithUniqueKeepLast(),
		"debounce":  jobs.WithUniqueDebounce(time.Minute, time.Hour),
	} {
		b := newBench(t)
		enqueue := func(id, payload string) {
			mustEnqueue(t, b.client, jobs.NewTask("t", []byte(payload)), jobs.WithID(id), jobs.WithUniqueKey("k"), option)
		}
		enqueue("a", "old")
		i := b.inspector
		old, err := i.Job(t.Context(), "default", "a")
		if err != nil {
			t.Fatal(err)
		}
		if _, err := i.Select(Query{Queue: "default", IDs: []string{"a"}}).Cancel(t.Context()); err != nil {
			t.Fatal(err)
		}
		enqueue("b", "new")
		if err := i.EnqueueCopy(t.Context(), old, "c"); !errors.Is(err, broker.ErrDuplicate) {
			t.Errorf("%s: EnqueueCopy says %v; want ErrDuplicate", name, err)
		}
		if there, err := i.Job(t.Context(), "default", "b"); err != nil || string(there.Payload) != "new" {
			t.Errorf("%s: the other job has the payload %q, %v; want the new one", name, there.Payload, err)
		}
	}
}
