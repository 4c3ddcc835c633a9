package pgbroker

import "testing"

// Times on shared machines say little, allocations say much. These are the allocations of the
// hot paths, with those of the driver and of the test's own jobs. The race detector adds a
// few. It runs beside no other test, because all allocations of the process count.
func TestAllocs_HotPathsAllocateLittle(t *testing.T) {
	const size = 500
	s := newBench(t)
	ceiling := func(what string, most, got float64) {
		t.Helper()
		if t.Logf("%s: %.1f allocations", what, got); got > most {
			t.Errorf("%s makes %.1f allocations, want at most %.0f", what, got, most)
		}
	}
	s.enqueue(1) // so that plans are made and the queue is known
	ceiling("an enqueue of one job", 90, testing.AllocsPerRun(20, func() { s.enqueue(1) }))
	ceiling("a job of a batch", 4, testing.AllocsPerRun(10, func() { s.enqueue(size) })/size)
	s.turn(size)
	ceiling("a job of a turn", 5, testing.AllocsPerRun(8, func() {
		if n := s.turn(size); n != size {
			t.Fatalf("a turn took %d jobs, want %d", n, size)
		}
	})/size)
	for s.stored > 0 {
		s.turn(size)
	}
	ceiling("a claim in vain", 135, testing.AllocsPerRun(20, func() { s.turn(1) }))
}
