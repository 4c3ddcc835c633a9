package history

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/seed81422ce9/jobs/broker"
)

func TestTimes_QuantilesAreWithinTwelvePercent(t *testing.T) {
	t.Parallel()
	for _, count := range []int{1, 2, 19, 20, 100, 5000} {
		var all []time.Duration
		var a, b Times // of two servers
		for n := range count {
			d := time.Duration(math.Exp(rand.Float64()*20+10)) * time.Microsecond / 100 // 220 µs to 29 hours
			all = append(all, d)
			if n%3 == 0 {
				a.Add(d)
			} else {
				b.Add(d)
			}
		}
		slices.Sort(all)
		sum := a.Plus(b)
		for _, share := range []float64{0, 0.5, 0.95, 0.99, 1} {
			want := all[max(0, int(math.Ceil(share*float64(count)))-1)]
			if got := sum.Quantile(share); math.Abs(float64(got-want)) > 0.12*float64(want) {
				t.Errorf("%v of %d times is told as %v, want %v within 12 %%", share, count, got, want)
			}
		}
		if n := sum.Since(a).Count(); n != b.Count() || a.Count()+b.Count() != int64(count) {
			t.Errorf("%d and %d times are counted of %d, and without the former %d", a.Count(), b.Count(), count, n)
		}
	}
	var ends Times
	for _, d := range []time.Duration{-time.Second, 0, time.Microsecond, broker.MaxDelay} {
		ends.Add(d)
	}
	if low, high := ends.Quantile(0.5), ends.Quantile(1); low != 64*time.Microsecond || high < 85*24*time.Hour || high > 102*24*time.Hour {
		t.Errorf("the shortest are told as %v, and the longest as %v; want 64 µs and about 100 days", low, high)
	}
	if d := (Times)(nil).Quantile(0.5); d != 0 {
		t.Errorf("of no times the median is %v", d)
	}
	for i := range buckets {
		if got := bucketOf(time.Duration(math.Ceil(bound(i))) * time.Microsecond); i > 0 && got != i {
			t.Errorf("bucket %d begins at %v µs, which counts in bucket %d", i, bound(i), got)
		}
	}
}

// post posts n waits and runs of a length for a server.
func post(t *testing.T, m marker, id, queue string, n int, d time.Duration) {
	t.Helper()
	var l Latency
	for range n {
		l.WaitTimes.Add(d)
		l.RunTimes.Add(2 * d)
	}
	if again, err := Post(t.Context(), m, id, map[string]Latency{queue: l}); again || err != nil {
		t.Fatalf("posting: again %t, error %v", again, err)
	}
}

func TestKeeper_LatenciesOfAllServersAreInTheHistory(t *testing.T) {
	inStore(t, func(s *counted) {
		k := NewKeeper(s, "keeper-0")
		enqueue(t, s, 1)
		if _, err := s.Enqueue(t.Context(), broker.EnqueueRequest{Jobs: []broker.NewJob{
			{Queue: broker.ReservedPrefix + "x", ID: "x", Body: broker.Body{Type: "t", Priority: broker.PriorityNormal}}}}); err != nil {
			t.Fatal(err)
		}
		for minute := range 100 {
			for server := range 9 { // of which some share a box
				post(t, s, fmt.Sprint("server-", server), "q", 3, time.Second)
			}
			post(t, s, "server-3", broker.ReservedPrefix+"x", 1, time.Hour) // not of the applications
			if minute%40 == 39 {                                            // another server takes over
				post(t, s, "server-3", "gone", 1, time.Hour)
				k.Drop(t.Context())
				k = NewKeeper(s, fmt.Sprint("keeper-", minute))
				time.Sleep(5 * time.Minute)
			}
			turn(t, k)
		}
		const all = 100 * 9 * 3
		for span, want := range map[time.Duration]int64{time.Hour: 27 * 50, 5 * time.Hour: all - 27, 48 * time.Hour: all - 27*60} {
			points := read(t, s, span)
			l := points[len(points)-1].Latency.Since(points[0].Latency)
			if n := l.WaitTimes.Count(); n < want || n > all || n != l.RunTimes.Count() {
				t.Errorf("over %v there are %d waits and %d runs, want at least %d and at most %d", span, n, l.RunTimes.Count(), want, all)
			}
			if wait, run := l.WaitTimes.Quantile(0.5), l.RunTimes.Quantile(0.99); wait < 880*time.Millisecond || wait > 1120*time.Millisecond ||
				run < 1760*time.Millisecond || run > 2240*time.Millisecond {
				t.Errorf("over %v half waited for %v at most, and 99 %% ran for %v; want about 1 s and 2 s", span, wait, run)
			}
		}
		points, err := Read(t.Context(), s, All, time.Now(), 5*time.Hour)
		if err != nil {
			t.Fatal(err)
		}
		if l := points[len(points)-1].Latency; l.RunTimes.Quantile(0.98) > 3*time.Second {
			t.Errorf("98 %% of the runs in all queues took %v, with those of the framework", l.RunTimes.Quantile(0.98))
		}
	})
}

// meeting has another server post at the same box between the two calls of a post.
type meeting struct {
	*counted
	t *testing.T
}

func (m meeting) Mark(ctx context.Context, r broker.MarkRequest) (broker.Marked, error) {
	got, err := m.counted.Mark(ctx, r)
	if r.Action == broker.MarkTake {
		post(m.t, m.counted, "server", "q", 5, time.Second)
	}
	return got, err
}

func TestPost_TwoServersAtOneBoxLoseNothing(t *testing.T) {
	inStore(t, func(s *counted) {
		var mine Latency
		mine.RunTimes.Add(time.Second)
		again, err := Post(t.Context(), meeting{s, t}, "server", map[string]Latency{"q": mine})
		if !again || err != nil {
			t.Errorf("a post while another server posted: again %t, error %v; want it to be posted again", again, err)
		}
		if again, err := Post(t.Context(), s, "server", map[string]Latency{"q": mine}); again || err != nil {
			t.Errorf("posting again: again %t, error %v", again, err)
		}
		k := NewKeeper(s, "keeper")
		if err := k.collect(t.Context()); err != nil || k.fresh["q"].RunTimes.Count() != 6 {
			t.Errorf("%d runs were collected (error %v), want 5 and 1", k.fresh["q"].RunTimes.Count(), err)
		}
	})
}

func TestPost_ABoxIsBounded(t *testing.T) {
	t.Parallel()
	all := make(map[string]Latency)
	var l Latency
	for i := range 20 {
		l.RunTimes.Add(time.Millisecond << i)
		l.WaitTimes.Add(time.Millisecond << i)
	}
	for n := range 20_000 {
		all[fmt.Sprintf("a-queue-with-a-usual-name-%d", n)] = l
	}
	form := formBox(all)
	if n := len(parseBox(form)); len(form) > maxBox || n < 5000 {
		t.Errorf("a box of %d bytes has %d queues, want at least 5000 in at most %d bytes", len(form), n, maxBox)
	}
	for _, cut := range []int{1, 30, 100} {
		if n := len(parseBox(form[:cut])); n > 1 {
			t.Errorf("%d queues are in %d bytes", n, cut)
		}
	}
}
