package middleware

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed81422ce9/jobs"
	"github.com/seed81422ce9/jobs/backends/membroker"
	"github.com/seed81422ce9/jobs/broker"
)

// faultyMarks is a store of markers whose calls a test may answer.
type faultyMarks struct {
	Marks
	answer func(req broker.MarkRequest) (answered bool, err error)
	calls  []broker.MarkAction
}

func (f *faultyMarks) Mark(ctx context.Context, req broker.MarkRequest) (broker.Marked, error) {
	f.calls = append(f.calls, req.Action)
	answered, err := f.answer(req)
	if answered {
		return broker.Marked{}, err
	}
	marked, markErr := f.Marks.Mark(ctx, req)
	return marked, errors.Join(err, markErr)
}

func openMarks(t *testing.T) Marks {
	b := membroker.New()
	t.Cleanup(func() { b.Close() })
	return b
}

func keyedJob(id string) *jobs.Job {
	return jobs.NewJob(&broker.Job{Queue: "q", ID: id, Body: broker.Body{Type: "charge", IdempotencyKey: "order-1"}})
}

// deliver runs a job behind Dedup, in a process of its own, so to speak.
func deliver(ctx context.Context, cfg DedupConfig, job *jobs.Job, handler func() error) (ran bool, err error) {
	err = Dedup(cfg)(jobs.HandlerFunc(func(context.Context, *jobs.Job) error {
		ran = true
		return handler()
	})).ProcessJob(ctx, job)
	return ran, err
}

func succeed() error { return nil }

func TestDedup_AJobWithoutAKeyNeedsNoMarker(t *testing.T) {
	t.Parallel()
	marks := &faultyMarks{answer: func(broker.MarkRequest) (bool, error) { return true, broker.ErrUnavailable }}
	for range 2 {
		ran, err := deliver(t.Context(), DedupConfig{Marks: marks}, jobs.NewJob(&broker.Job{}), succeed)
		if !ran || err != nil || len(marks.calls) > 0 {
			t.Errorf("the handler ran: %v, error %v, calls to the store %v; want a plain run", ran, err, marks.calls)
		}
	}
}

func TestDedup_WithoutAStoreTheHandlerDoesNotRun(t *testing.T) {
	t.Parallel()
	marks := &faultyMarks{answer: func(broker.MarkRequest) (bool, error) { return true, broker.ErrUnavailable }}
	ran, err := deliver(t.Context(), DedupConfig{Marks: marks}, keyedJob("a"), succeed)
	if ran || !errors.Is(err, jobs.ErrUnavailable) {
		t.Errorf("the handler ran: %v, error %v; want no run and ErrUnavailable", ran, err)
	}
}

func TestDedup_AnEffectThatCannotBeRecordedIsNoFailure(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	marks := &faultyMarks{Marks: openMarks(t), answer: func(req broker.MarkRequest) (bool, error) {
		if req.Action == broker.MarkSet {
			return true, broker.ErrUnavailable
		}
		return false, nil
	}}
	cfg := DedupConfig{Marks: marks, Logger: slog.New(slog.NewTextHandler(&log, nil))}
	ran, err := deliver(t.Context(), cfg, keyedJob("a"), succeed)
	if !ran || err != nil {
		t.Errorf("the handler ran: %v, error %v; want success", ran, err)
	}
	if len(marks.calls) != 1+markAttempts {
		t.Errorf("the store was called as %v, want a take and %d attempts", marks.calls, markAttempts)
	}
	if !strings.Contains(log.String(), "id=a") || strings.Contains(log.String(), "order-1") {
		t.Errorf("want a log line that names the job and not its key, got %q", log.String())
	}
	if _, err := deliver(t.Context(), cfg, keyedJob("b"), succeed); !errors.Is(err, ErrBusy) {
		t.Errorf("another job got %v before the hold was over, want ErrBusy", err)
	}
}

