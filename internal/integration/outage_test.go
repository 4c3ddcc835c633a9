package integration

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/seed81422ce9/jobs"
	"github.com/seed81422ce9/jobs/broker"
	"github.com/seed81422ce9/jobs/internal/testenv"
	"github.com/seed81422ce9/jobs/internal/testenv/servers"
)

func TestProgram_AWorkerSurvivesItsStoresCrash(t *testing.T) {
	t.Parallel()
	for name, start := range map[string]func(testing.TB) *servers.Private{"redis": testenv.PrivateRedis, "postgres": testenv.PrivatePostgres} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := start(t)
			s := openStore(t, server.URL)
			worker := startWorker(t, s.url, settings{concurrency: 3})
			held, given := s.enqueue(t, 1, typeStubborn, ""), s.enqueue(t, 1, typeHold, "")
			worker.awaitKind("begun", append(held, given...))
			s.completed(t, s.enqueue(t, 10, typeQuick, ""))
			server.Kill()

			// Without the store an enqueue fails in bounded time, with an error that
			// says whether it may have applied. Repeat until every lease has run out.
			for killed := time.Now(); time.Since(killed) < 2*lease; {
				begin := time.Now()
				_, err := s.client.Enqueue(t.Context(), jobs.NewTask(typeQuick, nil))
				if !errors.Is(err, jobs.ErrUnavailable) && !errors.Is(err, jobs.ErrOutcomeUnknown) {
					t.Fatalf("without its store an enqueue answered %v, want ErrUnavailable or ErrOutcomeUnknown", err)
				}
				if took := time.Since(begin); took > 20*time.Second {
					t.Errorf("without its store an enqueue took %v", took)
				}
			}
			ended := worker.await("the end of the context of a held job", func(e event) bool { return e.Kind == "ended" })
			if ended.ID != given[0] || ended.Text != jobs.ErrLeaseLost.Error() {
				t.Errorf("the context of %s ended because %q, want that of %s because %q", ended.ID, ended.Text, given[0], jobs.ErrLeaseLost)
			}

			// The result of a handler that returns during the outage is kept: an outage
			// costs no job.
			worker.goOn()
			if err := server.Start(); err != nil {
				t.Fatal(err)
			}
			s.completed(t, []string{s.enqueueAgain(t)})
			if job := s.completed(t, held)[0]; job.Deliveries != 1 || job.Crashes != 0 {
				t.Errorf("the job held through the outage has %d deliveries and %d crashes, want 1 and 0", job.Deliveries, job.Crashes)
			}
			s.completed(t, given)
		})
	}
}

// enqueueAgain enqueues a quick job as soon as the store accepts it. All tries use
// the same ID.
func (s *store) enqueueAgain(t *testing.T) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), soon)
	defer cancel()
	const id = "after-the-outage"
	for {
		_, err := s.client.Enqueue(ctx, jobs.NewTask(typeQuick, nil), jobs.WithID(id))
		switch {
		case err == nil || errors.Is(err, jobs.ErrDuplicate):
			return id
		case ctx.Err() != nil || !broker.MayHaveApplied(err) && !errors.Is(err, jobs.ErrUnavailable):
			t.Fatalf("after the outage an enqueue still fails: %v", err)
		}
	}
}
