package schedule

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/seed81422ce9/jobs"
	"github.com/seed81422ce9/jobs/internal/reserved"
)

// A year of daily ticks in three zones with clock changes: each runs once, at its
// time.
// The clocks of this zone change by half an hour.
func TestSchedule_AYearOfDailyTicks(t *testing.T) {
	inWorld(t, func(w *world) {
		spec := Cron("15 2 * * *", "Australia/Lord_Howe")
		w.up()
		w.put("daily", spec)
		start := time.Now()
		pass(366 * 24 * time.Hour)
		want := w.nominal(spec, start, time.Now())
		if len(want) != 366 {
			t.Errorf("the year has %d ticks, want one a day, 366", len(want))
		}
		w.exactly("a year", "daily", want)
		for _, at := range want {
			if late := w.begun[tick{At: at}.jobID("daily")].Sub(at); late < 0 || late > time.Millisecond {
				t.Fatalf("the tick of %v began %v after it", at, late)
			}
		}
		if c := w.info("daily").Counts; c != (Counts{Enqueued: 366}) {
			t.Errorf("the counts are %+v, want 366 enqueued", c)
		}
	})
}

func TestSchedule_TicksDoNotDrift(t *testing.T) {
	inWorld(t, func(w *world) {
		w.up()
		w.put("often", Every(time.Second))
		start := time.Now()
		pass(20 * time.Minute)
		w.exactly("every second", "often", w.nominal(Every(time.Second), start, time.Now()))
	})
}

func TestSchedule_TheJobSaysItsTick(t *testing.T) {
	inWorld(t, func(w *world) {
		got := make(chan *jobs.Job, 1)
		w.handler = func(_ context.Context, j *jobs.Job) error { got <- j; return nil }
		w.up()
		deadline := time.Now().Add(90 * time.Minute).UTC()
		task := jobs.NewTask("report", []byte("\xff\x00bytes"), jobs.WithHeader("a", "b"), jobs.WithHeader("raw", "\xfe"),
			jobs.WithMaxRetries(2), jobs.WithPartitionKey("k"), jobs.WithTimeout(time.Minute), jobs.WithUniqueUntilDone(time.Hour))
		_, err := w.schedules.Put(w.Context(), "it", Cron("0 * * * *", ""), task, WithExpiry(30*time.Minute), WithJob(jobs.WithMaxRetries(3)))
		if err != nil {
			t.Fatal(err)
		}
		job := <-got
		at, ok := TickOf(job)
		if want := (Tick{"it", time.Date(2000, 1, 1, 1, 0, 0, 0, time.UTC)}); !ok || at != want {
			t.Errorf("the job is of tick %v (%v), want %v", at, ok, want)
		}
		if job.ID() != "it@2000-01-01T01:00:00Z" || string(job.Payload()) != "\xff\x00bytes" || job.Type() != "report" ||
			job.Header("a") != "b" || job.Header("raw") != "\xfe" || job.MaxRetries() != 3 || job.PartitionKey() != "k" ||
			!job.Deadline().Equal(deadline) || job.Record().Timeout != time.Minute || job.Record().Unique.TTL != time.Hour ||
			job.Record().Source != "it" {
			t.Errorf("the task was not kept: %+v", job.Record())
		}
		if _, ok := TickOf(jobs.NewJob(&jobs.JobRecord{})); ok {
			t.Error("a job of no schedule has a tick")
		}
	})
}

func TestSchedule_Misfires(t *testing.T) {
	every, hour := Every(time.Hour), time.Hour
	for _, c := range []struct {
		name   string
		policy Misfire
		down   time.Duration
		ran    []string
		late   int64
		many   int64
	}{
		{"one", MisfireOne, 5*hour + 30*time.Minute, []string{"2000-01-01T05:00:00Z"}, 0, 4},
		{"skip", MisfireSkip, 5*hour + 30*time.Minute, nil, 5, 0},
		{"skip, just in time", MisfireSkip, 5*hour + 30*time.Second, []string{"2000-01-01T05:00:00Z"}, 4, 0},
		{"up to three", RunUpTo(3, 0), 5*hour + 30*time.Minute,
			[]string{"2000-01-01T03:00:00Z", "2000-01-01T04:00:00Z", "2000-01-01T05:00:00Z"}, 0, 2},
		{"within a window", RunUpTo(10, 2*hour), 5*hour + 30*time.Minute, []string{"2000-01-01T04:00:00Z", "2000-01-01T05:00:00Z"}, 3, 0},
		{"one of those within a window", RunUpTo(1, 2*hour), 5*hour + 30*time.Minute, []string{"2000-01-01T05:00:00Z"}, 3, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			inWorld(t, func(w *world) {
				w.put("s", every, WithMisfire(c.policy))
				pass(c.down)
				w.up()
				pass(time.Second)
				if got := w.ticks(); fmt.Sprint(got) != fmt.Sprint(c.ran) {
					t.Errorf("ran %v, want %v", got, c.ran)
				}
				if got := w.info("s").Counts; got != (Counts{Enqueued: int64(len(c.ran)), TooLate: c.late, TooMany: c.many}) {
					t.Errorf("the counts are %+v, want %d too late and %d too many", got, c.late, c.many)
				}
				if got := w.served.Missed(); got["too_late"] != c.late || got["too_many"] != c.many || got["overlapped"] != 0 {
					t.Errorf("the process reports as missed %v, want %d too late and %d too many", got, c.late, c.many)
				}
				pass(hour)
				if got := w.ticks(); len(got) != len(c.ran)+1 {
					t.Errorf("after the next hour %v ran", got)
				}
			})
		})
	}
}

