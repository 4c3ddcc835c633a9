package inspect_test

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed81422ce9/jobs/backends/membroker"
	"github.com/seed81422ce9/jobs/broker"
	"github.com/seed81422ce9/jobs/conformance/faulty"
	"github.com/seed81422ce9/jobs/inspect"
)

// dying fills a queue with dead jobs and redrives them. It returns the dead jobs.
func dying(t *testing.T, b broker.Broker, queue string, n int) []broker.Job {
	t.Helper()
	ctx := t.Context()
	ok := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	_, err := b.Renew(ctx, broker.RenewRequest{Worker: "w", Queues: []string{queue}, Lease: time.Hour, Register: true})
	ok(err)
	var all []broker.NewJob
	for id := range n {
		all = append(all, broker.NewJob{Queue: queue, ID: fmt.Sprint("j", id), Body: broker.Body{Type: "t", Priority: broker.PriorityNormal,
			Payload: []byte(fmt.Sprint("payload ", id)), Unique: broker.Unique{Key: fmt.Sprint("key-", id)}}})
	}
	_, err = b.Enqueue(ctx, broker.EnqueueRequest{Jobs: all})
	ok(err)
	claimed, err := b.Claim(ctx, broker.ClaimRequest{Worker: "w", Queues: []broker.Share{{Queue: queue, Max: n}}, Max: n})
	ok(err)
	req := broker.SettleRequest{Worker: "w", Number: 1}
	for i := range claimed.Jobs {
		req.Items = append(req.Items, broker.Settlement{Job: &claimed.Jobs[i],
			Outcome: broker.Die(broker.ReasonSkipRetry, broker.Failure{At: time.Now().UTC().Truncate(time.Microsecond), Message: "no route"}).
				With(broker.Kept{Checkpoint: []byte("page 7")})})
	}
	_, err = b.Settle(ctx, req)
	ok(err)
	page, err := b.Find(ctx, broker.Query{Queue: queue, State: broker.StateDead, NoPayload: true})
	ok(err)
	if len(page.Jobs) != n {
		t.Fatalf("%d jobs are dead, want %d", len(page.Jobs), n)
	}
	if r, err := inspect.New(b).Select(inspect.Query{Queue: queue, State: broker.StateDead}).Redrive(ctx); err != nil || r.Done != n {
		t.Fatalf("redriven: %+v, %v", r, err)
	}
	return page.Jobs
}

func TestInspector_UndoRedriveMakesThoseDeadAgainThatNobodyClaimed(t *testing.T) {
	t.Parallel()
	b := membroker.New()
	defer b.Close()
	was := dying(t, b, "mail", 5)
	i, ctx := inspect.New(b), t.Context()
	claimed, err := b.Claim(ctx, broker.ClaimRequest{Worker: "w", Queues: []broker.Share{{Queue: "mail", Max: 2}}, Max: 2})
	if err != nil || len(claimed.Jobs) != 2 {
		t.Fatalf("claimed %d: %v", len(claimed.Jobs), err)
	}
	needed := make([]broker.Job, len(was))
	for n, j := range was {
		needed[n] = broker.Job{ID: j.ID, CreatedAt: j.CreatedAt, Head: j.Head}
		needed[n].Errors, needed[n].Kept = broker.ErrorLog{}, nil
	}
	report, err := i.UndoRedrive(ctx, "mail", needed)
	if err != nil || report.Matched != 5 || report.Done != 3 || report.Refused != 2 ||
		!errors.Is(report.Refusals[0].Err, broker.ErrWrongState) {
		t.Fatalf("the report is %+v (error %v), want 3 of 5 done and the claimed ones refused", report, err)
	}
	dead := 0
	for _, before := range was {
		j, err := i.Job(ctx, "mail", before.ID)
		if err != nil {
			t.Fatal(err)
		}
		if j.State == broker.StateActive {
			continue
		}
		dead++
		if j.State != broker.StateDead || j.Reason != before.Reason || !j.FinishedAt.Equal(before.FinishedAt) ||
			!j.CreatedAt.Equal(before.CreatedAt) || !reflect.DeepEqual(j.Errors, before.Errors) ||
			!reflect.DeepEqual(j.Kept, before.Kept) || j.Kept == nil || j.Deliveries != before.Deliveries ||
			string(j.Payload) != "payload "+before.ID[1:] || j.Epoch <= before.Redriven().Epoch+1 { // of the hold
			t.Errorf("after the undo the job is %+v, and was %+v", j, before)
		}
	}
	queues, err := i.Queues(ctx)
	if err != nil || dead != 3 || len(queues) != 1 {
		t.Errorf("%d jobs are dead in %d queues (error %v), want 3 in one", dead, len(queues), err)
	}
	// They are like any other dead jobs: they can be redriven again, once.
	if r, err := i.Select(inspect.Query{Queue: "mail", State: broker.StateDead}).Redrive(ctx); err != nil || r.Done != 3 {
		t.Errorf("redriven again: %+v, %v", r, err)
	}
	if r, err := i.UndoRedrive(ctx, "mail", was); err != nil || r.Done != 0 || r.Refused != 5 {
		t.Errorf("an undo of an earlier redrive did %+v, %v; want nothing", r, err)
	}
}

