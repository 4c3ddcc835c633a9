package jobs

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/seed81422ce9/jobs/broker"
)

// machine runs one process after the other on a store: each ends, with all that
// it runs, when a handler kills it, and the next one starts at once.
type machine struct {
	t       *testing.T
	b       broker.Broker
	cfg     Config
	handler func(ctx context.Context, j *Job, killed <-chan struct{}, kill func()) error

	mu      sync.Mutex
	deaths  int
	servers []*Server
}

// process is a broker that is cut off from its store for good when it is killed.
type process struct {
	*cable
	killed chan struct{}
	once   sync.Once
}

func (p *process) Mark(ctx context.Context, req broker.MarkRequest) (broker.Marked, error) {
	return through(p.cable, p.cable.Broker.Mark)(ctx, req)
}

func (m *machine) start() {
	p := &process{cable: newCable(m.b), killed: make(chan struct{})}
	s, err := NewServer(p, m.cfg)
	if err != nil {
		m.t.Error(err)
		return
	}
	kill := func() {
		p.once.Do(func() {
			p.setCut(true)
			close(p.killed)
			m.mu.Lock()
			m.deaths++
			m.mu.Unlock()
			m.start()
		})
	}
	m.mu.Lock()
	m.servers = append(m.servers, s)
	m.mu.Unlock()
	if err := s.Start(context.Background(), HandlerFunc(func(ctx context.Context, j *Job) error {
		return m.handler(ctx, j, p.killed, kill)
	})); err != nil {
		m.t.Error(err)
	}
}

func (m *machine) stop() {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	for _, s := range m.servers {
		_ = s.Shutdown(ctx)
	}
	for _, s := range m.servers {
		<-s.engine.Done()
	}
}

// works is a handler that takes a while; the killer ends its process before.
func works(long, short time.Duration) func(context.Context, *Job, <-chan struct{}, func()) error {
	return func(_ context.Context, j *Job, killed <-chan struct{}, kill func()) error {
		took := long
		if j.Type() == "killer" {
			took = short
		}
		select {
		case <-time.After(took):
		case <-killed:
			return nil // nobody hears of it
		}
		if j.Type() == "killer" {
			kill()
		}
		return nil
	}
}

func TestServer_InnocentJobsAreNeverDeadByWhatAnotherOneDoes(t *testing.T) {
	t.Parallel()
	const lease = 15 * time.Second
	for _, c := range []struct {
		slots, innocent, killers int
		long, short              time.Duration
		within                   time.Duration
	}{
		// Two rounds of √100 groups, one after the other, and once in vain.
		{100, 99, 1, 10 * lease, 100 * time.Millisecond, 30 * 10 * lease},
		{100, 99, 1, 10 * lease, 5 * lease, 40 * 10 * lease},
		{100, 90, 10, 2 * lease, lease, 100 * 2 * lease},
		{10, 500, 3, time.Second, 500 * time.Millisecond, time.Hour},
		{1, 5, 2, lease, time.Second, 30 * lease},
	} {
		t.Run(fmt.Sprintf("%d slots, %d jobs of %v, %d killers after %v", c.slots, c.innocent, c.long, c.killers, c.short), func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				b := newStore()
				add(t, b, DefaultQueue, "killer", c.killers)
				add(t, b, DefaultQueue, "innocent", c.innocent)
				m := &machine{t: t, b: b, cfg: Config{Concurrency: c.slots, Lease: lease, Logger: slog.New(slog.DiscardHandler)},
					handler: works(c.long, c.short)}
				began := time.Now()
				m.start()
				defer m.stop()
				for count(t, b, DefaultQueue, StateCompleted)+count(t, b, DefaultQueue, StateDead) < c.innocent+c.killers &&
					time.Since(began) < 10*c.within {
					time.Sleep(lease)
				}
				took := time.Since(began)
				if dead := count(t, b, DefaultQueue, StateDead); dead != c.killers {
					t.Errorf("%d jobs are dead, want the %d that killed their processes", dead, c.killers)
				}
				if done := count(t, b, DefaultQueue, StateCompleted); done != c.innocent {
					t.Errorf("%d jobs completed, want the %d innocent ones", done, c.innocent)
				}
				for i := range c.killers {
					if j := stored(t, b, DefaultQueue, fmt.Sprint("killer-", i)); j.Reason != broker.ReasonCrashes {
						t.Errorf("a killer is %v, %q, after %d crashes", j.State, j.Reason, j.Crashes)
					}
				}
				if most := 4 * c.killers; m.deaths > most {
					t.Errorf("%d processes died of %d killers, want at most %d", m.deaths, c.killers, most)
				}
				if took > c.within {
					t.Errorf("it took %v, want at most %v", took, c.within)
				}
				t.Logf("%v, %d deaths", took, m.deaths)
			})
		})
	}
}

