package redisbroker

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

// listener has the one connection on which all watchers of a broker listen. That is enough in a
// Cluster too, where messages go to every node.
type listener struct {
	mu       sync.Mutex
	sub      *redis.PubSub       // nil while no watcher listens
	channels map[string]*channel // the channels to which it is subscribed, or will be
	lost     map[*watcher]bool   // watchers that may have missed events and do not know it yet
	heard    bool                // the connection gave an answer or an error since the last ping
	unused   chan struct{}       // closed when the last watcher leaves
	every    time.Duration       // listenPing, except in tests
}

// channel is a channel to which a watcher listens.
type channel struct {
	watchers  map[*watcher]struct{}
	confirmed chan struct{} // closed once the server has confirmed it, or err is set
	err       error         // why the server did not confirm it
	lost      bool          // it was confirmed on a connection that was lost, and not since
}

const (
	relisten = time.Second // the pause before a lost connection is made again

	// listenPing is how often the server is asked for a sign of life. A network may drop an idle connection
	// without notice, and TCP alone would find that out after many minutes.
	listenPing = 15 * time.Second
)

// join adds a watcher to channels, and returns once the server has confirmed all of them. While their
// connection is lost, it returns at once, as if the watcher had joined just before.
func (l *listener) join(ctx context.Context, b *Broker, w *watcher, names []string) error {
	l.mu.Lock()
	var joined []*channel
	var err error
	for _, name := range names {
		c := l.channels[name]
		if c == nil {
			c = &channel{watchers: make(map[*watcher]struct{}), confirmed: make(chan struct{})}
			l.channels[name] = c
			err = errors.Join(err, l.subscribe(ctx, b, name))
		}
		c.watchers[w] = struct{}{}
		if c.lost {
			l.lost[w] = true
		}
		joined = append(joined, c)
	}
	l.mu.Unlock()
	limit := time.NewTimer(callTimeout)
	defer limit.Stop()
	for _, c := range joined {
		if err != nil {
			break
		}
		select {
		case <-c.confirmed:
			err = c.err
		case <-ctx.Done():
			err = ctx.Err()
		case <-b.ending.Done():
			err = redis.ErrClosed
		case <-limit.C:
			err = context.DeadlineExceeded
		}
	}
	if err != nil {
		l.leave(w, names)
		return notSent(err)
	}
	return nil
}

// subscribe subscribes to a channel, on the current connection or a new one.
func (l *listener) subscribe(ctx context.Context, b *Broker, name string) error {
	if l.sub != nil {
		return l.sub.Subscribe(ctx, name)
	}
	l.sub, l.heard, l.unused = b.store.subscription(ctx), true, make(chan struct{})
	err := l.sub.Subscribe(ctx, name)
	go l.read(b, l.sub)
	go l.ping(b, l.unused)
	return err
}

// leave removes a watcher. After that, nothing is sent to it. The last watcher closes the connection.
func (l *listener) leave(w *watcher, names []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.lost, w)
	for _, name := range names {
		if c := l.channels[name]; c != nil {
			delete(c.watchers, w)
		}
	}
	if !l.watched() {
		if l.sub != nil {
			_ = l.sub.Close() // no watcher is left that could use the error
			close(l.unused)
		}
		l.sub = nil
		clear(l.channels)
		return
	}
	for _, name := range names {
		l.tidy(name)
	}
}

func (l *listener) watched() bool {
	for _, c := range l.channels {
		if len(c.watchers) > 0 {
			return true
		}
	}
	return false
}

// tidy ends the subscription to a channel without watchers. A subscription that is not confirmed yet
// stays until it is confirmed. Otherwise its confirmation could be mistaken for that of a later
// subscription.
func (l *listener) tidy(name string) {
	if c := l.channels[name]; c == nil || len(c.watchers) > 0 || c.lost || !c.isConfirmed() {
		return
	}
	delete(l.channels, name)
	_ = l.sub.Unsubscribe(context.Background(), name) // if it fails, messages of the channel are ignored
}

// read passes on what arrives on a connection, until it is closed. The next Receive replaces a
// lost connection and subscribes to all its channels again.
func (l *listener) read(b *Broker, sub *redis.PubSub) {
	for {
		m, err := sub.Receive(context.Background())
		l.mu.Lock()
		if l.sub != sub {
			l.mu.Unlock()
			return
		}
		l.heard = true
		l.take(m)
		usable := err == nil || l.refuse(err)
		if !usable {
			l.lose()
		}
		l.mu.Unlock()
		if usable {
			continue
		}
		if pause(b.ending, relisten) != nil {
			return
		}
		if answered(err) {
			if sub = l.again(b, sub); sub == nil {
				return
			}
		}
	}
}

// ping asks the server for a sign of life, again and again. If none has come by the next time, it
// replaces the connection.
func (l *listener) ping(b *Broker, unused <-chan struct{}) {
	tick := time.NewTicker(l.every)
	defer tick.Stop()
	for {
		select {
		case <-unused:
			return
		case <-b.ending.Done():
			return
		case <-tick.C:
		}
		l.mu.Lock()
		sub, silent := l.sub, !l.heard
		if l.heard = false; silent && l.unused == unused {
			l.lose()
		}
		l.mu.Unlock()
		if silent {
			if sub = l.again(b, sub); sub != nil {
				go l.read(b, sub)
			}
		}
		if sub != nil {
			_ = sub.Ping(b.ending) // an error shows in read, too
		}
	}
}

// take passes on a message, or notes that the server has confirmed a channel.
func (l *listener) take(m any) {
	switch m := m.(type) {
	case *redis.Subscription:
		c := l.channels[m.Channel]
		if c == nil || m.Kind != "subscribe" {
			return
		}
		c.confirm(nil)
		c.lost = false
		for w := range c.watchers {
			if l.lost[w] {
				w.missed()
			}
			delete(l.lost, w)
		}
		l.tidy(m.Channel)
	case *redis.Message:
		if c := l.channels[m.Channel]; c != nil {
			for w := range c.watchers {
				w.read(m)
			}
		}
	}
}

// refuse tells those who wait for a channel that the server has refused it. It reports whether that
// explains the error, so that the connection is still of use.
func (l *listener) refuse(err error) (explained bool) {
	if !answered(err) {
		return false
	}
	lost := false
	for name, c := range maps.Clone(l.channels) {
		lost = lost || c.lost
		if !c.isConfirmed() {
			c.confirm(err)
			l.tidy(name)
			explained = true
		}
	}
	return explained && !lost // the server may have refused the channels of a lost connection, too
}

// lose notes that watchers may miss events until their channels are confirmed again.
func (l *listener) lose() {
	for _, c := range l.channels {
		if !c.isConfirmed() || c.err != nil {
			continue // nobody relies on it yet
		}
		c.lost = true
		for w := range c.watchers {
			l.lost[w] = true
		}
	}
}

// again replaces a connection whose channels the server refused, since the client library keeps it. It
// returns nil if the connection was closed meanwhile.
func (l *listener) again(b *Broker, sub *redis.PubSub) *redis.PubSub {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.sub != sub {
		return nil
	}
	_ = sub.Close() // it is not used any more
	l.sub = b.store.subscription(b.ending)
	_ = l.sub.Subscribe(b.ending, slices.Collect(maps.Keys(l.channels))...) // if it fails, Receive tries again
	return l.sub
}

func (c *channel) isConfirmed() bool {
	select {
	case <-c.confirmed:
		return true
	default:
		return false
	}
}

func (c *channel) confirm(err error) {
	if !c.isConfirmed() {
		c.err = err
		close(c.confirmed)
	}
}
