package redisbroker

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/seed81422ce9/jobs/broker"
	"github.com/seed81422ce9/jobs/internal/testenv"
)

// everyCall makes each call of a broker once and returns its errors.
func everyCall(ctx context.Context, b *Broker) map[string]error {
	errs := make(map[string]error)
	leased := &broker.Job{Queue: "q", ID: "a"}
	settle := broker.SettleRequest{Worker: "w", Number: 1, Items: []broker.Settlement{{Job: leased, Outcome: broker.Complete(nil)}}}
	claim := broker.ClaimRequest{Worker: "w", Queues: []broker.Share{{Queue: "q", Max: 1}}, Max: 1}
	receipts, err := b.Enqueue(ctx, broker.EnqueueRequest{Jobs: []broker.NewJob{job("q", "a"), job("p", "a")}})
	for _, r := range receipts {
		err = errors.Join(err, r.Err)
	}
	errs["Enqueue"] = err
	_, errs["Claim"] = b.Claim(ctx, claim)
	_, errs["Settle"] = b.Settle(ctx, settle)
	_, errs["Renew"] = b.Renew(ctx, broker.RenewRequest{Worker: "w", Queues: []string{"q"}, Lease: time.Minute})
	_, errs["Retire"] = b.Retire(ctx, broker.RetireRequest{Worker: "w", Queues: []string{"q"}})
	_, errs["Reclaim"] = b.Reclaim(ctx, broker.ReclaimRequest{Worker: "w", Queues: []string{"q"}, Max: 1})
	_, errs["Prune"] = b.Prune(ctx, broker.PruneRequest{Queues: []string{"q"}, Max: 1})
	_, errs["Find"] = b.Find(ctx, broker.Query{Queue: "q", State: broker.StatePending})
	_, errs["Find by ID"] = b.Find(ctx, broker.Query{Queue: "q", IDs: []string{"a"}})
	_, errs["Queues"] = b.Queues(ctx, broker.QueuesRequest{})
	_, errs["Operate"] = b.Operate(ctx, broker.Operation{Kind: broker.OpCancel,
		Refs: []broker.Ref{{Queue: "q", ID: "a", Epoch: broker.AnyEpoch}}})
	_, errs["Policy"] = b.Policy(ctx, broker.PolicyRequest{Queue: "q"})
	_, errs["Mark"] = b.Mark(ctx, broker.MarkRequest{Name: "m"})
	_, errs["Watch"] = b.Watch(ctx, broker.WatchRequest{Queues: []string{"q"}})
	_, errs["Ping"] = b.Ping(ctx)
	got, err := b.Claim(ctx, broker.ClaimRequest{Worker: "w", Settle: settle})
	errs["Claim that only settles"] = errors.Join(err, got.SettleErr)
	return errs
}

func TestDown_EveryCallSaysThatTheStoreIsDown(t *testing.T) {
	t.Parallel()
	server := testenv.PrivateRedis(t)
	c := clientOf(t, server.URL)
	b := openAs(t, c, Config{})
	register(t, b, "w", "q")
	server.Kill()
	// The first call on a lost connection finds that out only after it was sent.
	_, _ = b.Ping(t.Context())

	start := time.Now()
	for call, err := range everyCall(t.Context(), b) {
		if !errors.Is(err, broker.ErrUnavailable) {
			t.Errorf("%s with the server gone: got %v, want ErrUnavailable", call, err)
		}
	}
	if _, err := New(t.Context(), c, Config{}); !errors.Is(err, broker.ErrUnavailable) {
		t.Errorf("New with the server gone: got %v, want ErrUnavailable", err)
	}
	if took := time.Since(start); took > 10*time.Second {
		t.Errorf("finding out took %v", took)
	}

	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	for call, err := range everyCall(t.Context(), b) {
		if errors.Is(err, broker.ErrUnavailable) {
			t.Errorf("%s with the server back: %v", call, err)
		}
	}
}

// breaker is a limiter of a client that refuses all calls while it is open, as a circuit breaker does.
type breaker struct{ open atomic.Bool }

func (*breaker) ReportResult(error) {}
func (l *breaker) Allow() error {
	if l.open.Load() {
		return errors.New("circuit breaker is open")
	}
	return nil
}

func TestDown_WhatTheLimiterOfTheClientRefusesIsNotSent(t *testing.T) {
	t.Parallel()
	o, err := redis.ParseURL(testenv.Redis(t))
	if err != nil {
		t.Fatal(err)
	}
	limiter := &breaker{}
	o.Limiter = limiter
	c := redis.NewClient(o)
	t.Cleanup(func() { _ = c.Close() })
	b := open(t, c)
	register(t, b, "w", "q")
	limiter.open.Store(true)
	for call, err := range everyCall(t.Context(), b) {
		if !errors.Is(err, broker.ErrUnavailable) || !strings.Contains(err.Error(), "circuit breaker") {
			t.Errorf("%s: got %v, want ErrUnavailable with the error of the limiter", call, err)
		}
	}
	limiter.open.Store(false)
	for call, err := range everyCall(t.Context(), b) {
		if errors.Is(err, broker.ErrUnavailable) {
			t.Errorf("%s after that: %v", call, err)
		}
	}
}

