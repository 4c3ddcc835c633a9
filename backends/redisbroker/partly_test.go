package redisbroker

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/seed81422ce9/jobs/broker"
	"github.com/seed81422ce9/jobs/internal/testenv"
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

// A call that takes several round trips does not say that nothing was applied, once the first one was.
func TestPartly_AnErrorOfALaterRoundTripLeavesOpenWhatTookEffect(t *testing.T) {
	t.Parallel()
	calls := map[string]func(*testing.T, *Broker) error{
		"retire": func(t *testing.T, b *Broker) error {
			got, err := b.Retire(t.Context(), broker.RetireRequest{Now: at(1), Worker: "w", Queues: []string{"q1"}})
			if len(got.Released) == 0 {
				t.Error("the first round trip released nothing; the test shows nothing then")
			}
			return err
		},
		"renew": func(t *testing.T, b *Broker) error { // the worker has news
			_, err := b.Renew(t.Context(), broker.RenewRequest{Now: at(1), Worker: "w", Queues: []string{"q1"}, Lease: time.Hour})
			return err
		},
		"reclaim": func(t *testing.T, b *Broker) error {
			got, err := b.Reclaim(t.Context(), broker.ReclaimRequest{Now: at(61), Worker: "other", Queues: []string{"q1", "q2"}, Max: 1000})
			if len(got.Jobs) == 0 {
				t.Error("the first round trip reclaimed nothing; the test shows nothing then")
			}
			return err
		},
	}
	for name, call := range calls {
		for _, closes := range []bool{true, false} {
			if name == "reclaim" && !closes {
				continue // the error of the second queue says that nothing was applied there
			}
			t.Run(fmt.Sprint(name, closes), func(t *testing.T) {
				t.Parallel()
				b := open(t, client(t))
				register(t, b, "w", "q1")
				jobs := make([]broker.NewJob, 1100) // more than one round trip of a Retire looks at
				if name == "reclaim" {
					jobs = jobs[:2] // less than its Max, so that it asks the second queue
				}
				for i := range jobs {
					jobs[i] = job("q1", fmt.Sprint("job-", i))
				}
				for some := range slices.Chunk(jobs, 550) {
					enqueue(t, b, some...)
					claimAt(t, b, at(0), "w", len(some), "q1")
				}
				ask := broker.Operation{Now: at(0), Kind: broker.OpCancel, Refs: []broker.Ref{{Queue: "q1", ID: "job-1", Epoch: broker.AnyEpoch}}}
				if _, err := b.Operate(t.Context(), ask); err != nil {
					t.Fatal(err)
				}
				if _, err := b.Renew(t.Context(), broker.RenewRequest{Now: at(50), Worker: "other", Queues: []string{"q1", "q2"},
					Lease: time.Hour, Register: true}); err != nil {
					t.Fatal(err)
				}
				setClosed := func(closed bool) {
					b.mu.Lock()
					defer b.mu.Unlock()
					b.closed = closed
				}
				sent := 0
				b.store.single.AddHook(around{before: func(redis.Cmder) error {
					if sent++; closes {
						setClosed(true) // between this round trip and the next
					} else if sent > 1 {
						return full{}
					}
					return nil
				}})
				err := call(t, b)
				setClosed(false)
				if !broker.MayHaveApplied(err) || errors.Is(err, broker.ErrClosed) || errors.Is(err, broker.ErrUnavailable) {
					t.Errorf("answered %v, want an error that leaves open whether the call took effect", err)
				}
			})
		}
	}
}

// A script that calls a command which its user may not call has perhaps written something before. The server answers with
// another error then than for a command that the user sends.
func TestPartly_ACommandThatAScriptMayNotCallLeavesOpenWhatItDid(t *testing.T) {
	t.Parallel()
	admin := client(t)
	user := testenv.Name(t)
	if err := admin.Do(t.Context(), "ACL", "SETUSER", user, "on", ">secret", "allkeys", "+@all", "-rename").Err(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { admin.Do(context.Background(), "ACL", "DELUSER", user) })
	o := *admin.Options()
	o.Username, o.Password = user, "secret"
	c := redis.NewClient(&o)
	t.Cleanup(func() { _ = c.Close() })

	key := user + ":key"
	if err := classify(c.Rename(t.Context(), key, key).Err()); broker.MayHaveApplied(err) || !errors.Is(err, broker.ErrUnavailable) {
		t.Errorf("a command that is denied: %v, want ErrUnavailable", err)
	}
	err := classify(c.Eval(t.Context(), "redis.call('SET', KEYS[1], '1') redis.call('RENAME', KEYS[1], KEYS[1])", []string{key}).Err())
	if !broker.MayHaveApplied(err) || c.Get(t.Context(), key).Val() != "1" {
		t.Errorf("a script that is denied a command after it has written: %v, want an error that leaves open what it did", err)
	}
	if !strings.Contains(fmt.Sprint(err), "jobsctl doctor --fix") {
		t.Errorf("%v does not say what to do", err)
	}
	c.Del(t.Context(), key)
}
