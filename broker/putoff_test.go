package broker_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/seed81422ce9/jobs/broker"
)

func TestPutOff_CountsTheSnoozesForOneCause(t *testing.T) {
	t.Parallel()
	first := time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC)
	now := first
	var h broker.Head
	apply := func(o broker.Outcome) {
		h = o.Apply(h, now, 0)
		now = now.Add(time.Minute)
	}
	busy := func() { apply(broker.Snooze(time.Second, broker.Failure{}).Because("busy", now)) }
	want := func(when string, times int, since time.Time) {
		t.Helper()
		if got := h.PutOffFor("busy"); got.Times != times || !got.Since.Equal(since) {
			t.Errorf("%s: put off %d times since %v, want %d since %v", when, got.Times, got.Since, times, since)
		}
		if got := h.PutOffFor("unknown_type"); got != (broker.PutOff{}) {
			t.Errorf("%s: put off %+v for another cause", when, got)
		}
	}
	want("at first", 0, time.Time{})
	busy()
	want("after one", 1, first)
	busy()
	apply(broker.Release())
	apply(broker.Keep(broker.Kept{Checkpoint: []byte("c")}))
	h = h.Moved()
	busy()
	want("after three, with a release between them", 3, first)
	apply(broker.Snooze(0, failed).Because("other", now))
	want("after another cause", 3, first)
	busy()
	want("after four, with another cause between them", 4, first)
	if other := h.PutOffFor("other"); other.Times != 1 {
		t.Errorf("the other cause: %+v, want once", other)
	}
	for name, o := range map[string]broker.Outcome{
		"the handler's own snooze": broker.Snooze(time.Second, broker.Failure{}), "a retry": broker.Retry(0, failed),
		"a crash": broker.Crash(0, failed),
	} {
		apply(o)
		want("after "+name, 0, time.Time{})
		again := now
		busy()
		want("after "+name+" and one", 1, again)
	}
	h = h.Redriven()
	want("after a redrive", 0, time.Time{})
}

// A store may write one tail for both outcomes.
func TestPutOff_IsTheSameIfTheJobWasAskedToCancel(t *testing.T) {
	t.Parallel()
	h := broker.Head{Failures: 1, Snoozes: 2, PutOffs: []broker.PutOff{{Cause: "busy", Times: 2, Charged: 3}}}
	for _, o := range []broker.Outcome{broker.Snooze(0, failed).Because("busy", time.Now()), broker.Snooze(0, failed), broker.Release()} {
		got, want := o.IfCancelRequested().Apply(h, time.Time{}, 0).PutOffs, o.Apply(h, time.Time{}, 0).PutOffs
		if !slices.Equal(got, want) {
			t.Errorf("%v: %+v, if it was asked to cancel %+v", o.Kind(), want, got)
		}
	}
}

func TestPutOff_ACauseIsAName(t *testing.T) {
	t.Parallel()
	for cause, ok := range map[string]bool{"busy": true, "": false, strings.Repeat("c", broker.MaxNameLen+1): false} {
		err := settleOf(broker.Snooze(0, failed).Because(cause, time.Now())).Check()
		if refused := err != nil && strings.Contains(err.Error(), "cause"); refused == ok || ok && err != nil {
			t.Errorf("a cause of %d bytes: %v", len(cause), err)
		}
	}
}

func settleOf(o broker.Outcome) *broker.SettleRequest {
	return &broker.SettleRequest{Worker: "w", Number: 1, Items: []broker.Settlement{{Job: &broker.Job{Queue: "q", ID: "id"}, Outcome: o}}}
}

// A head keeps the latest causes only.
func TestPutOff_KeepsAFewCauses(t *testing.T) {
	t.Parallel()
	var h broker.Head
	for i := range 20 {
		h = broker.Snooze(0, failed).Because(fmt.Sprint("cause ", i), time.Now()).Apply(h, time.Now(), 0)
	}
	if n := len(h.PutOffs); n != 8 || h.PutOffFor("cause 19").Times != 1 || h.PutOffFor("cause 0").Times != 0 {
		t.Errorf("after twenty causes: %+v, want the last eight", h.PutOffs)
	}
}
