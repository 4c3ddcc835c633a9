package redisbroker

import (
	"context"
	"errors"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/seed81422ce9/jobs/broker"
)

// around calls a function for each command before it is sent, which may refuse it.
type around struct {
	redis.Hook
	before func(redis.Cmder) error
}

func (around) DialHook(next redis.DialHook) redis.DialHook { return next }

func (a around) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if err := a.before(cmd); err != nil {
			cmd.SetErr(err)
			return err
		}
		return next(ctx, cmd)
	}
}

func (a around) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		for _, cmd := range cmds {
			if err := a.before(cmd); err != nil {
				for _, cmd := range cmds {
					cmd.SetErr(err)
				}
				return err
			}
		}
		return next(ctx, cmds)
	}
}

// In a Cluster the list of queues can be on a node that cannot be reached, when the queue is already removed.
func TestPartly_ARemovedQueueThatIsStillListedIsNotReportedAsUnchanged(t *testing.T) {
	t.Parallel()
	b := open(t, client(t))
	enqueue(t, b, job("q", "a"))
	operate := func(kind broker.OperationKind, ref broker.Ref) error {
		t.Helper()
		results, err := b.Operate(t.Context(), broker.Operation{Kind: kind, Refs: []broker.Ref{ref}})
		if err != nil {
			t.Fatal(err)
		}
		return results[0].Err
	}
	if err := operate(broker.OpDelete, broker.Ref{Queue: "q", ID: "a", Epoch: broker.AnyEpoch}); err != nil {
		t.Fatal(err)
	}
	b.store.single.AddHook(around{before: func(cmd redis.Cmder) error {
		if cmd.Name() == "srem" {
			return full{}
		}
		return nil
	}})
	for removed, queue := range map[bool]string{true: "q", false: "absent"} {
		err := operate(broker.OpRemoveQueue, broker.Ref{Queue: queue})
		if broker.MayHaveApplied(err) != removed || errors.Is(err, broker.ErrUnavailable) == removed {
			t.Errorf("the queue was removed: %t; its name could not be: %v", removed, err)
		}
	}
	if n := b.store.single.Exists(t.Context(), b.queue("q").key("m")).Val(); n != 0 {
		t.Error("the queue is still there; the test shows nothing then")
	}
}
