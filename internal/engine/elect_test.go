package engine

import (
	"context"
	"strings"
	"testing"

	"github.com/seed81422ce9/jobs/broker"
)

// markless is a store whose marks of elections are away, as those of a shard that is down.
type markless struct{ broker.Broker }

func (b markless) Mark(ctx context.Context, req broker.MarkRequest) (broker.Marked, error) {
	if strings.HasPrefix(req.Name, "begun:") {
		return b.Broker.Mark(ctx, req)
	}
	return broker.Marked{}, broker.ErrUnavailable
}

func TestServer_ReclaimsWhileMarksAreAway(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b := newStore()
		add(t, b, "a", 1)
		dead := broker.RenewRequest{Worker: "dead", Queues: []string{testQueue}, Lease: broker.DefaultLease, Register: true}
		if _, err := b.Renew(t.Context(), dead); err != nil {
			t.Fatal(err)
		}
		claim := broker.ClaimRequest{Worker: "dead", Queues: []broker.Share{{Queue: testQueue, Max: 1}}, Max: 1}
		if got, err := b.Claim(t.Context(), claim); err != nil || len(got.Jobs) != 1 {
			t.Fatal(len(got.Jobs), err)
		}
		serve(t, markless{b}, Options{}, func(context.Context, *broker.Job) error { return nil })
		pass(2 * broker.DefaultLease)
		if j := stored(t, b, "a-0"); j.State != broker.StateCompleted || j.Crashes != 1 {
			t.Errorf("the job of a dead worker is %v after two leases, with %d crashes; want completed and one", j.State, j.Crashes)
		}
	})
}

func TestServer_PrunesWhileMarksAreAway(t *testing.T) {
	t.Parallel()
	b := &pruning{Broker: newStore(), more: 1}
	s, _ := still(t, markless{b}, Options{})
	if s.pruner.turn(t.Context()); b.calls != 1 {
		t.Errorf("%d calls of Prune, want one", b.calls)
	}
}
