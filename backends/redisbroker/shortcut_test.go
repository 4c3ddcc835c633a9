package redisbroker

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/seed81422ce9/jobs/broker"
)

// commands counts what is sent, by name, and round trips.
type commands struct {
	trips
	mu         sync.Mutex
	names      map[string]int
	transacted atomic.Int64 // transactions with something in them
}

func (c *commands) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	next = c.trips.ProcessPipelineHook(next)
	return func(ctx context.Context, cmds []redis.Cmder) error {
		c.mu.Lock()
		for _, cmd := range cmds {
			c.names[cmd.Name()]++
		}
		if len(cmds) > 4 && cmds[0].Name() == "multi" && cmds[1].Name() != "exec" {
			c.transacted.Add(1)
		}
		c.mu.Unlock()
		return next(ctx, cmds)
	}
}

func (c *commands) reset() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.n.Store(0)
	c.transacted.Store(0)
	c.names = make(map[string]int)
}

// firstSends are n jobs, the IDs of which were drawn just now.
func firstSends(queue, prefix string, n int) []broker.NewJob {
	jobs := make([]broker.NewJob, n)
	for i := range jobs {
		jobs[i] = firstSend(job(queue, fmt.Sprintf("%s%d", prefix, i)))
	}
	return jobs
}

var warmed atomic.Int64

// warm sends batches until the next one finds a shortcut that watches the queues.
func warm(t *testing.T, b *Broker, queues ...string) {
	t.Helper()
	b.shortcuts.after, b.shortcuts.rest = 1, 0 // an earlier repeat may have come before a transaction
	for range 10 {
		var jobs []broker.NewJob
		for _, q := range queues {
			jobs = append(jobs, firstSends(q, fmt.Sprint("warm", warmed.Add(1), "-"), 2)...)
		}
		accept(t, b, jobs)
		steps := []*step{}
		for _, q := range queues {
			steps = append(steps, &step{script: lineupScript, batch: &enqueueBatch{queue: b.queue(q), recent: true, drawn: time.Now(), texts: newArena()}})
		}
		way, ready := b.shortcuts.take(steps)
		if way != nil {
			b.shortcuts.give(way)
		}
		if ready {
			return
		}
	}
	t.Fatal("ten batches of first sends, and no shortcut is ready")
}

// accept enqueues jobs at the store's own time, and each must be accepted.
func accept(t *testing.T, b *Broker, jobs []broker.NewJob) {
	t.Helper()
	receipts, err := b.Enqueue(t.Context(), broker.EnqueueRequest{Jobs: jobs})
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range receipts {
		if r.Err != nil || r.State != broker.StatePending {
			t.Fatalf("%s was made %v, %v", r.ID, r.State, r.Err)
		}
	}
}

// Of two connections the one that was answered last is taken, as long as no job is
// older than that: an older job needs the other.
func TestTheOldestShortcutIsKeptForTheOldestJobs(t *testing.T) {
	t.Parallel()
	now := time.Now()
	q := &queue{}
	all := shortcuts{used: now, idle: time.Minute}
	for i, ago := range []time.Duration{3, 1, 2} {
		all.ways[i].queues, all.ways[i].since = []*queue{q}, now.Add(-ago*time.Millisecond)
	}
	take := func(ago time.Duration) int {
		e := &enqueueBatch{queue: q, recent: true, drawn: now.Add(-ago), texts: newArena()}
		way, ready := all.take([]*step{{script: lineupScript, batch: e}})
		for i := range all.ways {
			if ready && way == &all.ways[i] {
				return i
			}
		}
		return -1
	}
	for _, test := range []struct {
		drawn time.Duration // ago
		want  int
	}{{0, 1}, {1500 * time.Microsecond, 2}, {0, 0}, {0, -1}} {
		if got := take(test.drawn); got != test.want {
			t.Errorf("jobs drawn %v ago go by connection %d, want %d", test.drawn, got, test.want)
		}
	}
	all.ways[0].busy = false
	if got := take(4 * time.Millisecond); got != -1 {
		t.Errorf("jobs drawn before any connection watched go by connection %d", got)
	}
}

func TestATransactionIsBounded(t *testing.T) {
	t.Parallel()
	all := shortcuts{idle: time.Minute}
	all.used = time.Now()
	for _, test := range []struct {
		steps, jobs, bytes int
		want               bool
	}{{1, callJobs, 1000, true}, {1, 10, callBytes, true}, {mostWatched, 10, 1000, true},
		{2, callJobs/2 + 1, 1000, false}, {2, 10, callBytes/2 + 1, false}, {mostWatched + 1, 10, 1000, false}} {
		var steps []*step
		for range test.steps {
			e := &enqueueBatch{recent: true, drawn: time.Now(), items: make([]int, test.jobs), texts: &arena{buf: make([]byte, test.bytes)}}
			steps = append(steps, &step{script: lineupScript, batch: e})
		}
		way, _ := all.take(steps)
		if way != nil {
			all.give(way)
		}
		if got := way != nil; got != test.want {
			t.Errorf("%d queues with %d jobs of %d bytes in all each: taken %t, want %t", test.steps, test.jobs, test.bytes, got, test.want)
		}
	}
}

