package main

import (
	"testing"
	"time"

	"github.com/seed81422ce9/jobs/broker"
	"github.com/seed81422ce9/jobs/inspect"
	"github.com/seed81422ce9/jobs/internal/figures"
)

func TestTop_RatesOfCompletedJobsDoNotGoByTheirRecords(t *testing.T) {
	t.Parallel()
	r := figures.Rates{}
	for n, completed := range []int64{100, 180, 260} { // records are added and removed meanwhile
		q := topQueue("mail", 10, 0)
		q.AsOf = topNow.Add(time.Duration(n) * 2 * time.Second)
		q.Counts[broker.StateCompleted] = 1000 - 400*int64(n)
		q.Totals = broker.Totals{Completed: completed, Failed: completed / 4, Runs: completed, RanMicros: completed * 2000}
		r.Add([]inspect.QueueInfo{q})
	}
	w := r.Work("mail")
	if got := perSecond(w, w.Completed).text; got != "40" {
		t.Errorf("completed per second: %q, want 40", got)
	}
	if rate, run := failureRate(w).text, took(w.MeanRun(), w.Runs).text; rate != "20%" || run != "2.0ms" {
		t.Errorf("failure rate %q, mean run %q; want 20%% and 2.0ms", rate, run)
	}
	if got := perSecond(r.Work("unknown"), 1).text; got != "" {
		t.Errorf("the rate of a queue that was not seen: %q, want none", got)
	}
}
