package membroker

import (
	"bytes"
	"runtime"
	"strconv"
	"testing"
	"time"

	"github.com/seed81422ce9/jobs/broker"
)

// What a caller hands in and what it gets back are its own to write to.
func TestMemory_NothingIsSharedWithCallers(t *testing.T) {
	t.Parallel()
	b := New()
	defer b.Close()
	ctx := t.Context()
	info := broker.WorkerInfo{Queues: []string{"q"}, Types: []string{"t"}}
	if _, err := b.Renew(ctx, broker.RenewRequest{Worker: "w", Queues: []string{"q"}, Lease: time.Hour, Register: true,
		Info: info}); err != nil {
		t.Fatal(err)
	}
	info.Queues[0], info.Types[0] = "scribble", "scribble"
	n := newTestJob("q", "a")
	n.Body.Headers = map[string]string{"k": "v"}
	n.Body.Retention = time.Hour
	news := []broker.NewJob{n}
	enqueue(t, b, news...)
	scribble(news[0].Body.Payload, news[0].Body.Headers)

	first := claim(t, b, "w", 1, "q")[0]
	settleAll(t, b, 1, broker.Retry(0, broker.Failure{Message: "first"}), &first)
	second := claim(t, b, "w", 1, "q")[0]
	scribble(second.Payload, second.Headers)
	result := []byte("result")
	held := second
	settleAll(t, b, 2, broker.Complete(result), &held)
	scribble(result, nil)
	held.Errors.Entries[0].Message = "scribble" // the head that the store was handed

	for range 2 { // the second time, after writing to what the first gave
		page, err := b.Find(ctx, broker.Query{Queue: "q", IDs: []string{"a"}})
		if err != nil || len(page.Jobs) != 1 {
			t.Fatal(page, err)
		}
		j := page.Jobs[0]
		if string(j.Payload) != "payload of a" || j.Headers["k"] != "v" || string(j.Result) != "result" || j.Errors.Last().Message != "first" {
			t.Errorf("the stored job became payload %q, headers %v, result %q, errors %v", j.Payload, j.Headers, j.Result, j.Errors.Entries)
		}
		scribble(j.Payload, j.Headers)
		scribble(j.Result, nil)
		j.Errors.Entries[0].Message = "scribble"
		queues, err := b.Queues(ctx, broker.QueuesRequest{Workers: true})
		if err != nil {
			t.Fatal(err)
		}
		w := queues.Queues[0].Workers[0]
		if w.Queues[0] != "q" || w.Types[0] != "t" {
			t.Errorf("the stored worker became %+v", w)
		}
		w.Queues[0], w.Types[0] = "scribble", "scribble"
	}

	value := []byte("value")
	if _, err := b.Mark(ctx, broker.MarkRequest{Action: broker.MarkTake, Name: "m", Owner: "o", TTL: time.Hour, Value: value}); err != nil {
		t.Fatal(err)
	}
	scribble(value, nil)
	for range 2 {
		m, err := b.Mark(ctx, broker.MarkRequest{Name: "m"})
		if err != nil || string(m.Value) != "value" {
			t.Errorf("the stored mark became %q, %v", m.Value, err)
		}
		scribble(m.Value, nil)
	}
}

// Jobs of one batch are copied into one piece of memory; growing one of them
// must not run into its neighbour.
func TestMemory_AppendingToAPayloadLeavesItsNeighbourAlone(t *testing.T) {
	t.Parallel()
	b := New()
	defer b.Close()
	register(t, b, "w", "q")
	enqueue(t, b, newTestJob("q", "a"), newTestJob("q", "b"))
	jobs := claim(t, b, "w", 2, "q")
	_ = append(jobs[0].Payload, "scribble"...)
	if got := string(jobs[1].Payload); got != "payload of b" {
		t.Errorf("after appending to the first payload the second is %q", got)
	}
}

func scribble(p []byte, headers map[string]string) {
	for i := range p {
		p[i] = 'x'
	}
	if headers != nil {
		headers["k"] = "scribble"
	}
}

func settleAll(t *testing.T, b *Broker, number int64, o broker.Outcome, jobs ...*broker.Job) {
	t.Helper()
	req := broker.SettleRequest{Worker: jobs[0].Worker, Number: number}
	for _, j := range jobs {
		req.Items = append(req.Items, broker.Settlement{Job: j, Outcome: o})
	}
	verdicts, err := b.Settle(t.Context(), req)
	if err != nil {
		t.Fatalf("settling: %v", err)
	}
	for _, v := range verdicts {
		if v.Err != nil {
			t.Fatalf("settling: %v", v.Err)
		}
	}
}

// A job's life in batches of 100 may cost four allocations; its ID is made
// beforehand.
func TestMemory_ALifeCostsAtMostFourAllocations(t *testing.T) {
	const batch, most = 100, 4
	b := New()
	defer b.Close()
	register(t, b, "w", "q")
	news := make([]broker.NewJob, batch)
	for i := range news {
		news[i] = newTestJob("q", strconv.Itoa(i))
		news[i].Body.Payload = bytes.Repeat([]byte{1}, 200)
	}
	jobs := make([]*broker.Job, batch)
	number := int64(0)
	got := testing.AllocsPerRun(50, func() {
		enqueue(t, b, news...)
		for i, claimed := 0, claim(t, b, "w", batch, "q"); i < batch; i++ {
			jobs[i] = &claimed[i]
		}
		number++
		settleAll(t, b, number, broker.Complete(nil), jobs...)
	})
	if got > most*batch {
		t.Errorf("the lives of %d jobs took %v allocations, the limit is %d", batch, got, most*batch)
	} else {
		t.Logf("%.2f allocations a job", got/batch)
	}
}

// What jobs occupied is given back: neither those that went one by one nor those
// that were a great many at once leave anything behind. Not parallel: it
// measures the memory of the process.
func TestMemory_StaysFlat(t *testing.T) {
	const batch, depth, lives = 1000, 20_000, 60_000
	b := New()
	defer b.Close()
	register(t, b, "w", "q")
	next, number := 0, int64(0)
	put := func() {
		news := make([]broker.NewJob, batch)
		for i := range news {
			next++
			news[i] = newTestJob("q", strconv.Itoa(next))
			news[i].Body.Payload = make([]byte, 200)
		}
		enqueue(t, b, news...)
	}
	take := func() {
		claimed := claim(t, b, "w", batch, "q")
		jobs := make([]*broker.Job, len(claimed))
		for i := range claimed {
			jobs[i] = &claimed[i]
		}
		number++
		settleAll(t, b, number, broker.Complete(nil), jobs...)
	}
	held := func() int {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return int(m.HeapAlloc)
	}
	put()
	take()
	before := held()
	for range lives / batch {
		put()
		take()
	}
	if more := held() - before; more > 200_000 {
		t.Errorf("after %d jobs came and went, %d bytes more are in use", lives, more)
	}
	for range depth / batch {
		put()
	}
	full := held() - before
	for range depth / batch {
		take()
	}
	if more := held() - before; more > 200_000 {
		t.Errorf("after %d pending jobs went, %d bytes more are in use than before they came", depth, more)
	}
	if each := full / depth; each > 1200 {
		t.Errorf("a pending job with a payload of 200 bytes occupies %d bytes", each)
	} else {
		t.Logf("a pending job with a payload of 200 bytes occupies %d bytes", each)
	}
}
