package redisbroker

import (
	"context"
	"fmt"
	"io"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/seed81422ce9/jobs/broker"
)

// cutClaims loses the first claim from each queue after it was armed.
type cutClaims struct {
	redis.Hook
	mu    sync.Mutex
	armed bool
	cut   map[string]bool
}

func (c *cutClaims) arm() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.armed, c.cut = true, map[string]bool{}
}

func (c *cutClaims) loses(cmds ...redis.Cmder) (lost bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, cmd := range cmds {
		if args := cmd.Args(); c.armed && len(args) > 3 && args[1] == claimScript.sha {
			queue := fmt.Sprint(args[3]) // the first of its keys
			lost = lost || !c.cut[queue]
			c.cut[queue] = true
		}
	}
	for _, cmd := range cmds {
		if lost {
			cmd.SetErr(io.ErrUnexpectedEOF)
		}
	}
	return lost
}

func (*cutClaims) DialHook(next redis.DialHook) redis.DialHook { return next }

func (c *cutClaims) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if c.loses(cmd) {
			return cmd.Err()
		}
		return next(ctx, cmd)
	}
}

func (c *cutClaims) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		if c.loses(cmds...) {
			return io.ErrUnexpectedEOF
		}
		return next(ctx, cmds)
	}
}

// On a Cluster a wait takes a token, and the claim follows. If the claim fails, the token is
// put back for another one, since the job is still there.
func TestWait_AClaimThatFailsAfterItsWakeUpLeavesTheToken(t *testing.T) {
	t.Parallel()
	c := clusterClient(t)
	b := open(t, c)
	registerNow(t, b, "w", "q1", "q2")
	faults := new(cutClaims)
	nodes := map[*redis.Client]bool{}
	for _, q := range []string{"q1", "q2"} {
		node, err := b.store.node(t.Context(), b.queue(q).key("t"))
		if err != nil {
			t.Fatal(err)
		}
		if !nodes[node] {
			nodes[node] = true
			node.AddHook(faults)
		}
	}
	type answer struct {
		broker.Claimed
		err error
	}
	got := make(chan answer, 1)
	go func() {
		claimed, err := b.Claim(t.Context(), waitFor("w", time.Minute, "q1", "q2"))
		got <- answer{claimed, err}
	}()
	waiting(t, b, "q1", 1)
	faults.arm()
	enqueueNow(t, b, job("q1", "a"))
	if a := <-got; a.err == nil || len(a.Jobs) > 0 {
		t.Fatalf("the claim got %d jobs and %v, want the error of the claim behind the wait", len(a.Jobs), a.err)
	}
	if err := b.Close(); err != nil { // waits until the token is put back
		t.Fatal(err)
	}
	if n, err := c.LLen(t.Context(), b.queue("q1").key("t")).Result(); n != 1 || err != nil {
		t.Errorf("%d wake tokens are left beside a pending job, %v; want one, or whoever waits next sleeps on", n, err)
	}
}
