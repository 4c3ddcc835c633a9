package redisbroker

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

// A shortcut is a connection by which first sends go into plain queues past the
// scripts: as plain commands in one transaction, for two thirds of what
// lineup.lua costs. What that looks at before it writes is certain here, as long
// as nobody has touched the key p of the queues, which the connection watches:
//
//   - A queue is plain, since p was there once the watch had begun, and whatever
//     makes it another kind of queue removes p.
//   - No job has the ID of one of these, since they were drawn at random once
//     the watch had begun, and whoever sends an ID that may have been sent before
//     touches p first. So a call that the network held up until its own repeat
//     was there does nothing.
//
// A transaction that somebody came before does nothing and says so; then the
// scripts are called. It also ends the watch, so that the next one begins right
// behind it, in the same round trip: too late for jobs that were drawn
// meanwhile, for which there is a second connection.
type shortcut struct {
	conn   *redis.Conn // nil before the first use, and after a failure
	queues []*queue    // watched
	since  time.Time   // when they were known to be watched and plain; zero: they are not
	busy   bool        // guarded by shortcuts.mu, as is who may use the rest
	args   []any
}

// shortcuts are those of a broker.
type shortcuts struct {
	mu   sync.Mutex
	two  [2]shortcut
	used time.Time // when there were last jobs for them
	shut time.Time // until when they are not used
}

const (
	mostWatched   = 8               // queues, by one connection
	shortcutIdle  = time.Second     // after which a connection is not relied on
	shortcutPause = time.Second     // after somebody came before a transaction
	shortcutBan   = 5 * time.Minute // after the server refused to watch
)

// take returns a free shortcut for the steps, or nil. When it is not ready, the
// steps are for the scripts, and it begins to watch along with them: a process
// that enqueues a batch now and then has none of this.
func (all *shortcuts) take(steps []*step) (free *shortcut, ready bool) {
	var drawn time.Time
	for _, s := range steps {
		e := s.batch
		if s.script != lineupScript || e.known || !e.recent || e.longest > noteworthy {
			return nil, false
		}
		if drawn.IsZero() || e.drawn.Before(drawn) {
			drawn = e.drawn
		}
	}
	all.mu.Lock()
	defer all.mu.Unlock()
	now := time.Now()
	idle := now.Sub(all.used) > shortcutIdle
	if all.used = now; now.Before(all.shut) {
		return nil, false
	}
	for i := range all.two {
		switch way := &all.two[i]; {
		case way.busy:
		case idle:
			way.drop()
		case !way.watches(steps):
			free = way
		case way.since.Before(drawn):
			way.busy = true
			return way, true
		}
	}
	if free != nil {
		free.busy = true
	}
	return free, false
}

func (all *shortcuts) give(way *shortcut) {
	all.mu.Lock()
	way.busy = false
	all.mu.Unlock()
}

func (all *shortcuts) pause(d time.Duration) {
	all.mu.Lock()
	all.shut = time.Now().Add(d)
	all.mu.Unlock()
}

func (way *shortcut) watches(steps []*step) bool {
	for _, s := range steps {
		if !slices.Contains(way.queues, s.batch.queue) {
			return false
		}
	}
	return !way.since.IsZero()
}

// transact sends the jobs of the steps, and reports whether these are answered;
// if not, nothing was applied.
func (b *Broker) transact(ctx context.Context, way *shortcut, steps []*step) bool {
	pipe := way.conn.Pipeline()
	add(ctx, pipe, "multi")
	args := way.args[:0] // of all commands that have many, one after another
	for _, s := range steps {
		q, pieces := s.batch.queue, s.batch.texts.pieces
		from := len(args)
		args = append(args, "hset", q.key("b*"))
		for i := range pieces {
			args = append(args, &pieces[i])
		}
		add(ctx, pipe, args[from:]...)
		from = len(args)
		args = append(args, "lpush", q.key("r2"))
		for i := 0; i < len(pieces); i += 2 {
			args = append(args, &pieces[i])
		}
		add(ctx, pipe, args[from:]...)
		add(ctx, pipe, "lpush", q.key("t"), "1") // one wake-up token is enough
		add(ctx, pipe, "ltrim", q.key("t"), 0, 0)
	}
	exec := redis.NewSliceCmd(ctx, "exec")
	_ = pipe.Process(ctx, exec)
	plain := way.watch(ctx, pipe)
	_, _ = pipe.Exec(ctx) // each command holds its own error
	clear(args)
	way.args = args

	err := exec.Err()
	for _, answer := range exec.Val() {
		if e, ok := answer.(error); ok {
			err = e // a key holds something that is not of a queue; the other commands were applied
		}
	}
	if errors.Is(err, redis.Nil) || redis.HasErrorPrefix(err, "EXECABORT") {
		way.drop()
		b.shortcuts.pause(shortcutPause)
		return false
	}
	way.note(plain)
	for _, s := range steps {
		s.code, s.reply, s.at, s.err = codeDone, nil, 0, classify(err)
	}
	return true
}

func add(ctx context.Context, pipe redis.Pipeliner, args ...any) {
	_ = pipe.Process(ctx, redis.NewStatusCmd(ctx, args...))
}

// begin makes script calls and has the connection watch the steps' queues.
func (b *Broker) begin(ctx context.Context, way *shortcut, steps []*step, calls []*call) {
	if way.conn == nil {
		way.conn = b.store.single.EphemeralConn()
	}
	for _, s := range steps {
		if q := s.batch.queue; !slices.Contains(way.queues, q) {
			if len(way.queues) == mostWatched {
				way.queues = way.queues[:0]
			}
			way.queues = append(way.queues, q)
		}
	}
	pipe := way.conn.Pipeline()
	for _, c := range calls {
		c.cmd = redis.NewCmd(ctx, c.args...)
		_ = pipe.Process(ctx, c.cmd)
	}
	plain := way.watch(ctx, pipe)
	_, _ = pipe.Exec(ctx)
	if way.note(plain); answered(plain.Err()) {
		b.shortcuts.pause(shortcutBan)
	}
	if again := b.unapplied(ctx, b.store.single, calls, 0); len(again) > 0 {
		b.exec(ctx, again)
	}
}

// watch begins to watch the queues, and counts those of them that are plain.
func (way *shortcut) watch(ctx context.Context, pipe redis.Pipeliner) *redis.IntCmd {
	keys := make([]any, 1, 1+mostWatched)
	for _, q := range way.queues {
		keys = append(keys, q.key("p"))
	}
	keys[0] = "watch"
	add(ctx, pipe, keys...)
	keys = slices.Clone(keys)
	keys[0] = "exists"
	plain := redis.NewIntCmd(ctx, keys...)
	_ = pipe.Process(ctx, plain)
	return plain
}

// note reads what watch was answered.
func (way *shortcut) note(plain *redis.IntCmd) {
	switch n, err := plain.Result(); {
	case err != nil:
		way.drop()
	case n < int64(len(way.queues)):
		way.queues, way.since = way.queues[:0], time.Time{} // the scripts will say which is not
	default:
		way.since = time.Now()
	}
}

// drop gives the connection up: among others, nobody would know what it watches.
func (way *shortcut) drop() {
	if way.conn != nil {
		_ = way.conn.Close()
	}
	way.conn, way.queues, way.since = nil, nil, time.Time{}
}
