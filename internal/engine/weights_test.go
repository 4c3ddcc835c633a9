package engine

import (
	"fmt"
	"math"
	"slices"
	"testing"
)

// takeFrom claims by a plan from queues that hold so many jobs each.
func takeFrom(m *mix, left []int, want int, room []int) []int {
	shares, first := m.plan(nil, want, room)
	got := make([]int, len(left))
	total := 0
	for _, s := range shares {
		i := slices.Index(m.names, s.Queue)
		n := min(s.Max, left[i], want-total)
		got[i] += n
		left[i] -= n
		total += n
	}
	m.served(shares, first, got, total == want)
	return got
}

func unbounded(n int) []int {
	room := make([]int, n)
	for i := range room {
		room[i] = math.MaxInt32
	}
	return room
}

func TestWeights_DivideSlotsHoweverFewAreFree(t *testing.T) {
	t.Parallel()
	weights := map[string]int{"critical": 6, "default": 3, "low": 1}
	names := []string{"critical", "default", "low"}
	for _, want := range []int{1, 2, 3, 10, 97} {
		t.Run(fmt.Sprint(want), func(t *testing.T) {
			t.Parallel()
			m := newMix(names, weights, false)
			left, sum := []int{1e6, 1e6, 1e6}, []int{0, 0, 0}
			for range 1000 {
				for i, n := range takeFrom(m, left, want, unbounded(3)) {
					sum[i] += n
				}
			}
			for i, name := range names {
				share, ideal := float64(sum[i])/float64(1000*want), float64(weights[name])/10
				if math.Abs(share-ideal) > 0.01 {
					t.Errorf("%s got %.3f of the slots, want %.1f", name, share, ideal)
				}
			}
		})
	}
}

func TestWeights_AnEmptyQueuesShareGoesToTheOthersByTheirWeights(t *testing.T) {
	t.Parallel()
	for _, want := range []int{1, 10} {
		m := newMix([]string{"a", "b", "c"}, map[string]int{"a": 6, "b": 3, "c": 1}, false)
		left, sum := []int{0, 1e6, 1e6}, []int{0, 0, 0}
		for range 1000 {
			for i, n := range takeFrom(m, left, want, unbounded(3)) {
				sum[i] += n
			}
		}
		if share := float64(sum[1]) / float64(1000*want); sum[1]+sum[2] != 1000*want || math.Abs(share-0.75) > 0.01 {
			t.Errorf("%d slots: b and c got %v, want all of them, 3 to 1", want, sum[1:])
		}
	}
}

func TestWeights_AQueueThatWasEmptyCannotSaveUpTurns(t *testing.T) {
	t.Parallel()
	m := newMix([]string{"a", "b"}, map[string]int{"a": 1, "b": 1}, false)
	left := []int{0, 1e6}
	for range 1000 {
		takeFrom(m, left, 1, unbounded(2))
	}
	left[0] = 1e6
	sum := 0
	for range 10 {
		sum += takeFrom(m, left, 1, unbounded(2))[0]
	}
	if sum < 4 || sum > 6 {
		t.Errorf("of the first ten slots after its return it got %d, want five", sum)
	}
}

func TestWeights_AQueueWithoutRoomIsNotAsked(t *testing.T) {
	t.Parallel()
	m := newMix([]string{"a", "b"}, map[string]int{"a": 6, "b": 1}, false)
	shares, _ := m.plan(nil, 10, []int{2, 10})
	asked := map[string]int{}
	for _, s := range shares {
		asked[s.Queue] += s.Max
	}
	if asked["a"] != 2 || asked["b"] != 10 {
		t.Errorf("asked %v; want 2 of a, and b for all", asked)
	}
	if shares, _ := m.plan(nil, 10, []int{0, 0}); len(shares) != 0 {
		t.Errorf("without any room it plans %v", shares)
	}
}
