package redisbroker

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/seed81422ce9/jobs/broker"
	"github.com/seed81422ce9/jobs/internal/testenv"
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

// On one server the claim is sent with the wait. If the server has lost the script, it takes the token all the same. If the next claim
// fails, too, the token is put back.
func TestWait_AClaimWhoseScriptIsGoneLeavesTheToken(t *testing.T) {
	t.Parallel()
	c := clientOf(t, testenv.PrivateRedis(t).URL)
	b := open(t, c)
	registerNow(t, b, "w", "q")
	paused := true
	if _, err := b.Policy(t.Context(), broker.PolicyRequest{Queue: "q", Paused: &paused}); err != nil {
		t.Fatal(err)
	}
	enqueueNow(t, b, job("q", "a"))
	faults := new(cutClaims)
	b.store.single.AddHook(faults)
	failed := make(chan error, 1)
	go func() {
		_, err := b.Claim(t.Context(), waitFor("w", time.Minute, "q"))
		failed <- err
	}()
	waiting(t, b, "q", 1)
	faults.arm()
	pipe := c.Pipeline()
	pipe.ScriptFlush(t.Context())
	pipe.HDel(t.Context(), b.queue("q").key("m"), "paused")
	pipe.LPush(t.Context(), b.queue("q").key("t"), "1")
	if _, err := pipe.Exec(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := <-failed; err == nil {
		t.Fatal("the claim behind the wait did not fail")
	}
	if err := b.Close(); err != nil { // waits until the token is put back
		t.Fatal(err)
	}
	if n, err := c.LLen(t.Context(), b.queue("q").key("t")).Result(); n != 1 || err != nil {
		t.Errorf("%d wake tokens are left beside a pending job, %v; want one", n, err)
	}
}

// A token may mean that a job is due sooner than waiting claims know. If a worker that has ended takes it, another one must learn that.
func TestWait_AWorkerThatEndedLeavesTheNewsOfADueTime(t *testing.T) {
	t.Parallel()
	c := client(t)
	b := open(t, c)
	registerNow(t, b, "ended", "q")
	later := job("q", "later")
	later.Delay = time.Hour
	enqueueNow(t, b, later)
	if _, err := b.Retire(t.Context(), broker.RetireRequest{Worker: "ended", Queues: []string{"q"}}); err != nil {
		t.Fatal(err)
	}
	if err := c.Del(t.Context(), b.queue("q").key("t")).Err(); err != nil { // its wait took the token
		t.Fatal(err)
	}
	if _, err := b.Claim(t.Context(), waitFor("ended", 0, "q")); !errors.Is(err, broker.ErrWorkerGone) {
		t.Fatalf("a claim of a worker that ended: %v", err)
	}
	if n, err := c.LLen(t.Context(), b.queue("q").key("t")).Result(); n != 1 || err != nil {
		t.Errorf("%d wake tokens are left beside a scheduled job, %v; want one", n, err)
	}
}
