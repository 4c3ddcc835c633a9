package inspect

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"github.com/seed81422ce9/jobs/backends/membroker"
	"github.com/seed81422ce9/jobs/broker"
)

// noMove is a store that cannot move jobs.
type noMove struct{ broker.Broker }

func (noMove) Limits() broker.Limits { return broker.Limits{NoMove: true} }

func TestNoMove_IsRefusedBeforeAnythingHappens(t *testing.T) {
	t.Parallel()
	able, unable := newPlace(membroker.New()), newPlace(membroker.New())
	declining := New(noMove{unable.Broker})
	able.put(t, pasts()...)
	unable.put(t, pasts()...)
	hereBefore, thereBefore := able.all(t, "default"), unable.all(t, "default")
	pending := Query{Queue: "default", State: broker.StatePending}
	job := broker.Job{Queue: "default", ID: "pending"}
	for name, c := range map[string]struct {
		call func() error
		says string
	}{
		"move from": {func() error {
			_, err := declining.Select(pending).Move(t.Context(), Destination{Broker: able.Broker, Queue: "other"})
			return err
		}, "source"},
		"move to": {func() error {
			_, err := able.Select(pending).Move(t.Context(), Destination{Broker: declining.broker, Queue: "other"})
			return err
		}, "destination"},
		"copy to": {func() error {
			_, err := able.Select(pending).Move(t.Context(), Destination{Broker: declining.broker, Queue: "other", Copy: true})
			return err
		}, "destination"},
		"finish": {func() error {
			_, err := declining.FinishMove(t.Context(), "default", Destination{Broker: able.Broker})
			return err
		}, "source"},
		"undo": {func() error {
			_, err := declining.UndoMove(t.Context(), "default", Destination{})
			return err
		}, "source"},
		"import": {func() error {
			_, err := declining.Import(t.Context(), strings.NewReader("no line is read"), ImportConfig{})
			return err
		}, "store"},
		"edit": {func() error { return declining.Edit(t.Context(), &job, []byte("new")) }, "store"},
	} {
		var about *broker.Error
		err := c.call()
		if !errors.Is(err, broker.ErrUnsupported) || !errors.As(err, &about) || !strings.Contains(about.Field, c.says) || about.Hint == "" {
			t.Errorf("%s: %v, want ErrUnsupported about the %s", name, err, c.says)
		}
	}
	sameJobs(t, able.all(t, "default"), hereBefore)
	sameJobs(t, unable.all(t, "default"), thereBefore)
	for name, b := range map[string]broker.Broker{"able": able.Broker, "declining": unable.Broker} {
		if m, err := b.Mark(t.Context(), broker.MarkRequest{Name: storeMark}); err != nil || m.Held || len(m.Value) > 0 {
			t.Errorf("the %s store was given a name: %+v, %v", name, m, err)
		}
	}
	// Jobs can still leave such a store by a copy or an export.
	report, err := declining.Select(pending).Move(t.Context(), Destination{Broker: able.Broker, Queue: "other", Copy: true})
	if err != nil || report.Done == 0 {
		t.Errorf("a copy from it: %+v, %v", report, err)
	}
	var lines bytes.Buffer
	if report, err := declining.Select(pending).Export(t.Context(), &lines); err != nil || report.Done == 0 {
		t.Errorf("an export of it: %+v, %v", report, err)
	}
}
