package inspect_test

import (
	"testing"
	"time"

	"github.com/seed81422ce9/jobs/broker"
	"github.com/seed81422ce9/jobs/inspect"
)

func TestHistory_PeriodsAddUpToTheWhole(t *testing.T) {
	t.Parallel()
	start := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	var points []inspect.Point
	for n := range 61 { // a minute apart; nothing happens in the second half, except at the end
		p := inspect.Point{At: start.Add(time.Duration(n) * time.Minute), Totals: broker.Totals{Completed: int64(10 * min(n, 30))}}
		if n == 60 {
			p.Totals.Completed = 307
		}
		points = append(points, p)
	}
	all := inspect.Periods(points, time.Hour, 6)
	sum := int64(0)
	for n, p := range all {
		sum += p.Completed
		if p.Span <= 0 || n > 0 && p.Until.At.Add(-p.Span).Before(all[n-1].Until.At) {
			t.Errorf("period %d ends at %v and lasts %v, which overlaps or is empty", n, p.Until.At, p.Span)
		}
	}
	if len(all) < 4 || len(all) > 6 || sum != 307 {
		t.Errorf("%d periods with %d jobs, want 4 to 6 with all 307", len(all), sum)
	}
	if got := inspect.Periods(points[:1], time.Hour, 6); len(got) != 0 {
		t.Errorf("of one point: %v, want no period", got)
	}
}
