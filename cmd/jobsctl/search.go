package main

import (
	"fmt"

	"github.com/schollz/progressbar/v3"

	"github.com/seed81422ce9/jobs/broker"
)

// largeSearch is the number of jobs from which on a search announces its size: a
// smaller one takes too little time to be noticed.
const largeSearch = 10_000

// search shows how far a search among the jobs of a state is.
type search struct {
	progress
	sizes, looked []int // of each queue; sizes are zero where they are not known
}

// search begins a search for what f selects beside the state, and announces its size.
func (a *app) search(what string, f *filter) *search {
	s := &search{sizes: make([]int, len(f.infos)), looked: make([]int, len(f.infos))}
	total := 0
	var state broker.State
	if err := state.UnmarshalText([]byte(f.state)); err == nil && !f.byStateAlone() && f.worker+f.key == "" {
		for n, info := range f.infos {
			s.sizes[n] = int(info.Counts[state])
			total += s.sizes[n]
		}
	}
	if total >= largeSearch && !a.saidSearch {
		a.saidSearch = true
		upTo, order := "", ""
		if f.olderThan+f.newerThan > 0 {
			upTo = "up to "
		}
		if state.Final() {
			order = ", the newest first"
		}
		fmt.Fprintf(a.err, "Looking through %s%s %s jobs%s.\n", upTo, number(total), state, order)
	}
	if total == 0 { // progress is not known
		s.progress = progress{ProgressBar: progressbar.DefaultSilent(-1)}
		return s
	}
	s.progress = a.progress(what, total)
	return s
}

// of returns a function that records how many jobs of a queue were examined.
func (s *search) of(queue int) func(int) {
	return func(looked int) {
		s.looked[queue] = min(looked, s.sizes[queue])
		all := 0
		for _, n := range s.looked {
			all += n
		}
		s.at(all)
	}
}
