package integration

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/seed81422ce9/jobs/inspect"

	"github.com/redis/go-redis/v9"

	"github.com/seed81422ce9/jobs"
	"github.com/seed81422ce9/jobs/backends"
	"github.com/seed81422ce9/jobs/broker"
	"github.com/seed81422ce9/jobs/internal/testenv"
)

// The incidents of docs/operations.md, except crashes of a worker, a drain, and an
// outage of the store, which have their own tests.

func redisClient(t *testing.T, url string) *redis.Client {
	t.Helper()
	options, err := redis.ParseURL(url)
	if err != nil {
		t.Fatal(err)
	}
	c := redis.NewClient(options)
	t.Cleanup(func() { c.Close() })
	return c
}

// settled waits until all jobs of the queue have ended, and describes the queue.
func (s *store) settled(t *testing.T) inspect.QueueInfo {
	t.Helper()
	late := time.After(soon)
	for {
		q, err := s.inspector.Queue(t.Context(), queue)
		if err != nil {
			t.Fatal(err)
		}
		if q.Counts[jobs.StatePending]+q.Counts[jobs.StateScheduled]+q.Counts[jobs.StateActive]+q.Counts[jobs.StateRetry] == 0 {
			return q
		}
		select {
		case <-late:
			t.Fatalf("jobs are stuck: %v", q.Counts)
		case <-time.After(20 * time.Millisecond):
		}
	}
}

func TestProgram_AFullRedisRefusesJobsAndDrains(t *testing.T) {
	t.Parallel()
	s := openStore(t, testenv.PrivateRedis(t).URL)
	c := redisClient(t, s.url)
	limit := func(bytes int) {
		t.Helper()
		if err := c.ConfigSet(t.Context(), "maxmemory", fmt.Sprint(bytes)).Err(); err != nil {
			t.Fatal(err)
		}
	}
	if policy := c.ConfigGet(t.Context(), "maxmemory-policy").Val()["maxmemory-policy"]; policy != "noeviction" {
		t.Fatalf("the policy of Redis is %q by default", policy)
	}
	limit(16 << 20)
	accepted := 0
	var refused error
	for payload := make([]byte, 256<<10); accepted < 1000; accepted++ {
		if _, refused = s.client.Enqueue(t.Context(), jobs.NewTask(typeQuick, payload)); refused != nil {
			break
		}
	}
	if !errors.Is(refused, jobs.ErrUnavailable) || !strings.Contains(refused.Error(), "maxmemory") {
		t.Fatalf("after %d jobs a full server answers %v; want ErrUnavailable with its reason", accepted, refused)
	}
	// An operator can still change policies.
	if err := s.inspector.Pause(t.Context(), queue); err != nil {
		t.Errorf("a queue in a full server cannot be paused: %v", err)
	}
	if err := s.inspector.Resume(t.Context(), queue); err != nil {
		t.Errorf("a queue in a full server cannot be resumed: %v", err)
	}
	startWorker(t, s.url, settings{concurrency: 4})
	q := s.settled(t)
	if n := q.Counts[jobs.StateDead]; n > 0 {
		t.Errorf("%d jobs died because the server was full", n)
	}
	// The jobs' records are kept, so only a higher limit makes room.
	limit(64 << 20)
	s.completed(t, s.enqueue(t, 1, typeQuick, ""))
}

// A backup of Redis is restored while a worker keeps running.
func TestProgram_AnOlderRedisComesBack(t *testing.T) {
	t.Parallel()
	server := testenv.PrivateRedis(t)
	s := openStore(t, server.URL)
	worker := startWorker(t, s.url, settings{concurrency: 2})
	held := s.enqueue(t, 2, typeHold, "")
	worker.awaitKind("begun", held)
	waiting := s.enqueue(t, 5, typeQuick, "")
	unique := s.enqueue(t, 1, typeQuick, "", jobs.WithUniqueKey("nightly"))

	dir := redisClient(t, s.url).ConfigGet(t.Context(), "dir").Val()["dir"]
	log, backup := filepath.Join(dir, "appendonlydir"), filepath.Join(dir, "backup")
	run(t, "cp", "-a", log, backup)

	all := append(append(held, waiting...), unique...)
	worker.goOn()
	s.completed(t, all)
	lost := s.enqueue(t, 1, typeQuick, "")
	s.completed(t, lost)

	server.Kill()
	run(t, "rm", "-r", log)
	run(t, "mv", backup, log)
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	// All jobs of the backup run again, in the same process.
	q := s.settled(t)
	if n := q.Counts[jobs.StateCompleted]; n != int64(len(all)) {
		t.Errorf("after the restore %d jobs completed, want the %d of the backup: %v", n, len(all), q.Counts)
	}
	if _, err := s.inspector.Job(t.Context(), queue, lost[0]); !errors.Is(err, jobs.ErrNotFound) {
		t.Errorf("the job enqueued after the backup is answered with %v, want ErrNotFound", err)
	}
	s.completed(t, s.enqueue(t, 1, typeQuick, "", jobs.WithUniqueKey("nightly"))) // no job holds the key
}

