package engine

import (
	"testing"
	"time"
)

// A process that stood still, as containers do that used up their share of the
// processor, does not take its handlers for slow.
func TestServer_KeepsPrefetchedJobsWhenItStoodStill(t *testing.T) {
	t.Parallel()
	s := &Server{}
	s.slots.ready.push(&Run{})
	start := time.Now()
	s.slots.looked = start
	s.releaseStaleLocked(start.Add(time.Minute))
	for i := range 3 {
		s.releaseStaleLocked(start.Add(time.Minute + time.Duration(i+1)*prefetchLook))
	}
	if s.slots.ready.len() != 1 {
		t.Error("a prefetched job was given back after four looks, want five")
	}
}

func TestServer_PaceOfClaims(t *testing.T) {
	t.Parallel()
	replied := time.Now()
	for name, test := range map[string]struct {
		change func(*fetcher)
		want   time.Duration // after the last answer; zero means at once
	}{
		"a stream slower than its handlers": {func(*fetcher) {}, time.Millisecond},
		"a slow store":                      {func(f *fetcher) { f.trip = time.Second; f.took = time.Millisecond }, maxPause},
		"a quick store":                     {func(f *fetcher) { f.trip = shortTrip }, minPause},
		"a very quick store":                {func(f *fetcher) { f.trip = shortTrip - 1 }, 0},
		"few jobs":                          {func(f *fetcher) { f.got = fewest - 1 }, 0},
		"many jobs":                         {func(f *fetcher) { f.got = 300 }, 0},
		"more jobs to come":                 {func(f *fetcher) { f.exhausted = false }, 0},
		"slow handlers":                     {func(f *fetcher) { f.took = time.Second }, 0},
	} {
		s := &Server{opts: Options{Concurrency: 100, Prefetch: 1000}}
		s.fetcher = fetcher{trip: time.Millisecond, exhausted: true, got: fewest, measured: true, took: time.Microsecond, replied: replied}
		test.change(&s.fetcher)
		got := time.Duration(0)
		if at := s.paceLocked(); !at.IsZero() {
			got = at.Sub(replied)
		}
		if got != test.want {
			t.Errorf("%s: the next claim is held up for %v after the last answer, want %v", name, got, test.want)
		}
	}
}
