package redisbroker

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/seed81422ce9/jobs/broker"
)

// callTimeout bounds one round trip, whatever the caller's context allows.
const callTimeout = 30 * time.Second

// store is where commands go: one server, the master that Sentinels name, or
// the masters of a Cluster. It routes commands itself, since redis.ClusterClient
// repeats commands after network errors.
type store struct {
	single  *redis.Client
	cluster *redis.ClusterClient
	named   *masters // nil unless Sentinels name the server

	database string // the number of the database; "" for 0
}

var errNoClient = broker.Invalid("client", "is nil; make one with redis.NewClient, NewFailoverClient or NewClusterClient")

// connect makes a client with the options of the given one, but without retries. The
// broker owns the new client.
func connect(client redis.UniversalClient) (store, error) {
	switch c := client.(type) {
	case nil:
		return store{}, errNoClient
	case *redis.Client:
		if c == nil {
			return store{}, errNoClient
		}
		o := *c.Options()
		o.MaxRetries, o.DialerRetries = -1, 1
		o.ContextTimeoutEnabled = true
		o.ReadTimeout, o.WriteTimeout, o.PoolTimeout = callTimeout, callTimeout, callTimeout
		o.Protocol = 2          // cheaper to read, and nothing here needs 3
		o.PipelinePoolSize = -1 // one pool for all commands
		o.MinIdleConns = 0      // connections are made when they are needed
		if o.Limiter != nil {
			o.Limiter = limiter{o.Limiter}
		}
		o.MaintNotificationsConfig, o.PushNotificationProcessor = nil, nil
		o.ClientSideCacheConfig, o.ClientSideCache = nil, nil
		var named *masters
		if isFailover(&o) {
			named = &masters{dial: o.Dialer, conns: make(map[*followed]struct{})}
			o.Dialer = named.connect
		}
		database := ""
		if o.DB != 0 {
			database = strconv.Itoa(o.DB)
		}
		return store{single: redis.NewClient(&o), named: named, database: database}, nil
	case *redis.ClusterClient:
		if c == nil {
			return store{}, errNoClient
		}
		o := *c.Options()
		o.MaxRetries, o.DialerRetries, o.MaxRedirects = -1, 1, -1
		o.ReadOnly, o.RouteByLatency, o.RouteRandomly = false, false, false
		o.ContextTimeoutEnabled = true
		o.ReadTimeout, o.WriteTimeout, o.PoolTimeout = callTimeout, callTimeout, callTimeout
		o.Protocol = 2
		o.PipelinePoolSize = -1
		o.MinIdleConns = 0
		o.MaintNotificationsConfig, o.PushNotificationProcessor = nil, nil
		return store{cluster: redis.NewClusterClient(&o)}, nil
	}
	return store{}, &broker.Error{Field: "client", Err: broker.ErrUnsupported,
		Hint: fmt.Sprintf("a %T cannot be copied with retries off; use redis.NewClient, NewFailoverClient or NewClusterClient", client)}
}

// limiter is the limiter of the given client. Its refusals say that nothing was sent.
type limiter struct{ redis.Limiter }

func (l limiter) Allow() error {
	if err := l.Limiter.Allow(); err != nil {
		return notSent(err)
	}
	return nil
}

// node returns the server that has a key.
func (s *store) node(ctx context.Context, key string) (*redis.Client, error) {
	if s.single != nil {
		return s.single, nil
	}
	return s.cluster.MasterForKey(ctx, key)
}

// each calls f for every master.
func (s *store) each(ctx context.Context, f func(context.Context, *redis.Client) error) error {
	if s.single != nil {
		return f(ctx, s.single)
	}
	return s.cluster.ForEachMaster(ctx, f)
}

// masters lists every master, in a fixed order.
func (s *store) masters(ctx context.Context) ([]*redis.Client, error) {
	var mu sync.Mutex
	var nodes []*redis.Client
	err := s.each(ctx, func(_ context.Context, node *redis.Client) error {
		mu.Lock()
		defer mu.Unlock()
		nodes = append(nodes, node)
		return nil
	})
	slices.SortFunc(nodes, func(a, b *redis.Client) int { return strings.Compare(a.Options().Addr, b.Options().Addr) })
	return nodes, err
}

// subscription returns a connection for subscriptions, which is made with the first of them.
func (s *store) subscription(ctx context.Context) *redis.PubSub {
	if s.single != nil {
		return s.single.Subscribe(ctx)
	}
	return s.cluster.Subscribe(ctx)
}

// moved returns the master that an answer "MOVED slot address" names, or nil. It also makes the client
// ask again which node has which slots. It uses the address, since other nodes may not know it yet.
func (s *store) moved(ctx context.Context, answer error) *redis.Client {
	words := strings.Fields(answer.Error())
	if s.cluster == nil || len(words) != 3 {
		return nil
	}
	var mu sync.Mutex
	var found *redis.Client
	// Unlike ReloadState, ForEachMaster asks for the slots before it returns.
	_ = s.cluster.ForEachMaster(ctx, func(_ context.Context, node *redis.Client) error {
		if node.Options().Addr == words[2] {
			mu.Lock()
			defer mu.Unlock()
			found = node
		}
		return nil
	})
	return found
}

// doubt makes the client ask the Cluster for its slots in the background. Call it if a node did not
// answer.
func (s *store) doubt(ctx context.Context) {
	if s.cluster != nil {
		s.cluster.ReloadState(ctx)
	}
}

func (s *store) close() error {
	if s.single != nil {
		return s.single.Close()
	}
	return s.cluster.Close()
}
