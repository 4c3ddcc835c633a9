package jobs

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/seed81422ce9/jobs/broker"
)

// transactional is a broker in which handlers' transactions complete jobs: a
// settle of one that did finds no lease.
type transactional struct {
	tap
	committed map[string]bool
}

func newTransactional() *transactional {
	b := &transactional{tap: tap{Broker: newStore()}, committed: make(map[string]bool)}
	b.settle = func(ctx context.Context, req broker.SettleRequest) ([]broker.Verdict, error) {
		b.before(&req)
		verdicts, err := b.Broker.Settle(ctx, req)
		b.after(verdicts)
		return verdicts, err
	}
	b.claim = func(ctx context.Context, req broker.ClaimRequest) (broker.Claimed, error) {
		b.before(&req.Settle)
		reply, err := b.Broker.Claim(ctx, req)
		b.after(reply.Verdicts)
		return reply, err
	}
	return b
}

func (b *transactional) before(req *broker.SettleRequest) {
	req.Items = slices.Clone(req.Items)
	for i := range req.Items {
		if b.committed[req.Items[i].Job.ID] {
			req.Items[i].Outcome = broker.Complete(nil)
		}
	}
}

func (b *transactional) after(verdicts []broker.Verdict) {
	for i, v := range verdicts {
		if b.committed[v.ID] {
			verdicts[i] = broker.Verdict{Queue: v.Queue, ID: v.ID, Err: broker.About(ErrLeaseLost, "settle", v.Queue, v.ID)}
		}
	}
}

func TestServer_AJobCompletedInATransactionIsNoLostLease(t *testing.T) {
	bubble(t, func(t *testing.T) {
		for name, handlerErr := range map[string]error{"committed": nil, "the commit's answer was lost": errors.New("connection reset")} {
			b := newTransactional()
			var log testLog
			var kinds []broker.OutcomeKind
			var verdicts []broker.Verdict
			s := serve(t, b, Config{Logger: log.logger(), Prefetch: NoPrefetch, Hooks: Hooks{Settle: func(e SettleEvent) {
				for i := range e.Items {
					kinds, verdicts = append(kinds, e.Items[i].Outcome.Kind()), append(verdicts, e.Verdicts[i])
				}
			}}}, func(_ context.Context, job *Job) error {
				job.WithPayload(nil).CompletesInTx()
				b.committed[job.ID()] = true
				return handlerErr
			})
			id := add(t, b, DefaultQueue, "order", 1)[0]
			pass(time.Minute)
			if len(verdicts) != 1 || kinds[0] != broker.OutcomeComplete || verdicts[0].State != StateCompleted || verdicts[0].Err != nil ||
				verdicts[0].ID != id {
				t.Errorf("%s: hooks were told %v, %+v; want that %s is completed", name, kinds, verdicts, id)
			}
			if lines := log.lines("level=WARN"); len(lines) > 0 {
				t.Errorf("%s: the log warns: %q", name, lines)
			}
			s.Shutdown(t.Context())
			b.Close()
		}
	})
}

func TestServer_AJobThatAnotherServerHasAfterARollbackIsNotCountedTwice(t *testing.T) {
	bubble(t, func(t *testing.T) {
		store := newStore()
		c := newCable(store)
		var log testLog
		completed, refused := 0, 0
		serve(t, c, Config{Logger: log.logger(), Prefetch: NoPrefetch, Hooks: Hooks{Settle: func(e SettleEvent) {
			for i := range e.Verdicts {
				if e.Verdicts[i].Err != nil {
					refused++
				} else if e.Items[i].Outcome.Kind() == broker.OutcomeComplete {
					completed++
				}
			}
		}}}, func(ctx context.Context, job *Job) error {
			job.CompletesInTx()
			c.setCut(true) // the commit fails with the connection
			<-ctx.Done()
			return context.Canceled
		})
		id := add(t, store, DefaultQueue, "order", 1)[0]
		pass(time.Second)
		serve(t, store, Config{}, func(context.Context, *Job) error { return nil })
		pass(time.Minute)
		c.setCut(false)
		pass(time.Minute)
		expect(t, store, DefaultQueue, id, StateCompleted)
		if completed != 0 || refused != 1 || len(log.lines("outcomes were refused")) != 1 {
			t.Errorf("the first server counts %d completed and %d refused, and warns %q; want that its outcome was refused", completed, refused,
				log.lines("outcomes were refused"))
		}
	})
}

func TestServer_AJobWhoseTransactionDidNotCommitRunsAgain(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b := newTransactional()
		defer b.Close()
		runs := 0
		s := serve(t, b, Config{Prefetch: NoPrefetch}, func(_ context.Context, job *Job) error {
			job.CompletesInTx()
			b.committed[job.ID()] = runs > 0
			runs++
			return nil // although the first transaction was rolled back
		})
		id := add(t, b, DefaultQueue, "order", 1)[0]
		pass(time.Hour)
		j := expect(t, b, DefaultQueue, id, StateCompleted)
		if last := j.Errors.Last(); last.Class != ClassUncommitted || j.Failures != 1 {
			t.Errorf("the job has %d failures, the last %+v; want one of class %s", j.Failures, last, ClassUncommitted)
		}
		if runs != 2 {
			t.Errorf("the job ran %d times, want twice", runs)
		}
		s.Shutdown(t.Context())
	})
}

func TestServer_AJobWhoseLastTransactionDidNotCommitIsDead(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b := newTransactional()
		defer b.Close()
		s := serve(t, b, Config{Prefetch: NoPrefetch}, func(_ context.Context, job *Job) error {
			job.CompletesInTx()
			return nil
		})
		id := add(t, b, DefaultQueue, "order", 1, func(j *broker.NewJob) { j.Body.MaxRetries = 0 })[0]
		pass(time.Second)
		if j := expect(t, b, DefaultQueue, id, StateDead); j.Errors.Last().Class != ClassUncommitted {
			t.Errorf("the last error is %+v, want one of class %s", j.Errors.Last(), ClassUncommitted)
		}
		s.Shutdown(t.Context())
	})
}

func TestServer_AHandlerThatFailsAfterARollbackIsRetriedAsUsual(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b := newTransactional()
		defer b.Close()
		s := serve(t, b, Config{Prefetch: NoPrefetch}, func(_ context.Context, job *Job) error {
			job.CompletesInTx()
			return errors.New("serialization failure")
		})
		id := add(t, b, DefaultQueue, "order", 1)[0]
		pass(time.Second)
		if j := expect(t, b, DefaultQueue, id, StateRetry); j.Errors.Last().Class != ClassRetryable {
			t.Errorf("the last error is %+v, want the handler's", j.Errors.Last())
		}
		s.Shutdown(t.Context())
	})
}
