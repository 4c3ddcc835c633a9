package membroker

import (
	"math/rand/v2"
	"testing"
	"time"
)

// Whatever comes and goes, also where positions begin anew, a bag holds what is
// in it, and a listing misses no job that stays.
func TestABagHoldsWhatIsInIt(t *testing.T) {
	t.Parallel()
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	b := bag{kind: byKey}
	b.first -= 10_000
	b.end = b.first
	in := make(map[*job]bool)
	var inTurn, stay []*job
	seen, cursor := make(map[*job]bool), ""
	for phase := range 40 {
		adding := 3 + 4*(1-phase%2) // of ten: grows, then shrinks
		for range 2000 {
			switch n := len(inTurn); {
			case random.IntN(10) < adding:
				j := &job{}
				b.add(j)
				in[j], inTurn = true, append(inTurn, j)
			case n > 0:
				i := min(random.IntN(n), random.IntN(n), random.IntN(n)) // early ones rather than late ones
				b.remove(inTurn[i])
				delete(in, inTurn[i])
				inTurn = append(inTurn[:i], inTurn[i+1:]...)
			}
		}
		if b.len() != len(in) || len(b.all()) != len(in) {
			t.Fatalf("%d jobs are in it, it counts %d and lists %d", len(in), b.len(), len(b.all()))
		}
		for j := range in {
			if !b.has(j) {
				t.Fatal("a job is not where it says")
			}
		}
		if cursor == "" {
			for _, j := range stay {
				if in[j] && !seen[j] {
					t.Fatal("a listing missed a job that stayed")
				}
			}
			stay = append(stay[:0], inTurn...)
			clear(seen)
		}
		var err error
		if cursor, err = b.page(cursor, 1+len(in)/3, func(j *job) { seen[j] = true }); err != nil {
			t.Fatal(err)
		}
	}
	for len(inTurn) > 0 {
		b.remove(inTurn[0])
		inTurn = inTurn[1:]
	}
	if b.len() != 0 || len(b.all()) != 0 || len(b.ring) > smallRing {
		t.Errorf("after all have left, it counts %d, lists %d and has %d places", b.len(), len(b.all()), len(b.ring))
	}
}

func TestABagIsListedAcrossTheHighestPosition(t *testing.T) {
	t.Parallel()
	b := bag{kind: byKey}
	b.first -= 5
	b.end = b.first
	jobs := make([]job, 10)
	for i := range jobs {
		b.add(&jobs[i])
	}
	seen, cursor := 0, ""
	for pages := 1; ; pages++ {
		var err error
		if cursor, err = b.page(cursor, 2, func(*job) { seen++ }); err != nil || pages > 5 {
			t.Fatalf("page %d ends at %q, %v", pages, cursor, err)
		}
		if cursor == "" {
			break
		}
	}
	if seen != len(jobs) {
		t.Errorf("of %d jobs %d were listed", len(jobs), seen)
	}
}

// A job that leaves is no reason to touch another while few are missing, and
// what is missing does not add up.
func TestABagHasFewGaps(t *testing.T) {
	t.Parallel()
	const size = 10 * mostGaps
	b := bag{kind: byKey}
	jobs := make([]job, size)
	for i := range jobs {
		b.add(&jobs[i])
	}
	last := &jobs[size-1]
	was := last.slots[byKey]
	for i := 1; i <= mostGaps; i++ {
		b.remove(&jobs[i])
	}
	if last.slots[byKey] != was {
		t.Errorf("the last job moved when the first %d left", mostGaps)
	}
	for i := mostGaps + 1; i < size-1; i++ {
		b.remove(&jobs[i])
	}
	if b.len() != 2 || b.span() > mostGaps+2 {
		t.Errorf("%d jobs take %d positions", b.len(), b.span())
	}
}