// Other calls need what a small pool has.
func TestShortcutsTakeNoConnectionFromThePool(t *testing.T) {
	t.Parallel()
	o := *client(t).Options()
	o.PoolSize = 1
	c := redis.NewClient(&o)
	t.Cleanup(func() { _ = c.Close() })
	b := open(t, c)
	warm(t, b, "q")
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	if _, err := b.Ping(ctx); err != nil {
		t.Errorf("beside a shortcut, with a pool of one: %v", err)
	}
}

func TestFirstSendsPassTheScripts(t *testing.T) {
	t.Parallel()
	for _, sizes := range []map[string]int{{"q": 3, "other": 2}, {"q": 1, "other": 1}, {"q": 1}} {
		t.Run(fmt.Sprint(sizes), func(t *testing.T) {
			t.Parallel()
			b := open(t, client(t))
			count := &commands{}
			b.store.single.AddHook(count)
			b.store.aside.AddHook(count)
			count.reset()
			warm(t, b, "q", "other")
			count.reset()
			const requests = 20
			before := time.Now()
			for i := range requests {
				var jobs []broker.NewJob
				for _, q := range slices.Sorted(maps.Keys(sizes)) {
					jobs = append(jobs, firstSends(q, fmt.Sprint("request", i, "-"), sizes[q])...)
				}
				accept(t, b, jobs)
			}
			if n := count.n.Load(); n != requests || count.names["multi"] != requests || count.names["evalsha"] != 0 {
				t.Errorf("%d requests took %d round trips, in which were sent %v; want one transaction each and no script", requests, n, count.names)
			}
			register(t, b, "w", "q", "other")
			for q, n := range sizes {
				got := claimAt(t, b, at(0), "w", 1000, q).Jobs
				got = slices.DeleteFunc(got, func(j broker.Job) bool { return j.ID[0] == 'w' })
				if len(got) != requests*n {
					t.Fatalf("%s: %d jobs came out, want %d", q, len(got), requests*n)
				}
				for i, j := range got {
					if want := fmt.Sprint("request", i/n, "-", i%n); j.ID != want || string(j.Body.Payload) != "payload of "+want {
						t.Errorf("%s: job %d is %s with the payload %q, want %s", q, i, j.ID, j.Body.Payload, want)
					}
					if age := j.CreatedAt.Sub(before); age < -time.Second || age > time.Minute {
						t.Errorf("%s: %s was created at %v; it was sent after %v", q, j.ID, j.CreatedAt, before)
					}
				}
			}
		})
	}
}

// What looks alike but is not a first send to a plain queue goes by the scripts,
// which keep what they promise, however ready a shortcut is.
func TestOnlyFirstSendsPassTheScripts(t *testing.T) {
	t.Parallel()
	few, early := int64(1), time.Now()
	for name, test := range map[string]struct {
		before func(t *testing.T, other *Broker)
		change func(*broker.NewJob)
		want   error // of the second of three jobs
	}{
		"sent before":       {change: func(j *broker.NewJob) { j.Drawn = time.Time{} }, want: broker.ErrDuplicate},
		"with a given ID":   {change: func(j *broker.NewJob) { j.Body.GivenID = true }, want: broker.ErrDuplicate},
		"drawn long ago":    {change: func(j *broker.NewJob) { j.Drawn = early }, want: broker.ErrDuplicate},
		"with a unique key": {change: func(j *broker.NewJob) { j.Body.Unique = broker.Unique{Key: "k", Mode: broker.UniqueUntilDone} }, want: broker.ErrDuplicate},
		"into a limited queue": {before: func(t *testing.T, other *Broker) {
			if _, err := other.Policy(t.Context(), broker.PolicyRequest{Queue: "q", MaxDepth: &few}); err != nil {
				t.Fatal(err)
			}
		}, change: func(*broker.NewJob) {}, want: broker.ErrQueueFull},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := open(t, client(t))
			other := openAs(t, client(t), b.config)
			warm(t, b, "q")
			if test.before != nil {
				test.before(t, other)
			} else {
				held := firstSend(job("q", "b"))
				held.Body.Unique = broker.Unique{Key: "k", Mode: broker.UniqueUntilDone}
				enqueue(t, other, held)
			}
			jobs := []broker.NewJob{firstSend(job("q", "a")), firstSend(job("q", "b")), firstSend(job("q", "c"))}
			test.change(&jobs[1])
			jobs[1].Body.Payload = []byte("another")
			receipts, err := b.Enqueue(t.Context(), broker.EnqueueRequest{Jobs: jobs})
			if err != nil || !errors.Is(receipts[1].Err, test.want) {
				t.Fatalf("got %v, %v; want %v for the second", receipts, err, test.want)
			}
			page, err := b.Find(t.Context(), broker.Query{Queue: "q", IDs: []string{"b"}})
			if err != nil || len(page.Jobs) > 0 && string(page.Jobs[0].Body.Payload) == "another" {
				t.Errorf("found %v, %v, want what was stored first", page.Jobs, err)
			}
		})
	}
}

