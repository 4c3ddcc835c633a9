package engine

import (
	"testing"
	"time"

	"github.com/seed81422ce9/jobs/broker"
)

func TestServer_WhileACarefulJobWaitsForItsTurnNoOtherBegins(t *testing.T) {
	t.Parallel()
	s, w := still(t, newStore(), Options{Concurrency: 9})
	p := &s.slots
	other, suspect := runFor(s, w, testQueue, "other", 0), runFor(s, w, testQueue, "suspect", 2)
	p.ready.push(other)
	p.active = 1
	if s.slots.startable() != &p.ready {
		t.Fatal("a job does not begin beside another one")
	}
	p.guarded.push(suspect)
	if q := s.slots.startable(); q != nil {
		t.Error("a job begins while a suspect waits to be alone")
	}
	p.active = 0
	if s.slots.startable() != &p.guarded {
		t.Error("the suspect does not begin although it would be alone")
	}
	p.guarded.pop()
	p.running, p.active, p.guardedActive = []*Run{suspect}, 1, 1
	if q := s.slots.startable(); q != nil {
		t.Error("a job begins beside a suspect")
	}
}

func TestServer_ACarefulJobRunsBesideTheSquareRootOfTheSlots(t *testing.T) {
	t.Parallel()
	for slots, want := range map[int]int{1: 1, 2: 2, 4: 2, 9: 3, 10: 4, 100: 10} {
		s, w := still(t, newStore(), Options{Concurrency: slots})
		careful := runFor(s, w, testQueue, "careful", 1)
		if got := s.slots.company(careful.Job); got != want {
			t.Errorf("of %d slots a careful job shares %d, want %d", slots, got, want)
		}
		// Neither it nor one that has not crashed begins as one too many.
		p := &s.slots
		p.ready.push(runFor(s, w, testQueue, "other", 0))
		p.running, p.guardedActive = []*Run{careful}, 1
		if p.active = want; s.slots.startable() != nil {
			t.Errorf("of %d slots, a job begins beside %d with a careful one among them", slots, want)
		}
		if p.active = want - 1; p.active > 0 && s.slots.startable() == nil {
			t.Errorf("of %d slots, no job begins beside %d with a careful one among them", slots, want-1)
		}
	}
}

func TestServer_ATurnThatIsGivenBackLetsOthersBegin(t *testing.T) {
	t.Parallel()
	s, w := still(t, newStore(), Options{Concurrency: 2})
	p, now := &s.slots, time.Now()
	late, early := runFor(s, w, testQueue, "late", 1), runFor(s, w, testQueue, "early", 1)
	late.patient, early.patient = now.Add(-time.Second), now.Add(time.Hour)
	for _, r := range []*Run{late, early} {
		s.leaseLocked(w, r.Job)
		p.guarded.push(r)
		p.holding++
		p.held[0]++
	}
	p.active = 2 // nobody's turn comes
	s.fetcher.excluded[0], s.fetcher.state, s.fetcher.exhausted = true, fetchFull, true
	s.snoozeExpired()
	if p.guarded.len() != 1 || p.guarded.peek() != early || p.holding != 1 || p.held[0] != 1 {
		t.Errorf("%d wait for their turn, %d are held, %d of the queue; want the one whose time is not up", p.guarded.len(), p.holding, p.held[0])
	}
	if len(w.done) != 1 || w.done[0].Job != late.Job || w.done[0].Outcome.Kind() != broker.OutcomeSnooze {
		t.Errorf("settled is %+v, want that the other is put off", w.done)
	}
	if s.fetcher.exhausted || len(s.fetcher.poke) != 1 {
		t.Error("the room that it made is not claimed for")
	}
	// What waits behind it begins as soon as the last one is put off.
	early.patient, p.active, p.idle = now.Add(-time.Second), 0, 1
	p.ready.push(runFor(s, w, testQueue, "other", 0))
	s.snoozeExpired()
	if !p.waking {
		t.Error("no slot is woken for the job that waited behind")
	}
}

func TestServer_TheMarkOfARunIsReadOnce(t *testing.T) {
	t.Parallel()
	s, w := still(t, newStore(), Options{})
	r := runFor(s, w, testQueue, "a", 1)
	if _, ok := s.marks.begin(r); !ok {
		t.Fatal("the mark could not be stored")
	}
	jobs := []broker.Job{*r.Job}
	if s.marks.innocent(jobs, s.slots.isGuarded)[&jobs[0]] {
		t.Error("a job that had begun is taken for innocent")
	}
	if !s.marks.innocent(jobs, s.slots.isGuarded)[&jobs[0]] {
		t.Error("the mark of a run that was charged is still there")
	}
}

func TestServer_NoMoreIsHeldThanSlotsAndPrefetch(t *testing.T) {
	t.Parallel()
	s, _ := still(t, newStore(), Options{Concurrency: 2, Prefetch: 3})
	for held, crowded := range map[int]bool{4: false, 5: true, 6: true} {
		if s.slots.holding = held; s.crowdedLocked(0, nil) != crowded {
			t.Errorf("with %d jobs held of at most 5, the next is one too many is %v", held, s.crowdedLocked(0, nil))
		}
	}
}

// While a careful job waits for its turn nothing is claimed. When it begins, the loop that claims
// must learn that: it may sleep.
func TestServer_ACarefulJobThatBeginsLetsOthersBeClaimed(t *testing.T) {
	t.Parallel()
	s, w := still(t, newStore(), Options{Concurrency: 9})
	p := &s.slots
	p.guarded.push(runFor(s, w, testQueue, "suspect", 1))
	p.running = []*Run{nil}
	if want, _ := s.wantLocked(); want != 0 || len(s.fetcher.poke) > 0 {
		t.Fatalf("%d jobs are wanted while a careful job waits for its turn", want)
	}
	s.mu.Lock()
	p.next(0)
	want, _ := s.wantLocked()
	s.mu.Unlock()
	if want == 0 || len(s.fetcher.poke) == 0 {
		t.Errorf("%d jobs are wanted once it has begun, and the claims were woken %d times", want, len(s.fetcher.poke))
	}
}
