package redisbroker

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/seed81422ce9/jobs/broker"
)

// restless changes the number of buckets in a queue's record before each script.
type restless struct {
	redis.Hook
	client *redis.Client
	record string
	sent   int
}

func (*restless) DialHook(next redis.DialHook) redis.DialHook { return next }

func (r *restless) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

func (r *restless) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if cmd.Name() == "evalsha" {
			r.sent++
			if err := r.client.HSet(ctx, r.record, "B", 2+r.sent%2).Err(); err != nil {
				return err
			}
		}
		return next(ctx, cmd)
	}
}

// A call that was refused each time returns an error that says that it did nothing.
func TestCall_AQueueThatChangesAllTheTimeIsUnavailable(t *testing.T) {
	t.Parallel()
	later := job("q", "later")
	later.Delay = time.Hour
	for name, call := range map[string]func(*testing.T, *Broker) error{
		"Enqueue": func(t *testing.T, b *Broker) error {
			receipts, err := b.Enqueue(t.Context(), broker.EnqueueRequest{Jobs: []broker.NewJob{later}})
			return outcomes([]broker.NewJob{later}, receipts, err)[0]
		},
		"Retire": func(t *testing.T, b *Broker) error {
			_, err := b.Retire(t.Context(), broker.RetireRequest{Worker: "w", Queues: []string{"q"}})
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := client(t)
			b := open(t, c)
			registerNow(t, b, "w", "q")
			enqueueNow(t, b, job("q", "first"))
			changes := &restless{client: c, record: baseOf(b.config.Prefix, "q") + "m"}
			b.store.single.AddHook(changes)
			err := call(t, b)
			if !errors.Is(err, broker.ErrUnavailable) || broker.MayHaveApplied(err) {
				t.Errorf("a call that the queue refused each time is answered %v, want ErrUnavailable, with nothing applied", err)
			}
			if changes.sent != maxRounds {
				t.Errorf("the call was made %d times, want %d", changes.sent, maxRounds)
			}
		})
	}
}