func TestDedup_LostAnswersOfTheStoreDoNoHarm(t *testing.T) {
	t.Parallel()
	lost := errors.New("connection reset")
	lose := true
	marks := &faultyMarks{Marks: openMarks(t), answer: func(broker.MarkRequest) (bool, error) {
		lose = !lose
		if lose {
			return false, nil
		}
		return false, lost // the call is made and its answer lost
	}}
	if ran, err := deliver(t.Context(), DedupConfig{Marks: marks}, keyedJob("a"), succeed); ran || !errors.Is(err, lost) {
		t.Fatalf("the handler ran: %v, error %v; want no run while the marker is in doubt", ran, err)
	}
	if ran, err := deliver(t.Context(), DedupConfig{Marks: marks}, keyedJob("a"), succeed); !ran || err != nil {
		t.Fatalf("the handler ran: %v, error %v; want the job to resume under its own marker", ran, err)
	}
	marks.answer = func(broker.MarkRequest) (bool, error) { return false, nil }
	if ran, err := deliver(t.Context(), DedupConfig{Marks: marks}, keyedJob("b"), succeed); ran || err != nil {
		t.Errorf("the handler ran: %v, error %v; want the duplicate to be answered", ran, err)
	}
}

func TestDedup_AZombieLeavesTheMarkerToItsSuccessor(t *testing.T) {
	t.Parallel()
	marks := openMarks(t)
	ctx, cancel := context.WithCancelCause(t.Context())
	_, err := deliver(ctx, DedupConfig{Marks: marks}, keyedJob("a"), func() error {
		cancel(jobs.ErrLeaseLost)
		return ctx.Err()
	})
	if !errors.Is(err, context.Canceled) {
		t.Fatalf("the zombie returned %v", err)
	}
	if _, err := deliver(t.Context(), DedupConfig{Marks: marks}, keyedJob("b"), succeed); !errors.Is(err, ErrBusy) {
		t.Errorf("another job got %v, want ErrBusy: the successor of the zombie is running", err)
	}
}

// A zombie whose lease was lost does not know yet when its handler ends.
func TestDedup_AZombieCannotChangeItsSuccessorsMarker(t *testing.T) {
	t.Parallel()
	cfg := DedupConfig{Marks: openMarks(t)}
	busy := func(when string) {
		t.Helper()
		if ran, err := deliver(t.Context(), cfg, keyedJob("b"), succeed); ran || !errors.Is(err, ErrBusy) {
			t.Errorf("%s another job ran: %v, error %v; want ErrBusy", when, ran, err)
		}
	}
	_, err := deliver(t.Context(), cfg, keyedJob("a"), func() error {
		_, err := deliver(t.Context(), cfg, keyedJob("a"), func() error {
			busy("while the successor runs")
			return nil
		})
		return errors.Join(err, errors.New("the zombie fails"))
	})
	if err == nil {
		t.Fatal("the zombie's error is gone")
	}
	if ran, err := deliver(t.Context(), cfg, keyedJob("b"), succeed); ran || err != nil {
		t.Errorf("after the successor succeeded and the zombie failed another job ran: %v, error %v; want it answered", ran, err)
	}

	cfg = DedupConfig{Marks: openMarks(t)}
	end, successor := make(chan bool), make(chan error)
	_, _ = deliver(t.Context(), cfg, keyedJob("a"), func() error {
		begun := make(chan bool)
		go func() {
			_, err := deliver(t.Context(), cfg, keyedJob("a"), func() error { close(begun); <-end; return nil })
			successor <- err
		}()
		<-begun
		return errors.New("the zombie fails first")
	})
	busy("after the zombie failed")
	close(end)
	if err := <-successor; err != nil {
		t.Error(err)
	}
}

func TestDedup_AZombieThatSucceedsIsRecorded(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	cfg := DedupConfig{Marks: openMarks(t), Logger: slog.New(slog.NewTextHandler(&log, nil))}
	failing := errors.New("the successor fails later")
	_, err := deliver(t.Context(), cfg, keyedJob("a"), func() error {
		_, err := deliver(t.Context(), cfg, keyedJob("a"), func() error { return failing })
		if !errors.Is(err, failing) {
			t.Errorf("the successor returned %v", err)
		}
		return nil
	})
	if ran, busy := deliver(t.Context(), cfg, keyedJob("b"), succeed); err != nil || ran || busy != nil || log.Len() > 0 {
		t.Errorf("the zombie's success gave %v; then another job ran: %v, %v; log %q; want it answered from the marker", err, ran, busy, &log)
	}

	cfg.Marks = openMarks(t)
	end, successor := make(chan bool), make(chan error)
	_, err = deliver(t.Context(), cfg, keyedJob("a"), func() error {
		begun := make(chan bool)
		go func() {
			_, err := deliver(t.Context(), cfg, keyedJob("a"), func() error { close(begun); <-end; return failing })
			successor <- err
		}()
		<-begun
		return nil
	})
	close(end)
	if late := <-successor; err != nil || !errors.Is(late, failing) {
		t.Errorf("the zombie got %v, the successor %v", err, late)
	}
	if ran, err := deliver(t.Context(), cfg, keyedJob("b"), succeed); ran || err != nil || log.Len() > 0 {
		t.Errorf("another job ran: %v, %v, log %q; want the zombie's success to stay on record when its successor fails", ran, err, &log)
	}
}

