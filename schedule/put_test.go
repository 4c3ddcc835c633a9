package schedule

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/seed81422ce9/jobs"
	"github.com/seed81422ce9/jobs/broker"
)

// writes counts the calls that change a store.
func writes(b broker.Broker) (broker.Broker, *atomic.Int64) {
	n := new(atomic.Int64)
	return broker.Wrap(b, func(ctx context.Context, c *broker.Call, next func(context.Context) error) error {
		if c.Method != "Ping" && c.Method != "Find" {
			n.Add(1)
		}
		return next(ctx)
	}), n
}

func TestPut_WithoutADifferenceItWritesNothing(t *testing.T) {
	inWorld(t, func(w *world) {
		counted, n := writes(w.store)
		w.schedules = New(counted, "test")
		if got := w.put("s", Every(time.Hour), WithJitter(time.Second)); got != Created {
			t.Errorf("the first Put says %s", got)
		}
		w.up()
		pass(90 * time.Minute)
		n.Store(0)
		if got := w.put("s", Every(time.Hour), WithJitter(time.Second)); got != Unchanged || n.Load() != 0 {
			t.Errorf("the same again says %s and makes %d writing calls", got, n.Load())
		}
		if got := w.put("s", Every(time.Hour), WithJitter(time.Second), WithOverlap(OverlapSkip)); got != Updated {
			t.Errorf("a change says %s", got)
		}
		if got := w.info("s").Overlap; got != OverlapSkip {
			t.Errorf("after the change the overlap is %s", got)
		}
	})
}

// Ticks from before a change of the times do not count; other changes do not
// affect the ticks.
func TestPut_AChangeOfTheTimes(t *testing.T) {
	inWorld(t, func(w *world) {
		all := WithMisfire(RunUpTo(100, 0))
		w.up()
		w.put("s", Cron("0 9 * * *", ""), all)
		pass(15 * time.Hour)
		w.put("s", Cron("0 10 * * *", ""), all)
		pass(24 * time.Hour)
		if got := fmt.Sprint(w.ticks()); got != "[2000-01-01T09:00:00Z 2000-01-02T10:00:00Z]" {
			t.Errorf("ran %v; at 15:00 the time was changed from 9:00 to 10:00", got)
		}
	})
	inWorld2(t, func(w *world) {
		all := WithMisfire(RunUpTo(100, 0))
		w.put("s", Every(time.Hour), all)
		pass(150 * time.Minute)
		w.put("s", Every(time.Hour), all, WithExpiry(10*time.Hour))
		w.up()
		pass(time.Second)
		if got := w.ticks(); len(got) != 2 {
			t.Errorf("ran %v, want the two ticks from before the change", got)
		}
	})
}

