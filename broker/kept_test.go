package broker_test

import (
	"errors"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/seed81422ce9/jobs/broker"
)

func someKept() broker.Kept { return *fullHead().Kept }

func TestKeep_LeavesAllElse(t *testing.T) {
	t.Parallel()
	before := broker.Head{Epoch: 5, Deliveries: 4, Failures: 3, Crashes: 2, Snoozes: 1, Kept: &broker.Kept{Checkpoint: []byte("before")}}
	k := someKept()
	o := broker.Keep(k)
	want := before
	want.Kept = &k
	if got := o.Apply(before, time.Now(), 0); !reflect.DeepEqual(got, want) {
		t.Errorf("the head is %+v, want %+v", got, want)
	}
	if got := o.Charge(before); !reflect.DeepEqual(got, before) {
		t.Errorf("a keep charges: %+v", got)
	}
	if got := o.IfCancelRequested(); got.Kind() != broker.OutcomeKeep {
		t.Errorf("for a job that was asked to cancel it is %v, want it to stand", got.Kind())
	}
	if o.State() != broker.StateActive || o.Front() || o.Delay() != 0 || o.Failure() != nil || o.Kind().String() != "keep" {
		t.Errorf("a keep leads to %v (front %t, delay %v, failure %v, %v)", o.State(), o.Front(), o.Delay(), o.Failure(), o.Kind())
	}
	if got := broker.Keep(broker.Kept{}).Apply(before, time.Now(), 0); got.Kept != nil {
		t.Errorf("nothing is kept as %v, want none", got.Kept)
	}
	if string(before.Kept.Checkpoint) != "before" {
		t.Error("the head that was given was changed")
	}
}

func TestOutcome_EachLeavesWhatWasKeptAndCompleteItsProgress(t *testing.T) {
	t.Parallel()
	k, next := someKept(), broker.Kept{Checkpoint: []byte("next"), Progress: broker.Progress{Done: 1}}
	for name, o := range outcomes() {
		for what, test := range map[string]struct {
			o    broker.Outcome
			want broker.Kept
		}{"carrying nothing": {o, k}, "carrying more": {o.With(next), next}} {
			want := &test.want
			if o.State() == broker.StateCompleted {
				want = &broker.Kept{Progress: want.Progress}
			}
			head := broker.Head{Kept: &k}
			if got := test.o.Apply(head, time.Now(), 0).Kept; !reflect.DeepEqual(got, want) {
				t.Errorf("%s, %s, leaves %v, want %v", name, what, got, want)
			}
			if got := test.o.IfCancelRequested().Apply(head, time.Now(), 0).Kept; !reflect.DeepEqual(got, want) {
				t.Errorf("%s, %s, of a job that was asked to cancel leaves %v, want %v", name, what, got, want)
			}
		}
	}
	if got := broker.Complete(nil).With(broker.Kept{Checkpoint: []byte("c")}).Apply(broker.Head{}, time.Now(), 0); got.Kept != nil {
		t.Errorf("a completed job without progress has %v, want none", got.Kept)
	}
	for step, h := range map[string]broker.Head{"redriven": (broker.Head{Kept: &k}).Redriven(), "moved": (broker.Head{Kept: &k}).Moved()} {
		if !reflect.DeepEqual(h.Kept, &k) {
			t.Errorf("when %s a job has %v, want what was kept", step, h.Kept)
		}
	}
}