func TestDedup_WaitsGrowSoThatManyWaitersCostLittle(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := membroker.New()
		defer b.Close()
		server, err := jobs.NewServer(b, jobs.Config{Concurrency: 10, Logger: slog.New(slog.DiscardHandler)})
		if err != nil {
			t.Fatal(err)
		}
		const run, waiters = 25 * time.Minute, 100
		server.Start(context.Background(), Dedup(DedupConfig{Marks: b})(jobs.HandlerFunc(func(context.Context, *jobs.Job) error {
			time.Sleep(run)
			return nil
		})))
		client := jobs.NewClient(b, jobs.ClientConfig{Defaults: []jobs.Option{jobs.WithRetention(24 * time.Hour),
			jobs.WithIdempotencyKey("order-1")}})
		defer client.Close()
		var ids []string
		for range 1 + waiters {
			info, err := client.Enqueue(t.Context(), jobs.NewTask("charge", nil))
			if err != nil {
				t.Fatal(err)
			}
			ids = append(ids, info.ID)
		}
		time.Sleep(run + longestWait*11/10 + time.Second)
		synctest.Wait()
		page, err := b.Find(t.Context(), broker.Query{Queue: jobs.DefaultQueue, IDs: ids})
		if err != nil || len(page.Jobs) != len(ids) {
			t.Fatalf("%d jobs, %v", len(page.Jobs), err)
		}
		deliveries := int64(0)
		for i := range page.Jobs {
			j := &page.Jobs[i]
			if deliveries += int64(j.Deliveries); j.State != jobs.StateCompleted || j.Failures > 0 {
				t.Errorf("job %s is %v with %d failures %v after the effect, want it completed", j.ID, j.State, j.Failures, longestWait)
			}
		}
		t.Logf("%d deliveries", deliveries)
		if most := int64(20 * waiters); deliveries > most {
			t.Errorf("%d jobs that waited for %v cost %d deliveries, want at most %d", waiters, run, deliveries, most)
		}
		if err := server.Shutdown(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

func TestDedup_AnEffectIsRecordedAlthoughTheContextEnded(t *testing.T) {
	t.Parallel()
	marks := openMarks(t)
	ctx, cancel := context.WithCancel(t.Context())
	if _, err := deliver(ctx, DedupConfig{Marks: marks}, keyedJob("a"), func() error { cancel(); return nil }); err != nil {
		t.Fatal(err)
	}
	if ran, err := deliver(t.Context(), DedupConfig{Marks: marks}, keyedJob("b"), succeed); ran || err != nil {
		t.Errorf("the duplicate's handler ran: %v, error %v; want it to be answered", ran, err)
	}
}

func TestDedup_ARunLongerThanItsHoldIsRecordedUnlessAnotherRuns(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		cfg := DedupConfig{Marks: openMarks(t), Hold: time.Minute, Logger: slog.New(slog.NewTextHandler(&log, nil))}
		overrun := func() error { time.Sleep(time.Hour); return nil }
		if ran, err := deliver(t.Context(), cfg, keyedJob("a"), overrun); !ran || err != nil {
			t.Fatal(ran, err)
		}
		if ran, err := deliver(t.Context(), cfg, keyedJob("b"), succeed); ran || err != nil || log.Len() > 0 {
			t.Errorf("the duplicate ran: %v, error %v, log %q; want the overdue effect to be on record", ran, err, &log)
		}

		time.Sleep(2 * defaultKeep)
		_, err := deliver(t.Context(), cfg, keyedJob("c"), func() error {
			time.Sleep(2 * time.Minute)
			_, err := deliver(t.Context(), cfg, keyedJob("d"), succeed)
			return err
		})
		if err != nil || !strings.Contains(log.String(), "id=c") || !strings.Contains(log.String(), "twice") {
			t.Errorf("a run that ended when another had the key: error %v, log %q; want success and a warning", err, &log)
		}
	})
}

