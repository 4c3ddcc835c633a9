package engine

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/seed81422ce9/jobs/broker"
)

func TestServer_NothingIsPrefetchedFromAQueueWithALimit(t *testing.T) {
	t.Parallel()
	s, _ := still(t, newStore(), Options{Concurrency: 10, QueueConcurrency: map[string]int{testQueue: 50}})
	s.fetcher.measure(800 * time.Microsecond)
	call, ok := s.planClaimLocked(time.Now())
	if !ok || call.req.Max <= 10 || len(call.req.Queues) != 1 || call.req.Queues[0].Max != 10 {
		t.Errorf("with 10 free slots and quick handlers a claim of %d asks %+v, want 10 of the queue that has a limit", call.req.Max,
			call.req.Queues)
	}
}

// answering is a broker whose claims are answered in one way.
type answering struct {
	broker.Broker
	reply broker.Claimed
}

func (b answering) Claim(context.Context, broker.ClaimRequest) (broker.Claimed, error) {
	return b.reply, nil
}

func TestServer_ClaimsAgainAtOnceWhereThereIsMore(t *testing.T) {
	t.Parallel()
	for _, more := range []bool{true, false} {
		s, w := still(t, answering{newStore(), broker.Claimed{More: more}}, Options{})
		s.claim(t.Context(), &claimCall{worker: w, req: broker.ClaimRequest{Worker: w.id, Max: 2}})
		if again := !s.fetcher.exhausted; again != more {
			t.Errorf("after an answer without jobs, more %t, it claims again at once is %t", more, again)
		}
	}
}

func TestServer_AClaimThatFailedInPartIsASignOfLife(t *testing.T) {
	t.Parallel()
	now := time.Now()
	for _, gave := range []bool{true, false} {
		s, w := still(t, newStore(), Options{})
		s.claimFailedLocked(w, errCut, 5, gave, now)
		if f := &s.fetcher; f.succeeded.Equal(now) != gave || f.notBefore.After(now) == gave {
			t.Errorf("a claim that failed and gave jobs (%t): success noted at %v, the next one not before %v; want a pause only after nothing",
				gave, f.succeeded, f.notBefore)
		}
	}
}

func TestDescribe_SaysHowManyItDoesNotName(t *testing.T) {
	t.Parallel()
	refs := slices.Repeat([]broker.Ref{{Queue: "q", ID: "a"}}, maxLogged+7)
	if text := describe(refs, nil); len(text) != maxLogged+1 || text[0] != "q/a" || text[maxLogged] != "and 7 more" {
		t.Errorf("%d jobs are described by %d texts, the last is %q; want %d and %q", len(refs), len(text), text[len(text)-1], maxLogged+1,
			"and 7 more")
	}
}
