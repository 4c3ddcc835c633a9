package main

import (
	"context"
	"errors"
	"time"

	tea "charm.land/bubbletea/v2"
	"github.com/spf13/cobra"

	"github.com/seed81422ce9/jobs/broker"
	"github.com/seed81422ce9/jobs/inspect"
	"github.com/seed81422ce9/jobs/internal/figures"
)

func (a *app) top() *cobra.Command {
	var every time.Duration
	cmd := &cobra.Command{
		Use:   "top [QUEUE…]",
		Short: "Watch queues, workers and what they run, in the terminal",
		Long: `Watch queues, workers and what they run, live in the terminal. /S after PENDING is the
change of that number per second; after DEAD, the number of jobs that die per second.
DONE/S is the number that complete, FAILED the share of runs that fail or crash, WAIT
and RUN the mean wait and run; all over about ten seconds. The command queries the
store once per --interval, and not while the terminal is too small.

Keys: arrows (or j, k) select a queue; p pauses or resumes it, after a question;
w shows its workers; a shows what they run; s sorts by the next column; r
reverses the order; / filters by name; q quits.`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if !a.interactive() {
				return misuse("top needs a terminal; without one use \"jobsctl stats --watch 2s\" or \"jobsctl ls --watch 2s\"")
			}
			i, err := a.inspector(cmd.Context())
			if err != nil {
				return err
			}
			return a.live(cmd.Context(), newTop(cmd.Context(), i, max(every, minWatch), args))
		},
	}
	spanFlag(cmd.Flags(), &every, "interval", 2*time.Second, "time between two queries, at least 1s")
	return cmd
}

// interactive reports whether both input and output are a terminal.
func (a *app) interactive() bool { return isTerminal(a.in) && isTerminal(a.out) }

// live runs a view until it quits or ctx ends.
func (a *app) live(ctx context.Context, m tea.Model) error {
	_, err := tea.NewProgram(m, tea.WithContext(ctx), tea.WithInput(a.in), tea.WithOutput(a.out), tea.WithoutSignalHandler()).Run()
	if errors.Is(err, tea.ErrProgramKilled) && ctx.Err() != nil {
		return nil
	}
	return err
}

// source is what a view needs of an Inspector.
type source interface {
	Overview(ctx context.Context, names ...string) ([]inspect.QueueInfo, error)
	Queue(ctx context.Context, name string) (inspect.QueueInfo, error)
	List(ctx context.Context, q inspect.Query) (inspect.Page, error)
	Pause(ctx context.Context, queue string) error
	Resume(ctx context.Context, queue string) error
}

// top is the state of the view. Its methods are called one at a time.
type top struct {
	ctx    context.Context
	source source
	names  []string // the queues to show; empty: all
	every  time.Duration

	width, height int
	queues        []inspect.QueueInfo // as last read
	past          figures.Rates
	running       inspect.Page // active jobs of the queue runningOf
	runningOf     string
	seen          time.Time // when queues was read, by this machine's clock
	failed        error     // the error of the last read
	asking        bool      // a read is under way
	waiting       bool      // the next read is scheduled

	selected string // name of a queue
	order    int    // index of orders
	reverse  bool
	filter   string
	typing   bool // the keys go to filter
	pane     pane
	question *question
	note     string // result of the last decision

	// panel returns the lines that the demo shows below the queues while no pane is
	// open.
	panel func() []string
}

// pane says what is shown of the selected queue.
type pane int

const (
	noPane pane = iota
	workersPane
	runningPane
)

// question asks whether to pause, or to resume, a queue.
type question struct {
	queue string
	pause bool
}

func newTop(ctx context.Context, s source, every time.Duration, names []string) *top {
	return &top{ctx: ctx, source: s, every: every, names: names, past: figures.Rates{}}
}

// Messages to a view, besides keys.
type (
	lookMsg struct{} // it is time for the next read
	seenMsg struct {
		queues    []inspect.QueueInfo
		running   inspect.Page
		runningOf string
		err       error
		at        time.Time
	}
	decidedMsg struct{ note string }
)

// Init does nothing: the first read comes when the size is known.
func (m *top) Init() tea.Cmd { return nil }

// visible reports whether there is room for at least one queue.
func (m *top) visible() bool { return m.width >= 20 && m.height >= 4 }

// look reads the store, unless a read is under way or the terminal is too small.
func (m *top) look() tea.Cmd {
	if m.asking || !m.visible() {
		return nil
	}
	m.asking = true
	ctx, source, names, of := m.ctx, m.source, m.names, ""
	if m.pane == runningPane {
		of = m.selected
	}
	return func() tea.Msg {
		s := seenMsg{runningOf: of}
		s.queues, s.err = source.Overview(ctx, names...)
		if s.err == nil && of != "" {
			s.running, s.err = source.List(ctx, inspect.Query{Queue: of, State: broker.StateActive, NoPayload: true, Limit: 100})
		}
		s.at = time.Now()
		return s
	}
}

func (m *top) later() tea.Cmd {
	if m.waiting {
		return nil
	}
	m.waiting = true
	return tea.Tick(m.every, func(time.Time) tea.Msg { return lookMsg{} })
}

// Update handles a message.
func (m *top) Update(msg tea.Msg) (tea.Model, tea.Cmd) {
	switch msg := msg.(type) {
	case tea.WindowSizeMsg:
		shown := m.visible()
		m.width, m.height = msg.Width, msg.Height
		if shown {
			return m, nil
		}
		return m, m.look()
	case lookMsg:
		m.waiting = false
		if cmd := m.look(); cmd != nil {
			return m, cmd
		}
		return m, m.later()
	case seenMsg:
		m.asking = false
		if m.failed = msg.err; msg.err == nil {
			m.queues, m.seen, m.running, m.runningOf = msg.queues, msg.at, msg.running, msg.runningOf
			m.past.Add(msg.queues)
			m.keepSelected()
		}
		return m, m.later()
	case decidedMsg:
		m.note = msg.note
		return m, m.look()
	case tea.PasteMsg:
		if m.typing {
			m.filter += msg.Content
			m.keepSelected()
		}
	case tea.KeyPressMsg:
		return m, m.key(msg)
	}
	return m, nil
}

// decide pauses or resumes a queue.
func (m *top) decide(q question) tea.Cmd {
	ctx, source := m.ctx, m.source
	return func() tea.Msg {
		verb, do := "resumed", source.Resume
		if q.pause {
			verb, do = "paused", source.Pause
		}
		_, err := source.Queue(ctx, q.queue) // otherwise a removed queue would be created again
		if err == nil {
			err = do(ctx, q.queue)
		}
		if err != nil {
			return decidedMsg{"not " + verb + ": " + plain(text(err))}
		}
		return decidedMsg{plain(q.queue) + " is " + verb}
	}
}
