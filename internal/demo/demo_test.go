package demo

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed81422ce9/jobs"
	"github.com/seed81422ce9/jobs/backends/membroker"
	"github.com/seed81422ce9/jobs/broker"
	"github.com/seed81422ce9/jobs/inspect"
	"github.com/seed81422ce9/jobs/internal/testenv"
)

func TestMain(m *testing.M) { testenv.Main(m) }

func start(t *testing.T, store *membroker.Store, change func(*Config)) *Demo {
	t.Helper()
	cfg := Config{Broker: store.Open(), Knobs: Knobs{Rate: 40, Fail: 0.2, Hang: 0.05, Latency: 1, Workers: 4}, CrashEvery: 10 * time.Second}
	if change != nil {
		change(&cfg)
	}
	d, err := Start(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func stop(t *testing.T, d *Demo) Accounts {
	t.Helper()
	a, err := d.Stop(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// balanced reports whether every job that was accepted is somewhere.
func balanced(t Totals) bool { return t.Enqueued == t.Done+t.Cancelled+t.Deleted+t.Waiting+t.DeadNow }

func TestDemo_NoJobIsLostWhateverTheLoadDoes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := start(t, membroker.NewStore(), nil)
		time.Sleep(2 * time.Minute) // virtual
		a := stop(t, d)
		if !a.Balanced() {
			t.Errorf("the accounts do not balance: %+v", a)
		}
		if a.Enqueued < 4000 || a.Done < 2000 || a.Failed < 400 || a.Hung < 50 || a.Dead == 0 || a.Duplicates == 0 ||
			a.Crashes != 11 && a.Crashes != 12 || a.Reclaimed < a.Crashes || a.Refused != 0 {
			t.Errorf("that is not much to look at: %+v", a)
		}
		var told []string
		for _, e := range d.Events() {
			told = append(told, e.Text)
		}
		for _, text := range []string{"worker-1 was killed, running ", " reclaimed ", " s after the crash"} {
			if !strings.Contains(strings.Join(told, "\n"), text) {
				t.Errorf("no event says %q: %q", text, told)
			}
		}
	})
}

func TestDemo_ReclaimIsWithinALease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := start(t, membroker.NewStore(), func(cfg *Config) { cfg.CrashEvery, cfg.Hang = time.Minute, 0.3 })
		defer stop(t, d)
		time.Sleep(4*time.Second + 500*time.Millisecond)
		if n := d.Totals(); n.Crashes != 1 || n.Reclaimed != 0 {
			t.Errorf("half a second after the crash: %+v", n)
		}
		time.Sleep(3 * time.Second)
		if n := d.Totals(); n.Reclaimed == 0 {
			t.Errorf("a lease and a second after the crash: %+v", n)
		}
	})
}

func TestDemo_ItsQueuesCanBeRemoved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := start(t, membroker.NewStore(), nil)
		time.Sleep(4*time.Second + 500*time.Millisecond) // a worker was killed, and its lease has not run out
		if a := stop(t, d); a.Crashes != 1 {
			t.Fatalf("%+v", a)
		}
		i := inspect.New(d.Broker())
		for _, queue := range d.Queues() {
			for _, state := range broker.States() {
				if _, err := i.Purge(t.Context(), queue, state); err != nil {
					t.Error(err)
				}
			}
			if err := i.RemoveQueue(t.Context(), queue); err != nil {
				t.Error(err)
			}
		}
	})
}

func TestDemo_DecisionsOfAWatcherAreInTheAccounts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := start(t, membroker.NewStore(), func(cfg *Config) { cfg.Fail = 0.6 })
		time.Sleep(30 * time.Second)
		i := inspect.New(d.Broker())
		decide := func(state broker.State, do func(inspect.Selection, context.Context) (inspect.Report, error)) (done int) {
			for _, queue := range d.Queues() {
				report, err := do(i.Select(inspect.Query{Queue: queue, State: state}).Limit(5), t.Context())
				if done += report.Done; err != nil {
					t.Error(err)
				}
			}
			return done
		}
		redriven := decide(broker.StateDead, inspect.Selection.Redrive)
		deleted := decide(broker.StateDead, inspect.Selection.Delete) + decide(broker.StateRetry, inspect.Selection.Delete)
		decide(broker.StateRetry, inspect.Selection.Cancel)
		decide(broker.StateActive, inspect.Selection.Cancel)
		decide(broker.StateCompleted, inspect.Selection.Delete)
		time.Sleep(30 * time.Second)
		if a := stop(t, d); !a.Balanced() || a.Redriven != redriven || redriven == 0 || a.Deleted != deleted || deleted == 0 || a.Cancelled < 5 {
			t.Errorf("%d jobs were redriven and %d deleted, and the accounts are %+v", redriven, deleted, a)
		}
	})
}

