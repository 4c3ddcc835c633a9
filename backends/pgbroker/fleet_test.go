package pgbroker

import (
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/seed81422ce9/jobs/broker"
	"github.com/seed81422ce9/jobs/internal/testenv"
)

// fleet is a number of processes whose claims wait for the jobs of one queue.
type fleet struct {
	*inside
	brokers []*Broker
	came    chan broker.Job // what they claimed and completed
	ended   sync.WaitGroup
	stop    atomic.Bool // processes claim no more once they got a job
}

func newFleet(t *testing.T, size, slots int) *fleet {
	f := &fleet{inside: open(t), came: make(chan broker.Job, 1000)}
	for range size {
		worker := testenv.Name(t)
		b := f.onlyWokenOn(connect(t, testenv.Postgres(t), 2), Config{Schema: f.schema}, worker)
		f.brokers = append(f.brokers, b.Broker)
		f.ended.Go(func() { f.work(b.Broker, worker, slots) })
	}
	t.Cleanup(f.ended.Wait)
	t.Cleanup(f.close)
	testenv.Eventually(t, "that all processes wait", func() bool { return f.calls() >= int64(size*firstLooks) })
	return f
}

// work claims and completes until the broker is closed.
func (f *fleet) work(b *Broker, worker string, slots int) {
	for number := int64(1); ; number++ {
		got, err := b.Claim(f.t.Context(), broker.ClaimRequest{Worker: worker, Max: slots, Wait: time.Hour,
			Queues: []broker.Share{{Queue: "q", Max: slots}}})
		if err != nil {
			return
		}
		req := broker.SettleRequest{Worker: worker, Number: number}
		for i := range got.Jobs {
			req.Items = append(req.Items, broker.Settlement{Job: &got.Jobs[i], Outcome: broker.Complete(nil)})
		}
		if _, err := b.Settle(f.t.Context(), req); err != nil {
			return
		}
		for _, j := range got.Jobs {
			f.came <- j
		}
		if f.stop.Load() && len(got.Jobs) > 0 {
			return
		}
	}
}

func (f *fleet) close() {
	for _, b := range f.brokers {
		b.Close()
	}
}

// calls returns how many round trips the processes made.
func (f *fleet) calls() (n int64) {
	for _, b := range f.brokers {
		n += b.pool.Stat().AcquireCount()
	}
	return n
}

// A new job wakes one of the processes that wait, and what it costs does not depend on
// how many there are.
func TestFleet_AJobCostsTheSameBesideManyIdleProcesses(t *testing.T) {
	const jobs = 20
	cost := func(size int) float64 {
		f := newFleet(t, size, 10)
		for _, b := range f.brokers { // a slow process does not pass its wake-up on
			b.waker.mu.Lock()
			b.waker.grace = time.Hour
			b.waker.mu.Unlock()
		}
		before := f.calls()
		for range jobs {
			f.accept(f, job(testenv.Name(t)))
			<-f.came
		}
		f.close() // waits for claims that were woken without result
		f.ended.Wait()
		return float64(f.calls()-before) / jobs
	}
	alone := cost(1)
	for size, most := range map[int]float64{10: 1.5, 40: 2} {
		if n := cost(size); n > most*alone {
			t.Errorf("a job takes %.2f round trips of the workers beside %d idle processes, and %.2f beside one; want %v times as many at most",
				n, size, alone, most)
		}
	}
}

// Several jobs that one call stores wake as many processes as are needed for them.
func TestFleet_ManyJobsWakeManyProcesses(t *testing.T) {
	t.Parallel()
	f := newFleet(t, 8, 2)
	var jobs []broker.NewJob
	for range 16 {
		jobs = append(jobs, job(testenv.Name(t)))
	}
	f.accept(f, jobs...)
	for range jobs {
		<-f.came
	}
}