// A queue that was limited before anybody watched it has no key p to watch.
func TestAQueueThatIsNotPlainIsNotWatched(t *testing.T) {
	t.Parallel()
	b := open(t, client(t))
	few := int64(5)
	if _, err := b.Policy(t.Context(), broker.PolicyRequest{Queue: "q", MaxDepth: &few}); err != nil {
		t.Fatal(err)
	}
	warm(t, b, "other")
	for _, prefix := range []string{"first", "second"} {
		accept(t, b, firstSends("q", prefix, 2))
		b.queue("q").limited.Store(0) // as if that had been long ago
	}
	receipts, err := b.Enqueue(t.Context(), broker.EnqueueRequest{Jobs: firstSends("q", "then", 3)})
	if err != nil || receipts[0].Err != nil || !errors.Is(receipts[1].Err, broker.ErrQueueFull) {
		t.Errorf("got %v, %v, want the second of three jobs refused, which would make seven in a queue for five", receipts, err)
	}
}

// What scripts do besides: note the size of a large body, and ask for the time.
func TestFirstSendsThatNeedMoreGoByTheScripts(t *testing.T) {
	t.Parallel()
	c := client(t)
	b := open(t, c)
	warm(t, b, "q")
	large := firstSends("q", "large", 2)
	large[1].Body.Payload = make([]byte, 5000)
	accept(t, b, large)
	if big, err := c.HGet(t.Context(), baseOf(b.config.Prefix, "q")+"m", "big").Int(); big < 5000 || err != nil {
		t.Errorf("the record says that no body is larger than %d bytes, %v", big, err)
	}

	warm(t, b, "q")
	q := b.queue("q")
	q.ahead.Add(time.Hour.Microseconds()) // the store's clock was set meanwhile
	q.heard.Add(-hearsay.Microseconds())
	accept(t, b, firstSends("q", "later", 2))
	page, err := b.Find(t.Context(), broker.Query{Queue: "q", IDs: []string{"later1"}})
	if err != nil || len(page.Jobs) != 1 || time.Since(page.Jobs[0].CreatedAt).Abs() > time.Minute {
		t.Errorf("found %+v, %v, want a job that was created just now", page.Jobs, err)
	}
}

// Repeats that overtake their first sends, and are overtaken, as it comes.
func TestFirstSendsBesideTheirRepeats(t *testing.T) {
	t.Parallel()
	b := open(t, client(t))
	other := openAs(t, client(t), b.config)
	const rounds = 150
	for i := range rounds {
		size := 1 + 3*(i%2)
		warm(t, b, "q")
		jobs := firstSends("q", fmt.Sprint("job", i, "-"), size)
		again := slices.Clone(jobs)
		for n := range again {
			again[n].Drawn = time.Time{}
		}
		var both sync.WaitGroup
		accepted := make([]int, 2)
		for n, call := range []func() ([]broker.Receipt, error){
			func() ([]broker.Receipt, error) { return b.Enqueue(t.Context(), broker.EnqueueRequest{Jobs: jobs}) },
			func() ([]broker.Receipt, error) {
				return other.Enqueue(t.Context(), broker.EnqueueRequest{Jobs: again})
			},
		} {
			both.Go(func() {
				receipts, err := call()
				if err != nil {
					t.Error(err)
				}
				for _, r := range receipts {
					if r.Err == nil {
						accepted[n]++
					} else if !errors.Is(r.Err, broker.ErrDuplicate) {
						t.Error(r.Err)
					}
				}
			})
		}
		both.Wait()
		if accepted[0]+accepted[1] != size {
			t.Fatalf("round %d: %d jobs of the first send were accepted and %d of its repeat, want %d in all", i, accepted[0], accepted[1], size)
		}
	}
}
