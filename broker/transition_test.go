package broker_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/seed81422ce9/jobs/broker"
)

// The table in the form in which people read it: a change of what is legal
// shows as a change of this file.
func TestTransition_TheTableIsTheOneThatIsWrittenDown(t *testing.T) {
	t.Parallel()
	var text strings.Builder
	fmt.Fprintf(&text, "%-10s %-11s %s\n", "from", "event", "to")
	table := broker.Transitions()
	for i, from := range table {
		if i > 0 && table[i-1].From == from.From && table[i-1].Event == from.Event {
			continue
		}
		var to []string
		for _, step := range table {
			if step.From == from.From && step.Event == from.Event {
				to = append(to, step.To.String())
			}
		}
		fmt.Fprintf(&text, "%-10s %-11s %s\n", from.From, from.Event, strings.Join(to, ", "))
	}
	golden(t, "transitions.txt", []byte(text.String()))
}

func TestTransition_EveryStateIsReachedAndNoJobIsStuck(t *testing.T) {
	t.Parallel()
	reaches := func(start broker.State, last broker.State) bool {
		seen := []broker.State{start}
		for i := 0; i < len(seen); i++ {
			for _, step := range broker.Transitions() {
				if step.From == seen[i] && !slices.Contains(seen, step.To) {
					seen = append(seen, step.To)
				}
			}
		}
		return slices.Contains(seen, last)
	}
	for _, s := range broker.States() {
		if !reaches(broker.StateNone, s) {
			t.Errorf("no job can become %v", s)
		}
		if !reaches(s, broker.StateNone) {
			t.Errorf("a job that is %v can never go", s)
		}
	}
}

func TestTransition_FinalStatesAreLeftByDecisionOrRetentionOnly(t *testing.T) {
	t.Parallel()
	leaves := []broker.TransitionEvent{broker.OnRedrive, broker.OnDelete, broker.OnPrune}
	for _, step := range broker.Transitions() {
		if step.From.Final() && step.To != step.From && !slices.Contains(leaves, step.Event) {
			t.Errorf("%v leads a job out of %v, where it ended", step.Event, step.From)
		}
	}
}

func TestTransition_AnActiveJobIsLeftByTheEndOfItsLeaseOnly(t *testing.T) {
	t.Parallel()
	ends := []broker.TransitionEvent{broker.OnSettle, broker.OnReclaim, broker.OnRetire}
	for _, step := range broker.Transitions() {
		if step.From == broker.StateActive && !slices.Contains(ends, step.Event) {
			t.Errorf("%v takes a job from the worker that holds it", step.Event)
		}
	}
}

func TestTransition_LegalAndAllowsAgreeWithTheTable(t *testing.T) {
	t.Parallel()
	table := broker.Transitions()
	events := []broker.TransitionEvent{broker.OnEnqueue, broker.OnDue, broker.OnClaim, broker.OnSettle, broker.OnReclaim, broker.OnRetire,
		broker.OnCancel, broker.OnReschedule, broker.OnRedrive, broker.OnHold, broker.OnUnhold, broker.OnEdit, broker.OnRestore,
		broker.OnArrival, broker.OnDelete, broker.OnPrune}
	for from := range broker.StateWaiting + 2 {
		for _, event := range events {
			allows := false
			for to := range broker.StateWaiting + 2 {
				in := slices.Contains(table, broker.Transition{From: from, Event: event, To: to})
				allows = allows || in
				if broker.Legal(from, event, to) != in {
					t.Errorf("Legal(%v, %v, %v) is %v, the table says %v", from, event, to, !in, in)
				}
			}
			if broker.Allows(from, event) != allows {
				t.Errorf("Allows(%v, %v) is %v, the table says %v", from, event, !allows, allows)
			}
		}
	}
	table[0] = broker.Transition{}
	if broker.Transitions()[0] == table[0] {
		t.Error("writing to what Transitions returned changed the table")
	}
}

func TestTransition_OutcomesLeadWhereTheTableAllows(t *testing.T) {
	t.Parallel()
	for name, o := range outcomes() {
		if !broker.Legal(broker.StateActive, broker.OnSettle, o.State()) {
			t.Errorf("%s leads to %v, which is not legal", name, o.State())
		}
		if s := o.IfCancelRequested().State(); !s.Final() {
			t.Errorf("%s keeps a job alive as %v that was asked to cancel", name, s)
		}
	}
}

func TestTransition_StatesHaveNamesThatAreReadBack(t *testing.T) {
	t.Parallel()
	for _, s := range broker.States() {
		text, err := s.MarshalText()
		var back broker.State
		if err != nil || back.UnmarshalText(text) != nil || back != s {
			t.Errorf("%v is written as %q, %v, and read as %v", s, text, err, back)
		}
	}
	for _, bad := range []string{"", "none", "Pending", "state(99)"} {
		if s, err := broker.ParseState(bad); err == nil || !strings.Contains(err.Error(), "pending") {
			t.Errorf("%q was read as %v, %v; want an error that lists the states", bad, s, err)
		}
	}
	if got := broker.State(99).String(); got != "state(99)" {
		t.Errorf("an unknown state is called %q", got)
	}
}
