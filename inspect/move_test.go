package inspect

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed81422ce9/jobs"
	"github.com/seed81422ce9/jobs/backends/membroker"
	"github.com/seed81422ce9/jobs/broker"
)

// moveAll moves the jobs of a queue in all states.
func moveAll(ctx context.Context, i *Inspector, queue string, to Destination) (sum Report, err error) {
	for _, state := range []broker.State{broker.StatePending, broker.StateScheduled, broker.StateRetry, broker.StateDead,
		broker.StateCompleted, broker.StateCancelled} {
		r, err := i.Select(Query{Queue: queue, State: state, Suppressed: true, NoPayload: true}).Move(ctx, to)
		sum.Matched += r.Matched
		sum.Done += r.Done
		sum.Repeated += r.Repeated
		sum.Refused += r.Refused
		sum.Refusals = append(sum.Refusals, r.Refusals...)
		if err != nil {
			return sum, err
		}
	}
	return sum, nil
}

func TestMove_AMoveTakesJobsAlongWhole(t *testing.T) {
	t.Parallel()
	from, to := newPlace(membroker.New()), newPlace(membroker.New())
	from.put(t, pasts()...)
	want := from.all(t, "default")
	report, err := moveAll(t.Context(), from.Inspector, "default", Destination{Broker: to.Broker})
	if err != nil || report.Done != len(want) || report.Matched != len(want) || report.Refused+report.Repeated != 0 {
		t.Fatalf("Move: %+v, %v", report, err)
	}
	sameJobs(t, to.all(t, "default"), want)
	if left := from.all(t, "default"); len(left) != 0 {
		t.Errorf("at the source are %v", left)
	}
	report, err = moveAll(t.Context(), to.Inspector, "default", Destination{Broker: from.Broker})
	if err != nil || report.Done != len(want) || report.Repeated != 0 {
		t.Errorf("and back: %+v, %v", report, err)
	}
	sameJobs(t, from.all(t, "default"), want)
}

func TestStoreID_IsOfTheStore(t *testing.T) {
	t.Parallel()
	store := membroker.NewStore()
	id := func(i *Inspector) string {
		t.Helper()
		id, err := i.StoreID(t.Context())
		if err != nil || id == "" {
			t.Fatalf("StoreID: %q, %v", id, err)
		}
		return id
	}
	one := id(New(store.Open()))
	if same, other := id(New(store.Open())), id(New(membroker.New())); same != one || other == one {
		t.Errorf("two brokers of one store say %s and %s, one of another store %s", one, same, other)
	}
}

func TestMove_ACopyLeavesTheSourceAsItIs(t *testing.T) {
	t.Parallel()
	from, to := newPlace(membroker.New()), newPlace(membroker.New())
	from.put(t, pasts()...)
	want := from.all(t, "default")
	for _, repeated := range []int{0, len(want)} {
		report, err := moveAll(t.Context(), from.Inspector, "default", Destination{Broker: to.Broker, Copy: true})
		if err != nil || report.Done != len(want) || report.Repeated != repeated {
			t.Errorf("Copy: %+v, %v, want %d repeated", report, err, repeated)
		}
	}
	sameJobs(t, to.all(t, "default"), want)
	sameJobs(t, from.all(t, "default"), want)
}

func TestMove_AMoveIsRefusedWhereItMakesNoSense(t *testing.T) {
	t.Parallel()
	store := membroker.NewStore()
	from, same := newPlace(store.Open()), newPlace(store.Open())
	from.put(t, pasts()...)
	want := from.all(t, "default")
	pending := from.Select(Query{Queue: "default", State: broker.StatePending})
	for name, c := range map[string]struct {
		s    Selection
		to   Destination
		says string
	}{
		"onto itself": {pending, Destination{Broker: same.Broker}, "is the queue that has the jobs"},
		"nowhere":     {pending, Destination{}, "inspector"},
		"a bad queue": {pending, Destination{Broker: same.Broker, Queue: "{x}"}, "brace"},
		"jobs that run": {from.Select(Query{Queue: "default", State: broker.StateActive}), Destination{Broker: same.Broker, Queue: "other"},
			"is active"},
		"without states": {from.Select(Query{Queue: "default", Key: "acme"}), Destination{Broker: same.Broker, Queue: "other"}, "state"},
	} {
		if report, err := c.s.Move(t.Context(), c.to); !errors.Is(err, broker.ErrInvalid) || !strings.Contains(err.Error(), c.says) ||
			report.Matched != 0 {
			t.Errorf("%s: %+v, %v", name, report, err)
		}
	}
	sameJobs(t, from.all(t, "default"), want)
	if report, err := moveAll(t.Context(), from.Inspector, "default", Destination{Broker: same.Broker, Queue: "other"}); err != nil ||
		report.Done != len(want) {
		t.Errorf("into another queue of the same store: %+v, %v", report, err)
	}
}

