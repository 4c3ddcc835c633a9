package duewatch_test

import (
	"testing"
	"time"

	"github.com/seed81422ce9/jobs/internal/duewatch"
)

const queue = "q"

var start = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

func at(seconds int) time.Time { return start.Add(time.Duration(seconds) * time.Second) }

// watching makes looks at the queue, and reports whether the worker watches its next due
// time, which is the last look's.
func watching(w *duewatch.Watch, now int, looks ...duewatch.Look) bool {
	for i := range looks {
		looks[i].Queue = queue
		w.Looked("worker", at(now), looks[i:i+1])
	}
	due := looks[len(looks)-1].Due
	return w.Next("worker", []string{queue}, due).Equal(due)
}

func TestWatch_EndsWhenAnotherProcessWasQuicker(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		look    duewatch.Look
		now     int
		watches bool
	}{
		"came, and another got the job":         {duewatch.Look{Due: at(20), Claimed: 6}, 10, false},
		"came, and the store does not tell":     {duewatch.Look{Due: at(20), Claimed: -1}, 10, false},
		"came and got the job":                  {duewatch.Look{Due: at(20), Claimed: 6, Keep: true}, 10, true},
		"came, and nobody got a job":            {duewatch.Look{Due: at(20), Claimed: 5}, 10, true},
		"came, and what is due is still there":  {duewatch.Look{Due: at(10), Claimed: 6}, 10, true},
		"came for something else":               {duewatch.Look{Due: at(20), Claimed: 6}, 9, true},
		"came, and nothing will fall due again": {duewatch.Look{Claimed: 6}, 10, true},
	} {
		var w duewatch.Watch
		if got := watching(&w, 1, duewatch.Look{Due: at(10), Claimed: 5}); !got {
			t.Fatal("a process does not watch at first")
		}
		if got := watching(&w, c.now, c.look); got != c.watches {
			t.Errorf("%s: watches %t, want %t", name, got, c.watches)
		}
	}
}

func TestWatch_BeginsAgain(t *testing.T) {
	t.Parallel()
	for name, again := range map[string]func(w *duewatch.Watch){
		"a job":        func(w *duewatch.Watch) { watching(w, 11, duewatch.Look{Due: at(20), Claimed: 7, Keep: true}) },
		"a call":       func(w *duewatch.Watch) { w.Called(queue) },
		"a lost store": func(w *duewatch.Watch) { w.Forget() },
		"no due time": func(w *duewatch.Watch) {
			watching(w, 11, duewatch.Look{Claimed: 7}, duewatch.Look{Due: at(20), Claimed: 7})
		},
		"another worker of the process": func(w *duewatch.Watch) {
			w.Looked("another", at(11), []duewatch.Look{{Queue: queue, Due: at(20), Claimed: 7}})
		},
		"a call before the look that it causes": func(w *duewatch.Watch) {
			w.Called(queue)
			watching(w, 20, duewatch.Look{Due: at(21), Claimed: 7})
		},
	} {
		var w duewatch.Watch
		if watching(&w, 1, duewatch.Look{Due: at(10), Claimed: 5}) && watching(&w, 10, duewatch.Look{Due: at(20), Claimed: 6}) {
			t.Fatal("a process watches although another was quicker")
		}
		again(&w)
		if due := w.Next("worker", []string{queue}, at(21)); due.IsZero() {
			t.Errorf("after %s the process does not watch", name)
		}
	}
}

func TestWatch_KnowsQueuesApart(t *testing.T) {
	t.Parallel()
	var w duewatch.Watch
	looks := func(now, a, b int, claimed int64) {
		w.Looked("worker", at(now), []duewatch.Look{
			{Queue: "a", Due: at(a), Claimed: claimed}, {Queue: "b", Due: at(b), Claimed: 1}})
	}
	looks(1, 10, 30, 5)
	looks(10, 20, 30, 6)
	if due := w.Next("worker", []string{"a", "b"}, at(20)); !due.Equal(at(30)) {
		t.Errorf("looks next at %v, want %v: another process watches the first queue alone", due, at(30))
	}
	if due := w.Next("worker", []string{"a", "new"}, at(15)); !due.Equal(at(15)) {
		t.Errorf("looks next at %v, want %v: about one queue nothing is known", due, at(15))
	}
}
