package fleet

import (
	"context"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed81422ce9/jobs"
	"github.com/seed81422ce9/jobs/backends/membroker"
	"github.com/seed81422ce9/jobs/broker"
)

var sizes = flag.String("sizes", "1,10,40", "how many servers the fleets have")

const (
	queues      = 10
	concurrency = 10
	callTakes   = time.Millisecond // a call to the store, about as long as in a data centre
	minutes     = 2
	dueAfter    = time.Minute
	lease       = 30 * time.Second
)

// report holds the measurements of a fleet.
type report struct {
	servers  int
	idle     map[string]float64 // calls of a server in a minute, by method
	idleAll  float64            // their sum over the fleet
	perJob   float64            // claims and settles of the fleet for one job, beyond the claims of an idle one
	pickups  []time.Duration    // from enqueue to handler, of jobs that come one by one
	perDue   float64            // the same for a job that falls due, and from when it did to its handler
	late     []time.Duration
	searches int     // calls of Reclaim by the fleet after a server died
	perWork  float64 // claims and settles for a job of a burst
	least    int     // jobs of the burst that one server ran
	most     int
	perSlots int // jobs of the burst for each server
}

// TestFleet_CostsOfOneServerDoNotGrowWithTheOthers bounds what grows with the
// fleet, from one run of each size.
func TestFleet_CostsOfOneServerDoNotGrowWithTheOthers(t *testing.T) {
	t.Parallel()
	var one *report
	t.Logf("%d queues, %d slots a server, a call takes %v", queues, concurrency, callTakes)
	for size := range strings.SplitSeq(*sizes, ",") {
		n, err := strconv.Atoi(size)
		if err != nil {
			t.Fatal(err)
		}
		r := simulate(t, n)
		t.Log(r)
		if one == nil {
			one = r
			continue
		}
		if a, b := r.idleAll/float64(n), one.idleAll/float64(one.servers); a > 1.2*b {
			t.Errorf("an idle server makes %.1f calls a minute beside %d others, %.1f beside %d", a, n-1, b, one.servers-1)
		}
		if r.perJob > 2*max(one.perJob, 2) {
			t.Errorf("one job costs %.1f calls beside %d idle servers, %.1f beside %d", r.perJob, n, one.perJob, one.servers)
		}
		if p := part(0.99, r.pickups); p > 10*callTakes {
			t.Errorf("one in a hundred jobs waited %v for one of %d idle servers, longer than ten calls take", p, n)
		}
		if r.perDue > 2*max(one.perDue, 2) {
			t.Errorf("a job that falls due costs %.1f calls beside %d idle servers, %.1f beside %d", r.perDue, n, one.perDue, one.servers)
		}
		if p := part(0.99, r.late); p > 10*callTakes {
			t.Errorf("one in a hundred jobs that fell due waited %v for one of %d idle servers, longer than ten calls take", p, n)
		}
		if r.searches == 0 || r.searches > 2*max(one.searches, 10) {
			t.Errorf("after a server died, %d servers searched %d times for its jobs, %d of them %d times", n, r.searches, one.servers, one.searches)
		}
		if r.perWork > 1.5*max(one.perWork, 1) {
			t.Errorf("a job of a burst costs %.2f calls with %d servers, %.2f with %d", r.perWork, n, one.perWork, one.servers)
		}
		if r.least*2 < r.perSlots || r.most > 2*r.perSlots {
			t.Errorf("of %d jobs for each of %d servers, one ran %d, another one %d", r.perSlots, n, r.least, r.most)
		}
	}
}

// simulate measures a fleet while it is idle, then with one job a second, then with one that falls due
// each second, then the death of a server, then a burst of ten times its slots.
func simulate(t *testing.T, n int) *report {
	r := &report{servers: n, idle: make(map[string]float64), perSlots: 10 * concurrency}
	t.Run(fmt.Sprintf("%d servers", n), func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t, n)
			time.Sleep(30 * time.Second) // the start is not measured

			w.count()
			time.Sleep(minutes * time.Minute)
			for method, calls := range w.count() {
				r.idle[method] = float64(calls) / minutes / float64(n)
				r.idleAll += float64(calls) / minutes
			}

			for i := range minutes * 60 {
				w.enqueue(t, i, 1, 0)
				time.Sleep(time.Second)
			}
			r.perJob = float64(work(w.count()))/(minutes*60) - r.idle["Claim"]/60*float64(n)
			r.pickups = w.waits()

			for i := range minutes * 60 {
				w.schedule(t, i)
			}
			w.count()
			time.Sleep(dueAfter + minutes*time.Minute)
			idle := r.idle["Claim"] * float64(n) * (minutes + dueAfter.Minutes())
			r.perDue = (float64(work(w.count())) - idle) / (minutes * 60)
			r.late = w.waits()

			w.dies(t)
			r.searches = w.count()["Reclaim"]

			jobs := r.perSlots * n
			for q := range queues {
				w.enqueue(t, q, jobs/queues, time.Second)
			}
			w.await(jobs)
			r.perWork = float64(work(w.count())) / float64(jobs)
			r.least, r.most = slices.Min(w.ran), slices.Max(w.ran)
		})
	})
	return r
}

// part returns the time that this part of them does not exceed.
func part(of float64, times []time.Duration) time.Duration {
	slices.Sort(times)
	return times[int(of*float64(len(times)-1))]
}