func TestMove_AMoveStopsAtItsLimitAndKeepsItsRate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		from, to := newPlace(membroker.New()), newPlace(membroker.New())
		for n := range 200 {
			from.put(t, broker.NewJob{Queue: "default", ID: fmt.Sprint("p", n), Body: broker.Body{Type: "t", Priority: 2}})
		}
		began := time.Now()
		report, err := from.Select(Query{Queue: "default", State: broker.StatePending}).Limit(120).PerSecond(10).Move(t.Context(),
			Destination{Broker: to.Broker})
		if took := time.Since(began); err != nil || report.Done != 120 || took < 10*time.Second || took > 12*time.Second {
			t.Errorf("120 jobs at 10 a second: %+v, %v, in %v", report, err, took)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
		defer cancel()
		if report, err = from.Select(Query{Queue: "default", State: broker.StatePending}).PerSecond(10).Move(ctx,
			Destination{Broker: to.Broker}); err == nil || report.Done == 0 {
			t.Errorf("interrupted: %+v, %v", report, err)
		}
		for _, j := range from.all(t, "default") {
			if j.State == broker.StateWaiting {
				t.Errorf("after an interruption %s is held", j.ID)
			}
		}
	})
}

// Jobs that the destination refuses are neither lost nor held here.
func TestMove_WhatCannotBeAtTheDestinationStays(t *testing.T) {
	t.Parallel()
	job := func(id, unique string) broker.NewJob {
		return broker.NewJob{Queue: "default", ID: id, Body: broker.Body{Type: "t", Priority: 2, Payload: []byte("here"),
			Unique: broker.Unique{Key: unique}}}
	}
	from, to := newPlace(membroker.New()), newPlace(membroker.New())
	from.put(t, job("same-id", ""), job("same-key", "k"), job("remembered", ""), job("free", ""), job("held", ""))
	other := job("same-id", "")
	other.Body.Payload, other.Body.Type = []byte("there"), "another"
	gone := job("remembered", "")
	gone.Body.GivenID = true
	to.put(t, other, job("holder", "k"), gone, job("held", ""))
	for _, op := range []broker.Operation{
		{Kind: broker.OpDelete, Refs: []broker.Ref{{Queue: "default", ID: "remembered", Epoch: broker.AnyEpoch}}},
		{Kind: broker.OpHold, Holder: "somebody", Refs: []broker.Ref{{Queue: "default", ID: "held", Epoch: broker.AnyEpoch}}},
	} {
		if results, err := to.Operate(t.Context(), op); err != nil || results[0].Err != nil {
			t.Fatal(results, err)
		}
	}
	report, err := from.Select(Query{Queue: "default", State: broker.StatePending}).Move(t.Context(), Destination{Broker: to.Broker})
	if err != nil || report.Done != 1 || report.Refused != 4 {
		t.Errorf("Move: %+v, %v", report, err)
	}
	for _, r := range report.Refusals {
		want := broker.ErrDuplicate
		if r.ID == "held" {
			want = broker.ErrWrongState
		}
		if !errors.Is(r.Err, want) || (r.ID == "same-key") != (r.Holder == "holder") {
			t.Errorf("%+v", r)
		}
	}
	for id, j := range from.all(t, "default") {
		if j.State != broker.StatePending || string(j.Payload) != "here" || id == "free" {
			t.Errorf("%s is left as %+v", id, j)
		}
	}
	if _, err := to.SetPolicy(t.Context(), PolicyRequest{Queue: "default", MaxDepth: new(int64(1))}); err != nil {
		t.Fatal(err)
	}
	from.put(t, job("one-more", ""))
	report, err = from.Select(Query{Queue: "default", State: broker.StatePending}).Move(t.Context(), Destination{Broker: to.Broker})
	if err != nil || report.Done != 0 || len(from.all(t, "default")) != 5 ||
		!errors.Is(report.namedError(broker.OpHold), broker.ErrQueueFull) {
		t.Errorf("into a full queue: %+v, %v", report, err)
	}
}

func (m mortal) Operate(ctx context.Context, op broker.Operation) ([]broker.OperationResult, error) {
	return dies(m, func() ([]broker.OperationResult, error) { return m.Broker.Operate(ctx, op) })
}

func (m mortal) Find(ctx context.Context, q broker.Query) (broker.Page, error) {
	return dies(m, func() (broker.Page, error) { return m.Broker.Find(ctx, q) })
}

func (m mortal) Mark(ctx context.Context, req broker.MarkRequest) (broker.Marked, error) {
	return dies(m, func() (broker.Marked, error) { return m.Broker.Mark(ctx, req) })
}