// A wake-up of a process that died goes to another one.
func TestFleet_AProcessThatDiedIsNotWoken(t *testing.T) {
	t.Parallel()
	f := newFleet(t, 1, 10)
	f.exec("insert into jobs.waiter (queue, listener) select q.id, n from jobs.queue q, generate_series(1, 50) n")
	for range 20 {
		f.accept(f, job(testenv.Name(t)))
		<-f.came
	}
	_, err := f.Prune(t.Context(), broker.PruneRequest{Queues: []string{"q"}, Max: 100})
	f.check(err)
	if n := f.value("select count(*) from jobs.waiter"); n != 1 {
		t.Errorf("after Prune %d processes are said to wait, want the one that lives", n)
	}
}

// A process that is woken while it is busy wakes another one, and is not woken again
// until a claim of it waits.
func TestFleet_ABusyProcessPassesAWakeUpOn(t *testing.T) {
	t.Parallel()
	f := newFleet(t, 1, 10)
	f.worker("busy")
	busy := f.onlyWoken("busy")
	f.check(busy.enterWaiters(t.Context(), []string{"q"}))
	for n := 0; f.value("select count(*) from jobs.waiter") == 2; n++ { // one of two is chosen each time
		if n == 100 {
			t.Fatalf("a process that claims nothing still counts as one that waits after %d jobs", n)
		}
		f.accept(f, job(testenv.Name(t)))
		<-f.came
	}
	testenv.Eventually(t, "that it knows", func() bool { return !busy.waker.known([]string{"q"}) })
}

// dueJobs stores jobs that fall due one after the other, and returns when they do.
func (f *fleet) dueJobs(n int, apart time.Duration) (due []time.Time) {
	var jobs []broker.NewJob
	for i := range n {
		j := job(testenv.Name(f.t))
		j.Delay = 300*time.Millisecond + time.Duration(i)*apart
		due = append(due, time.Now().Add(j.Delay))
		jobs = append(jobs, j)
	}
	f.accept(f, jobs...)
	return due
}

// A job that falls due costs about the same, however many processes wait.
func TestFleet_AJobThatFallsDueWakesFewProcesses(t *testing.T) {
	const jobs, settling = 60, 30
	cost := func(size int) float64 {
		f := newFleet(t, size, 10)
		f.dueJobs(jobs, 40*time.Millisecond)
		var before int64
		for i := range jobs {
			<-f.came
			if i == settling {
				before = f.calls()
			}
		}
		calls := f.calls() - before
		f.close()
		f.ended.Wait()
		return float64(calls) / (jobs - settling)
	}
	alone, many := cost(1), cost(20)
	t.Logf("a job that falls due takes %.2f round trips of the workers with one process, and %.2f with 20", alone, many)
	if many > 2*alone {
		t.Error("want twice as many at most")
	}
}

// A process that has no room left has another one look when the next job falls due.
func TestFleet_AFullProcessHandsTheNextDueTimeOn(t *testing.T) {
	t.Parallel()
	const size = 8
	f := newFleet(t, size, 1)
	f.stop.Store(true)
	for i, due := range f.dueJobs(size, 100*time.Millisecond) {
		<-f.came
		if late := time.Since(due); late > 2*pollListening {
			t.Fatalf("job %d was claimed %v after it fell due, though other processes wait", i, late)
		}
	}
}

// So does one that did not wait: the process that waits found that another one was quicker, and leaves it to that
// one to look at the next due time.
func TestFleet_AFullProcessThatDidNotWaitHandsTheNextDueTimeOn(t *testing.T) {
	t.Parallel()
	f := open(t)
	f.worker("quick")
	absent := f.onlyWoken("absent") // counts as waiting, though no claim of it waits
	f.check(absent.enterWaiters(t.Context(), []string{"q"}))
	slow := f.onlyWoken("slow")
	first, second := job("first"), job("second")
	first.Delay, second.Delay = 2*time.Second, 4*time.Second
	f.accept(f, first, second)
	locked := f.begin(pgx.TxOptions{}) // until the waiting process has looked in vain
	_, err := locked.Exec(t.Context(), "select from "+f.schema+".job where id = 'first' for update")
	f.check(err)
	came := slow.waiting("slow")
	testenv.Eventually(t, "that the waiting process leaves the next due time to others", func() bool {
		return slow.dues.Next("slow", []string{"q"}, time.Unix(1, 0)).IsZero()
	})
	f.check(locked.Rollback(t.Context()))
	f.claimed("quick", 1)
	came.wants("second")
}
