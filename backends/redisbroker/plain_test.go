package redisbroker

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/seed81422ce9/jobs/broker"
	"github.com/seed81422ce9/jobs/internal/examinetest"
)

// isPlain reports whether a queue has the key p, which enqueue_plain.lua requires.
func isPlain(t *testing.T, c *redis.Client, b *Broker) bool {
	t.Helper()
	n, err := c.Exists(t.Context(), b.queue("q").key("p")).Result()
	if err != nil {
		t.Fatal(err)
	}
	return n == 1
}

func TestPlain_AQueueIsPlainWithoutLimitsAlone(t *testing.T) {
	t.Parallel()
	c := client(t)
	b := open(t, c)
	enqueue(t, b, job("q", "a"))
	if !isPlain(t, c, b) {
		t.Error("a new queue has no key p, so that nothing takes the shorter way into it")
	}
	yes, no, some, none := true, false, int64(5), int64(broker.NoLimit)
	for _, step := range []struct {
		name  string
		req   broker.PolicyRequest
		plain bool
	}{
		{"paused", broker.PolicyRequest{Paused: &yes}, false},
		{"paused and limited", broker.PolicyRequest{MaxDepth: &some}, false},
		{"limited", broker.PolicyRequest{Paused: &no}, false},
		{"free again", broker.PolicyRequest{MaxDepth: &none}, true},
	} {
		step.req.Queue = "q"
		if _, err := b.Policy(t.Context(), step.req); err != nil {
			t.Fatal(err)
		}
		if got := isPlain(t, c, b); got != step.plain {
			t.Errorf("the queue is %s: key p is there: %t, want %t", step.name, got, step.plain)
		}
	}
	l := &life{t: t, b: b, queue: "q"}
	l.operate(broker.Operation{Kind: broker.OpDelete}, "a")
	if results, err := b.Operate(t.Context(), removal("q")); err != nil || results[0].Err != nil {
		t.Fatal(results, err)
	}
	if isPlain(t, c, b) {
		t.Error("the key p of a queue that was removed is there: jobs would be stored without a record of the queue")
	}

	for _, buckets := range []int{1, 3} {
		other := openAs(t, c, Config{Prefix: fmt.Sprint(b.config.Prefix, "-", buckets), Buckets: buckets})
		enqueue(t, other, job("q", "a"))
		if _, err := other.Policy(t.Context(), broker.PolicyRequest{Queue: "q", Paused: &no}); err != nil {
			t.Fatal(err)
		}
		if !isPlain(t, c, other) {
			t.Errorf("a queue of %d buckets has no key p", buckets)
		}
	}
}

// A manual deletion or an eviction may remove some keys of a queue and leave p. Then jobs
// are accepted into a queue without a record, where they must be found and claimed.
func TestPlain_JobsOfAQueueThatLostItsRecordComeBack(t *testing.T) {
	t.Parallel()
	for name, remains := range map[string]func(key string) bool{
		"all but the record": func(key string) bool { return key != "m" },
		"p alone":            func(key string) bool { return key == "p" },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := client(t)
			b := open(t, c)
			enqueue(t, b, job("q", "before"))
			for _, name := range keyNames {
				if remains(name) || name == "p*" {
					continue
				}
				for _, key := range b.queue("q").keys(name) {
					if err := c.Del(t.Context(), key).Err(); err != nil {
						t.Fatal(err)
					}
				}
			}
			enqueue(t, b, job("q", "after"))

			_, err := b.Renew(t.Context(), broker.RenewRequest{Now: at(0), Worker: "w", Queues: []string{"q"}, Lease: time.Minute, Register: true})
			if err == nil || !strings.Contains(err.Error(), "without a queue's record") {
				t.Errorf("a worker of a queue without a record begins with the error %v, want one that says so", err)
			}
			found := examinetest.Examine(t, b, broker.ExamineRequest{Now: at(1), Fix: true})
			if len(found) == 0 || found[0].Code != "queue-record-missing" || !found[0].Fixed {
				t.Errorf("found %+v, want first that the record is missing, repaired", found)
			}
			if again := examinetest.Examine(t, b, broker.ExamineRequest{Now: at(1)}); len(again) > 0 {
				t.Errorf("after the repair: %+v", again)
			}
			if n, err := c.HGet(t.Context(), b.queue("q").key("m"), "B").Int(); n != defaultBuckets || err != nil {
				t.Errorf("the record that was made says %d buckets, %v; other programs know of %d", n, err, defaultBuckets)
			}
			register(t, b, "w", "q")
			got := claimAt(t, b, at(2), "w", 9, "q").Jobs
			if len(got) == 0 || got[len(got)-1].ID != "after" {
				t.Errorf("%d jobs come out after the repair, want the one that was accepted last among them", len(got))
			}
		})
	}
}