func TestPut_WhatCannotBe(t *testing.T) {
	inWorld(t, func(w *world) {
		task := jobs.NewTask("task", nil)
		wrapped, err := jobs.Define[int]("t").EnqueueWith(func(next jobs.EnqueueFunc) jobs.EnqueueFunc { return next }).Task(1)
		if err != nil {
			t.Fatal(err)
		}
		for name, c := range map[string]struct {
			id    string
			spec  Spec
			task  *jobs.Task
			opts  []Option
			field string
		}{
			"an empty ID":        {"", Every(time.Hour), task, nil, "id"},
			"a long ID":          {strings.Repeat("x", 201), Every(time.Hour), task, nil, "id"},
			"a line of nothing":  {"s", Cron("0 0 31 2 *", ""), task, nil, "spec"},
			"no spec":            {"s", Spec{}, task, nil, "spec"},
			"paused by nobody":   {"s", Every(time.Hour), task, []Option{WithPaused("")}, "paused by"},
			"paused by no text":  {"s", Every(time.Hour), task, []Option{WithPaused("\xff")}, "paused by"},
			"an unknown zone":    {"s", Cron("@daily", "Mars/Base"), task, nil, "zone"},
			"no task":            {"s", Every(time.Hour), nil, nil, "task"},
			"no type":            {"s", Every(time.Hour), jobs.NewTask("", nil), nil, "type"},
			"a given ID":         {"s", Every(time.Hour), jobs.NewTask("t", nil, jobs.WithID("x")), nil, "id"},
			"a delay":            {"s", Every(time.Hour), jobs.NewTask("t", nil, jobs.WithDelay(1)), nil, "delay"},
			"a time":             {"s", Every(time.Hour), jobs.NewTask("t", nil, jobs.WithRunAt(time.Now())), nil, "run at"},
			"a deadline":         {"s", Every(time.Hour), jobs.NewTask("t", nil, jobs.WithDeadline(time.Now())), nil, "deadline"},
			"a reserved queue":   {"s", Every(time.Hour), jobs.NewTask("t", nil, jobs.WithQueue(Queue)), nil, "queue"},
			"its own header":     {"s", Every(time.Hour), jobs.NewTask("t", nil, jobs.WithHeader(HeaderTick, "")), nil, "headers"},
			"a large payload":    {"s", Every(time.Hour), jobs.NewTask("t", make([]byte, 2<<20)), nil, "payload"},
			"an unknown overlap": {"s", Every(time.Hour), task, []Option{WithOverlap("maybe")}, "overlap"},
			"no misfire":         {"s", Every(time.Hour), task, []Option{WithMisfire(Misfire{})}, "misfire"},
			"a negative window":  {"s", Every(time.Hour), task, []Option{WithMisfire(RunUpTo(1, -1))}, "misfire window"},
			"a window of no use": {"s", Every(time.Hour), task, []Option{WithMisfire(RunUpTo(1, 24))}, "misfire window"}, // without a unit
			"an expiry at once":  {"s", Every(time.Hour), task, []Option{WithExpiry(30)}, "expiry"},
			"a negative jitter":  {"s", Every(time.Hour), task, []Option{WithJitter(-1)}, "jitter"},
			"a negative expiry":  {"s", Every(time.Hour), task, []Option{WithExpiry(-1)}, "expiry"},
			"a long jitter":      {"s", Cron("@daily", ""), task, []Option{WithJitter(time.Hour), WithExpiry(time.Hour)}, "expiry"},
			"an early end":       {"s", Every(time.Hour), task, []Option{WithStart(time.Now()), WithEnd(time.Now().Add(-1e9))}, "end"},
			"a start in 1800":    {"s", Every(time.Hour), task, []Option{WithStart(time.Date(1800, 1, 1, 0, 0, 0, 0, time.UTC))}, "start"},
			"no tick in a span":  {"s", Cron("0 0 1 1 *", ""), task, []Option{WithStart(time.Now().Add(1e9)), WithEnd(time.Now().Add(2e9))}, "spec"},
			"a task's option":    {"s", Every(time.Hour), task, []Option{WithJob(jobs.WithMaxRetries(-1))}, "max retries"},
			"an unreadable ref":  {"s", Every(time.Hour), jobs.NewTask("t", nil, jobs.WithPayloadRef("\xff")), nil, "payload ref"},
			"own middleware":     {"s", Every(time.Hour), wrapped, nil, "middleware"},
		} {
			_, err := w.schedules.Put(w.Context(), c.id, c.spec, c.task, c.opts...)
			var e *broker.Error
			if !errors.As(err, &e) || e.Field != c.field || broker.MayHaveApplied(err) {
				t.Errorf("%s: the error is %v; it should name the field %q", name, err, c.field)
			}
		}
		if _, err := New(w.store, "").Put(w.Context(), "s", Every(time.Hour), task); !errors.Is(err, broker.ErrInvalid) ||
			!strings.Contains(err.Error(), "owner") {
			t.Errorf("without an owner the error is %v", err)
		}
		all, err := w.schedules.List(w.Context())
		if err != nil || len(all) != 0 {
			t.Errorf("after all this the store has %v (%v)", all, err)
		}
	})
}

// region is the argument of a typed definition.
type region struct {
	Name string
	Bad  any `json:",omitempty"`
}

func TestDefine_TypedArguments(t *testing.T) {
	inWorld(t, func(w *world) {
		report := jobs.Define[region]("report", jobs.WithQueue("reports"), jobs.WithMaxRetries(3))
		eu := Define("eu", Every(time.Hour), report, region{Name: "Europe"}, WithOverlap(OverlapSkip))
		for _, want := range []Change{Created, Unchanged} {
			if got, err := eu.Put(w.Context(), w.schedules); got != want || err != nil {
				t.Errorf("Put says %s (%v), want %s", got, err, want)
			}
		}
		done, err := w.schedules.Sync(w.Context(), eu, Define("us", Every(time.Hour), report, region{Name: "America"}))
		if err != nil || fmt.Sprint(done) != "{[us] [] [eu] []}" {
			t.Errorf("Sync did %+v (%v)", done, err)
		}
		got := make(chan string, 2)
		handle := report.Handler(func(_ context.Context, args region, job *jobs.Job) error {
			k, _ := TickOf(job)
			got <- fmt.Sprintf("%s of %s, %d", args.Name, k.Schedule, job.MaxRetries())
			return nil
		})
		w.handler = handle.ProcessJob
		w.serve(w.store, jobs.Config{Queues: map[string]int{"reports": 1}}, ExtensionConfig{})
		pass(time.Hour)
		two := []string{<-got, <-got}
		slices.Sort(two)
		if fmt.Sprint(two) != "[America of us, 3 Europe of eu, 3]" {
			t.Errorf("the ticks were %v", two)
		}
		bad := Define("bad", Every(time.Hour), report, region{Bad: func() {}})
		if _, err := bad.Put(w.Context(), w.schedules); !errors.Is(err, broker.ErrInvalid) || !strings.Contains(err.Error(), `"report"`) {
			t.Errorf("arguments that cannot be encoded: %v", err)
		}
		if _, err := w.schedules.Get(w.Context(), "bad"); !errors.Is(err, broker.ErrNotFound) {
			t.Errorf("of what was refused, Get says %v", err)
		}
	})
}

