package redisbroker

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

// A shortcut is a connection by which first sends go into plain queues past the
// scripts: as plain commands in one transaction, for two thirds of what
// lineup.lua costs, and six sevenths of a call of push.lua. What these look at
// before they write is certain here, as long as nobody has touched the key p of
// the queues, which the connection watches:
//
//   - A queue is plain, since p was there once the watch had begun, and whoever
//     removes the queue or makes it another kind removes p.
//   - No job has the ID of one of these, since they were drawn at random once
//     the watch had begun, and whoever sends an ID that may have been sent before
//     writes p first. So a call that the network held up until its own repeat
//     was there does nothing.
//
// A transaction that somebody came before does nothing and says so; then the
// scripts are called. It also ends the watch, so that the next one begins right
// behind it, in the same round trip: too late for jobs that were drawn
// meanwhile, for which there is another connection.
type shortcut struct {
	conn   *redis.Conn // nil before the first use, and after a failure
	queues []*queue    // watched
	since  time.Time   // when they were known to be watched and plain; zero: they are not
	used   time.Time   // when it was last given back
	busy   bool        // guarded by shortcuts.mu, as is who may use the rest
	args   []any
}

// shortcuts are those of a broker. A client has two calls under way in turn, and
// what gathers beside them is of callers some of whom drew their jobs before the
// last one was answered.
type shortcuts struct {
	after int           // how many requests in a row come before a connection is made, of single jobs
	rest  time.Duration // after somebody came before a transaction
	idle  time.Duration // after which a connection is not relied on

	mu   sync.Mutex
	ways [3]shortcut
	row  int       // of requests that could have gone this way, without a pause; a batch is up to largeRequest
	used time.Time // when the last of them came
	vain int       // twice the watches begun for want of one, less the requests that one was of use to
	shut time.Time // until when none of them does
}

const (
	mostWatched   = 8 // queues, by one connection
	shortcutAfter = 64
	largeRequest  = 8 // jobs
	shortcutRest  = time.Second
	shortcutIdle  = 2 * time.Second
	shortcutBan   = time.Minute // after it could not be used
	mostInVain    = 64
	beginTimeout  = time.Second
)

// take returns a free shortcut for the steps, or nil. When it is not ready, the
// steps are for the scripts, and then it is to begin to watch. A process that
// enqueues a few jobs now and then has none of this.
func (all *shortcuts) take(steps []*step) (free *shortcut, ready bool) {
	var drawn time.Time
	jobs, size, recent := 0, 0, true
	for _, s := range steps {
		e := s.batch
		if e == nil || e.known || e.longest > noteworthy {
			return nil, false
		}
		if drawn.IsZero() || e.drawn.Before(drawn) {
			drawn = e.drawn
		}
		jobs, size, recent = jobs+len(e.items), size+len(e.texts.buf), recent && e.recent
	}
	if jobs > callJobs || size > callBytes || len(steps) > mostWatched {
		return nil, false // the server would be blocked for too long
	}
	all.mu.Lock()
	defer all.mu.Unlock()
	now := time.Now()
	if now.Sub(all.used) > all.idle {
		all.row = 0
	}
	all.row += min(jobs, largeRequest)
	if all.used = now; !recent || now.Before(all.shut) {
		return nil, false
	}
	var last *shortcut // of those that are ready, to begin to watch; the others are for older jobs
	watched := false
	for i := range all.ways {
		way := &all.ways[i]
		if way.busy {
			continue
		}
		if way.conn != nil && now.Sub(way.used) > all.idle {
			way.drop()
		}
		switch {
		case !way.watches(steps):
			if free == nil || len(way.queues) < len(free.queues) {
				free = way
			}
		case way.since.Before(drawn):
			if watched = true; last == nil || last.since.Before(way.since) {
				last = way
			}
		default:
			watched = true
		}
	}
	if last != nil {
		all.vain = max(all.vain-1, 0)
		last.busy = true
		return last, true
	}
	return all.beginner(free, watched, now), false
}

// beginner is the shortcut, not watching yet, that is to begin, or nil. Where
// there are far more queues than can be watched, none is for a while.
func (all *shortcuts) beginner(free *shortcut, watched bool, now time.Time) *shortcut {
	if free == nil || all.row <= all.after {
		return nil
	}
	if !watched {
		all.vain += 2
	}
	if all.vain > mostInVain {
		all.vain, all.shut = 0, now.Add(shortcutBan)
		return nil
	}
	free.busy = true
	return free
}

func (all *shortcuts) give(way *shortcut) {
	all.mu.Lock()
	way.busy, way.used = false, time.Now()
	all.mu.Unlock()
}

// drop gives up all connections that nobody uses.
func (all *shortcuts) drop() {
	all.mu.Lock()
	defer all.mu.Unlock()
	for i := range all.ways {
		if !all.ways[i].busy {
			all.ways[i].drop()
		}
	}
}

func (all *shortcuts) pause(d time.Duration) {
	all.mu.Lock()
	defer all.mu.Unlock()
	if until := time.Now().Add(d); until.After(all.shut) {
		all.shut = until
	}
}

func (way *shortcut) watches(steps []*step) bool {
	for _, s := range steps {
		if !slices.Contains(way.queues, s.batch.queue) {
			return false
		}
	}
	return !way.since.IsZero()
}

