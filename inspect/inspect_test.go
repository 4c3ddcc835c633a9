package inspect

import (
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed81422ce9/jobs"
	"github.com/seed81422ce9/jobs/backends/membroker"
	"github.com/seed81422ce9/jobs/broker"
	"github.com/seed81422ce9/jobs/internal/handworker"
	"github.com/seed81422ce9/jobs/internal/sleep"
)

// bench has a store, a client, an inspector and a worker of one queue.
type bench struct {
	*membroker.Broker
	client    *jobs.Client
	inspector *Inspector
	worker    *handworker.Worker
}

func newBench(t *testing.T) *bench {
	t.Helper()
	store := newStore(t)
	b := &bench{Broker: store, client: newTestClient(t, store, jobs.ClientConfig{}), inspector: New(store)}
	mustEnqueue(t, b.client, jobs.NewTask("first", nil), jobs.WithID("first"))
	b.worker = handworker.New(t, store, "w", "default")
	b.worker.Settle(b.worker.Claim(), broker.Complete(nil))
	return b
}

// enqueue stores n jobs of a type, with IDs that begin with the type.
func (b *bench) enqueue(t *testing.T, typ string, n int, opts ...jobs.Option) {
	t.Helper()
	tasks := make([]*jobs.Task, n)
	for i := range tasks {
		tasks[i] = jobs.NewTask(typ, nil, append([]jobs.Option{jobs.WithID(fmt.Sprintf("%s-%04d", typ, i))}, opts...)...)
	}
	if _, err := b.client.EnqueueMany(t.Context(), tasks); err != nil {
		t.Fatal(err)
	}
}

// die makes the next n jobs dead.
func (b *bench) die(t *testing.T, n int, message string) {
	t.Helper()
	for range n {
		b.worker.Kill(message)
	}
}

func (b *bench) count(t *testing.T, state broker.State) int {
	t.Helper()
	n, err := b.inspector.Select(Query{Queue: "default", State: state, Suppressed: true}).Count(t.Context())
	if err != nil {
		t.Fatalf("counting %s jobs: %v", state, err)
	}
	return n
}

func TestInspect_InspectorShowsQueues(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		b.enqueue(t, "mail", 2)
		b.enqueue(t, "later", 3, jobs.WithDelay(time.Hour))
		mustEnqueue(t, b.client, jobs.NewTask("other", nil), jobs.WithQueue("other"))
		_ = sleep.For(t.Context(), time.Minute)

		q, err := b.inspector.Queue(t.Context(), "default")
		if err != nil || q.Counts[broker.StatePending] != 2 || q.Counts[broker.StateScheduled] != 3 {
			t.Errorf("Queue: %+v, %v", q, err)
		}
		if pending, scheduled, dead := q.Age(broker.StatePending), q.Age(broker.StateScheduled),
			q.Age(broker.StateDead); pending != time.Minute || scheduled != 0 || dead != 0 {
			t.Errorf("ages are %v, %v, %v; want 1m, and 0 for what is not due and what is not there", pending, scheduled, dead)
		}
		if len(q.Workers) != 1 || q.Workers[0].ID != "w" {
			t.Errorf("the workers are %+v", q.Workers)
		}
		queues, err := b.inspector.Queues(t.Context())
		if err != nil || len(queues) != 2 || queues[0].Name != "default" || queues[1].Name != "other" {
			t.Errorf("Queues: %+v, %v", queues, err)
		}
		if _, err := b.inspector.Queue(t.Context(), "nowhere"); !errors.Is(err, broker.ErrNotFound) {
			t.Errorf("a queue that does not exist: %v", err)
		}
		if _, err := b.inspector.Queue(t.Context(), ""); !errors.Is(err, broker.ErrInvalid) {
			t.Errorf("a queue without a name: %v", err)
		}
	})
}

// Jobs of low priority may wait for ever behind others: QueueInfo shows their age and
// priority.
func TestQueueInfo_AgeIsOfTheOldestPriority(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		b.enqueue(t, "backup", 1, jobs.WithPriority(broker.PriorityBulk))
		_ = sleep.For(t.Context(), 24*time.Hour)
		b.enqueue(t, "mail", 1, jobs.WithPriority(broker.PriorityUrgent))
		_ = sleep.For(t.Context(), time.Second)

		q, err := b.inspector.Queue(t.Context(), "default")
		if err != nil {
			t.Fatal(err)
		}
		bulk, urgent, normal := q.AgePending(broker.PriorityBulk), q.AgePending(broker.PriorityUrgent), q.AgePending(broker.PriorityNormal)
		if day := 24*time.Hour + time.Second; bulk != day || urgent != time.Second || normal != 0 || q.Age(broker.StatePending) != day {
			t.Errorf("bulk jobs have waited %v, urgent ones %v, normal ones %v, all %v; want a day and a second, a second, 0 and the first of these",
				bulk, urgent, normal, q.Age(broker.StatePending))
		}
	})
}

