package pgbroker

import (
	"github.com/jackc/pgx/v5/pgtype/zeronull"

	"github.com/seed81422ce9/jobs/broker"
)

// jobRow receives the last columns of every statement that returns whole jobs, in this
// order.
type jobRow struct {
	id        string
	createdAt int64
	headRow
	body []byte
}

// headRow receives the stored head.
type headRow struct {
	epoch                                  zeronull.Int8
	deliveries, failures, crashes, snoozes zeronull.Int4
	tail                                   []byte
}

func (r *headRow) columns() []any {
	return []any{&r.epoch, &r.deliveries, &r.failures, &r.crashes, &r.snoozes, &r.tail}
}

func (r *jobRow) columns() []any {
	return append(append([]any{&r.id, &r.createdAt}, r.headRow.columns()...), &r.body)
}

// head returns the head that was read. It returns an error if this program cannot read the
// tail.
func (r *headRow) head() (broker.Head, error) {
	h := broker.Head{Epoch: int64(r.epoch), Deliveries: int(r.deliveries), Failures: int(r.failures),
		Crashes: int(r.crashes), Snoozes: int(r.snoozes)}
	err := broker.ParseTail(r.tail, &h)
	return h, err
}

// job returns the job that was read. It owns body and tail.
func (r *jobRow) job(queue string, state broker.State) broker.Job {
	j := broker.Job{Queue: queue, ID: r.id, State: state, CreatedAt: broker.FromMicros(r.createdAt)}
	j.Body, j.Broken = broker.ParseBody(r.body)
	head, err := r.head()
	if j.Head = head; j.Broken == nil {
		j.Broken = err
	}
	return j
}