// Wherever an undo is cut off, each job exists exactly once.
func TestInspector_UndoRedriveLosesNoJob(t *testing.T) {
	t.Parallel()
	for _, method := range []string{"Operate", "Enqueue", "Find"} {
		for call := range 5 { // 0: every call
			for name, fault := range map[string]faulty.Fault{"lost": faulty.ReplyLost, "refused": faulty.Unavailable} {
				t.Run(fmt.Sprint(method, call, name), func(t *testing.T) {
					t.Parallel()
					synctest.Test(t, func(t *testing.T) {
						store := membroker.New()
						defer store.Close()
						was := dying(t, store, "mail", 3)
						b := faulty.Wrap(store, faulty.Plan{{Method: method, Call: call, Fault: fault}})
						_, _ = inspect.New(b).UndoRedrive(t.Context(), "mail", was)
						copies, states := make(map[string]int), make(map[string]string)
						for _, queue := range []string{"mail", "mail.undone"} {
							for _, before := range was {
								j, err := inspect.New(store).Job(t.Context(), queue, before.ID)
								if err == nil {
									states[j.ID] += j.State.String() + " "
								}
								if err == nil && j.State != broker.StateWaiting {
									copies[j.ID]++
								} else if err == nil {
									copies[j.ID] += 10 // held: UndoMove finds it
								}
							}
						}
						for _, before := range was {
							if n := copies[before.ID]; n == 0 {
								t.Errorf("the job %s is lost", before.ID)
							}
							if s := states[before.ID]; s == "pending dead " {
								t.Errorf("the job %s is dead, and will run", before.ID)
							}
						}
					})
				})
			}
		}
	}
}

// Undos of one queue use the same other queue, and each moves back what it finds there.
func TestInspector_UndoRedriveCountsWhatAnotherUndoMovedBack(t *testing.T) {
	t.Parallel()
	b := membroker.New()
	t.Cleanup(func() { _ = b.Close() })
	was := dying(t, b, "mail", 3)
	other := inspect.New(b)
	meanwhile := broker.Wrap(b, func(ctx context.Context, call *broker.Call, next func(context.Context) error) error {
		if q, ok := call.Request.(*broker.Query); ok && q.Queue == "mail.undone" && q.State == broker.StateDead {
			r, err := other.Select(inspect.Query{Queue: q.Queue, State: q.State}).Move(ctx, inspect.Destination{Broker: b, Queue: "mail"})
			if err != nil || r.Done != 3 {
				t.Errorf("the other undo: %+v, %v", r, err)
			}
		}
		return next(ctx)
	})
	report, err := inspect.New(meanwhile).UndoRedrive(t.Context(), "mail", was)
	if err != nil || report.Done != 3 || report.Refused != 0 {
		t.Errorf("UndoRedrive: %+v, %v; want 3 jobs done, as they are all dead again", report, err)
	}
}
