package schedule

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/seed81422ce9/jobs"
	"github.com/seed81422ce9/jobs/broker"
)

// decide applies an operation to a schedule's own job.
func (w *world) decide(id string, op broker.Operation) {
	w.Helper()
	job, err := w.schedules.job(w.Context(), id)
	if err == nil {
		err = w.schedules.decideOn(w.Context(), op, job)
	}
	if err != nil {
		w.Fatal(err)
	}
}

// die makes a schedule's own job dead, as if a dead one had been moved here.
func (w *world) die(id string) {
	w.Helper()
	job, err := w.schedules.job(w.Context(), id)
	if err != nil {
		w.Fatal(err)
	}
	dead := job.Copy()
	if err := w.schedules.Delete(w.Context(), id); err != nil {
		w.Fatal(err)
	}
	dead.RunAt, dead.Restore.State, dead.Restore.Head.Reason = time.Time{}, broker.StateDead, broker.ReasonCrashes
	if receipts, err := w.store.Enqueue(w.Context(), broker.EnqueueRequest{Jobs: []broker.NewJob{dead}}); err != nil ||
		receipts[0].Err != nil {
		w.Fatal(err, receipts)
	}
}

// ailing creates a schedule in each status.
func ailing(w *world) {
	one := int64(1)
	if _, err := w.store.Policy(w.Context(), broker.PolicyRequest{Queue: "full", MaxDepth: &one}); err != nil {
		w.Fatal(err)
	}
	for id, every := range map[string]time.Duration{"waiting": time.Hour, "paused": time.Hour, "dead": time.Hour, "held": time.Hour,
		"unreadable": time.Hour, "sleeping": time.Hour} {
		w.put(id, Every(every))
	}
	w.put("ended", Every(time.Minute), WithEnd(time.Now().Add(time.Hour)))
	_, err := w.schedules.Put(w.Context(), "full", Every(30*time.Minute), jobs.NewTask("task", nil, jobs.WithQueue("full")))
	if err != nil {
		w.Fatal(err)
	}
	refused := jobs.NewTask("refused", nil)
	if _, err = w.schedules.Put(w.Context(), "failing", Every(time.Hour), refused); err != nil {
		w.Fatal(err)
	}
	server := w.up()
	pass(time.Minute)
	w.decide("sleeping", broker.Operation{Kind: broker.OpReschedule, Delay: 1000 * time.Hour})
	w.decide("held", broker.Operation{Kind: broker.OpHold, Holder: "a move"})
	w.decide("unreadable", broker.Operation{Kind: broker.OpEdit, Payload: []byte("{}")})
	if err := w.schedules.Pause(w.Context(), "paused", "ada"); err != nil {
		w.Fatal(err)
	}
	pass(65 * time.Minute)
	w.down(server)
	w.die("dead") // a server would revive it
}

var ailingAre = map[string]Status{"waiting": StatusWaiting, "paused": StatusPaused, "ended": StatusEnded, "sleeping": StatusLate,
	"full":    StatusLate,
	"failing": StatusFailing, "dead": StatusStopped, "held": StatusStopped, "unreadable": StatusUnreadable}

func TestInfo_StatusOfEachSchedule(t *testing.T) {
	inWorld(t, func(w *world) {
		w.refuse = "refused"
		ailing(w)
		all, err := w.schedules.List(w.Context())
		if err != nil || len(all) != len(ailingAre) {
			t.Fatalf("the list has %d schedules, want %d (%v)", len(all), len(ailingAre), err)
		}
		for _, info := range all {
			if want := ailingAre[info.ID]; info.Status != want {
				t.Errorf("%s is %s, want %s; due %v, error %q", info.ID, info.Status, want, info.Due, info.Error)
			}
			needs := slices.Index(Statuses(), info.Status) >= slices.Index(Statuses(), StatusFailing)
			if needs != (info.Error != "") && info.ID != "full" {
				t.Errorf("%s is %s with the error %q", info.ID, info.Status, info.Error)
			}
		}
		// There is no server, so a due schedule becomes late after Grace.
		pass(2 * time.Hour)
		if s := w.info("waiting").Status; s != StatusLate {
			t.Errorf("without a server the schedule is %s after its tick", s)
		}
	})
}

func TestPage_TheStoresPagesAreAllSchedules(t *testing.T) {
	inWorld(t, func(w *world) {
		for i := range pageSize + 7 {
			w.put(fmt.Sprintf("s%04d", i), Every(time.Hour))
		}
		seen := make(map[string]int)
		pages, cursor := 0, ""
		for {
			some, next, err := w.schedules.Page(w.Context(), cursor)
			if err != nil {
				t.Fatal(err)
			}
			for _, info := range some {
				seen[info.ID]++
			}
			if pages++; next == "" {
				break
			}
			cursor = next
		}
		if pages != 2 || len(seen) != pageSize+7 {
			t.Errorf("%d pages have %d schedules, want 2 with %d", pages, len(seen), pageSize+7)
		}
		if all, err := w.schedules.List(w.Context()); err != nil || len(all) != pageSize+7 || all[3].ID != "s0003" {
			t.Errorf("the list has %d schedules (%v)", len(all), err)
		}
		if _, _, err := w.schedules.Page(w.Context(), "nonsense\x00"); !errors.Is(err, broker.ErrInvalid) {
			t.Errorf("an unknown cursor: %v", err)
		}
	})
}

