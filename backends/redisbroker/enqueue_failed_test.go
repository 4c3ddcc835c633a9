package redisbroker

import (
	"context"
	"errors"
	"fmt"
	"io"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/seed81422ce9/jobs/broker"
)

// parted loses the answer to the first call of a pipeline, and answers the others with
// the refusal of a full server.
type parted struct {
	redis.Hook
	armed bool
}

// full is the refusal of a server without free memory.
type full struct{}

func (full) Error() string { return "OOM command not allowed when used memory > 'maxmemory'" }
func (full) RedisError()   {}

func (*parted) DialHook(next redis.DialHook) redis.DialHook          { return next }
func (*parted) ProcessHook(next redis.ProcessHook) redis.ProcessHook { return next }

func (p *parted) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		if !p.armed || len(cmds) < 2 {
			return next(ctx, cmds)
		}
		_ = next(ctx, cmds[:1])
		cmds[0].SetErr(io.EOF)
		for _, c := range cmds[1:] {
			c.SetErr(full{})
		}
		return io.EOF
	}
}

// The calls of one request fail differently. Each job must have the error of its own call,
// since a caller that learns that a job was not stored may enqueue it under another ID.
func TestEnqueueFailed_EachJobHasTheErrorOfItsOwnCall(t *testing.T) {
	t.Parallel()
	b := open(t, client(t))
	enqueue(t, b, job("a", "first"), job("b", "first"))
	faults := &parted{armed: true}
	b.store.single.AddHook(faults)
	receipts, err := b.Enqueue(t.Context(), broker.EnqueueRequest{Jobs: []broker.NewJob{job("a", "lost"), job("b", "refused")}})
	if err != nil || len(receipts) != 2 {
		t.Fatalf("answered %d receipts and %v, want a receipt for each job", len(receipts), err)
	}
	if lost := receipts[0].Err; !broker.MayHaveApplied(lost) {
		t.Errorf("the job whose answer was lost: %v, want an error that leaves open whether it was stored", lost)
	}
	if refused := receipts[1].Err; !errors.Is(refused, broker.ErrUnavailable) || broker.MayHaveApplied(refused) {
		t.Errorf("the job that was refused: %v, want ErrUnavailable", refused)
	}
	faults.armed = false
	again, err := b.Enqueue(t.Context(), broker.EnqueueRequest{Jobs: []broker.NewJob{job("a", "lost"), job("b", "refused")}})
	if err != nil || !errors.Is(again[0].Err, broker.ErrDuplicate) || again[1].Err != nil {
		t.Errorf("sent again: %+v and %v, want a duplicate and an accepted job", again, err)
	}

	register(t, b, "w", "a")
	register(t, b, "w", "b")
	got, err := b.Claim(t.Context(), broker.ClaimRequest{Worker: "w", Max: 10,
		Queues: []broker.Share{{Queue: "a", Max: 5}, {Queue: "b", Max: 5}}})
	if err != nil || len(got.Jobs) != 4 {
		t.Fatalf("claimed %d jobs, %v; want 4", len(got.Jobs), err)
	}
	req := broker.SettleRequest{Worker: "w", Number: 1}
	for i := range got.Jobs {
		req.Items = append(req.Items, broker.Settlement{Job: &got.Jobs[i], Outcome: broker.Complete(nil)})
	}
	faults.armed = true
	verdicts, err := b.Settle(t.Context(), req)
	if err != nil || len(verdicts) != 4 {
		t.Fatalf("settled with %d verdicts and %v, want a verdict for each job", len(verdicts), err)
	}
	said := make(map[string]bool)
	for _, v := range verdicts {
		if !broker.StoreFailed(v.Err) {
			t.Errorf("the verdict on %s/%s is %v, want an error of the store", v.Queue, v.ID, v.Err)
		}
		said[fmt.Sprint(v.Queue, broker.MayHaveApplied(v.Err))] = true
	}
	if len(said) != 2 || !(said["atrue"] && said["bfalse"] || said["btrue"] && said["afalse"]) {
		t.Errorf("the verdicts say %v, want one queue open and the other not applied", said)
	}
}
