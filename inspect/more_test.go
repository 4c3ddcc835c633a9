package inspect

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/seed81422ce9/jobs/broker"
)

func TestMore_ADecisionLeavesOutWhatWhereDoesNotKeep(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.enqueue(t, "mail", 4)
	b.die(t, 2, "user 17 not found")
	b.die(t, 2, "no route")
	dead := b.inspector.Select(Query{Queue: "default", State: broker.StateDead})
	same := dead.Where(func(j *broker.Job) bool { return Fingerprint(j.Errors.Last().Message) == "user # not found" })
	if n, err := same.Count(t.Context()); err != nil || n != 2 {
		t.Errorf("Count is %d, %v; want 2", n, err)
	}
	report, err := same.Redrive(t.Context())
	if err != nil || report.Done != 2 || report.Matched != 2 {
		t.Errorf("Redrive: %+v, %v; want 2 matched and done", report, err)
	}
	if n, err := dead.Count(t.Context()); err != nil || n != 2 {
		t.Errorf("%d dead jobs are left, %v; want 2", n, err)
	}
}

func TestMore_WhyAsksForTheJobAndItsQueue(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.enqueue(t, "mail", 1)
	if err := b.inspector.Pause(t.Context(), "default"); err != nil {
		t.Fatal(err)
	}
	why, err := b.inspector.Why(t.Context(), "default", "mail-0000")
	if err != nil || len(why) == 0 || why[0].Code != "paused" {
		t.Errorf("Why says %+v, %v; want paused first", why, err)
	}
	if _, err := b.inspector.Why(t.Context(), "default", "nobody"); !errors.Is(err, broker.ErrNotFound) {
		t.Errorf("of a job that does not exist: %v", err)
	}
}

func TestMore_AnInspectorWatches(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.enqueue(t, "mail", 1)
	ctx, cancel := context.WithCancel(t.Context())
	events, err := b.inspector.Watch(ctx, "default")
	if err != nil {
		t.Fatal(err)
	}
	b.die(t, 1, "no route")
	if e := <-events; e.Kind != broker.EventSettled || e.ID != "mail-0000" || e.State != broker.StateDead {
		t.Errorf("the event is %+v", e)
	}
	cancel()
	if _, open := <-events; open {
		t.Error("the watch goes on after its context ended")
	}
	if _, err := (*Inspector)(nil).Watch(t.Context(), "default"); !errors.Is(err, broker.ErrInvalid) {
		t.Errorf("an inspector without a broker: %v", err)
	}
}

func TestMore_ManyRefusalsDoNotLookLikeALostAnswer(t *testing.T) {
	t.Parallel()
	var r Report
	for range keptRefusals + 2 {
		r.refuse(Refusal{Queue: "mail", ID: "a", Err: broker.ErrDuplicate})
	}
	err := r.namedError(broker.OpRedrive)
	if broker.MayHaveApplied(err) || !errors.Is(err, broker.ErrDuplicate) ||
		!strings.HasSuffix(err.Error(), "(and 2 more jobs were refused)") {
		t.Errorf("the error of %d refusals is %.200v", r.Refused, err)
	}
}