// examine returns the codes of findings by ID: those that are left, and those
// that were repaired.
func (w *world) examine(fix bool) (left, fixed map[string]string) {
	w.Helper()
	left, fixed = make(map[string]string), make(map[string]string)
	for f, err := range w.schedules.Examine(w.Context(), fix) {
		switch {
		case err != nil:
			w.Fatal(err)
		case f.Queue != Queue || f.What == "" || f.Means == "":
			w.Errorf("the finding does not say what it is about: %+v", f)
		case f.Fixed:
			fixed[f.ID] = f.Code
		default:
			left[f.ID] = f.Code
			if fix && f.Repair != "" && f.Left == "" {
				w.Errorf("the finding does not say why it was not repaired: %+v", f)
			}
		}
	}
	return left, fixed
}

func TestExamine_FindsAndRepairsWhatDoesNotTick(t *testing.T) {
	inWorld(t, func(w *world) {
		w.refuse = "refused"
		ailing(w)
		want := map[string]string{"sleeping": "schedule-late", "full": "schedule-late", "failing": "schedule-failing", "dead": "schedule-stopped",
			"held": "schedule-stopped", "unreadable": "schedule-unreadable"}
		if left, fixed := w.examine(false); !maps.Equal(left, want) || len(fixed) != 0 {
			t.Errorf("found %v and repaired %v, want %v", left, fixed, want)
		}
		left, fixed := w.examine(true)
		delete(want, "sleeping")
		delete(want, "dead")
		if !maps.Equal(fixed, map[string]string{"sleeping": "schedule-late", "dead": "schedule-stopped"}) || !maps.Equal(left, want) {
			t.Errorf("repaired %v and left %v", fixed, left)
		}
		w.up()
		pass(time.Hour)
		for _, id := range []string{"sleeping@2000-01-01T01:00:00Z", "sleeping@2000-01-01T02:00:00Z", "dead@2000-01-01T02:00:00Z"} {
			if w.ran[id] != 1 {
				t.Errorf("after the repair %s ran %d times", id, w.ran[id])
			}
		}
		if left, _ := w.examine(false); left["sleeping"]+left["dead"] != "" || len(left) == 0 {
			t.Errorf("afterwards these are found: %v", left)
		}
	})
}

// A server that runs for long revives schedules that die meanwhile, and counts
// those that somebody deleted.
func TestExtension_LooksAfterSchedulesWhileItRuns(t *testing.T) {
	inWorld(t, func(w *world) {
		definitions := []Definition{{ID: "kept", Spec: Every(time.Hour), Task: jobs.NewTask("task", nil)},
			{ID: "deleted", Spec: Every(time.Hour), Task: jobs.NewTask("task", nil)}}
		s := w.serve(w.store, jobs.Config{}, ExtensionConfig{Definitions: definitions})
		pass(time.Minute)
		if n := w.served.Missing(); n != 0 {
			t.Errorf("%d schedules are missing at first", n)
		}
		w.die("kept")
		if err := w.schedules.Delete(w.Context(), "deleted"); err != nil {
			t.Fatal(err)
		}
		pass(30 * time.Minute)
		if info := w.info("kept"); info.Status != StatusWaiting {
			t.Errorf("half an hour after its death the schedule is %s: %s", info.Status, info.Error)
		}
		if n := w.served.Missing(); n != 1 {
			t.Errorf("%d schedules are missing, want the one that was deleted", n)
		}
		if _, err := w.schedules.Get(w.Context(), "deleted"); !errors.Is(err, broker.ErrNotFound) {
			t.Errorf("the server put back what somebody deleted: %v", err)
		}
		w.down(s)
		pass(time.Minute)
		if n := w.served.Missing(); n != 0 {
			t.Errorf("after its end the server reports %d missing", n)
		}
		w.serve(w.store, jobs.Config{}, ExtensionConfig{Definitions: definitions})
		pass(time.Minute)
		if n := w.served.Missing(); n != 0 || w.info("deleted").Status != StatusWaiting {
			t.Errorf("after a start %d are missing, and the one that was is %s", n, w.info("deleted").Status)
		}
	})
}

// A store ends a page early if its jobs are large. What is on the next page is not missing.
func TestExtension_ReadsEveryPageBeforeAScheduleIsMissing(t *testing.T) {
	inWorld(t, func(w *world) {
		var definitions []Definition
		for i := range 5 {
			id := fmt.Sprint("s", i)
			definitions = append(definitions, Definition{ID: id})
			if i != 3 {
				w.put(id, Every(time.Hour))
			}
		}
		short := broker.Wrap(w.store, func(ctx context.Context, c *broker.Call, next func(context.Context) error) error {
			q, ok := c.Request.(*broker.Query)
			if !ok || len(q.IDs) < 2 {
				return next(ctx)
			}
			from, _ := strconv.Atoi(q.Cursor)
			whole := *q
			whole.Cursor = ""
			page, err := w.store.Find(ctx, whole)
			to := min(from+2, len(page.Jobs))
			if page.Jobs = page.Jobs[from:to]; to < 4 {
				page.Cursor = strconv.Itoa(to)
			}
			*c.Reply.(*broker.Page) = page
			return err
		})
		x := &runner{Schedules: New(short, "test"), log: slog.New(slog.DiscardHandler)}
		if n, err := x.countMissing(w.Context(), definitions); n != 1 || err != nil {
			t.Errorf("%d of five schedules are missing (%v), want the one that was never put", n, err)
		}
	})
}
