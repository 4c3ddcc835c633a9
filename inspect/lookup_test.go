package inspect

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/seed81422ce9/jobs"
	"github.com/seed81422ce9/jobs/broker"
)

// The first two differ in their last characters, the third is a year younger.
const (
	idA, idB, idC = "01M8035Q8DRS25ZNCRT3TRVZ29", "01M8035Q8DRS25ZNCRT3TRVZ30", "01N8035Q8DRS25ZNCRT3TRVZ29"
)

func TestLookup_AJobIsFoundByWhatSomebodyTypes(t *testing.T) {
	t.Parallel()
	b := newStore(t)
	c := newTestClient(t, b, jobs.ClientConfig{})
	for _, id := range []string{idA, idB, idC, "order-981", "01M8035Q8DRS25ZNCRT3TRVZ2", "01m8035q8drs25zncrt3trvz31"} {
		mustEnqueue(t, c, jobs.NewTask("x", []byte("secret")), jobs.WithID(id), jobs.WithQueue("mail"))
	}
	mustEnqueue(t, c, jobs.NewTask("x", nil), jobs.WithID(idC), jobs.WithQueue("reports"))
	mustEnqueue(t, c, jobs.NewTask("x", nil), jobs.WithID("01P8035Q8DRS25ZNCRT3TRVZ29"), jobs.WithQueue("reports"), jobs.WithDelay(time.Hour))
	for _, look := range []struct {
		typed string
		in    []string
		want  []string
	}{
		{idA, nil, []string{idA}},
		{"01m8035q8drs25zncrt3trvz29", nil, []string{idA}},
		{"01M8035q8dRS25zncrt3trvz3", nil, []string{idB}},
		{"01p803", nil, []string{"01P8035Q8DRS25ZNCRT3TRVZ29"}},
		{"01p803", []string{"mail"}, nil},
		{"01M8035Q8DRS25ZNCRT3TRVZ", nil, []string{idA, idB}},
		{"01M8035Q8DRS25ZNCRT3TRVZ2", nil, []string{"01M8035Q8DRS25ZNCRT3TRVZ2"}}, // a complete ID
		{"01m8035q8drs25zncrt3trvz31", nil, []string{"01m8035q8drs25zncrt3trvz31"}},
		{idC, nil, []string{idC, idC}},
		{idC, []string{"reports"}, []string{idC}},
		{"order-981", nil, []string{"order-981"}},
		{"order-98", nil, nil},
		{"ORDER-981", nil, nil},
		{"01M80", nil, nil}, // too short
		{"", nil, nil},
		{idA, []string{"nowhere"}, nil},
		{"0!M8035Q", nil, nil},
		{idA + "0", nil, nil},
	} {
		found, err := New(b).Lookup(t.Context(), look.typed, look.in...)
		var ids []string
		for _, j := range found {
			ids = append(ids, j.ID)
			if len(j.Payload) > 0 {
				t.Errorf("Lookup(%q) returns a payload", look.typed)
			}
		}
		slices.Sort(ids)
		if err != nil || !slices.Equal(ids, look.want) {
			t.Errorf("Lookup(%q, %q) is %q (error %v), want %q", look.typed, look.in, ids, err, look.want)
		}
	}
}

func TestLookup_FindsJobsInEveryStateAndStopsAtTheLimit(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	c := b.client
	for range 3 * MaxLookup {
		mustEnqueue(t, c, jobs.NewTask("x", nil))
	}
	b.die(t, 1, "no route")
	dead, err := b.inspector.List(t.Context(), Query{Queue: "default", State: broker.StateDead})
	if err != nil || len(dead.Jobs) != 1 {
		t.Fatalf("%d jobs are dead, want 1: %v", len(dead.Jobs), err)
	}
	id := dead.Jobs[0].ID
	if found, err := b.inspector.Lookup(t.Context(), id[:25]); err != nil ||
		!slices.ContainsFunc(found, func(j broker.Job) bool { return j.ID == id }) {
		t.Errorf("the dead job %s is not among those that begin with %s: %v, %v", id, id[:25], found, err)
	}
	if found, err := b.inspector.Lookup(t.Context(), id[:6]); err != nil || len(found) != MaxLookup {
		t.Errorf("%d jobs begin with %s (error %v), want the first %d", len(found), id[:6], err, MaxLookup)
	}
	var none *Inspector
	if _, err := none.Lookup(t.Context(), id); !errors.Is(err, broker.ErrInvalid) {
		t.Errorf("without an inspector: %v", err)
	}
}
