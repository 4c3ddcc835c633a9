package jobs

import (
	"context"
	"errors"
	"math"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed81422ce9/jobs/broker"
	"github.com/seed81422ce9/jobs/internal/handworker"
	"github.com/seed81422ce9/jobs/internal/sleep"
)

type summary struct{ Orders int }

func TestAwait_ReturnsTheResultAsSoonAsThereIsOne(t *testing.T) {
	bubble(t, func(t *testing.T) {
		store := newSpyStore(t)
		serve(t, store, Config{}, func(_ context.Context, job *Job) error {
			time.Sleep(time.Minute)
			return SetResult(job, summary{17})
		})
		c := newTestClient(t, store, ClientConfig{})
		info := mustEnqueue(t, c, NewTask("sum", nil), WithRetention(time.Hour))
		start := time.Now()
		got, err := Await[summary](t.Context(), c, info.Queue, info.ID)
		if err != nil || got != (summary{17}) {
			t.Errorf("the result is %+v, %v", got, err)
		}
		if took := time.Since(start); took != time.Minute {
			t.Errorf("Await returned after %v, the job ended after a minute", took)
		}
	})
}

// Whoever waits hears of progress while the job runs, and of the last before its
// end.
func TestClient_WaitTellsOfProgress(t *testing.T) {
	bubble(t, func(t *testing.T) {
		store := newSpyStore(t)
		serve(t, store, Config{}, func(_ context.Context, job *Job) error {
			for i := range int64(10) {
				job.SetProgress(i, 10, "sending")
				time.Sleep(5 * time.Second)
			}
			job.SetProgress(10, 10, "sent")
			return SetResult(job, summary{17})
		})
		c := newTestClient(t, store, ClientConfig{})
		info := mustEnqueue(t, c, NewTask("sum", nil), WithRetention(time.Hour))
		var told []Progress
		start, late := time.Now(), time.Duration(0)
		_, err := Await[summary](t.Context(), c, info.Queue, info.ID, OnProgress(func(p Progress) {
			told = append(told, p)
			late = max(late, time.Since(start)-time.Duration(p.Done)*5*time.Second)
		}))
		if err != nil || len(told) != 11 || told[10] != (Progress{Done: 10, Total: 10, Note: "sent"}) {
			t.Errorf("told of %v, %v; want each of eleven once", told, err)
		}
		if late > 3*time.Second {
			t.Errorf("progress was told up to %v late", late)
		}
	})
}

// Each way in which a job can end has an error of its own.
func TestAwait_SaysHowTheJobEnded(t *testing.T) {
	all := []error{ErrDead, ErrExpired, ErrCancelled, ErrGone, ErrResult}
	for name, c := range map[string]struct {
		outcome broker.Outcome
		options []Option
		want    []error
		words   []string
	}{
		"dead": {broker.Die(broker.ReasonSkipRetry, broker.Failure{Message: "no such user"}), nil, []error{ErrDead},
			[]string{"no such user"}},
		"expired":   {broker.Die(broker.ReasonExpired, broker.Failure{}), nil, []error{ErrDead, ErrExpired}, []string{"deadline"}},
		"cancelled": {broker.Cancel(broker.Failure{}), []Option{WithRetention(time.Hour)}, []error{ErrCancelled}, nil},
		"vanished":  {broker.Complete([]byte("{}")), nil, []error{ErrGone}, []string{"WithRetention"}},
		"another type": {broker.Complete([]byte(`{"Orders":"many"}`)), []Option{WithRetention(time.Hour)}, []error{ErrResult},
			[]string{"jobs.summary", `"Orders"`}},
		"no JSON": {broker.Complete([]byte("seventeen")), []Option{WithRetention(time.Hour)}, []error{ErrResult},
			[]string{"jobs.summary", "malformed JSON"}},
		"no result": {broker.Complete(nil), []Option{WithRetention(time.Hour)}, []error{ErrResult}, []string{"jobs.summary", "set none"}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := newSpyStore(t)
				client := newTestClient(t, store, ClientConfig{})
				info := mustEnqueue(t, client, NewTask("sum", nil), c.options...)
				w := handworker.New(t, store, "w", "default")
				go func() {
					_ = sleep.For(t.Context(), time.Second)
					w.Settle(w.Claim(), c.outcome)
				}()
				_, err := Await[summary](t.Context(), client, info.Queue, info.ID)
				for _, e := range all {
					want := false
					for _, w := range c.want {
						want = want || e == w
					}
					if errors.Is(err, e) != want {
						t.Errorf("the error is %v; errors.Is for %q says %t", err, e, !want)
					}
				}
				for _, words := range append(c.words, info.ID) {
					if err == nil || !strings.Contains(err.Error(), words) {
						t.Errorf("the error is %v, want %q in it", err, words)
					}
				}
			})
		})
	}
}

func TestSetResult_WhatCannotBeEncodedIsNotRetried(t *testing.T) {
	t.Parallel()
	job := NewJob(&broker.Job{})
	err := SetResult(job, math.Inf(1))
	if !errors.Is(err, SkipRetry) || !strings.Contains(err.Error(), "float64") || job.Result() != nil {
		t.Errorf("the error is %v, and the result %q", err, job.Result())
	}
}
