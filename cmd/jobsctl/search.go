package main

import (
	"fmt"

	"github.com/schollz/progressbar/v3"

	"github.com/seed81422ce9/jobs/broker"
)

// largeSearch is the number of jobs from which a search announces its size. Smaller searches end before
// the user wonders what happens.
const largeSearch = 10_000

// search shows the progress of a search through the jobs of a state.
type search struct {
	progress
	sizes, looked []int // of each queue; a size of 0 is unknown
}

// search begins a search for the jobs that f selects, and announces its size. what is
// the text of the progress bar.
func (a *app) search(what string, f *filter) *search {
	s := &search{sizes: make([]int, len(f.infos)), looked: make([]int, len(f.infos))}
	total := 0
	state, err := broker.ParseState(f.state)
	if err == nil && !f.byStateAlone() && f.worker+f.key == "" {
		for n, info := range f.infos {
			s.sizes[n] = int(info.Counts[state])
			total += s.sizes[n]
		}
	}
	if total >= largeSearch && !a.saidSearch {
		a.saidSearch = true
		upTo, order := "", ""
		if f.olderThan+f.newerThan > 0 || f.typ+f.reason != "" { // the store may have an index
			upTo = "up to "
		}
		if state.Final() {
			order = ", the newest first"
		}
		fmt.Fprintf(a.err, "Looking through %s%s %s jobs%s.\n", upTo, number(total), state, order)
	}
	if total == 0 { // the size is unknown
		s.progress = progress{ProgressBar: progressbar.DefaultSilent(1)} // one of unknown length would turn a spinner, which races
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
