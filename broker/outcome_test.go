package broker_test

import (
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/seed81422ce9/jobs/broker"
)

var failed = broker.Failure{Message: "failed"}

// outcomes has one of each kind that makes a difference.
func outcomes() map[string]broker.Outcome {
	return map[string]broker.Outcome{
		"complete":             broker.Complete([]byte("result")),
		"retry later":          broker.Retry(time.Second, failed),
		"retry at once":        broker.Retry(0, failed),
		"retry in the past":    broker.Retry(-time.Second, failed),
		"crash later":          broker.Crash(time.Second, failed),
		"crash at once":        broker.Crash(0, failed),
		"dead, retries":        broker.Die(broker.ReasonRetries, failed),
		"dead, skip retry":     broker.Die(broker.ReasonSkipRetry, failed),
		"dead, crashes":        broker.Die(broker.ReasonCrashes, failed),
		"dead, expired":        broker.Die(broker.ReasonExpired, failed),
		"dead, unknown type":   broker.Die(broker.ReasonUnknownType, failed),
		"dead, undecodable":    broker.Die(broker.ReasonUndecodable, failed),
		"snooze later":         broker.Snooze(time.Second, failed),
		"snooze without words": broker.Snooze(0, broker.Failure{}),
		"snooze with a cause":  broker.Snooze(0, broker.Failure{}).Because("busy", time.Unix(1e9, 1)),
		"release":              broker.Release(),
		"cancel":               broker.Cancel(failed),
		"cancel without words": broker.Cancel(broker.Failure{}),
	}
}

func TestOutcome_ApplyChargesWhatTheOutcomeSays(t *testing.T) {
	t.Parallel()
	now := time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC)
	before := broker.Head{Epoch: 5, Deliveries: 4, Failures: 3, Crashes: 2, Snoozes: 1,
		Errors: broker.ErrorLog{Entries: []broker.Failure{{Message: "earlier"}}}}
	type change struct {
		state                      broker.State
		failures, crashes, snoozes int
		reason                     broker.DeadReason
		entry                      bool // is added to the history
		front                      bool
		putOff                     bool
		delay                      time.Duration
	}
	want := map[string]change{
		"complete":             {state: broker.StateCompleted},
		"retry later":          {state: broker.StateRetry, failures: 1, entry: true, delay: time.Second},
		"retry at once":        {state: broker.StatePending, failures: 1, entry: true},
		"retry in the past":    {state: broker.StatePending, failures: 1, entry: true},
		"crash later":          {state: broker.StateRetry, crashes: 1, entry: true, delay: time.Second},
		"crash at once":        {state: broker.StatePending, crashes: 1, entry: true, front: true},
		"dead, retries":        {state: broker.StateDead, failures: 1, entry: true, reason: broker.ReasonRetries},
		"dead, skip retry":     {state: broker.StateDead, failures: 1, entry: true, reason: broker.ReasonSkipRetry},
		"dead, crashes":        {state: broker.StateDead, crashes: 1, entry: true, reason: broker.ReasonCrashes},
		"dead, expired":        {state: broker.StateDead, entry: true, reason: broker.ReasonExpired},
		"dead, unknown type":   {state: broker.StateDead, entry: true, reason: broker.ReasonUnknownType},
		"dead, undecodable":    {state: broker.StateDead, entry: true, reason: broker.ReasonUndecodable},
		"snooze later":         {state: broker.StateRetry, snoozes: 1, entry: true, delay: time.Second},
		"snooze without words": {state: broker.StatePending, snoozes: 1},
		"snooze with a cause":  {state: broker.StatePending, snoozes: 1, putOff: true},
		"release":              {state: broker.StatePending, front: true},
		"cancel":               {state: broker.StateCancelled, entry: true},
		"cancel without words": {state: broker.StateCancelled},
	}
	for name, o := range outcomes() {
		w, known := want[name]
		if !known {
			t.Errorf("the table has no line for %s", name)
			continue
		}
		head := broker.Head{Epoch: 6, Deliveries: 5, Failures: 3 + w.failures, Crashes: 2 + w.crashes, Snoozes: 1 + w.snoozes,
			Reason: w.reason, Errors: before.Errors}
		if w.entry {
			head.Errors.Entries = []broker.Failure{{Message: "earlier"}, failed}
		}
		if w.putOff {
			head.PutOffs = []broker.PutOff{{Cause: "busy", Times: 1, Since: time.UnixMicro(1e15 + 1).UTC(), Charged: 7}}
		}
		if w.state.Final() {
			head.FinishedAt = now
		}
		if w.state == broker.StateCompleted {
			head.Result = []byte("result")
		}
		if got := o.Apply(before, now, 10); !reflect.DeepEqual(got, head) {
			t.Errorf("%s leaves the head\n%+v, want\n%+v", name, got, head)
		}
		if o.State() != w.state || o.Front() != w.front || o.Delay() != w.delay {
			t.Errorf("%s leads to %v, front %v, delay %v; want %v, %v, %v", name, o.State(), o.Front(), o.Delay(), w.state, w.front, w.delay)
		}
	}
	if len(before.Errors.Entries) != 1 {
		t.Errorf("Apply wrote to the history it was given: %+v", before.Errors)
	}
}

