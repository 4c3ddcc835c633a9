package main

import (
	"fmt"
	"strconv"
	"strings"

	tea "charm.land/bubbletea/v2"
	"charm.land/lipgloss/v2"

	"github.com/seed81422ce9/jobs/broker"
	"github.com/seed81422ce9/jobs/inspect"
)

var (
	bold    = lipgloss.NewStyle().Bold(true)
	faint   = lipgloss.NewStyle().Faint(true)
	marked  = lipgloss.NewStyle().Reverse(true)
	warning = lipgloss.NewStyle().Foreground(lipgloss.Yellow)
	alarm   = lipgloss.NewStyle().Foreground(lipgloss.Red)
)

// View returns the screen.
func (m *top) View() tea.View {
	v := tea.NewView(strings.Join(m.lines(), "\n"))
	v.AltScreen = true
	return v
}

// lines returns the screen's lines, within its height and width.
func (m *top) lines() []string {
	if !m.visible() {
		return cutLines([]string{"too small"}, m.width, m.height)
	}
	lines := []string{m.title()}
	below := m.below()
	room := m.height - 3 - min(len(below), (m.height-4)/2) // title, heads, footer
	lines = append(lines, m.table(room)...)
	for len(below) > 0 && len(lines) < m.height-1 {
		lines, below = append(lines, below[0]), below[1:]
	}
	for len(lines) < m.height-1 {
		lines = append(lines, "")
	}
	return cutLines(append(lines, m.footer()), m.width, m.height)
}

func cutLines(lines []string, width, height int) []string {
	lines = lines[:min(len(lines), max(height, 0))]
	for i, line := range lines {
		lines[i] = lipgloss.NewStyle().MaxWidth(max(width, 1)).Render(line)
	}
	return lines
}

// title returns the first line: totals of all queues.
func (m *top) title() string {
	sum := make(map[broker.State]int64)
	workers := make(map[string]bool)
	for _, q := range m.queues {
		for state := range q.Counts {
			sum[state] += q.Listed(state)
		}
		for _, w := range q.Workers {
			workers[w.ID] = true
		}
	}
	if m.seen.IsZero() {
		return bold.Render("jobsctl top") + "  asking the store…"
	}
	s := bold.Render("jobsctl top") + fmt.Sprintf("  %s  %d pending  %d active  %d retry  %d dead  %d workers",
		m.seen.UTC().Format("15:04:05Z"), sum[broker.StatePending], sum[broker.StateActive],
		sum[broker.StateRetry], sum[broker.StateDead], len(workers))
	if m.filter != "" && !m.typing {
		s += "  filter: " + plain(m.filter)
	}
	return s
}

type topColumn struct {
	column
	cell func(m *top, q inspect.QueueInfo) string
}

func counted(state broker.State) func(*top, inspect.QueueInfo) string {
	return func(_ *top, q inspect.QueueInfo) string { return count(q.Listed(state)) }
}

func changing(state broker.State) func(*top, inspect.QueueInfo) string {
	return func(m *top, q inspect.QueueInfo) string {
		rate, _ := m.past.Of(q.Name, state)
		return moving(rate)
	}
}

// moving formats a change per second, blank for none.
func moving(rate float64) string {
	switch {
	case rate == 0:
		return ""
	case rate > -10 && rate < 10:
		return fmt.Sprintf("%+.1f", rate)
	}
	return fmt.Sprintf("%+.0f", rate)
}

// worked returns the cell for a figure of what a queue did in the last seconds.
func worked(f func(inspect.Work) string) func(*top, inspect.QueueInfo) string {
	return func(m *top, q inspect.QueueInfo) string {
		if w := m.past.Work(q.Name); w.Known() {
			return f(w)
		}
		return ""
	}
}

var topColumns = []topColumn{
	{column{head: "QUEUE"}, func(_ *top, q inspect.QueueInfo) string { return short(plain(q.Name), 32) }},
	{column{head: "PENDING", rank: 1}, counted(broker.StatePending)},
	{column{head: "/S", rank: 5}, changing(broker.StatePending)},
	{column{head: "OLDEST", rank: 4}, func(_ *top, q inspect.QueueInfo) string { return span(q.Age(broker.StatePending)) }},
	{column{head: "ACTIVE", rank: 2}, counted(broker.StateActive)},
	{column{head: "SCHEDULED", rank: 10}, counted(broker.StateScheduled)},
	{column{head: "RETRY", rank: 7}, counted(broker.StateRetry)},
	{column{head: "DEAD", rank: 3}, counted(broker.StateDead)},
	{column{head: "/S", rank: 9}, worked(func(w inspect.Work) string { return moving(w.PerSecond(w.Dead)) })},
	{column{head: "DONE/S", rank: 11}, worked(func(w inspect.Work) string { return perSecond(w, w.Completed).text })},
	{column{head: "FAILED", rank: 12}, worked(func(w inspect.Work) string { return failureRate(w).text })},
	{column{head: "WAIT", rank: 13}, worked(func(w inspect.Work) string { return took(w.MeanWait(), w.Waits).text })},
	{column{head: "RUN", rank: 14}, worked(func(w inspect.Work) string { return took(w.MeanRun(), w.Runs).text })},
	{column{head: "WORKERS", rank: 6}, func(_ *top, q inspect.QueueInfo) string { return count(int64(len(q.Workers))) }},
	{column{head: "", rank: 8}, func(_ *top, q inspect.QueueInfo) string { return paused(q.Policy.Paused) }},
}

