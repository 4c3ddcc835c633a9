package integration

import (
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/seed81422ce9/jobs"
	"github.com/seed81422ce9/jobs/broker"
)

// draining waits until the worker process reports that it drains.
func (p *process) draining() {
	p.t.Helper()
	p.signal(syscall.SIGTERM)
	p.await("word of the drain", func(e event) bool { return e.Kind == "log" && strings.Contains(e.Text, "no more jobs are taken") })
}

func TestProgram_SIGTERMLetsHandlersFinish(t *testing.T) {
	t.Parallel()
	onStores(t, func(t *testing.T, s *store) {
		worker := startWorker(t, s.url, settings{concurrency: 5})
		held := s.enqueue(t, 5, typeHold, "")
		worker.awaitKind("begun", held)
		worker.draining()
		worker.goOn()
		worker.rest()
		if err := worker.cmd.Wait(); err != nil {
			t.Errorf("after a drain in which all handlers finished the process ended with %v", err)
		}
		for _, id := range held {
			if job := s.job(t, id); job.State != broker.StateCompleted || job.Deliveries != 1 {
				t.Errorf("a job that ran when the drain began is %v after %d deliveries, want completed after 1", job.State, job.Deliveries)
			}
		}
		if n := worker.count("ended", ""); n > 0 {
			t.Errorf("%d contexts ended although the handlers had time to finish", n)
		}
	})
}

func TestProgram_NoJobIsClaimedAfterTheDrainBegan(t *testing.T) {
	t.Parallel()
	onStores(t, func(t *testing.T, s *store) {
		// With free slots a claim waits for jobs; the held job keeps the drain from ending.
		const long = 20 * time.Second
		worker := startWorker(t, s.url, settings{concurrency: 10, lease: long})
		held := s.enqueue(t, 1, typeHold, "")
		worker.awaitKind("begun", held)
		worker.draining()
		late := s.enqueue(t, 20, typeQuick, "")

		// The worker releases jobs that the waiting claim took, so another worker
		// handles them before a lease could run out.
		begin := time.Now()
		startWorker(t, s.url, settings{ordered: true})
		for _, job := range s.completed(t, late) {
			if job.Crashes != 0 {
				t.Errorf("a job enqueued after the drain began was charged with %d crashes", job.Crashes)
			}
		}
		if took := time.Since(begin); took > long/2 {
			t.Errorf("the jobs enqueued after the drain began were handled after %v: they hung on the draining worker", took)
		}
		worker.goOn()
		for _, e := range worker.rest() {
			if e.Kind == "claimed" || e.Kind == "begun" {
				t.Errorf("job %s was %s although the drain had begun", e.ID, e.Kind)
			}
		}
		s.completed(t, held)
	})
}

func TestProgram_WhatADrainGivesUpIsTakenOverAtOnce(t *testing.T) {
	t.Parallel()
	onStores(t, func(t *testing.T, s *store) {
		const long = 20 * time.Second
		worker := startWorker(t, s.url, settings{concurrency: 2, shutdown: 50 * time.Millisecond, lease: long})
		returns, stays := s.enqueue(t, 1, typeHold, ""), s.enqueue(t, 1, typeStubborn, "")
		both := append(returns, stays...)
		worker.awaitKind("begun", both)
		worker.signal(syscall.SIGTERM)
		ended := worker.await("the end of the context of a handler", func(e event) bool { return e.Kind == "ended" })
		if ended.Text != jobs.ErrShutdown.Error() {
			t.Errorf("the context ended because %q, want %q", ended.Text, jobs.ErrShutdown)
		}
		worker.rest()
		if err := worker.cmd.Wait(); err == nil {
			t.Error("the process ended well although a handler had not returned")
		}

		begin := time.Now()
		startWorker(t, s.url, settings{ordered: true})
		for _, job := range s.completed(t, both) {
			if job.Failures != 0 || job.Crashes != 0 || job.Deliveries != 2 {
				t.Errorf("a job has %d failures, %d crashes, %d deliveries; want it released uncharged and delivered twice",
					job.Failures, job.Crashes, job.Deliveries)
			}
		}
		if took := time.Since(begin); took > long/2 {
			t.Errorf("the jobs were handled again after %v, want at once", took)
		}
	})
}
