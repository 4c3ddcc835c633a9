package membroker

import (
	"fmt"
	"maps"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed81422ce9/jobs/broker"
	"github.com/seed81422ce9/jobs/internal/examinetest"
)

// planted gives a corruption the queue of the population.
func planted(plant func(q *queue)) func(testing.TB, broker.Broker) {
	return func(_ testing.TB, b broker.Broker) {
		memory, _ := broker.As[*Broker](b)
		s := memory.store
		s.mu.Lock()
		defer s.mu.Unlock()
		plant(s.queues[examinetest.Queue])
		j := s.journal.(kept)
		clear(j)
		maps.Copy(j, s.everything())
	}
}

func TestExamine_EveryCorruptionIsFoundAndRepaired(t *testing.T) {
	t.Parallel()
	examinetest.Run(t, func(tb testing.TB) broker.Broker {
		s, j := NewStore(), make(kept)
		s.journal = j
		return j.checked(tb, s)
	}, []examinetest.Corruption{
		{Name: "a scheduled job is in no order of time", Want: []string{"job-without-entry scheduled"},
			Plant: planted(func(q *queue) { q.states[broker.StateScheduled].Delete(q.jobs["scheduled"].entry()) })},
		{Name: "a pending job is in no list", Want: []string{"job-without-entry pending"},
			Plant: planted(func(q *queue) { q.states[broker.StatePending].Delete(q.jobs["pending"].entry()) })},
		{Name: "a retry has a turn as well", Want: []string{"job-listed-twice retry"},
			Plant: planted(func(q *queue) {
				q.states[broker.StatePending].ReplaceOrInsert(entry{at: 1, seq: -7, job: q.jobs["retry"]})
			})},
		{Name: "a dead job is listed as completed too", Want: []string{"job-listed-twice dead"},
			Plant: planted(func(q *queue) { q.states[broker.StateCompleted].ReplaceOrInsert(q.jobs["dead"].entry()) })},
		{Name: "a list leads to a job that is gone", Want: []string{"entry-without-job lost"},
			Plant: planted(func(q *queue) {
				q.states[broker.StateRetry].ReplaceOrInsert(entry{at: 1 << 60, seq: 1, job: &job{Job: broker.Job{ID: "lost"}}})
			})},
		{Name: "a lease without a worker", Want: []string{"lease-of-unknown-worker active", "lease-count-differs w"},
			Plant: planted(func(q *queue) { q.jobs["active"].Worker = "" })},
		{Name: "the worker of a lease is unknown",
			Want:    []string{"lease-of-unknown-worker active", "lease-of-unknown-worker asked", "lease-of-unknown-worker started"},
			Repairs: []string{"lease-of-unknown-worker active"}, // which makes a record of the worker
			Plant:   planted(func(q *queue) { delete(q.workers, examinetest.Worker) })},
		{Name: "nobody is told to take an ended worker's jobs over",
			Want:    []string{"lease-of-unknown-worker active", "lease-of-unknown-worker asked", "lease-of-unknown-worker started"},
			Repairs: []string{"lease-of-unknown-worker active"},
			Plant: planted(func(q *queue) {
				q.endWorker(q.workers[examinetest.Worker], examinetest.Start)
				q.orphans = nil
			})},
		{Name: "a worker counts a lease too much", Want: []string{"lease-count-differs w"},
			Plant: planted(func(q *queue) { q.workers[examinetest.Worker].Held++ })},
		{Name: "a wrong count of suppressed jobs", Want: []string{"count-differs suppressed"}, Plant: planted(func(q *queue) { q.suppressed++ })},
		{Name: "a pending job is asked to cancel", Want: []string{"cancel-without-lease pending"},
			Plant: planted(func(q *queue) { q.jobs["pending"].CancelRequested = true })},
		{Name: "an ended worker is never forgotten", Want: []string{"worker-leftover old"},
			Plant: planted(func(q *queue) {
				q.workers["old"] = &worker{WorkerInfo: broker.WorkerInfo{ID: "old"}, ended: true, forget: lapse{1 << 60, lapsedWorker, "old"}}
			})},
		{Name: "a job is not found by its key", Want: []string{"key-entry-missing keyed", "key-count-differs tenant"},
			Repairs: []string{"key-entry-missing keyed"},
			Plant:   planted(func(q *queue) { q.keyed.Delete(q.jobs["keyed"].keyEntry()) })},
		{Name: "a key leads to a job that is gone", Want: []string{"key-entry-without-job lost"},
			Plant: planted(func(q *queue) {
				q.keyed.ReplaceOrInsert(entry{at: q.lane("tenant").no, seq: 1 << 60, job: &job{Job: broker.Job{ID: "lost"}}})
			})},
		{Name: "a key counts a job too much", Want: []string{"key-count-differs tenant"},
			Plant: planted(func(q *queue) { q.lane("tenant").counts[broker.StateActive]++ })},
		{Name: "the jobs without a key are counted wrong", Want: []string{"key-count-differs "},
			Plant: planted(func(q *queue) { q.keyless.counts[broker.StateActive]++ })},
		{Name: "a key has no turn", Want: []string{"key-without-turn tenant"},
			Plant: planted(func(q *queue) {
				for _, s := range q.lane("tenant").spots {
					if s.in != nil {
						s.in.Delete(s.turn)
					}
				}
			})},
		{Name: "the head of a key is gone", Want: []string{"key-head-wrong tenant", "key-without-turn tenant"},
			Repairs: []string{"key-head-wrong tenant"},
			Plant: planted(func(q *queue) {
				q.lane("tenant").head = &job{Job: broker.Job{ID: "gone", State: broker.StateRetry}}
			})},
		{Name: "the bytes of a queue are counted wrong", Want: []string{"count-differs bytes"}, Plant: planted(func(q *queue) { q.bytes++ })},
		{Name: "a record is kept for ever", Want: []string{"record-never-lapses completed"},
			Plant: planted(func(q *queue) { q.lapses.Delete(q.jobs["completed"].lapse) })},
		{Name: "a unique key of a job that is gone", Want: []string{"unique-key-of-missing-job lost"},
			Plant: planted(func(q *queue) { q.unique["other"] = hold{id: "lost"} })},
		{Name: "a unique key of a job that died", Want: []string{"unique-key-of-ended-job died-unique"},
			Plant: planted(func(q *queue) { q.unique["key-dead"] = hold{id: "died-unique"} })},
		{Name: "a unique key is free", Want: []string{"unique-key-not-held unique"},
			Plant: planted(func(q *queue) { delete(q.unique, "key") })},
		{Name: "a unique key is another job's", Left: true, Want: []string{"unique-key-not-held unique"},
			Plant: planted(func(q *queue) {
				q.jobs["pending"].Unique = broker.Unique{Key: "key"}
				q.unique["key"] = hold{id: "pending"}
			})},
		{Name: "a window never lapses", Want: []string{"unique-window-never-lapses endless"},
			Plant: planted(func(q *queue) {
				q.unique["endless"] = hold{id: "gone", mode: broker.UniqueWindow, until: broker.FromMicros(1 << 52)}
			})},
		{Name: "an ID is remembered for ever", Want: []string{"remembered-id-never-lapses old"},
			Plant: planted(func(q *queue) { q.remembered["old"] = past{until: broker.FromMicros(1 << 52)} })},
		{Name: "a mark never lapses", Want: []string{"mark-never-lapses mark"},
			Plant: planted(func(q *queue) { q.store.lapses.Delete(q.store.marks["mark"].lapse) })},
		{Name: "fences begin anew", Want: []string{"mark-fence-behind mark"},
			Plant: planted(func(q *queue) { q.store.fence = 0 })},
	})
}