func TestOutcome_AJobAskedToCancelEndsWhateverItsOutcome(t *testing.T) {
	t.Parallel()
	for name, o := range outcomes() {
		got := o.IfCancelRequested()
		if o.State().Final() {
			if !reflect.DeepEqual(got, o) {
				t.Errorf("%s, which ends the job anyway, became %+v", name, got)
			}
		} else if got.Kind() != broker.OutcomeCancel || !reflect.DeepEqual(got.Failure(), o.Failure()) || got.Delay() != 0 {
			t.Errorf("%s became %v with failure %v after %v; want cancel with the same failure, at once", name, got.Kind(), got.Failure(),
				got.Delay())
		}
	}
}

func TestOutcome_OutcomesAreNamed(t *testing.T) {
	t.Parallel()
	names := make(map[string]bool)
	for k := range broker.OutcomeKeep + 1 {
		names[k.String()] = true
	}
	if len(names) != int(broker.OutcomeKeep)+1 || broker.OutcomeKind(99).String() != "invalid" {
		t.Errorf("kinds of outcomes share a name: %v", names)
	}
	if k := (broker.Outcome{}).Kind(); k != broker.OutcomeNone || (broker.Outcome{}).State() != broker.StateNone {
		t.Errorf("the zero Outcome is %v; it must be none, which is refused", k)
	}
}

func TestOutcome_RedriveGivesFreshCountsAndKeepsTheHistory(t *testing.T) {
	t.Parallel()
	h := fullHead()
	want := broker.Head{Epoch: h.Epoch + 1, Deliveries: h.Deliveries, Errors: h.Errors, Kept: h.Kept}
	if got := h.Redriven(); !reflect.DeepEqual(got, want) {
		t.Errorf("a redriven head is\n%+v, want\n%+v", got, want)
	}
	want = h
	want.Epoch++
	if got := h.Moved(); !reflect.DeepEqual(got, want) {
		t.Errorf("a moved head is\n%+v, want\n%+v", got, want)
	}
}

func TestOutcome_TheErrorLogKeepsTheNewestAndCountsTheOthers(t *testing.T) {
	t.Parallel()
	for _, most := range []int{1, 2, 5, 0, -1} {
		kept := most
		if most <= 0 {
			kept = broker.DefaultErrorHistory
		}
		var log broker.ErrorLog
		for n := 1; n <= 25; n++ {
			before := log
			before.Entries = append([]broker.Failure(nil), log.Entries...)
			next := log.With(broker.Failure{Message: fmt.Sprint(n)}, most)
			if !reflect.DeepEqual(log, before) && len(before.Entries) > 0 {
				t.Fatalf("With wrote to the log it was given: %+v, before %+v", log, before)
			}
			log = next
			if len(log.Entries) != min(n, kept) || log.Dropped != n-len(log.Entries) || log.Last().Message != fmt.Sprint(n) {
				t.Fatalf("after %d entries with a cap of %d the log has %d and counts %d as dropped, the last is %q",
					n, most, len(log.Entries), log.Dropped, log.Last().Message)
			}
			if first := fmt.Sprint(n - len(log.Entries) + 1); log.Entries[0].Message != first {
				t.Fatalf("after %d entries with a cap of %d the oldest is %q, want %q", n, most, log.Entries[0].Message, first)
			}
		}
	}
	full := broker.ErrorLog{Entries: make([]broker.Failure, 20)} // when the cap was higher
	if got := full.With(failed, 3); len(got.Entries) != 3 || got.Dropped != 18 {
		t.Errorf("a log of 20 cut to 3 has %d entries and counts %d as dropped, want 3 and 18", len(got.Entries), got.Dropped)
	}
	if (broker.ErrorLog{}).Last() != (broker.Failure{}) {
		t.Error("the last entry of an empty log is not the zero Failure")
	}
}

func TestOutcome_LongMessagesAreCutAndSaySo(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		give string
		cut  bool
	}{
		{strings.Repeat("x", broker.MaxErrorBytes), false},
		{strings.Repeat("x", broker.MaxErrorBytes+1), true},
		{"x" + strings.Repeat("ä", broker.MaxErrorBytes), true},
		{"xx" + strings.Repeat("ä", broker.MaxErrorBytes), true},
	} {
		f := broker.ErrorLog{}.With(broker.Failure{Message: c.give, Stack: c.give}, 1).Last()
		for _, got := range []string{f.Message, f.Stack} {
			if !c.cut && got != c.give {
				t.Errorf("%d bytes, which are allowed, became %d", len(c.give), len(got))
			}
			if c.cut && (len(got) > broker.MaxErrorBytes || !strings.HasSuffix(got, "…") || !utf8.ValidString(got)) {
				t.Errorf("%d bytes of text became %d, valid UTF-8 %v, ending in %q", len(c.give), len(got), utf8.ValidString(got), got[len(got)-5:])
			}
		}
	}
}