// table returns the heads and at most room queues, with the selected one among them.
func (m *top) table(room int) []string {
	list := m.listed()
	if len(list) > room {
		from := min(max(position(list, m.selected)-room/2, 0), len(list)-room)
		list = list[from : from+room]
	}
	rows := [][]string{nil}
	for _, c := range topColumns {
		rows[0] = append(rows[0], c.head)
	}
	for _, q := range list {
		var cells []string
		for _, c := range topColumns {
			cells = append(cells, c.cell(m, q))
		}
		rows = append(rows, cells)
	}
	lines := lineUp(rows, m.width)
	lines[0] = faint.Render(lines[0])
	for i, q := range list {
		switch {
		case q.Name == m.selected:
			lines[i+1] = marked.Render(lines[i+1])
		case q.Policy.Paused:
			lines[i+1] = warning.Render(lines[i+1])
		}
	}
	return lines
}

// lineUp aligns the columns, and leaves out those without room.
func lineUp(rows [][]string, width int) []string {
	natural, columns := make([]int, len(topColumns)), make([]column, len(topColumns))
	for _, row := range rows {
		for i, cell := range row {
			natural[i], columns[i] = max(natural[i], lipgloss.Width(cell)), topColumns[i].column
		}
	}
	widths := layout(columns, natural, width)
	lines := make([]string, len(rows))
	for n, row := range rows {
		var cells []string
		for i, cell := range row {
			if widths[i] == 0 {
				continue
			}
			pad := strings.Repeat(" ", max(widths[i]-lipgloss.Width(cell), 0))
			if i == 0 {
				cells = append(cells, cell+pad)
			} else {
				cells = append(cells, pad+cell)
			}
		}
		lines[n] = strings.Join(cells, "  ")
	}
	return lines
}

func (m *top) below() []string {
	if m.panel != nil && m.pane == noPane {
		return m.panel()
	}
	at := position(m.queues, m.selected)
	if m.pane == noPane || at < 0 {
		return nil
	}
	q := m.queues[at]
	if m.pane == workersPane {
		lines := []string{"", bold.Render(fmt.Sprintf("%d workers of %s", len(q.Workers), plain(q.Name)))}
		for _, w := range q.Workers {
			lines = append(lines, plain(fmt.Sprintf("%s  %s  PID %d  %s  holds %d, %d slots  up %s",
				w.ID, w.Host, w.PID, w.Program, w.Held, w.Concurrency, span(q.Now.Sub(w.StartedAt)))))
		}
		return lines
	}
	if m.runningOf != q.Name {
		return []string{"", "asking what runs in " + plain(q.Name) + "…"}
	}
	lines := []string{"", bold.Render(fmt.Sprintf("%d active in %s", q.Counts[broker.StateActive], plain(q.Name)))}
	for i := range m.running.Jobs {
		j := &m.running.Jobs[i]
		lines = append(lines, plain(fmt.Sprintf("%s  %s  attempt %d  created %s ago  worker %s",
			j.ID, j.Type, j.Failures, span(m.running.Now.Sub(j.CreatedAt)), j.Worker)))
	}
	return lines
}

const topKeys = "↑↓ select  p pause/resume  w workers  a active  s sort: %s%s  / filter  q quit"

// footer returns the last line: the first that exists of a question, the filter, an error, a result, and
// the keys.
func (m *top) footer() string {
	switch {
	case m.question != nil && m.question.pause:
		return marked.Render("Pause " + plain(m.question.queue) + "? Claims from it stop. y/n")
	case m.question != nil:
		return marked.Render("Resume " + plain(m.question.queue) + "? y/n")
	case m.typing:
		return "filter: " + plain(m.filter) + "█  (enter: keep, esc: none)"
	case m.failed != nil:
		return alarm.Render(m.since() + plain(text(m.failed)))
	case m.note != "":
		return m.note
	}
	reverse := ""
	if m.reverse {
		reverse = ", reversed"
	}
	return faint.Render(fmt.Sprintf(topKeys, orders[m.order].name, reverse))
}

// since says how old the shown data is, for a store that does not answer.
func (m *top) since() string {
	if m.seen.IsZero() {
		return "asking again: "
	}
	every := strconv.FormatFloat(m.every.Seconds(), 'f', -1, 64)
	return "as of " + m.seen.UTC().Format("15:04:05Z") + ", asking again every " + every + " s: "
}
