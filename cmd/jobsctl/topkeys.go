package main

import (
	"cmp"
	"slices"
	"strings"

	tea "charm.land/bubbletea/v2"

	"github.com/seed81422ce9/jobs/broker"
	"github.com/seed81422ce9/jobs/inspect"
)

func (m *top) key(k tea.KeyPressMsg) tea.Cmd {
	name := k.String()
	if name == "ctrl+c" {
		return tea.Quit
	}
	if m.typing {
		m.typeKey(name, k.Text)
		return nil
	}
	if q := m.question; q != nil {
		m.question = nil
		if name == "y" {
			return m.decide(*q)
		}
		m.note = "nothing was changed"
		return nil
	}
	m.note = ""
	switch name {
	case "q":
		return tea.Quit
	case "up", "k":
		m.move(-1)
	case "down", "j":
		m.move(1)
	case "pgup":
		m.move(-10)
	case "pgdown":
		m.move(10)
	case "home", "g":
		m.move(-len(m.queues))
	case "end", "G":
		m.move(len(m.queues))
	case "s":
		m.order = (m.order + 1) % len(orders)
	case "r":
		m.reverse = !m.reverse
	case "/":
		m.typing = true
	case "esc":
		m.filter = ""
		m.keepSelected()
	case "w":
		m.toggle(workersPane)
	case "a", "enter":
		m.toggle(runningPane)
	case "p":
		for _, q := range m.queues {
			if q.Name == m.selected {
				m.question = &question{queue: q.Name, pause: !q.Policy.Paused}
			}
		}
	}
	return nil
}

// typeKey handles a key while the user types the filter.
func (m *top) typeKey(name, typed string) {
	switch name {
	case "enter":
		m.typing = false
	case "esc":
		m.typing, m.filter = false, ""
	case "backspace":
		if r := []rune(m.filter); len(r) > 0 {
			m.filter = string(r[:len(r)-1])
		}
	default:
		m.filter += typed
	}
	m.keepSelected()
}

func (m *top) toggle(p pane) {
	if m.pane == p {
		p = noPane
	}
	m.pane = p
}

// orders are the orders of queues; those by number put the greatest first.
var orders = []struct {
	name    string
	compare func(a, b inspect.QueueInfo) int
}{
	{"name", func(a, b inspect.QueueInfo) int { return 0 }},
	{"pending", mostOf(broker.StatePending)},
	{"oldest", func(a, b inspect.QueueInfo) int {
		return cmp.Compare(b.Age(broker.StatePending), a.Age(broker.StatePending))
	}},
	{"active", mostOf(broker.StateActive)},
	{"retry", mostOf(broker.StateRetry)},
	{"dead", mostOf(broker.StateDead)},
}

func mostOf(state broker.State) func(a, b inspect.QueueInfo) int {
	return func(a, b inspect.QueueInfo) int { return cmp.Compare(b.Listed(state), a.Listed(state)) }
}

// listed returns the queues to show, in order.
func (m *top) listed() []inspect.QueueInfo {
	var list []inspect.QueueInfo
	for _, q := range m.queues {
		if strings.Contains(q.Name, m.filter) {
			list = append(list, q)
		}
	}
	slices.SortStableFunc(list, func(a, b inspect.QueueInfo) int {
		return cmp.Or(orders[m.order].compare(a, b), cmp.Compare(a.Name, b.Name))
	})
	if m.reverse {
		slices.Reverse(list)
	}
	return list
}

func position(list []inspect.QueueInfo, name string) int {
	return slices.IndexFunc(list, func(q inspect.QueueInfo) bool { return q.Name == name })
}

func (m *top) move(by int) {
	list := m.listed()
	if len(list) > 0 {
		m.selected = list[min(max(position(list, m.selected)+by, 0), len(list)-1)].Name
	}
}

// keepSelected selects the first queue if the selected one is no longer listed.
func (m *top) keepSelected() {
	if list := m.listed(); len(list) > 0 && position(list, m.selected) < 0 {
		m.selected = list[0].Name
	}
}
