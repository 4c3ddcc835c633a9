package pgbroker

import "context"

func (b *Broker) listen() bool { return false }

func (b *Broker) notify(ctx context.Context, w *wakeUp) {
	b.call(ctx, step{sql: "select pg_notify($1, $2)", args: []any{w.channel, w.payload}})
}

const wakePrefix = "w\n"