func TestDedup_TheHoldLastsAsLongAsTheRunMay(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		limited, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
		defer cancel()
		for _, c := range []struct {
			ctx  context.Context
			hold time.Duration
			want time.Duration
		}{
			{limited, 0, 11 * time.Minute}, {t.Context(), 0, 24 * time.Hour}, {limited, time.Second, time.Second},
		} {
			var got time.Duration
			marks := &faultyMarks{answer: func(req broker.MarkRequest) (bool, error) { got = req.TTL; return true, broker.ErrUnavailable }}
			deliver(c.ctx, DedupConfig{Marks: marks, Hold: c.hold}, keyedJob("a"), succeed)
			if got != c.want {
				t.Errorf("the marker was taken for %v, want %v", got, c.want)
			}
		}
	})
}

func TestDedup_ABusyKeyCostsTheJobNothing(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := membroker.New()
		defer b.Close()
		var effects int
		var duplicates []string
		server, err := jobs.NewServer(b, jobs.Config{Concurrency: 2, Logger: slog.New(slog.DiscardHandler)})
		if err != nil {
			t.Fatal(err)
		}
		dedup := Dedup(DedupConfig{Marks: b, OnDuplicate: func(_ context.Context, job *jobs.Job) { duplicates = append(duplicates, job.ID()) }})
		handler := dedup(jobs.HandlerFunc(func(_ context.Context, job *jobs.Job) error {
			time.Sleep(time.Minute)
			effects++
			job.SetResult([]byte("receipt"))
			return nil
		}))
		const polls = 11
		server.Start(context.Background(), jobs.HandlerFunc(func(ctx context.Context, job *jobs.Job) error {
			if string(job.Payload()) == "polls" && job.Record().Snoozes < polls {
				return jobs.Snooze(time.Second)
			}
			return handler.ProcessJob(ctx, job)
		}))
		client := jobs.NewClient(b, jobs.ClientConfig{Defaults: []jobs.Option{jobs.WithRetention(time.Hour), jobs.WithIdempotencyKey("order-1"),
			jobs.WithMaxRetries(0)}})
		defer client.Close()
		var ids []string
		for _, payload := range []string{"runs", "polls"} {
			info, err := client.Enqueue(t.Context(), jobs.NewTask("charge", []byte(payload)))
			if err != nil {
				t.Fatal(err)
			}
			ids = append(ids, info.ID)
		}
		for _, id := range ids {
			record, err := client.Wait(t.Context(), jobs.DefaultQueue, id)
			if err != nil || string(record.Result) != "receipt" || record.Failures != 0 {
				t.Errorf("job %s: error %v, result %q, %d failures; want the receipt and no failure", id, err, record.Result, record.Failures)
			}
		}
		// It waits for a minute, with delays that grow from 5 s.
		if record, _ := client.Wait(t.Context(), jobs.DefaultQueue, ids[1]); record.Snoozes < polls+4 || record.Snoozes > polls+6 {
			t.Errorf("the job that polled %d times was snoozed %d times; want 4 to 6 more", polls, record.Snoozes)
		}
		if effects != 1 || len(duplicates) != 1 {
			t.Errorf("the effect happened %d times, and %d jobs were answered; want 1 and 1", effects, len(duplicates))
		}
		if err := server.Shutdown(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

func TestDedup_ConstructorsRefuseWhatCannotWork(t *testing.T) {
	t.Parallel()
	marks := openMarks(t)
	for field, build := range map[string]func(){
		"DedupConfig.Marks": func() { Dedup(DedupConfig{}) },
		"Marks: ":           func() { Dedup(DedupConfig{Marks: (*membroker.Broker)(nil)}) },
		"DedupConfig.Keep":  func() { Dedup(DedupConfig{Marks: marks, Keep: 3600}) }, // without a unit
		"DedupConfig.Hold":  func() { Dedup(DedupConfig{Marks: marks, Hold: 60}) },
		"DedupConfig.Wait":  func() { Dedup(DedupConfig{Marks: marks, Wait: -1}) },
	} {
		func() {
			defer func() {
				err, _ := recover().(error)
				if !errors.Is(err, jobs.ErrInvalid) || !strings.Contains(err.Error(), field) {
					t.Errorf("%s: the panic is %v, want ErrInvalid that names the field", field, err)
				}
			}()
			build()
		}()
	}
}
