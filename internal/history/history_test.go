package history

import (
	"context"
	"encoding/hex"
	"fmt"
	"reflect"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed81422ce9/jobs/backends/membroker"
	"github.com/seed81422ce9/jobs/broker"
)

// counted counts writes, and puts the store's clock elsewhere.
type counted struct {
	*membroker.Broker
	sets int
	jobs int
	off  time.Duration
}

func (c *counted) Mark(ctx context.Context, r broker.MarkRequest) (broker.Marked, error) {
	if r.Action == broker.MarkSet {
		c.sets++
	}
	return c.Broker.Mark(ctx, r)
}

func (c *counted) Queues(ctx context.Context, r broker.QueuesRequest) (broker.QueuesReply, error) {
	reply, err := c.Broker.Queues(ctx, r)
	reply.Now = reply.Now.Add(c.off)
	for i := range reply.Queues {
		reply.Queues[i].AsOf = reply.Queues[i].AsOf.Add(c.off)
	}
	return reply, err
}

func inStore(t *testing.T, f func(s *counted)) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := &counted{Broker: membroker.New()}
		defer s.Close()
		f(s)
	})
}

func enqueue(t *testing.T, s *counted, n int) {
	t.Helper()
	var all []broker.NewJob
	for range n {
		s.jobs++
		all = append(all, broker.NewJob{Queue: "q", ID: fmt.Sprint(s.jobs), Body: broker.Body{Type: "t", Priority: broker.PriorityNormal}})
	}
	if _, err := s.Enqueue(t.Context(), broker.EnqueueRequest{Jobs: all}); err != nil {
		t.Fatal(err)
	}
}

