package redisbroker

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/seed81422ce9/jobs/broker"
	"github.com/seed81422ce9/jobs/internal/testenv"
)

// A slot without keys moves to another node without the broker's knowledge.
func TestCluster_AQueueIsFoundWhereItsSlotHasMoved(t *testing.T) {
	t.Parallel()
	c := clusterClient(t)
	b := open(t, c)
	register(t, b, "w", "elsewhere")
	ctx := t.Context()
	for n := range 50 {
		queue := fmt.Sprint("q", n)
		key := baseOf(b.config.Prefix, queue)
		slot := int(c.ClusterKeySlot(ctx, key).Val())
		from, err := c.MasterForKey(ctx, key)
		if err != nil {
			t.Fatal(err)
		}
		if from.ClusterCountKeysInSlot(ctx, slot).Val() != 0 {
			continue
		}
		var to string
		err = eachServer(c, func(node *redis.Client) error {
			if node == from || to != "" {
				return nil
			}
			id, err := node.Do(ctx, "CLUSTER", "MYID").Text()
			if to = id; err == nil {
				err = node.Do(ctx, "CLUSTER", "SETSLOT", slot, "NODE", to).Err()
			}
			return err
		})
		if err == nil {
			err = from.Do(ctx, "CLUSTER", "SETSLOT", slot, "NODE", to).Err()
		}
		if err != nil {
			t.Fatal(err)
		}
		enqueue(t, b, job(queue, "a"))
		register(t, b, "w", queue)
		if got := claimAt(t, b, at(0), "w", 1, queue); len(got.Jobs) != 1 {
			t.Errorf("claimed %d jobs, want 1", len(got.Jobs))
		}
		return
	}
	t.Fatal("no slot without keys was found")
}

// A claim over several nodes serves its shares in order, and never exceeds Max.
func TestCluster_ClaimOverSeveralNodesKeepsToItsShares(t *testing.T) {
	t.Parallel()
	b := open(t, clusterClient(t))
	queues := []string{"a", "b", "c", "d"}
	register(t, b, "w", queues...)
	var jobs []broker.NewJob
	for i := range 20 {
		for _, q := range queues {
			jobs = append(jobs, job(q, fmt.Sprint(i)))
		}
	}
	enqueue(t, b, jobs...)
	for _, c := range []struct {
		max    int
		shares []broker.Share
		want   string
	}{
		{3, []broker.Share{{Queue: "a", Max: 2}, {Queue: "b", Max: 2}, {Queue: "c", Max: 2}}, "a0 a1 b0 "},
		{6, []broker.Share{{Queue: "c", Max: 1}, {Queue: "a", Max: 1}, {Queue: "c", Max: 2}, {Queue: "d", Max: 9}}, "c0 a2 c1 c2 d0 d1 "},
		{25, []broker.Share{{Queue: "a", Max: 99}, {Queue: "b", Max: 99}},
			"a3 a4 a5 a6 a7 a8 a9 a10 a11 a12 a13 a14 a15 a16 a17 a18 a19 b1 b2 b3 b4 b5 b6 b7 b8 "},
	} {
		got, err := b.Claim(t.Context(), broker.ClaimRequest{Now: at(0), Worker: "w", Queues: c.shares, Max: c.max})
		order := ""
		for _, j := range got.Jobs {
			order += j.Queue + j.ID + " "
		}
		if err != nil || order != c.want || !got.More {
			t.Errorf("Claim of %d from %v:\ngot  %s, more %v, %v\nwant %s, more true", c.max, c.shares, order, got.More, err, c.want)
		}
	}
}

// A claim returns one node's jobs even if another node did not answer.
func TestCluster_JobsComeBesideTheErrorOfAnotherNode(t *testing.T) {
	t.Parallel()
	b := open(t, clusterClient(t))
	register(t, b, "w", "here")
	enqueue(t, b, job("here", "a"), job("there", "a"))
	got, err := b.Claim(t.Context(), broker.ClaimRequest{Now: at(0), Worker: "w", Max: 2,
		Queues: []broker.Share{{Queue: "there", Max: 1}, {Queue: "here", Max: 1}}})
	if len(got.Jobs) != 1 || !errors.Is(err, broker.ErrWorkerGone) {
		t.Errorf("got %d jobs, %v, want one beside ErrWorkerGone", len(got.Jobs), err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	info, err := b.Queues(ctx, broker.QueuesRequest{})
	if err != nil || len(info.Queues) != 2 {
		t.Errorf("Queues over several nodes: %d, %v", len(info.Queues), err)
	}
}

// hanging is a connection whose server takes what it gets and never answers, while node has its address.
type hanging struct {
	net.Conn
	node *atomic.Value
}

func (h hanging) Read(p []byte) (int, error) {
	for {
		n, err := h.Conn.Read(p)
		if err != nil || h.node.Load() != h.RemoteAddr().String() {
			return n, err
		}
	}
}

// A node that hangs does not withhold what the other nodes answered until the caller's context has ended.
func TestCluster_ANodeThatHangsHoldsUpNoOther(t *testing.T) {
	t.Parallel()
	var hung atomic.Value
	dial := func(ctx context.Context, network, addr string) (net.Conn, error) {
		conn, err := new(net.Dialer).DialContext(ctx, network, addr)
		if err != nil {
			return nil, err
		}
		return hanging{conn, &hung}, nil
	}
	c := redis.NewClusterClient(&redis.ClusterOptions{Addrs: testenv.RedisCluster(t), ClientName: testenv.Name(t), Dialer: dial})
	t.Cleanup(func() { _ = c.Close() })
	b := open(t, c)
	nodes := make(map[*redis.Client]string)
	for n := 0; len(nodes) < 2; n++ {
		queue := fmt.Sprint("q", n)
		node, err := b.store.node(t.Context(), b.queue(queue).key("m"))
		if err != nil {
			t.Fatal(err)
		}
		if nodes[node] == "" {
			nodes[node] = queue
			register(t, b, "w", queue)
			enqueue(t, b, job(queue, "a"), job(queue, "b"))
		}
	}
	var shares []broker.Share
	held := make(map[string]broker.Job)
	for node, queue := range nodes {
		held[queue] = claimAt(t, b, at(0), "w", 1, queue).Jobs[0]
		shares = append(shares, broker.Share{Queue: queue, Max: 1})
		hung.Store(node.Options().Addr) // the last of them
	}
	alive, dead := held[shares[0].Queue], held[shares[1].Queue]

	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
	defer cancel()
	got, err := b.Claim(ctx, broker.ClaimRequest{Now: at(0), Worker: "w", Queues: shares, Max: 2})
	if len(got.Jobs) != 1 || got.Jobs[0].Queue != alive.Queue || !broker.MayHaveApplied(err) {
		t.Errorf("Claim gave %d jobs, %v; want the one of the other node, and an error that leaves open the rest", len(got.Jobs), err)
	}
	ctx, cancel = context.WithTimeout(t.Context(), 2*time.Second)
	defer cancel()
	verdicts, err := b.Settle(ctx, broker.SettleRequest{Now: at(0), Worker: "w", Number: 1, Items: []broker.Settlement{
		{Job: &alive, Outcome: broker.Complete(nil)}, {Job: &dead, Outcome: broker.Complete(nil)}}})
	if err != nil || verdicts[0].Err != nil || verdicts[0].State != broker.StateCompleted || !broker.MayHaveApplied(verdicts[1].Err) {
		t.Errorf("Settle: %+v, %v; want one completed, and an error that leaves open the other", verdicts, err)
	}
	hung.Store("")
}