// begin has the connection watch the steps' queues. It is a call of its own: what
// it needs beyond the client's pool may not be had.
func (b *Broker) begin(ctx context.Context, way *shortcut, steps []*step) {
	ctx, cancel := context.WithTimeout(ctx, beginTimeout)
	defer cancel()
	if way.conn == nil {
		way.conn = b.store.aside.EphemeralConn()
	}
	for _, s := range steps {
		q := s.batch.queue
		way.queues = append(slices.DeleteFunc(way.queues, func(other *queue) bool { return other == q }), q)
	}
	if n := len(way.queues); n > mostWatched {
		way.queues = slices.Delete(way.queues, 0, n-mostWatched)
	}
	pipe := way.conn.Pipeline()
	// An empty transaction ends earlier watches, and shows whether there may be one.
	multi := add(ctx, pipe, "multi")
	exec := redis.NewSliceCmd(ctx, "exec")
	_ = pipe.Process(ctx, exec)
	watch, plain := way.watch(ctx, pipe)
	_, _ = pipe.Exec(ctx)
	way.note(watch, plain)
	for _, err := range []error{multi.Err(), exec.Err(), watch.Err(), plain.Err()} {
		if err != nil && !errors.Is(err, redis.Nil) { // nil: something watched was touched
			way.drop()
			b.shortcuts.pause(b.shortcuts.restAfter(err))
			return
		}
	}
}

// transact sends the jobs of the steps, and reports whether these are answered;
// if not, nothing was applied.
func (b *Broker) transact(ctx context.Context, way *shortcut, steps []*step) bool {
	pipe := way.conn.Pipeline()
	multi := add(ctx, pipe, "multi")
	args := way.args[:0] // of the commands, one after another
	end := func(from int) int {
		add(ctx, pipe, args[from:]...)
		return len(args)
	}
	from := 0
	for _, s := range steps {
		q, pieces := s.batch.queue, s.batch.texts.pieces
		at := 0
		for _, r := range s.rows {
			args = append(args, "hset", q.bucket(r.slot))
			for range 2 * r.jobs {
				args = append(args, &pieces[at])
				at++
			}
			from = end(from)
		}
		args = append(args, "lpush", q.arg("r2"))
		for i := 0; i < len(pieces); i += 2 {
			args = append(args, &pieces[i])
		}
		from = end(from)
		args = append(args, "lpush", q.arg("t"), "1")
		from = end(from)
		args = append(args, "ltrim", q.arg("t"), "0", "0") // one wake-up token is enough
		from = end(from)
	}
	exec := redis.NewSliceCmd(ctx, "exec")
	_ = pipe.Process(ctx, exec)
	watch, plain := way.watch(ctx, pipe)
	sent, _ := pipe.Exec(ctx) // each command holds its own error
	clear(args)
	way.args = args

	err := exec.Err()
	for _, answer := range exec.Val() {
		if e, ok := answer.(error); ok && err == nil {
			err = e
		}
	}
	way.note(watch, plain)
	switch {
	case multi.Err() == nil && errors.Is(err, redis.Nil):
		b.shortcuts.pause(b.shortcuts.rest)
		return false
	case multi.Err() == nil && redis.HasErrorPrefix(err, "EXECABORT"), allRefused(sent):
		way.drop()
		b.shortcuts.pause(b.shortcuts.restAfter(firstRefusal(sent)))
		return false
	case multi.Err() != nil || err != nil:
		// Without MULTI each command stood for itself; in EXEC some may have gone
		// well. The network may have taken the answer. Nothing is certain.
		way.drop()
		if err = cmp.Or(multi.Err(), err); answered(err) {
			b.shortcuts.pause(shortcutBan)
		} else {
			b.shortcuts.drop() // a server that went away took them all
		}
		err = fmt.Errorf("a transaction failed, or its answer was lost: %w", err)
	}
	for _, s := range steps {
		s.code, s.reply, s.at, s.err = codeDone, nil, 0, err
	}
	return true
}

// allRefused reports whether the server did nothing of a transaction, as while it
// is loading: MULTI alone says little, since it might have been done with that at
// the next command.
func allRefused(sent []redis.Cmder) bool {
	return !slices.ContainsFunc(sent, func(c redis.Cmder) bool {
		err := c.Err()
		return err == nil || !answered(err) || !refused(err) && !redis.HasErrorPrefix(err, "ERR EXEC without MULTI")
	})
}

// firstRefusal is why a transaction was not done.
func firstRefusal(sent []redis.Cmder) error {
	for _, c := range sent {
		if err := c.Err(); err != nil {
			return err
		}
	}
	return nil
}

// restAfter is for how long no shortcut is taken after the server refused one. It
// will not be full, or loading, for ever; what a user may do seldom changes.
func (all *shortcuts) restAfter(err error) time.Duration {
	for _, passing := range []string{"LOADING", "OOM", "MISCONF", "READONLY", "NOREPLICAS", "BUSY", "MASTERDOWN"} {
		if redis.HasErrorPrefix(err, passing) {
			return all.rest
		}
	}
	return shortcutBan
}

func add(ctx context.Context, pipe redis.Pipeliner, args ...any) *redis.StatusCmd {
	cmd := redis.NewStatusCmd(ctx, args...)
	_ = pipe.Process(ctx, cmd)
	return cmd
}

// watch begins to watch the queues, and counts those of them that are plain.
func (way *shortcut) watch(ctx context.Context, pipe redis.Pipeliner) (watch *redis.StatusCmd, plain *redis.IntCmd) {
	keys := make([]any, 1, 1+mostWatched)
	for _, q := range way.queues {
		keys = append(keys, q.arg("p"))
	}
	keys[0] = "watch"
	watch = add(ctx, pipe, keys...)
	keys = slices.Clone(keys)
	keys[0] = "exists"
	plain = redis.NewIntCmd(ctx, keys...)
	_ = pipe.Process(ctx, plain)
	return watch, plain
}

// note reads what watch was answered.
func (way *shortcut) note(watch *redis.StatusCmd, plain *redis.IntCmd) {
	switch n, err := plain.Result(); {
	case err != nil || watch.Err() != nil:
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
