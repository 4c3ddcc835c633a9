package redisbroker

import (
	"context"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/seed81422ce9/jobs/broker"
)

// unlisting removes a queue's name from the list of queues right before the queue is created, as a client does that has just removed
// the queue.
type unlisting struct {
	c   *redis.Client
	key string
}

func (*unlisting) DialHook(next redis.DialHook) redis.DialHook { return next }

func (r *unlisting) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if args := cmd.Args(); len(args) > 1 && args[1] == createScript.sha {
			r.c.SRem(ctx, r.key, "q")
		}
		return next(ctx, cmd)
	}
}

func (*unlisting) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

// A queue that is created while another client removes it is in the list of queues.
func TestCreate_AQueueThatIsJustRemovedIsListed(t *testing.T) {
	t.Parallel()
	for name, use := range map[string]func(b *Broker) error{
		"enqueue": func(b *Broker) error {
			_, err := b.Enqueue(t.Context(), broker.EnqueueRequest{Now: at(0), Jobs: []broker.NewJob{job("q", "a")}})
			return err
		},
		"register": func(b *Broker) error {
			_, err := b.Renew(t.Context(), broker.RenewRequest{Now: at(0), Worker: "w", Queues: []string{"q"}, Lease: time.Minute, Register: true})
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := client(t)
			b := open(t, c)
			b.store.single.AddHook(&unlisting{c, b.listKey()})
			if err := use(b); err != nil {
				t.Fatal(err)
			}
			if is, err := c.SIsMember(t.Context(), b.listKey(), "q").Result(); !is || err != nil {
				t.Errorf("the queue exists, and is not listed: %v", err)
			}
		})
	}
}
