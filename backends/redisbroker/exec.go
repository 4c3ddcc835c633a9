package redisbroker

import (
	"context"
	"fmt"
	"sync"

	"github.com/redis/go-redis/v9"
)

// call is a command on its way to the node that has its keys.
type call struct {
	key  string        // one of its keys
	node *redis.Client // the node that has them, if an answer named it
	args []any
	cmd  *redis.Cmd
	err  error // classified

	await quorum // for how many replicas to wait after it
	lag   error  // not nil if too few replicas have its effect
}

// exec sends calls to all nodes at the same time, in one pipeline for each node. Calls to the same
// node keep their order. exec sends calls again that a node has certainly not applied, because it
// does not have the script or the queue is on another node.
func (b *Broker) exec(ctx context.Context, calls []*call) {
	for round := range maxRounds {
		if b.store.single != nil {
			send(ctx, b.store.single, calls)
			calls = b.unapplied(ctx, b.store.single, calls, round)
		} else {
			calls = b.spread(ctx, calls, round)
		}
		if len(calls) == 0 {
			return
		}
	}
}

// spread sends calls to the nodes of a Cluster, and returns the calls to send again.
func (b *Broker) spread(ctx context.Context, calls []*call, round int) (again []*call) {
	nodes := make(map[*redis.Client][]*call, 1)
	for _, c := range calls {
		node, err := c.node, error(nil)
		if node == nil {
			node, err = b.store.node(ctx, c.key)
		}
		if err != nil {
			c.err = notSent(err)
			continue
		}
		nodes[node] = append(nodes[node], c)
	}
	var wait sync.WaitGroup
	for node, group := range nodes {
		if len(nodes) == 1 {
			send(ctx, node, group)
			break
		}
		wait.Go(func() { send(ctx, node, group) })
	}
	wait.Wait()
	for node, group := range nodes {
		again = append(again, b.unapplied(ctx, node, group, round)...)
	}
	return again
}

// unapplied reads the results of calls to a node, and returns the calls to send again.
func (b *Broker) unapplied(ctx context.Context, node *redis.Client, calls []*call, round int) (again []*call) {
	var lacking []*call
	for _, c := range calls {
		err := c.cmd.Err()
		if err == nil {
			c.err = nil
			continue
		}
		c.err = classify(err)
		switch {
		case redis.HasErrorPrefix(err, "NOSCRIPT"):
			lacking = append(lacking, c)
		case redis.HasErrorPrefix(err, "MOVED") && round+1 < maxRounds:
			c.node = b.store.moved(ctx, err)
			again = append(again, c)
		case !answered(err):
			b.store.doubt(ctx)
		}
	}
	if len(lacking) == 0 {
		return again
	}
	if err := loadScripts(ctx, node); err != nil {
		for _, c := range lacking {
			c.err = notSent(fmt.Errorf("loading the scripts: %w", err))
		}
		return again
	}
	return append(again, lacking...)
}

func send(ctx context.Context, node *redis.Client, calls []*call) {
	for _, c := range calls {
		c.cmd = redis.NewCmd(ctx, c.args...)
	}
	if len(calls) == 1 && calls[0].await.replicas == 0 {
		_ = node.Process(ctx, calls[0].cmd) // the command has the error
		return
	}
	pipe := node.Pipeline()
	var last quorum
	for _, c := range calls {
		_ = pipe.Process(ctx, c.cmd)
		if c.await.replicas > 0 {
			last = c.await
		}
	}
	var reached *redis.IntCmd
	if last.replicas > 0 {
		// WAIT waits for all writes of this connection, including an earlier send of the same job.
		reached = redis.NewIntCmd(ctx, "wait", last.replicas, last.timeout.Milliseconds())
		_ = pipe.Process(ctx, reached)
	}
	_, _ = pipe.Exec(ctx) // each command has its own error
	for _, c := range calls {
		if c.await.replicas > 0 {
			c.lag = last.missed(reached)
		}
	}
}

// do sends one command about a key and reads its answer, if read is given.
func (b *Broker) do(ctx context.Context, command, key string, read func(*call) error, args ...any) error {
	c := &call{key: key, args: append([]any{command, key}, args...)}
	err := b.within(ctx, func(ctx context.Context) error {
		b.exec(ctx, []*call{c})
		return c.err
	})
	if err != nil || read == nil {
		return err
	}
	return read(c)
}

// within calls f within the time of a call, unless the broker is closed. It returns early if ctx ends.
func (b *Broker) within(ctx context.Context, f func(context.Context) error) error {
	if err := b.enter(ctx); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	return await(ctx, func() error {
		defer b.leave()
		return f(ctx)
	})
}

// await returns the error of f, or the error of ctx if ctx ends first. It is needed because the client
// library holds a connection until its own timeout.
func await(ctx context.Context, f func() error) error {
	done := make(chan error, 1)
	go func() { done <- f() }()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// loadScripts loads the scripts that a node does not have.
func loadScripts(ctx context.Context, node *redis.Client) error {
	shas := make([]string, len(scripts))
	for i, s := range scripts {
		shas[i] = s.sha
	}
	there, _ := node.ScriptExists(ctx, shas...).Result() // after an error, or if the user may not ask: none
	pipe := node.Pipeline()
	for i, s := range scripts {
		if i >= len(there) || !there[i] {
			pipe.ScriptLoad(ctx, s.source)
		}
	}
	_, err := pipe.Exec(ctx)
	return err
}