func TestInspect_InspectorShowsWorkersAndWhatTheyHold(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.enqueue(t, "mail", 1)
	mustEnqueue(t, b.client, jobs.NewTask("other", nil), jobs.WithQueue("other"))
	both := handworker.New(t, b, "both", "default", "other")
	job := both.Claim()
	both.Queue = "other"
	both.Claim()

	workers, err := b.inspector.Workers(t.Context())
	if err != nil || len(workers) != 2 || workers[0].ID != "both" || workers[0].Held != 2 || workers[1].Held != 0 {
		t.Errorf("Workers: %+v, %v; want both with 2 jobs, w with none", workers, err)
	}
	for held, err := range b.inspector.Select(Query{Queue: "default", Worker: "both"}).Jobs(t.Context()) {
		if err != nil || held.ID != job.ID {
			t.Errorf("held is %+v, %v", held, err)
		}
	}
}

func TestInspect_InspectorFindsOneJob(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.enqueue(t, "mail", 1)
	job, err := b.inspector.Job(t.Context(), "default", "mail-0000")
	if err != nil || job.Type != "mail" || job.State != broker.StatePending {
		t.Errorf("Job: %+v, %v", job, err)
	}
	if _, err := b.inspector.Job(t.Context(), "default", "nobody"); !errors.Is(err, broker.ErrNotFound) {
		t.Errorf("a job that does not exist: %v", err)
	}
}

func TestInspect_ListingGoesThroughEveryPage(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.enqueue(t, "mail", 350)
	if n := b.count(t, broker.StatePending); n != 350 {
		t.Errorf("Count is %d, want 350", n)
	}
	n := 0
	for _, err := range b.inspector.Select(Query{Queue: "default", State: broker.StatePending}).Limit(120).Jobs(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		n++
	}
	if n != 120 {
		t.Errorf("a selection of at most 120 shows %d", n)
	}
	for job, err := range b.inspector.Select(Query{Queue: "default"}).Jobs(t.Context()) {
		if job != nil || !errors.Is(err, broker.ErrInvalid) {
			t.Errorf("a query that selects nothing shows %v, %v", job, err)
		}
	}
	ids := make([]string, 250)
	for i := range ids {
		ids[i] = fmt.Sprintf("mail-%04d", i)
	}
	if n, err := b.inspector.Select(Query{Queue: "default", IDs: ids}).Count(t.Context()); n != 250 || err != nil {
		t.Errorf("250 IDs select %d jobs, %v", n, err)
	}
}

func TestInspect_QueuesArePausedChangedAndRemoved(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	if err := b.inspector.Pause(t.Context(), "default"); err != nil {
		t.Error(err)
	}
	if p, err := b.inspector.Policy(t.Context(), "default"); err != nil || !p.Paused {
		t.Errorf("after Pause: %+v, %v", p, err)
	}
	p, err := b.inspector.SetPolicy(t.Context(), PolicyRequest{Queue: "default", MaxDepth: new(int64(7))})
	if err != nil || !p.Paused || p.MaxDepth != 7 {
		t.Errorf("SetPolicy: %+v, %v", p, err)
	}
	if err := b.inspector.Resume(t.Context(), "default"); err != nil {
		t.Error(err)
	}
	if p, err := b.inspector.Policy(t.Context(), "default"); err != nil || p.Paused || p.MaxDepth != 7 {
		t.Errorf("after Resume: %+v, %v", p, err)
	}
	if err := b.inspector.RemoveQueue(t.Context(), "default"); !errors.Is(err, broker.ErrWrongState) {
		t.Errorf("removing a queue with a live worker: %v", err)
	}
	if _, err := b.Retire(t.Context(), broker.RetireRequest{Worker: "w", Queues: []string{"default"}}); err != nil {
		t.Fatal(err)
	}
	if err := b.inspector.RemoveQueue(t.Context(), "default"); err != nil {
		t.Errorf("removing an empty queue: %v", err)
	}
	if _, err := b.inspector.Queue(t.Context(), "default"); !errors.Is(err, broker.ErrNotFound) {
		t.Errorf("after its removal: %v", err)
	}
}

func TestInspect_InspectorThatCannotWorkSaysSo(t *testing.T) {
	t.Parallel()
	for name, i := range map[string]*Inspector{"nil": nil, "zero": {}, "nil broker": New(nil),
		"nil pointer": New((*membroker.Broker)(nil))} {
		_, err := i.Queues(t.Context())
		_, errSelect := i.Select(Query{Queue: "q", State: broker.StateDead}).Redrive(t.Context())
		if !errors.Is(err, broker.ErrInvalid) || !errors.Is(errSelect, broker.ErrInvalid) {
			t.Errorf("%s: Queues answered %v, Redrive %v", name, err, errSelect)
		}
	}
}