// crashed enqueues a job and has it lose its worker n times during its run.
func crashed(t *testing.T, b broker.Broker, typ string, n int) {
	t.Helper()
	add(t, b, DefaultQueue, typ, 1, func(j *broker.NewJob) { j.Body.Priority = broker.PriorityUrgent })
	ctx := t.Context()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	_, err := b.Renew(ctx, broker.RenewRequest{Worker: "w", Queues: []string{DefaultQueue}, Lease: time.Hour, Register: true,
		Info: broker.WorkerInfo{ID: "w"}})
	must(err)
	for i := range n {
		got, err := b.Claim(ctx, broker.ClaimRequest{Worker: "w", Queues: []broker.Share{{Queue: DefaultQueue, Max: 1}}, Max: 1})
		must(err)
		_, err = b.Settle(ctx, broker.SettleRequest{Worker: "w", Number: int64(i + 1),
			Items: []broker.Settlement{{Job: &got.Jobs[0], Outcome: broker.Crash(0, broker.Failure{})}}})
		must(err)
	}
	_, err = b.Retire(ctx, broker.RetireRequest{Worker: "w", Queues: []string{DefaultQueue}})
	must(err)
}

func TestServer_SuspectRunsAlone(t *testing.T) {
	bubble(t, func(t *testing.T) {
		for _, c := range []struct{ crashes, budget, beside int }{{0, 3, 9}, {1, 3, 3}, {2, 3, 1}, {3, 3, 1}, {1, 1, 1}, {1, 2, 3}} {
			b := newStore()
			crashed(t, b, "suspect", c.crashes)
			add(t, b, DefaultQueue, "other", 30)
			var running tally
			var mu sync.Mutex
			suspects, beside := 0, 0
			s := serve(t, b, Config{Concurrency: 9, CrashBudget: c.budget}, func(_ context.Context, j *Job) error {
				mu.Lock()
				now := running.add("all", 1)
				if j.Type() == "suspect" {
					suspects = 1
				}
				if suspects == 1 {
					beside = max(beside, now)
				}
				mu.Unlock()
				time.Sleep(10 * time.Second)
				mu.Lock()
				if j.Type() == "suspect" {
					suspects = 0
				}
				running.add("all", -1)
				mu.Unlock()
				return nil
			})
			pass(10 * time.Minute)
			if n := count(t, b, DefaultQueue, StateCompleted); n != 31 {
				t.Errorf("%d crashes: %d of 31 jobs completed", c.crashes, n)
			}
			if beside != c.beside {
				t.Errorf("%d crashes of a budget of %d: %d ran at once with the job, want %d", c.crashes, c.budget, beside, c.beside)
			}
			if most := running.peak("all"); most != 9 {
				t.Errorf("%d crashes: at most %d jobs ran at once, want 9 before or after", c.crashes, most)
			}
			if err := s.Shutdown(context.Background()); err != nil {
				t.Error(err)
			}
		}
	})
}

func TestServer_SuspectWaitsForLongerEachTimeAndRunsInTheEnd(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b := newStore()
		add(t, b, DefaultQueue, "long", 400)
		ran := time.Time{}
		serve(t, b, Config{Concurrency: 4}, func(ctx context.Context, j *Job) error {
			if j.Type() == "suspect" {
				ran = time.Now()
				return nil
			}
			n, _ := strconv.Atoi(strings.TrimPrefix(j.ID(), "long-"))
			select {
			case <-time.After(time.Minute + time.Duration(n%7)*13*time.Second): // never all at once
			case <-ctx.Done():
			}
			return nil
		})
		pass(10 * time.Second)
		began := time.Now()
		crashed(t, b, "suspect", 2)
		pass(40 * time.Minute)
		j := expect(t, b, DefaultQueue, "suspect-0", StateCompleted)
		if j.Snoozes < 4 || j.Snoozes > 9 || j.Crashes != 2 || j.Failures != 0 {
			t.Errorf("the suspect was snoozed %d times, charged %d crashes and %d failures; want 4 to 9, 2, none", j.Snoozes, j.Crashes, j.Failures)
		}
		if waited := ran.Sub(began); ran.IsZero() || waited > 20*time.Minute {
			t.Errorf("the suspect ran after %v beside jobs of two minutes", waited)
		}
	})
}