func turn(t *testing.T, keepers ...*Keeper) {
	t.Helper()
	for _, k := range keepers {
		if err := k.Turn(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	time.Sleep(time.Minute)
}

func read(t *testing.T, s *counted, span time.Duration) []Point {
	t.Helper()
	points, err := Read(t.Context(), s, "q", time.Now().UTC(), span)
	if err != nil {
		t.Fatal(err)
	}
	for i, p := range points {
		if i > 0 && (!p.At.After(points[i-1].At) || p.Totals.Enqueued < points[i-1].Totals.Enqueued) {
			t.Fatalf("point %d is %+v, after %+v: want later and more", i, p, points[i-1])
		}
	}
	return points
}

func TestKeeper_KeepsMinutesForADayAndHoursForNinety(t *testing.T) {
	inStore(t, func(s *counted) {
		k := NewKeeper(s, "a")
		const days = 93
		for range days * 24 {
			enqueue(t, s, 1)
			turn(t, k)
			time.Sleep(58 * time.Minute)
			turn(t, k) // nothing happened: no point
		}
		for span, want := range map[time.Duration]int{24 * time.Hour: 24, 90 * 24 * time.Hour: 90 * 24, 200 * 24 * time.Hour: 90 * 24} {
			if got := read(t, s, span); len(got) < want || len(got) > want+25 { // and those before in the first part
				t.Errorf("over %v there are %d points, want about %d", span, len(got), want)
			}
		}
		first := read(t, s, 90*24*time.Hour)[0]
		for _, of := range []series{minutes, hours} {
			if got, err := s.Mark(t.Context(), broker.MarkRequest{Action: broker.MarkRead,
				Name: of.mark("q", first.At.Add(-26*time.Hour))}); err != nil || got.Held {
				t.Errorf("a part of %s that is over: held %t, error %v; want none", of.name, got.Held, err)
			}
		}
	})
}

func TestKeeper_OneOfSeveralWrites(t *testing.T) {
	inStore(t, func(s *counted) {
		a, b := NewKeeper(s, "a"), NewKeeper(s, "b")
		for range 10 {
			enqueue(t, s, 3)
			turn(t, a, b)
		}
		if s.sets != 2*(10+1) { // of the queue and of all; and the hours'
			t.Errorf("there were %d writes in 10 minutes, want 22", s.sets)
		}
		for range 10 { // a died
			enqueue(t, s, 3)
			turn(t, b)
		}
		points := read(t, s, time.Hour)
		if n := len(points); n < 17 || points[n-1].Totals.Enqueued != 60 {
			t.Errorf("after another one took over there are %d points, the last %+v; want at least 17, and 60 jobs", n, points[n-1])
		}
		s.sets = 0
		if err := minutes.add(t.Context(), s, "q", Point{}, Point{At: points[len(points)-1].At}); err != nil || s.sets > 0 {
			t.Errorf("a second point of the same minute: %d writes, error %v; want none", s.sets, err)
		}
		b.Drop(t.Context())
		enqueue(t, s, 1)
		turn(t, a)
		if s.sets == 0 {
			t.Error("after the keeper gave it up the other one did not write at once")
		}
	})
}

func TestKeeper_APauseSpreadsNothing(t *testing.T) {
	inStore(t, func(s *counted) {
		k := NewKeeper(s, "a")
		enqueue(t, s, 5)
		turn(t, k)
		for range 30 {
			turn(t, k)
		}
		enqueue(t, s, 60)
		turn(t, k)
		points := read(t, s, time.Hour)
		if len(points) != 3 || points[2].At.Sub(points[1].At) != time.Minute || points[1].Totals.Enqueued != 5 ||
			points[2].Totals.Enqueued != 65 {
			t.Errorf("points %+v; want 5 jobs, 5 a minute before the others, and 65", points)
		}
		again := NewKeeper(s, "a") // the server was started anew
		enqueue(t, s, 1)
		turn(t, again)
		if got := read(t, s, time.Hour); len(got) != 4 || got[3].Totals.Enqueued != 66 {
			t.Errorf("after a restart: points %+v, want one more, with 66", got)
		}
	})
}

func TestKeeper_AClockThatJumpsHarmsNothing(t *testing.T) {
	inStore(t, func(s *counted) {
		k := NewKeeper(s, "a")
		for _, off := range []time.Duration{0, 0, 10 * time.Minute, -20 * time.Minute, 0, 0} {
			s.off = off
			enqueue(t, s, 1)
			turn(t, k)
		}
		for range 15 {
			enqueue(t, s, 1)
			turn(t, k)
		}
		if got := read(t, s, time.Hour); len(got) < 5 || got[len(got)-1].Totals.Enqueued != 21 {
			t.Errorf("points %+v, want one a minute once the clock has gone on, the last with 21", got)
		}
	})
}

func TestPoint_IsReadAsItWasWritten(t *testing.T) {
	t.Parallel()
	at := time.Unix(1_700_000_000, 0).UTC()
	var some Latency
	some.WaitTimes.Add(time.Second)
	some.WaitTimes.Add(200 * 24 * time.Hour)
	some.RunTimes.Add(0)
	points := []Point{{At: at, Totals: broker.Totals{Enqueued: 1 << 40, WaitedMicros: 1 << 62}, Pending: 7, Paused: true, Latency: some},
		{At: at.Add(time.Minute), Totals: broker.Totals{Enqueued: 3, Completed: 2}, Active: 1, Retry: 2, Dead: 3, Latency: some.Plus(some)}}
	got, err := decode(encode(points))
	if err != nil || !reflect.DeepEqual(got, points) {
		t.Errorf("read %+v, error %v; want %+v", got, err, points)
	}
	for n := range encode(points) {
		if got, err := decode(encode(points)[:n]); err == nil && len(got) > 1 {
			t.Errorf("of the first %d bytes: %+v without an error", n, got)
		}
	}
}

// It reads what earlier releases wrote, and they read what it writes.
func TestPoint_TheStoredFormStaysAsItIs(t *testing.T) {
	t.Parallel()
	point := Point{At: time.Unix(1_700_000_000, 0).UTC(), Pending: 1, Active: 2, Retry: 3, Dead: 4, Paused: true,
		Totals: broker.Totals{Enqueued: 21, Claimed: 20, Completed: 19, Failed: 18, Retried: 17, Dead: 16, Crashed: 15, Cancelled: 14,
			Expired: 13, Waits: 12, WaitedMicros: 11, Runs: 10, RanMicros: 9}}
	point.Latency.WaitTimes.Add(time.Millisecond)
	point.Latency.RunTimes.Add(time.Second)
	later := Point{At: point.At.Add(time.Minute), Totals: point.Totals, Latency: point.Latency}
	later.Latency.RunTimes = later.Latency.RunTimes.Plus(point.Latency.RunTimes)
	const (
		stored = "1980c49fd50c022a28262422201e1c1a1816141202040608022202027202177800000000000000000000000000000103050700027202"
		posted = "046d61696c06022202027202"
	)
	form := encode([]Point{point, later})
	if got := hex.EncodeToString(form); got != stored {
		t.Errorf("points are stored as %s, and were as %s", got, stored)
	}
	earlier, _ := hex.DecodeString(stored)
	if got, err := decode(earlier); err != nil || !reflect.DeepEqual(got, []Point{point, later}) {
		t.Errorf("what was stored is read as %+v, %v", got, err)
	}
	box := map[string]Latency{"mail": point.Latency}
	if got := hex.EncodeToString(formBox(box)); got != posted {
		t.Errorf("what servers measured is posted as %s, and was as %s", got, posted)
	}
	earlier, _ = hex.DecodeString(posted)
	if got := parseBox(earlier); !reflect.DeepEqual(got, box) {
		t.Errorf("what was posted is read as %+v", got)
	}
}
