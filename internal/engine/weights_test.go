package engine

import (
	"fmt"
	"math"
	"slices"
	"testing"
)

// takeFrom claims by a plan from queues that hold so many jobs each.
func takeFrom(m *mix, left []int, want int, room []int) []int {
	shares, _ := m.plan(nil, want, room, 1)
	got := make([]int, len(left))
	total := 0
	for _, s := range shares {
		i := m.index[s.Queue]
		n := min(s.Max, left[i], want-total)
		got[i] += n
		left[i] -= n
		total += n
	}
	m.served(shares, got, total == want)
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

func TestWeights_AQueueAmongManyCannotSaveUpTurnsWhileItIsEmpty(t *testing.T) {
	t.Parallel()
	const queues = 1000
	m, room := mixOf(queues)
	left := make([]int, queues)
	left[700] = 1e6
	for range 2000 {
		takeFrom(m, left, 10, room)
	}
	left[7] = 1e6 // of the same weight
	sum := 0
	for range 100 {
		sum += takeFrom(m, left, 10, room)[7]
	}
	if sum < 450 || sum > 550 {
		t.Errorf("of the first 1000 slots after its return it got %d, want half", sum)
	}
}

func TestWeights_AFullAnswerSaysNothingAboutQueuesBehindItsLastJob(t *testing.T) {
	t.Parallel()
	m := newMix([]string{"a", "b", "c", "d"}, map[string]int{"a": 1, "b": 1, "c": 1, "d": 1}, false)
	shares, _ := m.plan(nil, 4, unbounded(4), 1)
	for _, step := range []struct {
		got   []int
		full  bool
		empty []bool
	}{
		{[]int{0, 0, 0, 0}, true, []bool{false, false, false, false}}, // there is more, though it gave none
		{[]int{0, 1, 0, 3}, true, []bool{true, true, true, false}},    // the second share of d was the last
		{[]int{1, 1, 0, 0}, false, []bool{true, true, true, true}},
		{[]int{4, 0, 0, 0}, true, []bool{false, true, true, true}}, // a gave both shares, b to d lacked their first
	} {
		m.served(shares, step.got, step.full)
		if !slices.Equal(m.empty, step.empty) {
			t.Errorf("after an answer of %v (full %t) empty are %v, want %v", step.got, step.full, m.empty, step.empty)
		}
	}
}

func TestWeights_AQueueWithoutRoomIsNotAsked(t *testing.T) {
	t.Parallel()
	m := newMix([]string{"a", "b"}, map[string]int{"a": 6, "b": 1}, false)
	shares, _ := m.plan(nil, 10, []int{2, 10}, 1)
	asked := map[string]int{}
	for _, s := range shares {
		asked[s.Queue] += s.Max
	}
	if asked["a"] != 2 || asked["b"] != 10 {
		t.Errorf("asked %v; want 2 of a, and b for all", asked)
	}
	if shares, _ := m.plan(nil, 10, []int{0, 0}, 1); len(shares) != 0 {
		t.Errorf("without any room it plans %v", shares)
	}
}

func mixOf(n int) (m *mix, room []int) {
	names, weights := make([]string, n), map[string]int{}
	for i := range names {
		names[i] = fmt.Sprint("queue", i)
		weights[names[i]] = 1 + i%7
	}
	return newMix(names, weights, false), unbounded(n)
}

// takeFromMany has each queue give its first share.
func takeFromMany(m *mix, room []int, want int) {
	shares, first := m.plan(nil, want, room, 1)
	got := make([]int, len(m.names))
	for _, s := range shares[:first] {
		got[m.index[s.Queue]] = s.Max
	}
	m.served(shares, got, true)
}

func BenchmarkWeights(b *testing.B) {
	for _, n := range []int{10, 100, 1000, 10_000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			m, room := mixOf(n)
			for b.Loop() {
				takeFromMany(m, room, 10)
			}
		})
	}
}

func TestWeights_QueuesThatAreLevelAreTakenInTheirOrder(t *testing.T) {
	t.Parallel()
	names := []string{"a", "b", "c", "d", "e"}
	m := newMix(names, map[string]int{"a": 1, "b": 1, "c": 1, "d": 1, "e": 1}, false)
	shares, first := m.plan(nil, 3, unbounded(5), 1)
	for i, s := range shares[:first] {
		if s.Queue != names[i] || s.Max != 1 {
			t.Errorf("of five queues of one weight three slots go to %v, want one to each of a, b and c", shares[:first])
			break
		}
	}
}