// Jobs held for one destination stay held when a move to another one runs.
func TestMove_AMoveToElsewhereLeavesHeldJobsAlone(t *testing.T) {
	t.Parallel()
	from, first, second := newPlace(membroker.New()), newPlace(membroker.New()), newPlace(membroker.New())
	from.put(t, pasts()...)
	from.put(t, broker.NewJob{Queue: "default", ID: "x", Body: broker.Body{Type: "t", Priority: 2}})
	m, err := from.mover(t.Context(), "default", Destination{Broker: first.Broker}, true)
	if err != nil {
		t.Fatal(err)
	}
	if results, err := from.Operate(t.Context(), broker.Operation{Kind: broker.OpHold, Holder: m.holder,
		Refs: []broker.Ref{{Queue: "default", ID: "x", Epoch: broker.AnyEpoch}}}); err != nil || results[0].Err != nil {
		t.Fatal(results, err)
	}
	if report, err := moveAll(t.Context(), from.Inspector, "default", Destination{Broker: second.Broker}); err != nil ||
		report.Done != len(pasts()) {
		t.Errorf("to elsewhere: %+v, %v", report, err)
	}
	if j := from.all(t, "default")["x"]; j.State != broker.StateWaiting {
		t.Errorf("the held job is %+v", j)
	}
	if report, err := from.UndoMove(t.Context(), "default", Destination{Broker: second.Broker}); err != nil || report.Done != 0 {
		t.Errorf("undoing what was not done: %+v, %v", report, err)
	}
	if report, err := from.FinishMove(t.Context(), "default", Destination{Broker: first.Broker}); err != nil || report.Done != 1 {
		t.Errorf("FinishMove: %+v, %v", report, err)
	}
	from.put(t, broker.NewJob{Queue: "default", ID: "y", Body: broker.Body{Type: "t", Priority: 2}})
	if _, err := from.Operate(t.Context(), broker.Operation{Kind: broker.OpHold, Holder: m.holder,
		Refs: []broker.Ref{{Queue: "default", ID: "y", Epoch: broker.AnyEpoch}}}); err != nil {
		t.Fatal(err)
	}
	if report, err := from.UndoMove(t.Context(), "default", Destination{}); err != nil || report.Done != 1 ||
		from.all(t, "default")["y"].State != broker.StatePending {
		t.Errorf("undoing without a destination: %+v, %v", report, err)
	}
}

// Workers run at the source and at the destination during the move.
func TestMove_JobsRunOnceWhileTheyAreMoved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const n = 1000
		from, to := newPlace(membroker.New()), newPlace(membroker.New())
		var mu sync.Mutex
		runs := make(map[string]int)
		sides := map[string]int{}
		serve := func(side string, p place) *jobs.Server {
			server, err := jobs.NewServer(p.Broker, jobs.Config{Concurrency: 3, Prefetch: jobs.NoPrefetch, RetryPolicy: jobs.Constant(time.Second),
				Logger: slog.New(slog.DiscardHandler)})
			if err != nil {
				t.Fatal(err)
			}
			if err := server.Start(context.Background(), jobs.HandlerFunc(func(_ context.Context, j *jobs.Job) error {
				time.Sleep(20 * time.Millisecond)
				mu.Lock()
				defer mu.Unlock()
				runs[j.ID()]++
				sides[side]++
				if j.Attempt() == 0 && strings.HasSuffix(j.ID(), "7") {
					return errors.New("again")
				}
				return nil
			})); err != nil {
				t.Fatal(err)
			}
			return server
		}
		for i := range n {
			from.put(t, broker.NewJob{Queue: "default", ID: fmt.Sprint("p", i), Body: broker.Body{Type: "t", Priority: 2, MaxRetries: 3}})
		}
		servers := []*jobs.Server{serve("here", from), serve("there", to)}
		time.Sleep(time.Second)
		for range 5 {
			if _, err := from.Select(Query{Queue: "default", State: broker.StatePending}).PerSecond(500).Move(t.Context(),
				Destination{Broker: to.Broker}); err != nil {
				t.Error(err)
			}
			if _, err := from.Select(Query{Queue: "default", State: broker.StateRetry}).Move(t.Context(),
				Destination{Broker: to.Broker}); err != nil {
				t.Error(err)
			}
			time.Sleep(time.Second)
		}
		time.Sleep(time.Minute)
		for _, s := range servers {
			if err := s.Shutdown(t.Context()); err != nil {
				t.Error(err)
			}
		}
		for i := range n {
			id, want := fmt.Sprint("p", i), 1
			if strings.HasSuffix(id, "7") {
				want = 2
			}
			if runs[id] != want {
				t.Errorf("%s ran %d times, want %d", id, runs[id], want)
			}
		}
		if sides["here"] < 100 || sides["there"] < 100 {
			t.Errorf("it ran on both sides: %v", sides)
		}
	})
}
