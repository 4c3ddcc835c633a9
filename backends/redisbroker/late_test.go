package redisbroker

import (
	"context"
	"errors"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/seed81422ce9/jobs/broker"
	"github.com/seed81422ce9/jobs/internal/testenv"
)

// slow is a network that holds back answers until the channel hold, if there is one, is closed.
type slow struct {
	mu   sync.Mutex
	hold chan struct{} // closed to let answers through
}

func (s *slow) gate() chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.hold
}

func (s *slow) set(hold chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.hold = hold
}

type slowConn struct {
	net.Conn
	network *slow
}

func (c slowConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if gate := c.network.gate(); gate != nil {
		<-gate
	}
	return n, err
}

// Jobs that a claim leased after its caller had gone are put back as soon as the answer
// arrives.
func TestLate_JobsOfAClaimThatIsAnsweredTooLateAreReleased(t *testing.T) {
	t.Parallel()
	for name, call := range map[string]func(context.Context, *Broker) error{
		"claim": func(ctx context.Context, b *Broker) error {
			_, err := b.Claim(ctx, broker.ClaimRequest{Now: at(100), Worker: "w", Queues: []broker.Share{{Queue: "q", Max: 2}}, Max: 2})
			return err
		},
		"reclaim": func(ctx context.Context, b *Broker) error {
			_, err := b.Reclaim(ctx, broker.ReclaimRequest{Now: at(100), Worker: "w", Queues: []string{"q"}, Max: 2})
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			network := new(slow)
			o, err := redis.ParseURL(testenv.Redis(t))
			if err != nil {
				t.Fatal(err)
			}
			o.Dialer = func(ctx context.Context, kind, addr string) (net.Conn, error) {
				conn, err := new(net.Dialer).DialContext(ctx, kind, addr)
				return slowConn{conn, network}, err
			}
			c := redis.NewClient(o)
			t.Cleanup(func() { _ = c.Close() })
			b := open(t, c)
			register(t, b, "dead", "q")
			register(t, b, "w", "q")
			enqueue(t, b, job("q", "a"), job("q", "b"))
			if name == "reclaim" {
				claimAt(t, b, at(0), "dead", 2, "q")
			}
			if _, err := b.Renew(t.Context(), broker.RenewRequest{Now: at(90), Worker: "w", Queues: []string{"q"}, Lease: time.Minute}); err != nil {
				t.Fatal(err)
			}

			gate := make(chan struct{})
			network.set(gate)
			ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
			defer cancel()
			if err := call(ctx, b); !errors.Is(err, context.DeadlineExceeded) || errors.Is(err, broker.ErrUnavailable) {
				t.Errorf("got %v, want the context's error and no promise", err)
			}
			network.set(nil)
			close(gate)
			if err := b.Close(); err != nil { // waits until the jobs are put back
				t.Fatal(err)
			}

			after := openAs(t, client(t), b.config)
			if got := claimAt(t, after, at(101), "w", 2, "q"); len(got.Jobs) != 2 || got.Jobs[0].Deliveries == 0 ||
				got.Jobs[0].Failures+got.Jobs[0].Crashes != 0 {
				t.Errorf("claimed %d jobs, want both, delivered before and charged nothing", len(got.Jobs))
			}
		})
	}
}