// A job that polls has many snoozes, which are no waits in vain.
func TestServer_ASuspectBlocksItsServerForASecondAndDoublesThatOnlyByItsOwnWaits(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b := newStore()
		add(t, b, DefaultQueue, "long", 1)
		serve(t, b, Config{Concurrency: 4}, func(ctx context.Context, j *Job) error {
			if j.Type() == "long" {
				<-ctx.Done()
			}
			return nil
		})
		pass(time.Second)
		add(t, b, DefaultQueue, "suspect", 1, func(j *broker.NewJob) {
			j.Restore = &broker.Restored{State: StatePending, Head: broker.Head{Deliveries: 16, Snoozes: 14, Crashes: 2}}
		})
		for _, blocked := range []time.Duration{time.Second, 2 * time.Second, 4 * time.Second} {
			pass(10 * time.Millisecond)
			for range 6000 {
				if stored(t, b, DefaultQueue, "suspect-0").State == StateActive {
					break
				}
				pass(10 * time.Millisecond)
			}
			typ := fmt.Sprint("after ", blocked)
			add(t, b, DefaultQueue, typ, 1)
			pass(blocked - 100*time.Millisecond)
			expect(t, b, DefaultQueue, typ+"-0", StatePending)
			pass(200 * time.Millisecond)
			expect(t, b, DefaultQueue, typ+"-0", StateCompleted)
			expect(t, b, DefaultQueue, "suspect-0", StateRetry)
		}
	})
}

func TestServer_SuspectIsNotRunWithoutItsMark(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b := newStore()
		crashed(t, b, "suspect", 1)
		p := &process{cable: newCable(b), killed: make(chan struct{})}
		failing := &noMarks{Broker: p, fail: true}
		runs := 0
		var marked []string
		serve(t, failing, Config{}, func(context.Context, *Job) error {
			runs++
			marked = failing.held(t)
			return nil
		})
		pass(5 * time.Second)
		if j := expect(t, b, DefaultQueue, "suspect-0", StateRetry); runs != 0 || j.Failures != 0 || j.Snoozes != 1 {
			t.Errorf("without a mark the job ran %d times, %d failures, %d snoozes; want it put off", runs, j.Failures, j.Snoozes)
		}
		failing.set(false)
		pass(time.Minute)
		expect(t, b, DefaultQueue, "suspect-0", StateCompleted)
		if len(marked) != 1 || len(failing.held(t)) != 0 {
			t.Errorf("marks during the run %q, after it %q; want one and none", marked, failing.held(t))
		}
	})
}

// noMarks is a broker whose marks may fail, and which notes their names.
type noMarks struct {
	broker.Broker
	mu    sync.Mutex
	fail  bool
	names []string
}

func (b *noMarks) set(fail bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.fail = fail
}

func (b *noMarks) Mark(ctx context.Context, req broker.MarkRequest) (broker.Marked, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.fail {
		return broker.Marked{}, errCut
	}
	if strings.HasPrefix(req.Name, "begun:") { // of a suspect, not of pruning
		b.names = append(b.names, req.Name)
	}
	return b.Broker.Mark(ctx, req)
}

// held lists the marks that are held.
func (b *noMarks) held(t *testing.T) (names []string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, name := range slices.Compact(slices.Sorted(slices.Values(b.names))) {
		m, err := b.Broker.Mark(context.Background(), broker.MarkRequest{Name: name})
		if err != nil {
			t.Error(err)
		}
		if m.Held && !strings.HasPrefix(name, "history/") {
			names = append(names, name)
		}
	}
	return names
}

func TestServer_AJobThatCrashedWaitsForLongerEachTime(t *testing.T) {
	t.Parallel()
	const lease = 15 * time.Second
	s, err := NewServer(newStore(), Config{Lease: lease, CrashBudget: 60})
	if err != nil {
		t.Fatal(err)
	}
	p := policy{Server: s}
	longest := func(crashes int) (most time.Duration) {
		for range 300 {
			j := &broker.Job{Queue: DefaultQueue, ID: "a"}
			j.Crashes = crashes
			o := p.Crashed(j, "worker")
			if o.Kind() != broker.OutcomeCrash {
				t.Fatalf("after %d crashes of 60 the job is to %v", crashes, o.Kind())
			}
			most = max(most, o.Delay())
		}
		return most
	}
	for crashes, want := range map[int]time.Duration{0: 0, 1: lease, 2: 2 * lease, 3: 4 * lease, 7: crashDelayMax, 59: crashDelayMax} {
		if got := longest(crashes); got > want || got < want/2 {
			t.Errorf("after %d crashes before it a job waits for %v at most, want about %v", crashes, got, want)
		}
	}
	j := &broker.Job{Queue: DefaultQueue, ID: "a"}
	if j.Crashes = 60; p.Crashed(j, "worker").Kind() != broker.OutcomeDie {
		t.Error("the crash after the last of its budget does not make a job dead")
	}
}
