package integration

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/seed81422ce9/jobs"
	"github.com/seed81422ce9/jobs/broker"
	"github.com/seed81422ce9/jobs/middleware"
)

// markTests are tests that every store of markers must pass.
var markTests = []struct {
	name string
	test func(t *testing.T, d *deduped)
}{
	{"ADuplicateIsANoOpThatReturnsTheStoredResult", func(t *testing.T, d *deduped) {
		d.run("a", nil).wants(t, ran, "receipt 1")
		d.run("a", nil).wants(t, answered, "receipt 1") // a redelivery
		d.run("b", nil).wants(t, answered, "receipt 1") // another job for the same effect
		d.key = "order-2"
		d.run("c", nil).wants(t, ran, "receipt 2")
		d.typ, d.key = "refund", "order-1"
		d.run("d", nil).wants(t, ran, "receipt 3")
	}},
	{"AnyBytesAreAResult", func(t *testing.T, d *deduped) {
		for i, result := range []string{"", "r", "\x00\xff\n", "d", string(make([]byte, 1<<20-1))} {
			d.key, d.result = fmt.Sprint("order-", i), &result
			d.run("a", nil).wants(t, ran, result)
			d.run("b", nil).wants(t, answered, result)
		}
		long := string(make([]byte, 1<<20))
		d.key, d.result = "long", &long
		d.run("a", nil).wants(t, ran, long)
		d.run("b", nil).wants(t, answered, "")
	}},
	{"AFailureFreesTheKey", func(t *testing.T, d *deduped) {
		failure := errors.New("503")
		d.run("a", func() error { return failure }).wants(t, failure, "")
		d.run("b", nil).wants(t, ran, "receipt 2")
		d.run("a", nil).wants(t, answered, "receipt 2")
	}},
	{"APanicFreesTheKey", func(t *testing.T, d *deduped) {
		func() {
			defer func() { recover() }()
			d.run("a", func() error { panic("out of paper") })
		}()
		d.run("b", nil).wants(t, ran, "receipt 2")
	}},
	{"AnotherJobWithTheKeyIsPutOff", func(t *testing.T, d *deduped) {
		d.run("a", func() error {
			d.run("b", nil).wants(t, middleware.ErrBusy, "")
			return nil
		}).wants(t, ran, "receipt 1")
		d.run("b", nil).wants(t, answered, "receipt 1")
	}},
	{"AJobResumesAfterACrashAndOthersWaitForTheHold", func(t *testing.T, d *deduped) {
		d.crash("a")
		d.run("b", nil).wants(t, middleware.ErrBusy, "")
		d.crash("a") // the same job may run again at once
		d.run("a", nil).wants(t, ran, "receipt 3")

		d.key = "order-2"
		d.crash("a")
		d.pass(hold - time.Microsecond)
		d.run("b", nil).wants(t, middleware.ErrBusy, "")
		d.pass(time.Microsecond)
		d.run("b", nil).wants(t, ran, "receipt 5")
	}},
	{"AnEffectIsRememberedForItsTime", func(t *testing.T, d *deduped) {
		d.run("a", nil).wants(t, ran, "receipt 1")
		d.pass(keep - time.Microsecond)
		d.run("b", nil).wants(t, answered, "receipt 1")
		d.pass(time.Microsecond)
		d.run("b", nil).wants(t, ran, "receipt 2")
	}},
	{"ARedeliveryDoesNotShortenTheMemory", func(t *testing.T, d *deduped) {
		d.run("a", nil).wants(t, ran, "receipt 1")
		d.run("a", nil).wants(t, answered, "receipt 1")
		d.pass(keep - time.Microsecond)
		d.run("b", nil).wants(t, answered, "receipt 1")
	}},
	{"OfManyAtOnceOneRuns", func(t *testing.T, d *deduped) {
		var wg sync.WaitGroup
		for i := range 20 {
			wg.Go(func() {
				if r := d.run(fmt.Sprint("job-", i), nil); r.err != nil && !errors.Is(r.err, middleware.ErrBusy) {
					t.Errorf("a rival failed: %v", r.err)
				}
			})
		}
		wg.Wait()
		if d.effects != 1 {
			t.Errorf("the effect happened %d times, want once", d.effects)
		}
	}},
}

func TestDedup(t *testing.T) {
	onBrokers(t, func(t *testing.T, b broker.Broker) {
		for _, c := range markTests {
			t.Run(c.name, func(t *testing.T) { c.test(t, newDeduped(b, c.name)) })
		}
	})
}

const (
	hold = time.Hour
	keep = 24 * time.Hour
)

// deduped is a handler behind Dedup, with a store of markers whose time the test
// sets. Each run has its own result.
type deduped struct {
	broker middleware.Marks
	typ    string
	key    string
	result *string // if set, the result of every run

	mu      sync.Mutex
	now     time.Time
	effects int
	lost    bool // the process died: its writes do not arrive
}

func newDeduped(b middleware.Marks, name string) *deduped {
	d := &deduped{broker: b, typ: "charge in " + name, key: "order-1", now: time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)}
	return d
}

// Mark sets the request's time to that of the test.
func (d *deduped) Mark(ctx context.Context, req broker.MarkRequest) (broker.Marked, error) {
	d.mu.Lock()
	req.Now = d.now
	lost := d.lost
	d.mu.Unlock()
	if lost && req.Action != broker.MarkTake {
		return broker.Marked{Held: true}, nil
	}
	return d.broker.Mark(ctx, req)
}

func (d *deduped) pass(t time.Duration) { d.now = d.now.Add(t) }

var (
	ran      = errors.New("the handler ran")
	answered = errors.New("the marker answered")
)

// delivery is the outcome of a delivery.
type delivery struct {
	ran    bool
	err    error
	result string
}

// run delivers a job whose handler has its effect and then calls more.
func (d *deduped) run(id string, more func() error) delivery {
	var got delivery
	handler := middleware.Dedup(middleware.DedupConfig{Marks: d, Keep: keep, Hold: hold})(jobs.HandlerFunc(
		func(_ context.Context, job *jobs.Job) error {
			got.ran = true
			d.mu.Lock()
			d.effects++
			result := fmt.Sprint("receipt ", d.effects)
			d.mu.Unlock()
			if d.result != nil {
				result = *d.result
			}
			if more != nil {
				if err := more(); err != nil {
					return err
				}
			}
			job.SetResult([]byte(result))
			return nil
		}))
	job := jobs.NewJob(&broker.Job{Queue: queue, ID: id, Body: broker.Body{Type: d.typ, IdempotencyKey: d.key}})
	got.err = handler.ProcessJob(context.Background(), job)
	got.result = string(job.Result())
	return got
}

// crash delivers a job whose process dies after the effect.
func (d *deduped) crash(id string) {
	d.run(id, func() error { d.lost = true; return nil })
	d.lost = false
}

func (r delivery) wants(t *testing.T, want error, result string) {
	t.Helper()
	switch {
	case want == ran && (!r.ran || r.err != nil):
		t.Errorf("the handler ran: %v, error %v; want that it ran and succeeded", r.ran, r.err)
	case want == answered && (r.ran || r.err != nil):
		t.Errorf("the handler ran: %v, error %v; want that the marker answered", r.ran, r.err)
	case want != ran && want != answered && !errors.Is(r.err, want):
		t.Errorf("the delivery ended with error %v, want %v", r.err, want)
	}
	if r.result != result {
		t.Errorf("the result is %.40q (%d bytes), want %.40q (%d bytes)", r.result, len(r.result), result, len(result))
	}
}
