package main

import (
	"testing"
	"time"

	"github.com/seed81422ce9/jobs/broker"
	"github.com/seed81422ce9/jobs/inspect"
)

func TestTop_RatesOfCompletedJobsDoNotGoByTheirRecords(t *testing.T) {
	t.Parallel()
	r := rates{}
	for n, completed := range []int64{100, 180, 260} { // records come and go meanwhile
		q := topQueue("mail", 10, 0)
		q.AsOf = topNow.Add(time.Duration(n) * 2 * time.Second)
		q.Counts[broker.StateCompleted] = 1000 - 400*int64(n)
		q.Totals = broker.Totals{Completed: completed, Failed: completed / 4, Runs: completed, RanMicros: completed * 2000}
		r.add([]inspect.QueueInfo{q})
	}
	w := r.work("mail")
	if got := perSecond(w, w.Completed).text; got != "40" {
		t.Errorf("completed per second: %q, want 40", got)
	}
	if rate, run := failureRate(w).text, mean(w.MeanRun(), w.Runs).text; rate != "20%" || run != "2.0ms" {
		t.Errorf("failure rate %q, mean run %q; want 20%% and 2.0ms", rate, run)
	}
	if got := perSecond(r.work("unknown"), 1).text; got != "" {
		t.Errorf("the rate of a queue that was not seen: %q, want none", got)
	}
}

func TestHistory_PeriodsAddUpToTheWhole(t *testing.T) {
	t.Parallel()
	var points []inspect.Point
	for n := range 61 { // a minute apart; in the second half nothing happens but at the end
		p := inspect.Point{At: topNow.Add(time.Duration(n) * time.Minute), Totals: broker.Totals{Completed: int64(10 * min(n, 30))}}
		if n == 60 {
			p.Totals.Completed = 307
		}
		points = append(points, p)
	}
	all := periods(points, time.Hour, 6)
	sum := int64(0)
	for n, p := range all {
		sum += p[1].Totals.Since(p[0].Totals).Completed
		if n > 0 && p[0].At.Before(all[n-1][1].At) || !p[1].At.After(p[0].At) {
			t.Errorf("period %d is from %v to %v, which overlaps or is empty", n, p[0].At, p[1].At)
		}
	}
	if len(all) < 4 || len(all) > 6 || sum != 307 {
		t.Errorf("%d periods with %d jobs, want 4 to 6 with all 307", len(all), sum)
	}
	if got := periods(points[:1], time.Hour, 6); len(got) != 0 {
		t.Errorf("of one point: %v, want no period", got)
	}
}
