package redisbroker

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"slices"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/seed81422ce9/jobs/broker"
	"github.com/seed81422ce9/jobs/internal/testenv"
)

// heldConn keeps back transactions while its network is told to.
type heldConn struct {
	net.Conn
	network *slow
}

func (c heldConn) Write(p []byte) (int, error) {
	if gate := c.network.gate(); gate != nil && bytes.Contains(p, []byte("multi")) {
		<-gate
	}
	return c.Conn.Write(p)
}

// openHeld opens a broker whose connections go through a network.
func openHeld(t *testing.T, network *slow) *Broker {
	t.Helper()
	o, err := redis.ParseURL(testenv.Redis(t))
	if err != nil {
		t.Fatal(err)
	}
	o.Dialer = func(ctx context.Context, kind, addr string) (net.Conn, error) {
		conn, err := new(net.Dialer).DialContext(ctx, kind, addr)
		return heldConn{conn, network}, err
	}
	c := redis.NewClient(o)
	t.Cleanup(func() { _ = c.Close() })
	return open(t, c)
}

// A first send that the network holds up until its caller has given it up, and
// somebody has sent its jobs again, or let nobody in, comes to nothing.
func TestATransactionThatComesLateDoesNothing(t *testing.T) {
	t.Parallel()
	yes := true
	for name, meanwhile := range map[string]func(t *testing.T, other *Broker, jobs []broker.NewJob){
		"after its repeat": func(t *testing.T, other *Broker, jobs []broker.NewJob) { accept(t, other, jobs) },
		"after its repeat with keys": func(t *testing.T, other *Broker, jobs []broker.NewJob) {
			for i := range jobs {
				jobs[i].Body.Key = "tenant"
			}
			accept(t, other, jobs)
		},
		"after its repeat, one by one": func(t *testing.T, other *Broker, jobs []broker.NewJob) {
			for i := range jobs {
				accept(t, other, jobs[i:i+1])
			}
		},
		"after they came back from elsewhere": func(t *testing.T, other *Broker, jobs []broker.NewJob) {
			for i := range jobs {
				jobs[i].Restore = &broker.Restored{State: broker.StatePending}
			}
			accept(t, other, jobs)
		},
		"after a pause": func(t *testing.T, other *Broker, jobs []broker.NewJob) {
			if _, err := other.Policy(t.Context(), broker.PolicyRequest{Queue: "q", Paused: &yes}); err != nil {
				t.Fatal(err)
			}
			accept(t, other, jobs)
		},
	} {
		for _, size := range []int{3, 1} {
			t.Run(fmt.Sprint(name, ", jobs: ", size), func(t *testing.T) {
				t.Parallel()
				network := new(slow)
				b := openHeld(t, network)
				other := openAs(t, client(t), b.config)
				warm(t, b, "q")
				gate := make(chan struct{})
				network.set(gate)
				ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
				defer cancel()
				jobs := firstSends("q", "late", size)
				if _, err := b.Enqueue(ctx, broker.EnqueueRequest{Jobs: jobs}); !broker.MayHaveApplied(err) {
					t.Fatalf("got %v of a call that was held up, want that it may have been applied", err)
				}
				for i := range jobs {
					jobs[i].Drawn, jobs[i].Body.Payload = time.Time{}, []byte("of the repeat")
				}
				meanwhile(t, other, jobs)
				network.set(nil)
				close(gate)
				if err := b.Close(); err != nil { // waits for the call that was held up
					t.Fatal(err)
				}

				no := false
				if _, err := other.Policy(t.Context(), broker.PolicyRequest{Queue: "q", Paused: &no}); err != nil {
					t.Fatal(err)
				}
				register(t, other, "w", "q")
				var got []string
				for _, j := range claimAt(t, other, at(0), "w", 100, "q").Jobs {
					if j.ID[0] == 'l' {
						got = append(got, j.ID+" "+string(j.Body.Payload))
					}
				}
				if want := []string{"late0 of the repeat", "late1 of the repeat", "late2 of the repeat"}[:size]; !slices.Equal(got, want) {
					t.Errorf("claimed %q, want %q", got, want)
				}
			})
		}
	}
}
