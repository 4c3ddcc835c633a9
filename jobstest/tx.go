package jobstest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"

	"github.com/seed81422ce9/jobs/broker"
)

// Tx stands for a database transaction: Client.In(tx) enqueues into it. Its jobs are
// stored by Commit, and dropped by Rollback. Like the transactions of pgbroker, it is
// a broker.Producer.
//
// It answers as the store would: a duplicate of a job in the store or in the
// transaction is refused at once. Unlike in Postgres, other clients do not wait for
// the transaction: if one of them stores a duplicate meanwhile, Commit fails.
type Tx struct {
	b *Broker

	mu   sync.Mutex
	jobs []broker.NewJob
	over bool
}

var (
	errOpen       = errors.New("it is in a transaction that is not committed yet")
	errRolledBack = errors.New("it was in a transaction that was rolled back")
)

// Begin begins a transaction. If it is neither committed nor rolled back when the test
// ends, the test fails.
func (b *Broker) Begin() *Tx {
	tx := &Tx{b: b}
	b.mu.Lock()
	b.open = append(b.open, tx)
	b.mu.Unlock()
	b.t.Cleanup(func() {
		b.t.Helper()
		tx.mu.Lock()
		defer tx.mu.Unlock()
		if !tx.over {
			b.t.Errorf("a transaction with %s was neither committed nor rolled back", plural(len(tx.jobs), "job"))
		}
	})
	return tx
}

// Enqueue adds jobs to the transaction.
func (tx *Tx) Enqueue(ctx context.Context, req broker.EnqueueRequest) ([]broker.Receipt, error) {
	tx.mu.Lock()
	defer tx.mu.Unlock()
	if tx.over {
		return nil, &broker.Error{Op: "enqueue", Err: broker.ErrInvalid, Hint: "the transaction is over; it takes no more jobs"}
	}
	before := len(tx.jobs)
	req.Jobs = append(tx.jobs[:before:before], req.Jobs...)
	receipts, err := tx.b.handle.Try(ctx, req)
	if err != nil {
		return nil, err
	}
	receipts = receipts[before:]
	for i, r := range receipts {
		job := req.Jobs[before+i]
		if r.Err != nil {
			tx.b.log.enqueued([]broker.NewJob{job}, []broker.Receipt{r}, tx.b.Now())
			continue
		}
		job.Body.Payload, job.Body.Headers = bytes.Clone(job.Body.Payload), maps.Clone(job.Body.Headers)
		tx.jobs = append(tx.jobs, job)
	}
	return receipts, nil
}

// Limits returns those of the broker.
func (tx *Tx) Limits() broker.Limits { return tx.b.Limits() }

// Commit stores the jobs of the transaction: all, or none if it returns an error.
func (tx *Tx) Commit() error {
	tx.mu.Lock()
	defer tx.mu.Unlock()
	if err := tx.end(); err != nil || len(tx.jobs) == 0 {
		return err
	}
	ctx, req := context.Background(), broker.EnqueueRequest{Jobs: tx.jobs}
	receipts, err := tx.b.handle.Try(ctx, req)
	for i := range receipts {
		if err == nil && receipts[i].Err != nil {
			err = fmt.Errorf("the transaction was not committed: %w", receipts[i].Err)
		}
	}
	if err == nil {
		_, err = tx.b.plain.Enqueue(ctx, req)
	}
	return err
}

// Rollback drops the jobs of the transaction. After Commit or Rollback it returns an
// error, which a deferred call may ignore.
func (tx *Tx) Rollback() error {
	tx.mu.Lock()
	defer tx.mu.Unlock()
	if err := tx.end(); err != nil {
		return err
	}
	for _, job := range tx.jobs {
		tx.b.log.enqueued([]broker.NewJob{job}, []broker.Receipt{{Queue: job.Queue, ID: job.ID, Err: errRolledBack}}, tx.b.Now())
	}
	return nil
}

// end closes the transaction.
func (tx *Tx) end() error {
	if tx.over {
		return errors.New("jobstest: the transaction is over")
	}
	tx.over = true
	return nil
}

// uncommitted returns the jobs in open transactions.
func (b *Broker) uncommitted() (all []*candidate) {
	b.mu.Lock()
	open := slices.Clone(b.open)
	b.mu.Unlock()
	at := b.Now()
	for _, tx := range open {
		tx.mu.Lock()
		for i := range tx.jobs {
			if e := (&entry{job: tx.jobs[i], at: at, refused: errOpen}); !tx.over {
				all = append(all, &candidate{job: e.record(), asked: e, refused: true})
			}
		}
		tx.mu.Unlock()
	}
	return all
}
