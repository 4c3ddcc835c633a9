package integration

import (
	"os"
	"syscall"
	"testing"
	"time"

	"github.com/seed81422ce9/jobs"
	"github.com/seed81422ce9/jobs/broker"
)

func TestProgram_JobsOfAKilledWorkerAreFinishedByAnother(t *testing.T) {
	t.Parallel()
	onStores(t, func(t *testing.T, s *store) {
		victim := startWorker(t, s.url, settings{concurrency: 5})
		held := s.enqueue(t, 5, typeHold, "")
		victim.awaitKind("begun", held)
		waiting := s.enqueue(t, 20, typeQuick, "")
		victim.kill()

		startWorker(t, s.url, settings{concurrency: 5, ordered: true})
		for _, job := range s.completed(t, held) {
			if job.Crashes != 1 || job.Failures != 0 {
				t.Errorf("a job that was held at the kill has %d crashes and %d failures, want 1 and 0", job.Crashes, job.Failures)
			}
		}
		for _, job := range s.completed(t, waiting) {
			if job.Crashes != 0 || job.Deliveries != 1 {
				t.Errorf("a job that waited at the kill has %d crashes and %d deliveries, want 0 and 1", job.Crashes, job.Deliveries)
			}
		}
	})
}

func TestProgram_AWorkerStoppedForLongerThanItsLeaseSettlesInVain(t *testing.T) {
	t.Parallel()
	onStores(t, func(t *testing.T, s *store) {
		zombie := startWorker(t, s.url, settings{})
		id := s.enqueue(t, 1, typeStubborn, "")
		zombie.awaitKind("begun", id)
		zombie.signal(syscall.SIGSTOP)

		heir := startWorker(t, s.url, settings{ordered: true})
		before := s.completed(t, id)[0]
		heir.awaitKind("settled", id)

		// The handler returns as soon as the process continues.
		zombie.goOn()
		zombie.signal(syscall.SIGCONT)
		late := zombie.await("the late settle", func(e event) bool { return e.Kind == "settled" && e.ID == id[0] })
		if late.Text != leaseLost {
			t.Errorf("the late settle was answered %q, want %q", late.Text, leaseLost)
		}
		after := s.job(t, id[0])
		if string(after.Result) != string(before.Result) || after.Epoch != before.Epoch || after.State != broker.StateCompleted {
			t.Errorf("the late settle changed the job: result %q epoch %d state %v, before %q %d", after.Result, after.Epoch, after.State,
				before.Result, before.Epoch)
		}

		// The worker has registered again and claims jobs.
		heir.kill()
		s.completed(t, s.enqueue(t, 1, typeQuick, ""))
	})
}

func TestProgram_JobsOfALostClaimAreHandledWithinALease(t *testing.T) {
	t.Parallel()
	onStores(t, func(t *testing.T, s *store) {
		const marker = "the answer with this payload is lost"
		proxy := startProxy(t, s.url, marker)
		worker := startWorker(t, proxy.url, settings{concurrency: 5})
		s.completed(t, s.enqueue(t, 5, typeQuick, "")) // now it is registered and handles jobs

		begin := time.Now()
		ids := s.enqueue(t, 3, typeQuick, marker)
		select {
		case <-proxy.dropped:
		case <-time.After(soon):
			t.Fatal("no answer with the payload came by: the worker did not claim")
		}
		for _, job := range s.completed(t, ids) {
			if job.Crashes != 0 {
				t.Errorf("a lost claim was charged as %d crashes", job.Crashes)
			}
		}
		// The extra second is for a busy machine.
		if took := time.Since(begin); took > lease+time.Second {
			t.Errorf("the jobs were handled after %v, want within a lease (%v)", took, lease)
		}
		select {
		case _, ok := <-worker.events:
			if !ok {
				t.Error("the worker process ended; it should have lived on")
			}
		default:
		}
	})
}

func TestProgram_OneJobThatKillsItsProcessesTakesNoOtherAlong(t *testing.T) {
	t.Parallel()
	onStores(t, func(t *testing.T, s *store) {
		ids := s.enqueue(t, 30, typeLong, "")
		killer := s.enqueue(t, 1, typeKiller, "", jobs.WithPriority(jobs.PriorityUrgent))[0]
		deaths := 0
		for s.job(t, killer).State != broker.StateDead {
			worker := startWorker(t, s.url, settings{concurrency: 10})
			late := time.Now().Add(soon)
			for ended := false; !ended && s.job(t, killer).State != broker.StateDead; {
				select {
				case _, alive := <-worker.events:
					ended = !alive
				case <-time.After(100 * time.Millisecond):
				}
				if time.Now().After(late) {
					t.Fatalf("after %d deaths the job that kills its processes is %v, with %d crashes", deaths, s.job(t, killer).State,
						s.job(t, killer).Crashes)
				}
				if ended {
					deaths++
				}
			}
		}
		if j := s.job(t, killer); j.Reason != broker.ReasonCrashes || deaths != j.Crashes {
			t.Errorf("the job that kills its processes is dead by %v after %d crashes and %d deaths", j.Reason, j.Crashes, deaths)
		}
		startWorker(t, s.url, settings{concurrency: 10})
		for _, job := range s.completed(t, ids) {
			if job.Failures != 0 || job.Crashes > 2 {
				t.Errorf("a job beside it has %d failures and %d crashes, want none, and 2 at most", job.Failures, job.Crashes)
			}
		}
	})
}

func TestProgram_ADoubleDeliveryHasOneEffectBehindAnIdempotencyKey(t *testing.T) {
	t.Parallel()
	onStores(t, func(t *testing.T, s *store) {
		ledger := t.TempDir()
		victim := startWorker(t, s.url, settings{})
		id := s.enqueue(t, 1, typeEffect, ledger, jobs.WithIdempotencyKey("invoice-987"))
		victim.awaitKind("begun", id) // after its effect, before its settle
		victim.kill()

		heir := startWorker(t, s.url, settings{ordered: true})
		second := heir.await("the second delivery", func(e event) bool { return e.Kind == "effect" })
		if second.Text != "is there" {
			t.Errorf("the second delivery found that the effect %q, want that it is there", second.Text)
		}
		if job := s.completed(t, id)[0]; job.Deliveries < 2 {
			t.Errorf("the job was delivered %d times; the test forced no double delivery", job.Deliveries)
		}
		if effects, err := os.ReadDir(ledger); err != nil || len(effects) != 1 {
			t.Errorf("there are %d effects (error %v), want 1", len(effects), err)
		}
	})
}