func (r *report) String() string {
	var idle []string
	for _, method := range slices.Sorted(maps.Keys(r.idle)) {
		idle = append(idle, fmt.Sprintf("%s %.1f", method, r.idle[method]))
	}
	return fmt.Sprintf("%5d servers: idle %.1f calls a minute each (%s); one job: %.1f claims and settles, "+
		"starts after %v (half), %v (99 %%); one that falls due: %.1f, %v, %v; a death: %d searches; "+
		"a burst of %d jobs for each: %.2f claims and settles a job, a server ran %d to %d",
		r.servers, r.idleAll/float64(r.servers), strings.Join(idle, ", "), r.perJob, part(0.5, r.pickups), part(0.99, r.pickups),
		r.perDue, part(0.5, r.late), part(0.99, r.late), r.searches,
		r.perSlots, r.perWork, r.least, r.most)
}

// world is a fleet and its store.
type world struct {
	client *jobs.Client
	open   func() broker.Broker
	served map[string]int

	mu     sync.Mutex
	calls  map[string]int
	waited []time.Duration
	ran    []int // by server, of the burst
	done   int
	all    chan struct{}
	want   int
}

func newWorld(t *testing.T, n int) *world {
	w := &world{calls: make(map[string]int), ran: make([]int, n), all: make(chan struct{}), want: -1}
	store := membroker.NewStore()
	open := func() broker.Broker {
		b := store.Open()
		t.Cleanup(func() { _ = b.Close() })
		return broker.Wrap(remote{b}, func(ctx context.Context, c *broker.Call, next func(context.Context) error) error {
			w.mu.Lock()
			w.calls[c.Method]++
			w.mu.Unlock()
			time.Sleep(callTakes / 2)
			err := next(ctx)
			time.Sleep(callTakes / 2)
			return err
		})
	}
	served := make(map[string]int)
	for q := range queues {
		served[fmt.Sprint("q", q)] = 1
	}
	w.open, w.served = open, served
	w.client = jobs.NewClient(open(), jobs.ClientConfig{})
	t.Cleanup(func() { _ = w.client.Close() })
	for i := range n {
		s, err := jobs.NewServer(open(), jobs.Config{Concurrency: concurrency, Queues: served, Lease: lease,
			Logger: slog.New(slog.NewTextHandler(io.Discard, nil))})
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Start(context.Background(), jobs.HandlerFunc(func(_ context.Context, j *jobs.Job) error {
			w.handle(i, j)
			return nil
		})); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := s.Shutdown(context.Background()); err != nil {
				t.Error(err)
			}
		})
		time.Sleep(15 * time.Second / time.Duration(n)) // servers of a fleet do not start at the same instant
	}
	return w
}

// remote is a store on another machine: servers renew their leases as often as with a store that can
// become unreachable.
type remote struct{ *membroker.Broker }

func (r remote) Limits() broker.Limits {
	l := r.Broker.Limits()
	l.InProcess = false
	return l
}

// enqueue stores n jobs whose handler takes this long.
func (w *world) enqueue(t *testing.T, queue, n int, runs time.Duration) {
	t.Helper()
	payload := strconv.AppendInt(nil, time.Now().UnixNano(), 10)
	payload = strconv.AppendInt(append(payload, ' '), int64(runs), 10)
	tasks := make([]*jobs.Task, n)
	for i := range tasks {
		tasks[i] = jobs.NewTask("t", payload, jobs.WithQueue(fmt.Sprint("q", queue%queues)))
	}
	if _, err := w.client.EnqueueMany(t.Context(), tasks); err != nil {
		t.Fatal(err)
	}
}

// schedule stores a job that falls due in dueAfter and i seconds.
func (w *world) schedule(t *testing.T, i int) {
	t.Helper()
	at := time.Now().Add(dueAfter + time.Duration(i)*time.Second)
	task := jobs.NewTask("t", fmt.Appendf(nil, "%d 0", at.UnixNano()), jobs.WithQueue(fmt.Sprint("q", i%queues)), jobs.WithRunAt(at))
	if _, err := w.client.Enqueue(t.Context(), task); err != nil {
		t.Fatal(err)
	}
}

// dies has a server register and never renew, and waits until the others have looked for its jobs.
func (w *world) dies(t *testing.T) {
	t.Helper()
	b := w.open()
	if _, err := b.Renew(t.Context(), broker.RenewRequest{Worker: "dies", Queues: slices.Collect(maps.Keys(w.served)), Lease: lease,
		Register: true}); err != nil {
		t.Fatal(err)
	}
	time.Sleep(lease + 20*time.Second)
}

func (w *world) handle(server int, j *jobs.Job) {
	var at, runs int64
	if _, err := fmt.Sscan(string(j.Payload()), &at, &runs); err != nil {
		panic(err)
	}
	waited := time.Since(time.Unix(0, at))
	time.Sleep(time.Duration(runs))
	w.mu.Lock()
	defer w.mu.Unlock()
	if runs == 0 {
		w.waited = append(w.waited, waited)
		return
	}
	w.ran[server]++
	if w.done++; w.done == w.want {
		close(w.all)
	}
}

// await waits until this many jobs of the burst have run.
func (w *world) await(jobs int) {
	w.mu.Lock()
	w.want = jobs
	done := w.done == jobs
	w.mu.Unlock()
	if !done {
		<-w.all
	}
}

// count returns the number of calls since the last count, by method.
func (w *world) count() map[string]int {
	w.mu.Lock()
	defer w.mu.Unlock()
	calls := w.calls
	w.calls = make(map[string]int)
	return calls
}

// waits returns how long jobs have waited since the last call.
func (w *world) waits() []time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	waited := w.waited
	w.waited = nil
	return waited
}

// work sums the calls that are made for jobs. The number of other calls depends only on the time.
func work(calls map[string]int) int { return calls["Claim"] + calls["Settle"] }