// A definition contains the task's payload, in base64 if it is not text, and has to fit into a payload itself.
func TestPut_ADefinitionThatIsTooLargeIsRefusedBeforeAnythingIsStored(t *testing.T) {
	inWorld(t, func(w *world) {
		w.put("old", Every(time.Hour))
		large := jobs.NewTask("t", bytes.Repeat([]byte{0xff}, 1<<20)) // a job may have it
		var e *broker.Error
		change, err := w.schedules.Put(w.Context(), "s", Every(time.Hour), large)
		if !errors.Is(err, broker.ErrTooLarge) || !errors.As(err, &e) || e.Field != "payload" || e.Queue != "" || change != "" ||
			!strings.Contains(err.Error(), "1048576 bytes") || !strings.Contains(err.Error(), "base64") {
			t.Errorf("Put did %q and says %v", change, err)
		}
		if _, err := w.schedules.Sync(w.Context(), Definition{ID: "new", Spec: Every(time.Hour), Task: jobs.NewTask("t", nil)},
			Definition{ID: "s", Spec: Every(time.Hour), Task: large}); !errors.Is(err, broker.ErrTooLarge) {
			t.Errorf("Sync says %v", err)
		}
		if all, err := w.schedules.List(w.Context()); err != nil || len(all) != 1 || all[0].ID != "old" {
			t.Errorf("the schedules are %+v, %v; want what was there", all, err)
		}
		x := w.schedules.Extension(jobs.NewClient(w.store, jobs.ClientConfig{}), ExtensionConfig{Definitions: []Definition{
			{ID: "s", Spec: Every(time.Hour), Task: large}}})
		if !errors.Is(x.Err, broker.ErrTooLarge) {
			t.Errorf("the extension says %v", x.Err)
		}
	})
}

func TestPut_TheScheduleOfAnotherOwner(t *testing.T) {
	inWorld(t, func(w *world) {
		w.put("s", Every(time.Hour))
		other := New(w.store, "other")
		_, err := other.Put(w.Context(), "s", Every(time.Minute), jobs.NewTask("task", nil))
		var e *broker.Error
		if !errors.Is(err, broker.ErrDuplicate) || !errors.As(err, &e) || e.Field != "owner" || e.ID != "s" ||
			!strings.Contains(err.Error(), `"test"`) {
			t.Errorf("the error is %v", err)
		}
		_, err = other.Sync(w.Context(), Definition{ID: "new", Spec: Every(time.Hour), Task: jobs.NewTask("t", nil)},
			Definition{ID: "s", Spec: Every(time.Hour), Task: jobs.NewTask("t", nil)})
		if !errors.Is(err, broker.ErrDuplicate) {
			t.Errorf("Sync says %v", err)
		}
		all, err := w.schedules.List(w.Context())
		if err != nil || len(all) != 1 || all[0].Spec != "@every 1h0m0s" || all[0].Owner != "test" {
			t.Errorf("afterwards the store has %+v (%v)", all, err)
		}
	})
}