func TestKept_ItsBoundsAreExact(t *testing.T) {
	t.Parallel()
	step := func(name string, result int) broker.DoneStep {
		return broker.DoneStep{Name: name, Result: make([]byte, result)}
	}
	for _, k := range []*broker.Kept{
		nil, {}, {Checkpoint: make([]byte, broker.MaxKept)},
		{Checkpoint: make([]byte, 1000), Steps: []broker.DoneStep{step("s", broker.MaxKept-1000-9)}},
		{Progress: broker.Progress{Note: strings.Repeat("n", broker.MaxProgressNote)}},
	} {
		if err := k.Check(); err != nil {
			t.Errorf("at the limit: %v", err)
		}
	}
	for name, test := range map[string]struct {
		kept  broker.Kept
		is    error
		parts []string
	}{
		"checkpoint": {broker.Kept{Checkpoint: make([]byte, broker.MaxKept+1)}, broker.ErrTooLarge,
			[]string{"checkpoint", "65537", "65536", "elsewhere"}},
		"steps": {broker.Kept{Checkpoint: make([]byte, 1000), Steps: []broker.DoneStep{step("s", broker.MaxKept-1000-8)}}, broker.ErrTooLarge,
			[]string{"65537", "steps"}},
		"many steps": {broker.Kept{Steps: slices.Repeat([]broker.DoneStep{step("s", 0)}, broker.MaxKept/9+1)}, broker.ErrTooLarge,
			[]string{"steps"}},
		"no name": {broker.Kept{Steps: []broker.DoneStep{step("", 0)}}, broker.ErrInvalid, []string{"step", "empty"}},
		"note": {broker.Kept{Progress: broker.Progress{Note: strings.Repeat("n", broker.MaxProgressNote+1)}}, broker.ErrTooLarge,
			[]string{"note", "257", "256"}},
		"negative":     {broker.Kept{Progress: broker.Progress{Done: -1}}, broker.ErrInvalid, []string{"progress", "-1"}},
		"less than no": {broker.Kept{Progress: broker.Progress{Total: -1}}, broker.ErrInvalid, []string{"progress", "-1"}},
	} {
		job := broker.Job{Queue: "q", ID: "17"}
		for _, o := range []broker.Outcome{broker.Keep(test.kept), broker.Complete(nil).With(test.kept)} {
			req := broker.SettleRequest{Worker: "w", Number: 1, Items: []broker.Settlement{{Job: &job, Outcome: o}}}
			err := req.Check()
			if !errors.Is(err, test.is) {
				t.Errorf("%s: got %v, want %v", name, err, test.is)
				continue
			}
			for _, part := range append(test.parts, "17") {
				if !strings.Contains(err.Error(), part) {
					t.Errorf("%s: the error %q does not say %q", name, err, part)
				}
			}
		}
		n := (&broker.Job{Queue: "q", ID: "17", State: broker.StateDead, Body: broker.Body{Type: "t", Priority: 2},
			Head: broker.Head{Kept: &test.kept}}).Copy()
		if err := n.Check(broker.Limits{}); !errors.Is(err, test.is) {
			t.Errorf("%s restored: got %v, want %v", name, err, test.is)
		}
	}
}

func TestKept_ACloneSharesNothing(t *testing.T) {
	t.Parallel()
	k := someKept()
	c := k.Clone()
	if !reflect.DeepEqual(c, &k) {
		t.Fatalf("the clone is %v, want %v", c, &k)
	}
	c.Checkpoint[0], c.Steps[0].Result[0] = 'X', 'X'
	c.Steps[0].Name = "X"
	if want := someKept(); !reflect.DeepEqual(k, want) {
		t.Errorf("a change of the clone changed the original: %v", &k)
	}
	if (*broker.Kept)(nil).Clone() != nil {
		t.Error("nothing has a clone")
	}
}

// Heads are copied, and share what was kept.
func TestForm_ParsingATailLeavesWhatWasKeptBefore(t *testing.T) {
	t.Parallel()
	first := someKept()
	h := broker.Head{Kept: &first}
	if err := broker.ParseTail(broker.AppendTail(nil, &broker.Head{Kept: &broker.Kept{Checkpoint: []byte("second")}}), &h); err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(first, someKept()) || string(h.Kept.Checkpoint) != "second" || len(h.Kept.Steps) > 0 {
		t.Errorf("the head has %v, and what it had before became %v", h.Kept, &first)
	}
}

func TestProgress_IsReadByPeople(t *testing.T) {
	t.Parallel()
	for want, p := range map[string]broker.Progress{
		"0":                                {},
		"30 of 120 (25 %): sending":        {Done: 30, Total: 120, Note: "sending"},
		"119 of 120 (99 %)":                {Done: 119, Total: 120},
		"7":                                {Done: 7},
		"looking":                          {Note: "looking"},
		"9 of 3 (100 %)":                   {Done: 9, Total: 3},
		"7: looking":                       {Done: 7, Note: "looking"},
		"9223372036854775807 of 1 (100 %)": {Done: 1<<63 - 1, Total: 1},
	} {
		if got := p.String(); got != want {
			t.Errorf("%+v reads %q, want %q", p, got, want)
		}
	}
}