// A tick whose deadline has passed does not become a job, since that would be
// dead at once.
func TestSchedule_ExpiredTicksAreTooLate(t *testing.T) {
	inWorld(t, func(w *world) {
		w.put("s", Every(time.Hour), WithMisfire(RunUpTo(10, 0)), WithExpiry(90*time.Minute))
		pass(5*time.Hour + 15*time.Minute)
		w.up()
		pass(time.Second)
		if got := w.ticks(); len(got) != 2 {
			t.Errorf("ran %v, want those of 4 and 5", got)
		}
		if c := w.info("s").Counts; c != (Counts{Enqueued: 2, TooLate: 3}) {
			t.Errorf("the counts are %+v, want 2 enqueued and 3 too late", c)
		}
	})
}

// A tick that expires while it waits for the end of the previous job leaves its place to a later one.
func TestSchedule_ABufferedTickThatExpiresIsTooLate(t *testing.T) {
	inWorld(t, func(w *world) {
		w.handler = func(_ context.Context, j *jobs.Job) error {
			if at, _ := TickOf(j); at.At.Minute() == 10 {
				<-time.After(36 * time.Minute)
			}
			return nil
		}
		w.up()
		w.put("s", Every(10*time.Minute), WithOverlap(OverlapBuffer), WithExpiry(15*time.Minute), WithJob(jobs.WithTimeout(time.Hour)))
		pass(49 * time.Minute)
		if got := fmt.Sprint(w.ticks()); got != "[2000-01-01T00:10:00Z 2000-01-01T00:40:00Z]" {
			t.Errorf("%v ran, want those of 10 and 40", got)
		}
		if c := w.info("s").Counts; c != (Counts{Enqueued: 2, TooLate: 1, Overlapped: 1}) {
			t.Errorf("the counts are %+v, want 2 enqueued, 20 too late and 30 overlapped", c)
		}
	})
}

// If a schedule of every second did not run for years, a server runs the newest
// ticks and counts the others up to a limit.
func TestSchedule_VeryManyMissedTicks(t *testing.T) {
	t.Parallel()
	p := &plan{timing: every{time.Second, time.Unix(0, 0)}, misfire: RunUpTo(3, time.Hour)}
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	d := p.dueBetween(now.AddDate(-5, 0, 0), now)
	if len(d.ticks) != 3 || !d.ticks[2].Equal(now) || !d.ticks[0].Equal(now.Add(-2*time.Second)) || !d.through.Equal(now) {
		t.Errorf("the ticks are %v through %v, want the last three", d.ticks, d.through)
	}
	if d.late < maxSteps || d.many < 1 || !d.next.Equal(now.Add(time.Second)) {
		t.Errorf("%d are too late and %d too many, the next is %v", d.late, d.many, d.next)
	}
	// The schedule ended long ago, so its newest ticks are old.
	p.end, p.misfire = now.Add(-40*time.Hour), MisfireOne
	d = p.dueBetween(now.AddDate(0, 0, -4), now)
	if len(d.ticks) != 1 || !d.ticks[0].Equal(p.end) || d.many < maxSteps-1 || !d.next.IsZero() {
		t.Errorf("after the end the ticks are %v, %d are too many, and the next is %v", d.ticks, d.many, d.next)
	}
}

