package broker

import "slices"

// Wants reports whether the request asks for events of a kind.
func (r *WatchRequest) Wants(kind EventKind) bool {
	return len(r.Kinds) == 0 || slices.Contains(r.Kinds, kind)
}

// SendEvent sends an event to a watcher and never waits. If the channel's buffer is
// full, it removes the buffered events and sends an EventMissed with their number first
// (§25). So a watcher learns of a gap before it gets the events after it, and always
// gets the newest event. The buffer must have room for at least two events. Only one
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