// A dump of Postgres that was taken while jobs run is restored into another
// database.
func TestProgram_ADumpOfPostgresIsRestored(t *testing.T) {
	t.Parallel()
	from, to := openStore(t, ownDatabase(t)), ownDatabase(t)
	worker := startWorker(t, from.url, settings{concurrency: 2})
	held := from.enqueue(t, 2, typeHold, "")
	worker.awaitKind("begun", held)
	waiting := from.enqueue(t, 5, typeQuick, "")
	dead := from.enqueue(t, 1, typeQuick, "", jobs.WithDelay(time.Hour))

	dump := filepath.Join(t.TempDir(), "jobs.dump")
	run(t, "pg_dump", "--format=custom", "--schema=jobs", "--file="+dump, from.url)
	worker.kill()
	run(t, "pg_restore", "--dbname="+to, dump)

	s := openStore(t, to)
	startWorker(t, s.url, settings{concurrency: 2, ordered: true})
	for _, job := range s.completed(t, append(held, waiting...)) {
		if job.Failures != 0 {
			t.Errorf("a restored job has %d failures, want none", job.Failures)
		}
	}
	if job := s.job(t, dead[0]); job.State != broker.StateScheduled {
		t.Errorf("a job that was scheduled is %v after the restore", job.State)
	}
	s.completed(t, s.enqueue(t, 1, typeQuick, ""))
}

// A release that changed payloads is rolled back: the old release sets aside jobs
// that it does not understand, and they are redriven for the next release.
func TestProgram_PayloadsOfARolledBackReleaseAreSetAsideAndRedriven(t *testing.T) {
	t.Parallel()
	onStores(t, func(t *testing.T, s *store) {
		release := func(understands string) *jobs.Server {
			t.Helper()
			b, err := backends.Open(t.Context(), s.url)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { b.Close() })
			server, err := jobs.NewServer(b, jobs.Config{Queues: map[string]int{queue: 1}, Lease: lease, Logger: slog.New(slog.DiscardHandler)})
			if err != nil {
				t.Fatal(err)
			}
			err = server.Start(context.Background(), jobs.HandlerFunc(func(_ context.Context, job *jobs.Job) error {
				if !strings.Contains(understands, string(job.Payload())) {
					return fmt.Errorf("%w: payload has no field user", jobs.SkipRetry)
				}
				return nil
			}))
			if err != nil {
				t.Fatal(err)
			}
			return server
		}
		dead := inspect.Query{Queue: queue, State: jobs.StateDead, ErrorText: "no field user"}
		old, strange := s.enqueue(t, 5, "receipt", "v1"), s.enqueue(t, 20, "receipt", "v2")

		before := release("v1")
		s.completed(t, old)
		s.settled(t)
		if n, err := s.inspector.Select(dead).Count(t.Context()); n != len(strange) || err != nil {
			t.Fatalf("the old release set %d jobs aside (error %v), want %d", n, err, len(strange))
		}
		if err := s.inspector.Pause(t.Context(), queue); err != nil {
			t.Fatal(err)
		}
		if err := before.Shutdown(t.Context()); err != nil {
			t.Error(err)
		}

		after := release("v1 v2")
		report, err := s.inspector.Select(dead).Redrive(t.Context())
		if report.Done != len(strange) || err != nil {
			t.Fatalf("%d jobs were redriven (error %v), want %d", report.Done, err, len(strange))
		}
		if q, err := s.inspector.Queue(t.Context(), queue); err != nil || q.Counts[jobs.StatePending] != int64(len(strange)) {
			t.Errorf("in a paused queue %v (error %v), want all that were redriven pending", q.Counts, err)
		}
		if err := s.inspector.Resume(t.Context(), queue); err != nil {
			t.Fatal(err)
		}
		for _, job := range s.completed(t, strange) {
			if string(job.Payload) != "v2" || job.Failures != 0 {
				t.Errorf("a redriven job has the payload %q and %d failures, want v2 and a fresh count", job.Payload, job.Failures)
			}
		}
		if err := after.Shutdown(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

// run runs a program and waits for its end.
func run(t *testing.T, name string, args ...string) {
	t.Helper()
	if out, err := exec.CommandContext(t.Context(), name, args...).CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", name, err, out)
	}
}
