package pgbroker

import (
	"testing"

	"github.com/seed81422ce9/jobs/broker"
)

// A claim asks a queue again only if its first share was used up, and says that there is more only if its last one was: a
// server of many queues gives each two shares, and looks at all of them whenever there may be more.
func TestClaim_AQueueThatGaveLessThanItsShareIsNotAskedAgain(t *testing.T) {
	t.Parallel()
	b := open(t)
	b.worker("w")
	for _, test := range []struct {
		name       string
		jobs       []string
		last       int // share of the queue
		got, trips int
		more       bool
	}{
		{"none", nil, 9, 0, 1, false},
		{"as many as its first share", []string{"a"}, 9, 1, 2, false},
		{"some of its last share", []string{"b", "c"}, 9, 2, 2, false},
		{"all of its last share", []string{"d", "e"}, 1, 2, 2, true},
	} {
		for _, id := range test.jobs {
			b.accept(b, job(id))
		}
		ctx, trips := countTrips(t.Context())
		got, err := b.Claim(ctx, broker.ClaimRequest{Worker: "w", Max: 10,
			Queues: []broker.Share{{Queue: "q", Max: 1}, {Queue: "q", Max: test.last}}})
		b.check(err)
		if n := int(trips.Load()); len(got.Jobs) != test.got || got.More != test.more || n != test.trips {
			t.Errorf("%s: claimed %d jobs in %d trips, and there is more: %t; want %d in %d and %t", test.name, len(got.Jobs), n,
				got.More, test.got, test.trips, test.more)
		}
	}
}
