package pgbroker

import (
	"context"
	"strconv"

	"github.com/seed81422ce9/jobs/broker"
)

// eventBytes bounds a notification; the server takes 8000 bytes at most.
const eventBytes = 7000

// events are notifications about jobs of one queue, as dispatch reads them.
type events struct {
	head     string
	payloads []string
}

func newEvents(kind, queue string) *events { return &events{head: kind + "\n" + queue} }

func (e *events) add(state broker.State, id string) {
	line := "\n" + strconv.Itoa(int(state)) + " " + id
	if n := len(e.payloads); n > 0 && len(e.payloads[n-1])+len(line) <= eventBytes {
		e.payloads[n-1] += line
	} else {
		e.payloads = append(e.payloads, e.head+line)
	}
}

// tell publishes events to watchers, after the transaction that caused the events. Events are
// hints: if they cannot be sent, they are lost. With always, they are sent even if no watcher
// is known.
func (b *Broker) tell(ctx context.Context, queue string, e *events, always bool) {
	if len(e.payloads) > 0 {
		b.call(ctx, b.step("tell", nil, b.channel, queue, e.payloads, always))
	}
}
