package main

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"
	"unicode"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/x/ansi"

	"github.com/seed81422ce9/jobs/broker"
	"github.com/seed81422ce9/jobs/inspect"
	"github.com/seed81422ce9/jobs/internal/figures"
)

// looked is a source that counts calls.
type looked struct {
	queues           []inspect.QueueInfo
	running          []broker.Job
	err              error
	overviews, lists int
	decided          []string
}

func (l *looked) Overview(context.Context, ...string) ([]inspect.QueueInfo, error) {
	l.overviews++
	return l.queues, l.err
}

func (l *looked) Queue(_ context.Context, name string) (inspect.QueueInfo, error) {
	for _, q := range l.queues {
		if q.Name == name {
			return q, nil
		}
	}
	return inspect.QueueInfo{}, broker.ErrNotFound
}

func (l *looked) List(context.Context, inspect.Query) (inspect.Page, error) {
	l.lists++
	return inspect.Page{Jobs: l.running}, nil
}

func (l *looked) Pause(_ context.Context, queue string) error {
	l.decided = append(l.decided, "pause "+queue)
	return nil
}

func (l *looked) Resume(_ context.Context, queue string) error {
	l.decided = append(l.decided, "resume "+queue)
	return nil
}

var topNow = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

func topQueue(name string, pending, dead int64) inspect.QueueInfo {
	return inspect.QueueInfo{Now: topNow, QueueInfo: broker.QueueInfo{Name: name, AsOf: topNow,
		Counts: map[broker.State]int64{broker.StatePending: pending, broker.StateDead: dead},
		Oldest: map[broker.State]time.Time{broker.StatePending: topNow.Add(-time.Minute)}}}
}

// screen sends messages to a view and runs its commands.
type screen struct {
	t *testing.T
	*top
	next []tea.Cmd // commands that the view returned
}

func newScreen(t *testing.T, s source) *screen {
	return &screen{t: t, top: newTop(t.Context(), s, time.Nanosecond, nil)}
}

func (s *screen) send(msgs ...tea.Msg) *screen {
	for _, msg := range msgs {
		if _, cmd := s.Update(msg); cmd != nil {
			s.next = append(s.next, cmd)
		}
	}
	return s
}

// turn runs the commands that the view returned.
func (s *screen) turn() *screen {
	next := s.next
	s.next = nil
	for _, cmd := range next {
		s.send(cmd())
	}
	return s
}

func (s *screen) keys(names ...string) *screen {
	for _, name := range names {
		k := tea.Key{Text: name}
		if r := []rune(name); len(r) == 1 {
			k.Code = r[0]
		} else {
			k = tea.Key{Code: map[string]rune{"enter": tea.KeyEnter, "esc": tea.KeyEscape, "down": tea.KeyDown, "up": tea.KeyUp,
				"backspace": tea.KeyBackspace}[name]}
		}
		s.send(tea.KeyPressMsg(k))
	}
	return s
}

// text returns the screen without styles.
func (s *screen) text() string { return ansi.Strip(s.View().Content) }

func (s *screen) shows(texts ...string) *screen {
	s.t.Helper()
	for _, text := range texts {
		if !strings.Contains(s.text(), text) {
			s.t.Errorf("the screen does not show %q:\n%s", text, s.text())
		}
	}
	return s
}

func (s *screen) hides(text string) *screen {
	s.t.Helper()
	if strings.Contains(s.text(), text) {
		s.t.Errorf("the screen shows %q:\n%s", text, s.text())
	}
	return s
}

var size = tea.WindowSizeMsg{Width: 120, Height: 20}

func TestTop_AsksOncePerInterval(t *testing.T) {
	t.Parallel()
	store := &looked{queues: []inspect.QueueInfo{topQueue("mail", 3, 0)}}
	s := newScreen(t, store)
	if s.send(lookMsg{}).turn(); store.overviews != 0 {
		t.Errorf("it asked %d times before it could show anything", store.overviews)
	}
	s = newScreen(t, store).send(size)
	for n := range 5 {
		s.turn().turn() // the read, and the wait for the next one
		if store.overviews != n+1 || store.lists != 0 {
			t.Fatalf("after %d intervals it asked %d times, and listed %d times", n+1, store.overviews, store.lists)
		}
	}
	s.turn().keys("down", "s", "r", "/", "m", "enter")
	if len(s.next) != 1 || store.overviews != 6 {
		t.Errorf("keys made it ask: %d looks, %d things to do", store.overviews, len(s.next))
	}
	s.send(tea.WindowSizeMsg{Width: 10, Height: 2})
	for range 5 {
		s.turn()
	}
	if store.overviews != 6 {
		t.Errorf("it asked for what nobody sees")
	}
	if s.send(size).turn(); store.overviews != 7 {
		t.Errorf("it did not ask when it was seen again: %d", store.overviews)
	}
	s.keys("p", "y")
	for range 6 {
		s.turn()
	}
	if len(s.next) != 1 {
		t.Errorf("after a decision it looks %d times an interval", len(s.next))
	}
	s.keys("a").turn()
	if s.turn().turn().turn(); store.lists == 0 || store.lists >= store.overviews {
		t.Errorf("what runs was asked for %d times, with %d looks", store.lists, store.overviews)
	}
}

