package broker_test

import (
	"math"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/seed81422ce9/jobs/broker"
)

func TestRestore_WhatNoJobCanHaveBeenIsNotRestored(t *testing.T) {
	t.Parallel()
	restore := func(change func(*broker.NewJob, *broker.Restored)) error {
		return with(func(j *broker.NewJob) {
			j.Restore = &broker.Restored{State: broker.StateDead, CreatedAt: time.Unix(1, 0), Head: fullHead()}
			change(j, j.Restore)
		})
	}
	if err := restore(func(*broker.NewJob, *broker.Restored) {}); err != nil {
		t.Fatalf("a valid restored job was refused: %v", err)
	}
	atTheLimits := restore(func(j *broker.NewJob, r *broker.Restored) {
		r.State, j.RunAt = broker.StateRetry, broker.MaxTime.Add(-1)
		r.Head = broker.Head{Epoch: broker.MaxEpoch, Deliveries: math.MaxInt32, Failures: math.MaxInt32, Crashes: math.MaxInt32,
			Snoozes: math.MaxInt32, Result: make([]byte, broker.MaxResult)}
	})
	if atTheLimits != nil {
		t.Errorf("a restored job at every limit was refused: %v", atTheLimits)
	}
	type job = broker.NewJob
	type past = broker.Restored
	all := []bad{
		{"an active job", restore(func(_ *job, r *past) { r.State = broker.StateActive }), broker.ErrInvalid,
			[]string{"restored state", "active", "retry, dead"}},
		{"a held job", restore(func(_ *job, r *past) { r.State = broker.StateWaiting }), broker.ErrInvalid,
			[]string{"restored state", "waiting"}},
		{"no state", restore(func(_ *job, r *past) { r.State = broker.StateNone }), broker.ErrInvalid, []string{"restored state", "none"}},
		{"a dead job with a time", restore(func(j *job, _ *past) { j.RunAt = time.Unix(1, 0) }), broker.ErrInvalid,
			[]string{"run at", "dead", "leave it out"}},
		{"a dead job with a delay", restore(func(j *job, _ *past) { j.Delay = 1 }), broker.ErrInvalid,
			[]string{"run at", "dead", "leave it out"}},
		{"a negative epoch", restore(func(_ *job, r *past) { r.Head.Epoch = -1 }), broker.ErrInvalid,
			[]string{"restored epoch", "-1", "4503599627370496"}},
		{"a huge epoch", restore(func(_ *job, r *past) { r.Head.Epoch = broker.MaxEpoch + 1 }), broker.ErrInvalid,
			[]string{"restored epoch", "4503599627370497"}},
		{"a huge count", restore(func(_ *job, r *past) { r.Head.Snoozes = math.MaxInt32 + 1 }), broker.ErrInvalid,
			[]string{"restored counts", "2147483648", "2147483647"}},
		{"negative snoozes with a cause", restore(func(_ *job, r *past) {
			r.Head.PutOffs = []broker.PutOff{{Cause: "full", Times: -1}}
		}),
			broker.ErrInvalid, []string{"restored counts", "-1", "2147483647"}},
		{"a huge result", restore(func(_ *job, r *past) { r.Head.Result = make([]byte, broker.MaxResult+1) }), broker.ErrTooLarge,
			[]string{"result", "1048577", "1048576", "elsewhere"}},
		{"a huge history", restore(func(_ *job, r *past) {
			r.Head.Errors.Entries = slices.Repeat([]broker.Failure{{Message: string(make([]byte, 4096))}}, 1024)
		}),
			broker.ErrTooLarge, []string{"restored head", "4194304", "drop"}},
	}
	for name, count := range map[string]func(*broker.Head) *int{
		"deliveries": func(h *broker.Head) *int { return &h.Deliveries }, "failures": func(h *broker.Head) *int { return &h.Failures },
		"crashes": func(h *broker.Head) *int { return &h.Crashes }, "dropped errors": func(h *broker.Head) *int { return &h.Errors.Dropped },
	} {
		all = append(all, bad{"negative " + name, restore(func(_ *job, r *past) { *count(&r.Head) = -1 }), broker.ErrInvalid,
			[]string{"restored counts", "-1", "0 to"}})
	}
	all = append(all, badTimes("created at", func(at time.Time) error { return restore(func(_ *job, r *past) { r.CreatedAt = at }) })...)
	all = append(all, badTimes("finished at", func(at time.Time) error {
		return restore(func(_ *job,
			r *past) {
			r.Head.FinishedAt = at
		})
	})...)
	checkRefusals(t, "enqueue", all)
}