func TestSync_RemovesWhatTheCodeNoLongerNames(t *testing.T) {
	inWorld(t, func(w *world) {
		d := func(id string, every time.Duration) Definition {
			return Definition{ID: id, Spec: Every(every), Task: jobs.NewTask("task", nil)}
		}
		if _, err := New(w.store, "other").Put(w.Context(), "theirs", Every(time.Hour), jobs.NewTask("t", nil)); err != nil {
			t.Fatal(err)
		}
		if _, err := w.schedules.Sync(w.Context(), d("a", time.Hour), d("b", time.Hour), d("c", time.Hour)); err != nil {
			t.Fatal(err)
		}
		w.up()
		pass(time.Minute)
		done, err := w.schedules.Sync(w.Context(), d("a", time.Hour), d("b", time.Minute), d("d", time.Hour))
		if err != nil || fmt.Sprint(done) != "{[d] [b] [a] [c]}" {
			t.Errorf("the second Sync did %+v (%v)", done, err)
		}
		if _, err := New(w.store, "").Sync(w.Context()); !errors.Is(err, broker.ErrInvalid) || !strings.Contains(err.Error(), "owner") {
			t.Errorf("without an owner: %v", err)
		}
		if _, err := w.schedules.Sync(w.Context(), d("a", time.Hour), d("a", time.Minute)); !errors.Is(err, broker.ErrInvalid) {
			t.Errorf("two definitions of one ID: %v", err)
		}
		all, err := w.schedules.List(w.Context())
		var ids []string
		for _, info := range all {
			ids = append(ids, info.ID)
		}
		if err != nil || !slices.Equal(ids, []string{"a", "b", "d", "theirs"}) {
			t.Errorf("the store has %v (%v)", ids, err)
		}
	})
}

// A schedule that this program cannot read is kept for one that can.
func TestSchedule_DefinitionsThatCannotBeRead(t *testing.T) {
	inWorld(t, func(w *world) {
		w.up()
		w.put("s", Every(time.Hour))
		pass(time.Minute)
		edit := func(payload string) {
			job, err := w.schedules.job(w.Context(), "s")
			if err == nil {
				err = w.schedules.decideOn(w.Context(), broker.Operation{Kind: broker.OpEdit, Payload: []byte(payload)}, job)
			}
			if err == nil {
				err = w.schedules.wake(w.Context(), "s")
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		for _, payload := range []string{"{", `{"v":99}`, `{"v":1,"unknown":1}`, `{"v":1}`} {
			edit(payload)
			pass(2 * time.Hour)
			if info := w.info("s"); info.Error == "" || info.State != broker.StateRetry {
				t.Errorf("with the payload %s the schedule is %v with the error %q", payload, info.State, info.Error)
			}
		}
		ran := len(w.ran)
		if got := w.put("s", Every(time.Hour)); got != Updated {
			t.Errorf("Put says %s", got)
		}
		pass(time.Hour)
		if len(w.ran) != ran+1 {
			t.Errorf("after it was put right %d ticks ran in an hour", len(w.ran)-ran)
		}
	})
}

// A tick whose job is refused for good is counted; one whose job is refused for
// now waits.
func TestSchedule_RefusedTicks(t *testing.T) {
	inWorld(t, func(w *world) {
		w.up()
		one := int64(1)
		if _, err := w.store.Policy(w.Context(), broker.PolicyRequest{Queue: "full", MaxDepth: &one}); err != nil {
			t.Fatal(err)
		}
		_, err := w.schedules.Put(w.Context(), "s", Every(time.Hour), jobs.NewTask("task", nil, jobs.WithQueue("full")),
			WithMisfire(RunUpTo(100, 0)))
		if err != nil {
			t.Fatal(err)
		}
		pass(3*time.Hour + time.Minute)
		if info := w.info("s"); info.Counts.Enqueued != 1 || !strings.Contains(info.Error, "full") {
			t.Errorf("with a full queue: %+v, error %q", info.Counts, info.Error)
		}
		one = 100
		if _, err := w.store.Policy(w.Context(), broker.PolicyRequest{Queue: "full", MaxDepth: &one}); err != nil {
			t.Fatal(err)
		}
		pass(time.Minute)
		if info := w.info("s"); info.Counts != (Counts{Enqueued: 3}) || info.Error != "" {
			t.Errorf("when there is room again: %+v, error %q", info.Counts, info.Error)
		}
		_, err = w.schedules.Put(w.Context(), "u", Every(time.Hour),
			jobs.NewTask("task", nil, jobs.WithQueue("unserved"), jobs.WithUniqueKey("k")))
		if err != nil {
			t.Fatal(err)
		}
		pass(3 * time.Hour)
		if c := w.info("u").Counts; c != (Counts{Enqueued: 1, Duplicate: 2}) {
			t.Errorf("with a unique key that is held: %+v", c)
		}
		if missed := w.served.Missed(); missed["duplicate"] != 2 || missed["refused"] != 0 {
			t.Errorf("the process reports as missed %v, want two duplicates", missed)
		}
	})
}