// The first calls for a queue that is just being created, perhaps by another process, get
// the same answer as those for a limited queue.
func TestPlain_AQueueThatWasJustMadeIsNotTakenToBeLimited(t *testing.T) {
	t.Parallel()
	c := client(t)
	b := open(t, c)
	other := openAs(t, c, b.config)
	send := func(id string, meanwhile func()) *step {
		e := &enqueueBatch{queue: b.queue("q"), recent: true, texts: newArena()}
		j := job("q", id)
		e.add(0, &j)
		s := e.step(nowArg(at(0)))
		if s.script != plainScript {
			t.Fatalf("%s goes by %s, want enqueue_plain", id, s.script.name)
		}
		calls := b.exchange(t.Context(), []*step{s})
		meanwhile()
		if s.read(calls[0]); s.err != nil || s.code != codeLimited {
			t.Fatalf("%s was answered %d, %v; want %d", id, s.code, s.err, codeLimited)
		}
		if !b.repair(s) || s.script != enqueueScript {
			t.Fatalf("%s goes on with %s, want enqueue", id, s.script.name)
		}
		return s
	}
	early := send("early", func() { enqueue(t, other, job("q", "first")) })
	if b.queue("q").isLimited() {
		t.Error("a queue that was made after the call is taken to be limited")
	}
	if b.rounds(t.Context(), []*step{early}); early.err != nil || early.code != codeDone {
		t.Fatalf("enqueue.lua answers %d, %v", early.code, early.err)
	}
	few := int64(100)
	if _, err := other.Policy(t.Context(), broker.PolicyRequest{Queue: "q", MaxDepth: &few}); err != nil {
		t.Fatal(err)
	}
	send("late", func() {})
	if !b.queue("q").isLimited() {
		t.Error("a queue that was there before the call is not taken to be limited")
	}
}

// The next job creates a removed queue again, which is without limits as before.
func TestPlain_AQueueThatWasRemovedIsNotTakenToBeLimited(t *testing.T) {
	t.Parallel()
	c := client(t)
	b := open(t, c)
	accept(t, b, []broker.NewJob{job("q", "before0")})
	other := openAs(t, c, b.config)
	l := &life{t: t, b: other, queue: "q"}
	l.operate(broker.Operation{Kind: broker.OpDelete}, "before0")
	if results, err := other.Operate(t.Context(), removal("q")); err != nil || results[0].Err != nil {
		t.Fatal(results, err)
	}
	accept(t, b, []broker.NewJob{job("q", "after0")})
	if !isPlain(t, c, b) || b.queue("q").isLimited() {
		t.Error("the queue that was made again is taken to be limited")
	}
}

// A queue without p is only slower.
func TestPlain_AQueueThatLostItsShortcutTakesJobs(t *testing.T) {
	t.Parallel()
	c := client(t)
	b := open(t, c)
	enqueue(t, b, job("q", "a"))
	if err := c.Del(t.Context(), b.queue("q").key("p")).Err(); err != nil {
		t.Fatal(err)
	}
	enqueue(t, b, job("q", "b"))
	b.queue("q").limited.Store(0)
	enqueue(t, b, job("q", "c"), job("q", "d"))
	register(t, b, "w", "q")
	if got := claimAt(t, b, at(0), "w", 9, "q").Jobs; len(got) != 4 {
		t.Errorf("claimed %d jobs, want all 4", len(got))
	}
}

func TestPlain_OneWakeTokenIsLeftForManyJobs(t *testing.T) {
	t.Parallel()
	c := client(t)
	b := open(t, c)
	token := baseOf(b.config.Prefix, "q") + "t"
	n := 0
	send := func(jobs int) {
		var news []broker.NewJob
		for range jobs {
			news = append(news, job("q", fmt.Sprint("j", n)))
			n++
		}
		enqueue(t, b, news...)
		if got, err := c.LLen(t.Context(), token).Result(); got != 1 || err != nil {
			t.Errorf("%d wake tokens are there after %d jobs, the last %d of them at once, %v; want one", got, n, jobs, err)
		}
	}
	for _, jobs := range []int{1, 3} {
		send(jobs)
		send(jobs)
		if err := c.Del(t.Context(), token).Err(); err != nil {
			t.Fatal(err)
		}
		send(jobs)
	}
}

// A claim bounds its answer by the size of the largest body in the queue's record.
func TestPlain_ALargeBodyIsNoted(t *testing.T) {
	t.Parallel()
	c := client(t)
	b := open(t, c)
	enqueue(t, b, job("q", "of a known queue"))
	for i, jobs := range []int{1, 2} {
		var news []broker.NewJob
		for n := range jobs {
			j := job("q", fmt.Sprint(i, "-", n))
			j.Body.Payload = make([]byte, (i+1)*5000/(n+1)) // the first of them is the largest
			news = append(news, j)
		}
		enqueue(t, b, news...)
		if big, err := c.HGet(t.Context(), baseOf(b.config.Prefix, "q")+"m", "big").Int(); big < (i+1)*5000 || err != nil {
			t.Errorf("the record says that no body is larger than %d bytes, %v, after %d at once of more than %d", big, err, jobs, (i+1)*5000)
		}
	}
}