func TestRestore_ACopyIsOfWhatTheJobWas(t *testing.T) {
	t.Parallel()
	j := broker.Job{Queue: "q", ID: "id", Body: fullBody(), Head: fullHead(), CreatedAt: time.Unix(5, 0), RunAt: time.Unix(9, 0),
		State: broker.StateWaiting, HeldFrom: broker.StateRetry, Holder: "somebody"}
	want := broker.NewJob{Queue: "q", ID: "id", Body: fullBody(), RunAt: time.Unix(9, 0),
		Restore: &broker.Restored{State: broker.StateRetry, CreatedAt: time.Unix(5, 0), Head: fullHead()}}
	if got := j.Copy(); !reflect.DeepEqual(got, want) {
		t.Errorf("the copy of a held job is %+v, want %+v", got, want)
	}
	j.State, j.HeldFrom = broker.StateActive, broker.StateNone
	copied := j.Copy()
	checkRefusals(t, "enqueue", []bad{{"a copy of an active job", copied.Check(broker.Limits{}), broker.ErrInvalid, []string{"active"}}})
}

func TestRestore_ARestoredHeadHasWhatGoesWithItsState(t *testing.T) {
	t.Parallel()
	now := time.Date(2031, 1, 1, 0, 0, 0, 0, time.UTC)
	full := fullHead()
	for _, state := range broker.States() {
		r := broker.Restored{State: state, Head: full}
		h := r.NewHead(now)
		dead, final := state == broker.StateDead, state.Final()
		if h.Epoch != full.Epoch+1 || h.Deliveries != full.Deliveries || len(h.Errors.Entries) != len(full.Errors.Entries) {
			t.Errorf("%v: the head is %+v, want the next epoch and the same counts and errors as %+v", state, h, full)
		}
		if h.Suppressed != dead || (h.Reason != broker.ReasonNone) != dead || h.FinishedAt.IsZero() == final ||
			(h.Result != nil) != (state == broker.StateCompleted) {
			t.Errorf("%v: the head is %+v; a reason and a mark are of dead jobs, a result of completed ones, an end of those that ended", state, h)
		}
		r.Head.FinishedAt = time.Time{}
		if h := r.NewHead(now); final && !h.FinishedAt.Equal(now) {
			t.Errorf("%v without an end: it ended at %v, want now", state, h.FinishedAt)
		}
	}
}

func TestBody_SameIsOfOneJobPerhapsEdited(t *testing.T) {
	t.Parallel()
	body := fullBody()
	body.Unique.Key = "u"
	edited := body
	edited.Payload, edited.GivenID, edited.DueAfter = []byte("another"), !body.GivenID, body.DueAfter+1
	if !body.Same(&edited) {
		t.Error("a job with another payload, which was relayed, is not the same")
	}
	replaced := body
	replaced.CopyContent(&broker.Body{TypeVersion: body.TypeVersion + 1, Payload: []byte("p"), PayloadRef: body.PayloadRef + "x",
		Headers: map[string]string{"x": "y"}, CorrelationID: body.CorrelationID + "x", IdempotencyKey: body.IdempotencyKey + "x"})
	if !body.Same(&replaced) {
		t.Error("a job with a unique key, whose content was replaced, is not the same")
	}
	body.Unique.Key, replaced.Unique.Key = "", ""
	if body.Same(&replaced) {
		t.Error("a job without a unique key, which nothing can replace, is the same with other headers")
	}
	if body.Payload == nil || body.Headers == nil || edited.Payload == nil {
		t.Error("Same changes what it compares")
	}
	for name, change := range map[string]func(*broker.Body){
		"type":       func(b *broker.Body) { b.Type += "x" },
		"key":        func(b *broker.Body) { b.Key += "x" },
		"retries":    func(b *broker.Body) { b.MaxRetries++ },
		"unique key": func(b *broker.Body) { b.Unique.Key += "x" },
	} {
		other := body
		if change(&other); body.Same(&other) {
			t.Errorf("a job with another %s is the same", name)
		}
	}
}

func TestJob_CopyableIsWhatCanBeReadWhole(t *testing.T) {
	t.Parallel()
	if err := (&broker.Job{Body: fullBody()}).Copyable(); err != nil {
		t.Errorf("a whole job: %v", err)
	}
	if err := (&broker.Job{Broken: broker.ErrMalformed}).Copyable(); err != broker.ErrMalformed {
		t.Errorf("a job that cannot be read: %v", err)
	}
	body := fullBody()
	form := append(broker.AppendBody(nil, &body), 0xf8, 0x07, 0x01) // field 127, a number
	newer, err := broker.ParseBody(form)
	if err != nil || !newer.Newer() {
		t.Fatalf("a body with an unknown field: %+v, %v", newer, err)
	}
	if err := (&broker.Job{Body: newer}).Copyable(); err != broker.ErrNewerForm {
		t.Errorf("a job with an unknown field: %v, want ErrNewerForm", err)
	}
}