func TestTop_PausesOnlyWhatWasConfirmed(t *testing.T) {
	t.Parallel()
	busy := topQueue("mail", 3, 0)
	store := &looked{queues: []inspect.QueueInfo{topQueue("a", 1, 0), busy}}
	s := newScreen(t, store).send(size).turn().keys("down", "p").shows("Pause mail? Claims from it stop. y/n")
	if s.keys("n").turn().shows("nothing was changed"); len(store.decided) != 0 {
		t.Fatalf("without agreement: %v", store.decided)
	}
	s.keys("p", "y").turn().shows("mail is paused")
	store.queues[1].Policy.Paused = true
	s.turn().turn().turn().keys("p").shows("Resume mail? y/n").keys("y").turn()
	if fmt.Sprint(store.decided) != "[pause mail resume mail]" {
		t.Errorf("decided: %v", store.decided)
	}
	store.queues = store.queues[:1] // mail was removed, but the screen still shows it
	if s.keys("p", "y").turn().shows("not resumed: not found"); len(store.decided) != 2 {
		t.Errorf("a queue that is gone: %v", store.decided)
	}
}

func TestTop_OutlivesItsStore(t *testing.T) {
	t.Parallel()
	store := &looked{queues: []inspect.QueueInfo{topQueue("mail", 3, 0)}}
	s := newScreen(t, store).send(size).turn()
	store.err = fmt.Errorf("%w: \x1b[2J refused", broker.ErrUnavailable)
	s.turn().turn().shows("as of ", "unavailable", `\x1b[2J refused`, "mail")
	store.err = nil
	store.queues[0].Counts = map[broker.State]int64{broker.StatePending: 77}
	s.turn().turn().shows("77").hides("refused")

	s = newScreen(t, &looked{err: broker.ErrUnavailable}).send(size).turn()
	s.shows("asking the store…", "asking again: ")
}

func TestTop_SortsAndFilters(t *testing.T) {
	t.Parallel()
	store := &looked{queues: []inspect.QueueInfo{topQueue("calls", 1, 9), topQueue("faxes", 7, 0), topQueue("mail", 3, 5)}}
	s := newScreen(t, store).send(size).turn()
	order := func() string {
		var names []string
		for _, q := range s.listed() {
			names = append(names, q.Name)
		}
		return strings.Join(names, " ")
	}
	for _, c := range []struct{ keys, want string }{
		{"", "calls faxes mail"}, {"s", "faxes mail calls"}, {"r", "calls mail faxes"}, {"r", "faxes mail calls"},
		{"s", "calls faxes mail"}, {"s", "calls faxes mail"}, {"s", "calls faxes mail"}, {"s", "calls mail faxes"}, {"/", "calls mail faxes"},
		{"x", "faxes"},
	} {
		if c.keys != "" {
			s.keys(c.keys)
		}
		if got := order(); got != c.want {
			t.Fatalf("after %q: %s, want %s\n%s", c.keys, got, c.want, s.text())
		}
	}
	s.shows("filter: x").keys("backspace", "q", "u", "enter")
	if order() != "" || s.typing {
		t.Errorf("the filter %q lists %s", s.filter, order())
	}
	s.keys("esc", "q")
	if order() != "calls mail faxes" || len(s.next) == 0 {
		t.Errorf("without a filter: %s", order())
	}
}

