package redisbroker

import (
	"context"
	"errors"
	"maps"
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
}

// channel is a channel to which a watcher listens.
type channel struct {
	watchers  map[*watcher]struct{}
	confirmed chan struct{} // closed once the server has confirmed it, or err is set
	err       error         // why the server did not confirm it
}

const relisten = time.Second // the pause before a lost connection is made again

// join adds a watcher to channels, and returns once the server has confirmed all of them.
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
	if s := &b.store; s.single != nil {
		l.sub = s.single.Subscribe(ctx)
	} else {
		l.sub = s.cluster.Subscribe(ctx)
	}
	err := l.sub.Subscribe(ctx, name)
	sub := l.sub
	go l.read(b, sub)
	return err
}

// leave removes a watcher. After that, nothing is sent to it.
func (l *listener) leave(w *watcher, names []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, name := range names {
		if c := l.channels[name]; c != nil {
			delete(c.watchers, w)
			l.tidy(name, c)
		}
	}
}

// tidy ends the subscription to a channel without watchers, and closes the connection after the last
// channel. A subscription that is not confirmed yet stays until it is confirmed. Otherwise its
// confirmation could be mistaken for that of a later subscription.
func (l *listener) tidy(name string, c *channel) {
	select {
	case <-c.confirmed:
	default:
		if len(l.channels) > 1 {
			return
		}
	}
	if len(c.watchers) > 0 || l.channels[name] != c {
		return
	}
	delete(l.channels, name)
	if len(l.channels) == 0 {
		_ = l.sub.Close() // no watcher is left that could use the error
		l.sub = nil
		return
	}
	_ = l.sub.Unsubscribe(context.Background(), name) // if it fails, messages of the channel are ignored
}

// read passes on what arrives on a connection, until it is closed. The next Receive replaces a
// lost connection and subscribes to all its channels again.
func (l *listener) read(b *Broker, sub *redis.PubSub) {
	lost := make(map[*watcher]bool) // watchers that may have missed events and do not know it yet
	for {
		m, err := sub.Receive(context.Background())
		l.mu.Lock()
		if l.sub != sub {
			l.mu.Unlock()
			return
		}
		switch m := m.(type) {
		case *redis.Subscription:
			if c := l.channels[m.Channel]; c != nil && m.Kind == "subscribe" {
				c.confirm(nil)
				for w := range c.watchers {
					if lost[w] {
						w.missed()
					}
					delete(lost, w)
				}
				l.tidy(m.Channel, c)
			}
		case *redis.Message:
			if c := l.channels[m.Channel]; c != nil {
				for w := range c.watchers {
					w.read(m)
				}
			}
		}
		if err != nil {
			for name, c := range maps.Clone(l.channels) {
				if answered(err) {
					c.confirm(err) // the server refused this channel
					l.tidy(name, c)
					continue
				}
				for w := range c.watchers {
					lost[w] = true
				}
			}
		}
		l.mu.Unlock()
		if err != nil && !answered(err) && !pause(b.ending, b.ending, relisten) {
			return
		}
	}
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
