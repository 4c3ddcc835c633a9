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
		{Name: "a pending job is asked to cancel", Want: []string{"cancel-without-lease pending"},
			Plant: planted(func(q *queue) { q.jobs["pending"].CancelRequested = true })},
		{Name: "the head of a key is gone", Want: []string{"key-head-wrong tenant"},
			Plant: planted(func(q *queue) {
				q.lane("tenant").head = &job{Job: broker.Job{ID: "gone", State: broker.StateRetry}}
			})},
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
		held := newTestJob("q", "a")
		held.Body.Key = "tenant"
		b.store.mu.Lock()
		q := b.store.queue("q")
		q.laneOf("tenant").head = &job{Job: broker.Job{ID: "gone", State: broker.StateRetry}}
		b.store.mu.Unlock()
		enqueue(t, b, held)
		synctest.Wait()
		start := time.Now()
		if found := examinetest.Examine(t, b, broker.ExamineRequest{Fix: true}); len(found) != 1 {
			t.Errorf("found %+v, want that it waits for a job that is gone", found)
		}
		if c := <-got; c.err != nil || len(c.Jobs) != 1 || time.Since(start) > 0 {
			t.Errorf("the claim answered %v, %v after %v; want the job at once", ids(c.Jobs), c.err, time.Since(start))
		}
	})
}