func TestTop_ShowsWorkersAndWhatTheyRun(t *testing.T) {
	t.Parallel()
	q := topQueue("mail", 3, 0)
	q.Workers = []inspect.WorkerInfo{{ID: "w1", Host: "evil\x1b[31m", PID: 42, Program: "shop v1", Held: 2, Concurrency: 5,
		StartedAt: topNow.Add(-time.Hour)}}
	q.Counts[broker.StateActive] = 2
	store := &looked{queues: []inspect.QueueInfo{q}, running: []broker.Job{{ID: "j1", Worker: "w1",
		Body: broker.Body{Type: "mail:\u202esend"}}}}
	s := newScreen(t, store).send(size).turn().keys("w")
	s.shows("1 workers of mail", `w1  evil\x1b[31m  PID 42  shop v1  holds 2, 5 slots  up 1h`)
	s.keys("enter").shows("asking what runs in mail").turn().turn().turn()
	s.shows("2 active in mail", `j1  mail:\u202esend  attempt 0`).keys("a").hides("j1")
}

func TestTop_FitsAnyTerminalAndNamesCannotCommandIt(t *testing.T) {
	t.Parallel()
	store := &looked{}
	for i := range 40 {
		q := topQueue(fmt.Sprintf("queue-%02d-字字字\x1b[2J\u202e\n%s", i, strings.Repeat("x", 60)), int64(i)*1e9, 12345)
		q.Policy.Paused = i%2 == 0
		store.queues = append(store.queues, q)
	}
	for _, width := range []int{0, 1, 19, 20, 37, 60, 80, 200} {
		for _, height := range []int{0, 1, 3, 4, 5, 8, 24, 60} {
			for _, keys := range [][]string{nil, {"w"}, {"a"}, {"p"}, {"/", "\x1b[2J"}} {
				s := newScreen(t, store).send(tea.WindowSizeMsg{Width: width, Height: height}).turn().keys(keys...)
				for range 20 {
					s.keys("down")
				}
				content := s.View().Content
				lines := strings.Split(content, "\n")
				if len(lines) > max(height, 1) {
					t.Errorf("%d lines on %dx%d", len(lines), width, height)
				}
				for _, line := range lines {
					if w := ansi.StringWidth(line); w > max(width, 1) {
						t.Errorf("%d wide on %dx%d: %q", w, width, height, line)
					}
				}
				for _, r := range strings.ReplaceAll(ansi.Strip(content), "\n", "") {
					if !unicode.IsPrint(r) || unicode.Is(unicode.Bidi_Control, r) {
						t.Fatalf("%q is on the screen", r)
					}
				}
				if strings.Contains(content, "\x1b[2J") {
					t.Fatal("a name commands the terminal")
				}
				if keys == nil && width >= 20 && height >= 4 && !strings.Contains(content, "queue-20") {
					t.Errorf("the selected queue is not shown on %dx%d:\n%s", width, height, content)
				}
			}
		}
	}
}

func TestTop_KeepsTheColumnsThatMatterMost(t *testing.T) {
	t.Parallel()
	q := topQueue("mail", 123456, 789)
	q.Counts[broker.StateScheduled], q.Counts[broker.StateActive] = 55555, 44
	s := newScreen(t, &looked{queues: []inspect.QueueInfo{q}}).send(size).turn().shows("SCHEDULED", "55555", "OLDEST", "1m")
	s.send(tea.WindowSizeMsg{Width: 30, Height: 20}).hides("SCHEDULED").hides("55555").shows("QUEUE  PENDING  ACTIVE  DEAD",
		"mail    123456      44   789")
	s.send(tea.WindowSizeMsg{Width: 20, Height: 20}).hides("ACTIVE").shows("QUEUE  PENDING")
}

func TestTop_RatesAreThoseOfTheLastSeconds(t *testing.T) {
	t.Parallel()
	r := figures.Rates{}
	see := func(after time.Duration, pending int64) {
		q := topQueue("mail", pending, 0)
		q.AsOf = topNow.Add(after)
		r.Add([]inspect.QueueInfo{q})
	}
	rate := func() string {
		v, ok := r.Of("mail", broker.StatePending)
		return fmt.Sprint(v, ok)
	}
	for _, c := range []struct {
		after   time.Duration
		pending int64
		want    string
	}{
		{0, 100, "0 false"}, {0, 100, "0 false"}, // the same counts twice
		{2 * time.Second, 120, "10 true"}, {10 * time.Second, 0, "-10 true"}, {12 * time.Second, 20, "-10 true"},
		{22 * time.Second, 320, "30 true"}, // older counts no longer matter
		{5 * time.Second, 7, "0 false"},    // the clock was set back
	} {
		see(c.after, c.pending)
		if got := rate(); got != c.want {
			t.Errorf("after %v with %d pending: %s, want %s", c.after, c.pending, got, c.want)
		}
	}
	r.Add(nil)
	if len(r) != 0 {
		t.Errorf("a queue that is gone is remembered: %v", r)
	}
}