func TestSchedule_Overlaps(t *testing.T) {
	for _, c := range []struct {
		policy  Overlap
		ran     []string
		dropped int64
	}{
		// Each job takes 26 minutes, and there is a tick every 10.
		{OverlapAllow, []string{"10", "20", "30", "40", "50", "00"}, 0},
		{OverlapSkip, []string{"10", "40"}, 4},
		{OverlapBuffer, []string{"10", "20"}, 3}, // the one of 20 begins at 36, and that of 40 waits
		{OverlapCancel, []string{"10", "20", "30", "40", "50", "00"}, 0},
	} {
		t.Run(string(c.policy), func(t *testing.T) {
			inWorld(t, func(w *world) {
				together, most, cancelled := 0, 0, 0
				w.handler = func(ctx context.Context, j *jobs.Job) error {
					w.mu.Lock()
					together++
					most = max(most, together)
					w.mu.Unlock()
					defer func() { w.mu.Lock(); together--; w.mu.Unlock() }()
					select {
					case <-time.After(26 * time.Minute):
						return nil
					case <-ctx.Done():
						w.mu.Lock()
						cancelled++
						w.mu.Unlock()
						return ctx.Err()
					}
				}
				w.up()
				w.put("s", Every(10*time.Minute), WithOverlap(c.policy))
				pass(time.Hour + time.Second)
				var got []string
				for _, at := range w.ticks() {
					got = append(got, at[14:16])
				}
				want := append([]string(nil), c.ran...)
				if fmt.Sprint(got) != fmt.Sprint(want) {
					t.Errorf("in an hour %v ran, want %v", got, want)
				}
				if n := w.info("s").Counts; n.Overlapped != c.dropped || n.Missed() != c.dropped {
					t.Errorf("the counts are %+v, want %d overlapped", n, c.dropped)
				}
				if wantMost := map[Overlap]int{OverlapAllow: 3, OverlapSkip: 1, OverlapBuffer: 1, OverlapCancel: 2}[c.policy]; most > wantMost {
					t.Errorf("%d ran side by side, want at most %d", most, wantMost)
				}
				if c.policy == OverlapCancel && cancelled != 5 {
					t.Errorf("%d were cancelled, want 5", cancelled)
				}
			})
		})
	}
}

func TestSchedule_JitterMovesAllTicksAlike(t *testing.T) {
	inWorld(t, func(w *world) {
		w.up()
		w.put("a", Every(time.Hour), WithJitter(20*time.Minute))
		pass(10*time.Hour + 30*time.Minute)
		offsets := make(map[time.Duration]bool)
		for id, began := range w.begun {
			at := at(t, id[2:])
			offsets[began.Sub(at)] = true
		}
		if len(w.begun) != 10 || len(offsets) != 1 || offsets[0] {
			t.Errorf("%d ticks ran, put off by %v; want 10, all by the same", len(w.begun), offsets)
		}
	})
	r := record{Jitter: reserved.Duration(time.Hour)}
	var sum time.Duration
	for i := range 1000 {
		sum += r.offset(fmt.Sprintf("schedule-%d", i))
	}
	if mean := sum / 1000; mean < 28*time.Minute || mean > 32*time.Minute {
		t.Errorf("the mean offset of 1000 schedules is %v, want about 30 minutes", mean)
	}
	p := &plan{timing: every{time.Minute, time.Unix(0, 0)}, offset: 50 * time.Minute}
	if at := p.dueAt(time.Unix(0, 0), time.Unix(60, 0)); !at.Before(time.Unix(60, 0)) {
		t.Errorf("a tick is put off to %v, past the next one", at)
	}
}

func TestSchedule_JitterMovesTheLastTickAsTheOthers(t *testing.T) {
	inWorld(t, func(w *world) {
		w.up()
		start := time.Now()
		w.put("s", Every(time.Minute), WithJitter(time.Hour), WithEnd(start.Add(3*time.Minute)))
		pass(2 * time.Hour)
		offsets := make(map[time.Duration]bool)
		for id, began := range w.begun {
			offsets[began.Sub(at(t, id[2:]))] = true
		}
		if len(w.begun) != 3 || len(offsets) != 1 {
			t.Errorf("%d ticks ran, put off by %v; want 3, all by the same", len(w.begun), offsets)
		}
	})
}

func TestSchedule_StartAndEnd(t *testing.T) {
	inWorld(t, func(w *world) {
		w.up()
		start := time.Now().Add(90 * time.Minute)
		w.put("s", Every(time.Hour), WithStart(start), WithEnd(start.Add(2*time.Hour)))
		pass(24 * time.Hour)
		want := "[2000-01-01T01:30:00Z 2000-01-01T02:30:00Z 2000-01-01T03:30:00Z]"
		if got := fmt.Sprint(w.ticks()); got != want {
			t.Errorf("ran %v, want %v", got, want)
		}
		if info := w.info("s"); !info.Next.IsZero() || info.State != jobs.StateRetry {
			t.Errorf("after its end the schedule is %v and its next tick %v", info.State, info.Next)
		}
	})
}