// The counts of enqueue_plain.lua stay in the key p until another script needs the record.
func TestPlain_JobsAndBytesAreCounted(t *testing.T) {
	t.Parallel()
	c := client(t)
	b := open(t, c)
	p, record := b.queue("q").key("p"), b.queue("q").key("m")
	enqueued := int64(0)
	send := func(jobs int) {
		t.Helper()
		var news []broker.NewJob
		for range jobs {
			enqueued++
			news = append(news, job("q", fmt.Sprint("j", enqueued)))
		}
		enqueue(t, b, news...)
		info, err := b.Queues(t.Context(), broker.QueuesRequest{Names: []string{"q"}})
		if err != nil {
			t.Fatal(err)
		}
		if got := info.Queues[0].Totals.Enqueued; got != enqueued {
			t.Errorf("%d jobs are told as enqueued, want %d", got, enqueued)
		}
	}
	bytes := func() (n int64) {
		t.Helper()
		var stored int64
		for _, bucket := range b.queue("q").keys("b*") {
			all, err := c.HGetAll(t.Context(), bucket).Result()
			if err != nil {
				t.Fatal(err)
			}
			delete(all, "")
			for _, body := range all {
				stored += int64(len(body))
			}
		}
		n, _ = c.HGet(t.Context(), record, "bytes").Int64()
		if sum, _ := c.Get(t.Context(), p).Int64(); n+sum%(1<<plainJob) != stored {
			t.Errorf("%d bytes wait by the record and %d by p, want %d together", n, sum%(1<<plainJob), stored)
		}
		return n
	}
	send(1)
	send(1)
	send(3)
	if n := bytes(); n != bytes() || n > 100 { // the first call created the queue, with enqueue.lua
		t.Errorf("the record counts %d bytes: it is written in each call", n)
	}
	for _, near := range []int64{1<<52 - 1<<plainJob, 1<<32 - 1} { // just below what moves the counts to the record
		sum, err := c.Get(t.Context(), p).Int64()
		if err != nil {
			t.Fatal(err)
		}
		for field, n := range map[string]int64{"enqueued": sum>>plainJob - near>>plainJob, "bytes": sum%(1<<plainJob) - near%(1<<plainJob)} {
			if err := c.HIncrBy(t.Context(), record, field, n).Err(); err != nil {
				t.Fatal(err)
			}
		}
		if err := c.Set(t.Context(), p, near, 0).Err(); err != nil {
			t.Fatal(err)
		}
		send(1)
		bytes()
		if sum, err := c.Get(t.Context(), p).Int64(); sum != 0 || err != nil {
			t.Errorf("p counts %d after one more than %d, %v; want 0", sum, near, err)
		}
		send(2)
	}
	most, none := int64(1), int64(broker.NoLimit)
	if _, err := b.Policy(t.Context(), broker.PolicyRequest{Queue: "q", MaxBytes: &most}); err != nil {
		t.Fatal(err)
	}
	if n := bytes(); n < 300 {
		t.Errorf("the record counts %d bytes once there is a limit, want all", n)
	}
	if _, err := b.Policy(t.Context(), broker.PolicyRequest{Queue: "q", MaxBytes: &none}); err != nil {
		t.Fatal(err)
	}
	send(2)
	if _, err := b.Policy(t.Context(), broker.PolicyRequest{Queue: "q", MaxBytes: &none}); err != nil {
		t.Fatal(err)
	}
	send(1)
	bytes()
}

// A request of several calls keeps its order, also if this process does not know yet that the queue has a limit.
func TestEnqueue_SeveralCallsKeepTheOrderOfTheJobs(t *testing.T) {
	t.Parallel()
	c := client(t)
	b := open(t, c)
	register(t, b, "w", "q")
	rules(t, b, broker.PolicyRequest{MaxDepth: new(int64(callJobs + 1))})
	jobs := several("q", callJobs+2, nil)
	last := &jobs[callJobs]
	last.Body.Unique.Key = "u"
	jobs[callJobs+1].ID = jobs[0].ID
	receipts, err := openAs(t, c, b.config).Enqueue(t.Context(), broker.EnqueueRequest{Now: at(0), Jobs: jobs})
	if err != nil {
		t.Fatal(err)
	}
	for i, r := range receipts {
		if again := i == callJobs+1; (r.Err != nil) != again {
			t.Errorf("job %d: %v; want only the last one refused, whose ID is that of the first", i, r.Err)
		}
	}
	for _, want := range []string{jobs[0].ID, jobs[1].ID} {
		if got := claimAt(t, b, at(0), "w", 1, "q"); len(got.Jobs) != 1 || got.Jobs[0].ID != want {
			t.Errorf("claimed %v, want %s", got.Jobs, want)
		}
	}
}