func TestExamine_AnExaminationGoesInBoundedSteps(t *testing.T) {
	t.Parallel()
	b := New()
	const jobs = 20_000
	register(t, b, "w", "q")
	for i := range jobs / 1000 {
		var news []broker.NewJob
		for k := range 1000 {
			news = append(news, newTestJob("q", fmt.Sprintf("%03d-%03d", i, k)))
		}
		enqueue(t, b, news...)
	}
	records := 0
	found, err := examinetest.All(t.Context(), b, broker.ExamineRequest{Limit: 1000}, func(step broker.Examined) {
		if records += step.Records; step.Records > 1000 {
			t.Errorf("a step of part %q looked at %d records, want 1000 at most", step.Part, step.Records)
		}
	})
	if err != nil || len(found) > 0 || records < jobs {
		t.Errorf("findings %v, %v after %d records", found, err, records)
	}
	for _, req := range []broker.ExamineRequest{{Cursor: "x"}, {Cursor: "jobs\n{\n"}, {Queue: "q", Cursor: "jobs\nr\n"}, {Limit: -1},
		{Limit: 1001}, {Queue: "{"}} {
		if _, err := b.Examine(t.Context(), req); err == nil || broker.MayHaveApplied(err) {
			t.Errorf("Examine(%+v) answered %v, want ErrInvalid", req, err)
		}
	}
}

func TestExamine_AnExaminationOfAHealthyStoreFindsNothing(t *testing.T) {
	t.Parallel()
	l := newLife(t)
	for n := range 600 {
		l.step(t)
		req := broker.ExamineRequest{Now: l.now, Limit: 1 + n%50}
		if found := examinetest.Examine(t, l.b, req); len(found) > 0 {
			t.Fatalf("after call %d: %+v\n%s", n, found, l.b.store.dump())
		}
	}
}

func TestExamine_AnExaminationOfABusyStoreFindsNothing(t *testing.T) {
	t.Parallel()
	s := NewStore()
	examinetest.Busy(t, func(tb testing.TB) broker.Broker {
		b := s.Open()
		tb.Cleanup(func() { b.Close() })
		return b
	})
}

func TestExamine_ARepairWakesWhoWaits(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := New()
		defer b.Close()
		register(t, b, "w", "q")
		got := claimInBackground(t, b, "w", 1, time.Minute, "q")
		synctest.Wait()
		b.store.mu.Lock()
		q := b.store.queues["q"]
		j := &job{Job: broker.Job{Queue: "q", ID: "a", State: broker.StatePending, Body: broker.Body{Priority: 1}}, lane: q.keyless, at: 1}
		q.jobs["a"] = j
		q.keyless.has(j)
		b.store.mu.Unlock()
		start := time.Now()
		if found := examinetest.Examine(t, b, broker.ExamineRequest{Fix: true}); len(found) != 1 {
			t.Errorf("found %+v, want that it is in no list", found)
		}
		if c := <-got; c.err != nil || len(c.Jobs) != 1 || time.Since(start) > 0 {
			t.Errorf("the claim answered %v, %v after %v; want the job at once", ids(c.Jobs), c.err, time.Since(start))
		}
	})
}