func TestDemo_AJobThatIsGoneIsMissed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := membroker.NewStore()
		d := start(t, store, nil)
		time.Sleep(10 * time.Second)
		behind := store.Open() // past the accounts
		report, err := inspect.New(behind).Select(inspect.Query{Queue: "default", State: broker.StateScheduled}).Limit(3).Delete(t.Context())
		if err != nil || report.Done != 3 {
			t.Fatal(report, err)
		}
		if a := stop(t, d); a.Lost != 3 || a.Balanced() {
			t.Errorf("three jobs are gone, and the accounts say %+v", a)
		}
	})
}

func TestDemo_QueuesOfOthersAreLeftAlone(t *testing.T) {
	t.Parallel()
	b := membroker.New()
	client := jobs.NewClient(b, jobs.ClientConfig{})
	defer client.Close()
	if _, err := client.Enqueue(t.Context(), jobs.NewTask("x", nil), jobs.WithQueue("low")); err != nil {
		t.Fatal(err)
	}
	if _, err := Start(t.Context(), Config{Broker: b, Knobs: Knobs{Rate: 1, Workers: 1}}); !errors.Is(err, ErrExists) ||
		!strings.Contains(err.Error(), "low") {
		t.Errorf("Start beside a queue of others: %v", err)
	}
	if q, err := b.Queues(t.Context(), broker.QueuesRequest{}); err != nil || len(q.Queues) != 1 {
		t.Errorf("the store has %+v, %v", q.Queues, err)
	}
}

func TestDemo_ARepeatedSettleIsCountedOnce(t *testing.T) {
	t.Parallel()
	l := newLedger()
	l.accepted([]jobs.Receipt{{JobInfo: jobs.JobInfo{Queue: "q", ID: "a"}}, {JobInfo: jobs.JobInfo{Queue: "q", ID: "b"}}})
	settle := func(number int64, ids ...string) {
		var verdicts []broker.Verdict
		for _, id := range ids {
			verdicts = append(verdicts, broker.Verdict{Queue: "q", ID: id, State: broker.StateCompleted})
		}
		l.settled(broker.SettleRequest{Worker: "w", Number: number}, verdicts)
	}
	settle(1, "a")
	settle(1, "a") // the answer was lost
	if l.totals.Done != 1 || len(l.open) != 1 {
		t.Errorf("%d jobs are done and %d open, want one each", l.totals.Done, len(l.open))
	}
	settle(2, "b")
	if l.totals.Done != 2 || len(l.open) != 0 {
		t.Errorf("%d jobs are done and %d open, want both done", l.totals.Done, len(l.open))
	}
}

func TestDemo_AWatcherSeesTheDemosQueuesOnly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := membroker.NewStore()
		b := store.Open()
		client := jobs.NewClient(b, jobs.ClientConfig{})
		defer client.Close()
		secret, err := client.Enqueue(t.Context(), jobs.NewTask("x", []byte("secret")), jobs.WithQueue("payroll"))
		if err != nil {
			t.Fatal(err)
		}
		d := start(t, store, nil)
		defer stop(t, d)
		i := inspect.New(d.Broker())
		if queues, err := i.Queues(t.Context()); err != nil || len(queues) != 3 {
			t.Errorf("it sees %v, %v", queues, err)
		}
		_, errQueues := i.Queues(t.Context(), "payroll")
		_, errJob := i.Job(t.Context(), "payroll", secret.ID)
		_, errWatch := i.Watch(t.Context(), "payroll")
		_, errDelete := d.Broker().Operate(t.Context(), broker.Operation{Kind: broker.OpDelete,
			Refs: []broker.Ref{{Queue: "payroll", ID: secret.ID, Epoch: broker.AnyEpoch}}})
		for what, err := range map[string]error{"count": errQueues, "read": errJob, "watch": errWatch, "delete": errDelete,
			"pause": i.Pause(t.Context(), "payroll")} {
			if !errors.Is(err, broker.ErrNotFound) {
				t.Errorf("it can %s the queue of others: %v", what, err)
			}
		}
		if _, err := i.Watch(t.Context(), d.Queues()...); err != nil {
			t.Error(err)
		}
	})
}

func TestDemo_AnEndThatIsHeardBeforeTheAcceptanceIsCounted(t *testing.T) {
	t.Parallel()
	l := newLedger()
	l.settled(broker.SettleRequest{Worker: "w", Number: 1}, []broker.Verdict{{Queue: "q", ID: "a", State: broker.StateCompleted}})
	if n := l.now(); !balanced(n) || n.Enqueued != 1 || n.Done != 1 || n.Waiting != 0 {
		t.Errorf("a job is done before its enqueue was answered, and the totals are %+v", n)
	}
	l.accepted([]jobs.Receipt{{JobInfo: jobs.JobInfo{Queue: "q", ID: "a"}}})
	if n := l.now(); !balanced(n) || n.Enqueued != 1 || n.Done != 1 || n.Waiting != 0 {
		t.Errorf("after its enqueue was answered the totals are %+v", n)
	}
}
