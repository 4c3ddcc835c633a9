package broker_test

import (
	"slices"
	"testing"

	"github.com/seed81422ce9/jobs/broker"
)

func TestPolicy_TurnsOfARound(t *testing.T) {
	t.Parallel()
	for round, want := range map[int64][]broker.Priority{
		0: {0, 0, 0, 0, 0, 0, 0, 0},
		4: {0, 2, 3, 4, 0, 2, 3, 4},
		5: {0, 0, 2, 3, 4, 0, 0, 2},
		7: {0, 0, 0, 0, 2, 3, 4, 0},
	} {
		p := broker.Policy{PriorityRound: round}
		var got []broker.Priority
		for n := range int64(8) {
			got = append(got, p.Turn(n))
		}
		if !slices.Equal(got, want) {
			t.Errorf("in rounds of %d the turns are of the priorities %v, want %v (0: the most urgent)", round, got, want)
		}
	}
}
