package jobs

import (
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed81422ce9/jobs/internal/sleep"

	"github.com/oklog/ulid/v2"
)

func TestID_IDsOfOneSourceAscend(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, last := newIDSource(), ""
		for i := range 10_000 {
			if i%1000 == 0 {
				_ = sleep.For(t.Context(), time.Millisecond)
			}
			id := s.next(time.Now())
			if id <= last {
				t.Fatalf("%s came after %s", id, last)
			}
			last = id
		}
		if made, err := ulid.ParseStrict(last); err != nil || made.Time() != ulid.Timestamp(time.Now()) {
			t.Errorf("%s says it was made at %d, it is %d (%v)", last, made.Time(), ulid.Timestamp(time.Now()), err)
		}
	})
}

func TestID_ClockSetBackDoesNotBreakTheOrderOfIDs(t *testing.T) {
	t.Parallel()
	s := newIDSource()
	_ = s.last.SetTime(ulid.Timestamp(time.Now().Add(time.Hour)))
	first := s.next(time.Now())
	var before ulid.ULID
	_ = before.SetTime(ulid.Timestamp(time.Now().Add(30 * time.Minute)))
	if second := s.next(time.Now()); second <= first || first <= before.String() {
		t.Errorf("%s and %s were made after an ID whose time is an hour ahead", first, second)
	}
}

func TestID_IDsOfConcurrentCallersDiffer(t *testing.T) {
	t.Parallel()
	const callers, each = 8, 1000
	var mu sync.Mutex
	var wg sync.WaitGroup
	seen := make(map[string]bool)
	s := newIDSource()
	for range callers {
		wg.Go(func() {
			for range each {
				id := s.next(time.Now())
				mu.Lock()
				seen[id] = true
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	if len(seen) != callers*each {
		t.Errorf("%d IDs were made, %d differ", callers*each, len(seen))
	}
}