// The server accepts connections and never answers.
func TestDown_EveryCallEndsWithItsContextWhenTheStoreHangs(t *testing.T) {
	t.Parallel()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			t.Cleanup(func() { _ = conn.Close() })
		}
	}()
	c := client(t)
	b := open(t, c)
	register(t, b, "w", "q")
	hung := redis.NewClient(&redis.Options{Addr: listener.Addr().String(), MaxRetries: -1, ContextTimeoutEnabled: true})
	b.store.single, hung = hung, b.store.single
	t.Cleanup(func() { _ = hung.Close() })

	ctx, cancel := context.WithCancel(t.Context())
	time.AfterFunc(50*time.Millisecond, cancel)
	_, err = b.Enqueue(ctx, broker.EnqueueRequest{Jobs: []broker.NewJob{job("q", "a")}})
	if !errors.Is(err, context.Canceled) || errors.Is(err, broker.ErrUnavailable) {
		t.Errorf("Enqueue that was cancelled: got %v, want the context's error and no promise", err)
	}
	ctx, cancel = context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err = b.Claim(ctx, broker.ClaimRequest{Worker: "w", Queues: []broker.Share{{Queue: "q", Max: 1}}, Max: 1}); !errors.Is(err,
		context.DeadlineExceeded) {
		t.Errorf("Claim that ran out of time: got %v, want the context's error", err)
	}
	for call, err := range everyCall(ctx, b) {
		if !errors.Is(err, broker.ErrUnavailable) || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%s after its context ended: got %v, want ErrUnavailable and the context's error", call, err)
		}
	}
	start := time.Now()
	if err := b.Close(); err != nil {
		t.Errorf("Close: %v", err)
	}
	if took := time.Since(start); took > 2*broker.MaxClose {
		t.Errorf("Close took %v", took)
	}
}

func TestDown_EveryCallAfterCloseAnswersErrClosed(t *testing.T) {
	t.Parallel()
	b := open(t, client(t))
	register(t, b, "w", "q")
	for range 2 {
		if err := b.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
	}
	for call, err := range everyCall(t.Context(), b) {
		if !errors.Is(err, broker.ErrClosed) {
			t.Errorf("%s after Close: got %v, want ErrClosed", call, err)
		}
	}
}

func TestDown_ErrorsAreToldApart(t *testing.T) {
	t.Parallel()
	reply := func(text string) error { return redisError(text) }
	for _, c := range []struct {
		err         error
		unavailable bool
	}{
		{reply("LOADING Redis is loading the dataset in memory"), true},
		{reply("READONLY You can't write against a read only replica."), true},
		{reply("OOM command not allowed when used memory > 'maxmemory'. script: 3f, on @user_script:12."), true},
		{reply("ERR Error running script (call to f_3f): @user_script:12: @user_script: 12: -OOM command not allowed"), true},
		{reply("CLUSTERDOWN The cluster is down"), true},
		{reply("ERR Script attempted to execute a write command while the cluster is down and readonly script: 3f, on @user_script:1."), true},
		{reply("TRYAGAIN Multiple keys request during rehashing of slot"), true},
		{reply("MASTERDOWN Link with MASTER is down"), true},
		{reply("NOREPLICAS Not enough good replicas to write."), true},
		{reply("NOPERM this user has no permissions to run the 'evalsha' command"), true},
		{reply("NOPERM ACL failure in script: User jobs has no permissions to run the 'zadd' command script: 3f, on @user_script:12."), false},
		{reply("ERR The user executing the script can't run this command or subcommand script: 3f, on @user_script:1."), false},
		{reply("ERR max number of clients reached"), true},
		{reply("ERR Protocol error: unauthenticated multibulk length"), true},
		{reply("ERR Error running script (call to f_3f): @user_script:12: attempt to index nil"), false},
		{reply("WRONGTYPE Operation against a key holding the wrong kind of value script: 3f, on @user_script:40."), false},
		{&net.OpError{Op: "dial", Err: errors.New("connection refused")}, true},
		{fmt.Errorf("wrapped: %w", &net.OpError{Op: "dial", Err: errors.New("no route to host")}), true},
		{redis.ErrPoolTimeout, true},
		{&net.OpError{Op: "read", Err: errors.New("connection reset by peer")}, false},
		{&net.OpError{Op: "write", Err: errors.New("broken pipe")}, false},
		{context.DeadlineExceeded, false},
	} {
		if got := errors.Is(classify(c.err), broker.ErrUnavailable); got != c.unavailable || !errors.Is(classify(c.err), c.err) {
			t.Errorf("%v: certainly not applied is %v, want %v, and the cause kept", c.err, got, c.unavailable)
		}
	}
	if classify(nil) != nil || classify(redis.Nil) != nil {
		t.Error("no error is taken for one")
	}
}

// redisError is an error in a server's answer.
type redisError string

func (e redisError) Error() string { return string(e) }
func (redisError) RedisError()     {}
