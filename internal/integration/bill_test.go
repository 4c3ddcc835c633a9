package integration

import (
	"strings"
	"syscall"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/seed81422ce9/jobs/broker"
	"github.com/seed81422ce9/jobs/internal/testenv"
)

// billed is a store with a table that records the effects of bills.
type billed struct {
	*store
	billing *billing
}

func openBilled(t *testing.T) *billed {
	t.Helper()
	s := openStore(t, testenv.PostgresPlace(t))
	b, err := openBilling(t.Context(), s.url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.close)
	if _, err := b.pool.Exec(t.Context(), "create table "+b.table+" (job text)"); err != nil {
		t.Fatal(err)
	}
	return &billed{s, b}
}

// wantOneBill checks that a job completed and had its effect once.
func (s *billed) wantOneBill(t *testing.T, id string, crashes int) {
	t.Helper()
	job := s.completed(t, []string{id})[0]
	if job.Crashes != crashes || job.Failures != 0 || string(job.Result) != "billed" {
		t.Errorf("the job has %d crashes, %d failures and the result %q; want %d, none and the handler's", job.Crashes, job.Failures, job.Result,
			crashes)
	}
	rows, _ := s.billing.pool.Query(t.Context(), "select job from "+s.billing.table)
	bills, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil || len(bills) != 1 || bills[0] != id {
		t.Errorf("the bills are %v (error %v), want one, of job %s", bills, err, id)
	}
}

// wantQuiet checks that a worker reported no lost lease.
func wantQuiet(t *testing.T, p *process) {
	t.Helper()
	for _, e := range p.past {
		if e.Kind == "log" && strings.Contains(e.Text, "refused") || e.Kind == "settled" && e.Text == leaseLost {
			t.Errorf("the worker told of a lost lease: %s %s", e.Kind, e.Text)
		}
	}
}

func TestProgram_ABillIsWrittenWithTheEndOfItsJob(t *testing.T) {
	t.Parallel()
	s := openBilled(t)
	worker := startWorker(t, s.url, settings{ordered: true})
	id := s.enqueue(t, 1, typeBill, "")
	settled := worker.await("the settle", func(e event) bool { return e.Kind == "settled" && e.ID == id[0] })
	if settled.Text != broker.StateCompleted.String() {
		t.Errorf("the settle of the completed job shows as %q, want completed", settled.Text)
	}
	s.wantOneBill(t, id[0], 0)
	wantQuiet(t, worker)
}

func TestProgram_AKillBetweenTheEffectAndTheCommitLeavesNoEffect(t *testing.T) {
	t.Parallel()
	s := openBilled(t)
	victim := startWorker(t, s.url, settings{})
	id := s.enqueue(t, 1, typeBill, beforeCompleted)
	victim.awaitKind("begun", id)
	victim.kill()

	heir := startWorker(t, s.url, settings{ordered: true})
	s.wantOneBill(t, id[0], 1)
	heir.awaitKind("settled", id)
	wantQuiet(t, heir)
}

func TestProgram_AKillBetweenTheCommitAndTheSettleRunsNothingAgain(t *testing.T) {
	t.Parallel()
	s := openBilled(t)
	victim := startWorker(t, s.url, settings{concurrency: 2})
	id := s.enqueue(t, 1, typeBill, afterCommitted)
	held := s.enqueue(t, 1, typeHold, "")
	victim.awaitKind("begun", append(held, id...))
	victim.kill()
	s.wantOneBill(t, id[0], 0)

	heir := startWorker(t, s.url, settings{ordered: true})
	s.completed(t, held) // the heir has taken over what the victim held
	heir.awaitKind("settled", held)
	if n := heir.count("claimed", id[0]); n != 0 {
		t.Errorf("the completed job was handed out %d times again", n)
	}
	s.wantOneBill(t, id[0], 0)
}

func TestProgram_AWorkerThatLostItsLeaseCanCommitNothing(t *testing.T) {
	t.Parallel()
	s := openBilled(t)
	zombie := startWorker(t, s.url, settings{})
	id := s.enqueue(t, 1, typeBill, beforeCompleted)
	zombie.awaitKind("begun", id)
	zombie.signal(syscall.SIGSTOP)

	heir := startWorker(t, s.url, settings{ordered: true})
	s.wantOneBill(t, id[0], 1)
	heir.awaitKind("settled", id)

	zombie.goOn()
	zombie.signal(syscall.SIGCONT)
	ended := zombie.await("the end of the zombie's handler", func(e event) bool { return e.Kind == "ended" && e.ID == id[0] })
	if !strings.Contains(ended.Text, leaseLost) {
		t.Errorf("the zombie's handler ended with %q, want that the lease is lost", ended.Text)
	}
	s.wantOneBill(t, id[0], 1)
}
