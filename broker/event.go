package broker

import "slices"

// Wants reports whether the request asks for events of a kind.
func (r *WatchRequest) Wants(kind EventKind) bool {
	return len(r.Kinds) == 0 || slices.Contains(r.Kinds, kind)
}

// SendEvent gives a watcher an event and never waits. When the channel's buffer,
// which has room for two events at least, is full, it takes back what is in it and
// says how many events these were (§25). So a watcher learns what it missed before
// the events that came after, and the last of these is always the newest. One
// goroutine at a time may send to a channel.
func SendEvent(to chan Event, e Event) {
	select {
	case to <- e:
		return
	default:
	}
	missed := Event{Kind: EventMissed}
	for taken := true; taken; {
		select {
		case lost := <-to:
			missed.Missed += max(lost.Missed, 1)
		default:
			taken = false
		}
	}
	if missed.Missed > 0 {
		to <- missed
	}
	to <- e
}
