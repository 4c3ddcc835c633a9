package redisbroker

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/seed81422ce9/jobs/broker"
)

// bothOrders runs a test with a queue that has much, one that has little, and one that does
// not exist, in both orders. So answers about all of them must not be those of only the
// first or the last.
func bothOrders(t *testing.T, f func(t *testing.T, b *Broker, queues []string)) {
	for _, queues := range [][]string{{"much", "little", "none"}, {"none", "little", "much"}} {
		t.Run(queues[0]+" first", func(t *testing.T) {
			t.Parallel()
			f(t, open(t, client(t)), queues)
		})
	}
}

func several(queue string, n int, form func(i int, j *broker.NewJob)) (jobs []broker.NewJob) {
	for i, id := range names(queue, n) {
		j := job(queue, id)
		if form != nil {
			form(i, &j)
		}
		jobs = append(jobs, j)
	}
	return jobs
}

func TestSeveral_AClaimTellsOfAllItsQueues(t *testing.T) {
	t.Parallel()
	bothOrders(t, func(t *testing.T, b *Broker, queues []string) {
		register(t, b, "w", "much", "little")
		for i, queue := range []string{"much", "little"} {
			enqueue(t, b, several(queue, 4-3*i, nil)...)
			enqueue(t, b, several(queue+"-later", 1, func(_ int, j *broker.NewJob) { j.Queue, j.RunAt = queue, at(60+60*i) })...)
		}
		req := broker.ClaimRequest{Now: at(0), Worker: "w", Max: 10}
		for _, queue := range queues {
			if queue != "none" {
				req.Queues = append(req.Queues, broker.Share{Queue: queue, Max: 2})
			}
		}
		got, err := b.Claim(t.Context(), req)
		if err != nil || len(got.Jobs) != 3 || !got.More || !got.NextDue.Equal(at(60)) {
			t.Errorf("%d jobs, more %t, next due %v, %v; want 3, true, %v", len(got.Jobs), got.More, got.NextDue, err, at(60))
		}
		got, err = b.Claim(t.Context(), req)
		if err != nil || len(got.Jobs) != 2 || got.More {
			t.Errorf("then %d jobs, more %t, %v; want 2, false", len(got.Jobs), got.More, err)
		}
	})
}

func TestSeveral_ReclaimTellsOfAllItsQueues(t *testing.T) {
	t.Parallel()
	bothOrders(t, func(t *testing.T, b *Broker, queues []string) {
		register(t, b, "dead", "much", "little")
		for i, queue := range []string{"much", "little"} {
			n := 5 - 3*i
			enqueue(t, b, several(queue, n, nil)...)
			if got := claimAt(t, b, at(0), "dead", n, queue); len(got.Jobs) != n {
				t.Fatalf("claimed %d of %d jobs", len(got.Jobs), n)
			}
		}
		renewal := broker.RenewRequest{Now: at(100), Worker: "w", Queues: []string{"much", "little"}, Lease: time.Minute, Register: true}
		if _, err := b.Renew(t.Context(), renewal); err != nil {
			t.Fatal(err)
		}
		there := slices.DeleteFunc(slices.Clone(queues), func(q string) bool { return q == "none" })
		total := 0
		for _, more := range []bool{true, false} { // 5 and 2 of 7: all of the one queue first, or some of both
			got, err := b.Reclaim(t.Context(), broker.ReclaimRequest{Now: at(100), Worker: "w", Queues: there, Max: 5})
			if total += len(got.Jobs); err != nil || len(got.Jobs) > 5 || got.More != more || !got.Now.Equal(at(100)) {
				t.Errorf("%d jobs, more %t, at %v, %v; want no more than 5, %t, %v", len(got.Jobs), got.More, got.Now, err, more, at(100))
			}
		}
		if total != 7 {
			t.Errorf("%d jobs were reclaimed, want 7", total)
		}
	})
}

// Workers whose leases ran out are ended a hundred at a time, and in the end all are,
// whatever the next queue answers.
func TestSeveral_ManyWorkersAreEndedInSteps(t *testing.T) {
	t.Parallel()
	b := open(t, client(t))
	enqueue(t, b, job("q", "a"), job("z", "a")) // z is asked last, and has no such worker
	const workers = 250
	for i := range workers {
		register(t, b, fmt.Sprint("dead", i), "q")
	}
	queues := []string{"q", "z"}
	renewal := broker.RenewRequest{Now: at(100), Worker: "w", Queues: queues, Lease: time.Minute, Register: true}
	if _, err := b.Renew(t.Context(), renewal); err != nil {
		t.Fatal(err)
	}
	calls := 0
	for more := true; more; calls++ {
		got, err := b.Reclaim(t.Context(), broker.ReclaimRequest{Now: at(100), Worker: "w", Queues: queues, Max: 10})
		if more = got.More; err != nil || calls > 10 {
			t.Fatalf("call %d: %v", calls, err)
		}
	}
	if left := b.store.single.HLen(t.Context(), b.queue("q").key("s")).Val(); left != 2 || calls < 3 { // the guard, and w
		t.Errorf("after %d calls %d workers are left, want one, after 3 calls at least", calls, left-1)
	}
}

func TestSeveral_PruneTellsOfAllItsQueues(t *testing.T) {
	t.Parallel()
	bothOrders(t, func(t *testing.T, b *Broker, queues []string) {
		register(t, b, "w", "much", "little")
		number := int64(0)
		for i, queue := range []string{"much", "little"} {
			n := 5 - 3*i
			enqueue(t, b, several(queue, n, func(_ int, j *broker.NewJob) { j.Body.Retention = time.Minute })...)
			number++
			req := broker.SettleRequest{Now: at(0), Worker: "w", Number: number}
			got := claimAt(t, b, at(0), "w", n, queue)
			for i := range got.Jobs {
				req.Items = append(req.Items, broker.Settlement{Job: &got.Jobs[i], Outcome: broker.Complete(nil)})
			}
			if _, err := b.Settle(t.Context(), req); err != nil {
				t.Fatal(err)
			}
		}
		for call, want := range []broker.Pruned{{Completed: 5, More: true}, {Completed: 2}} {
			got, err := b.Prune(t.Context(), broker.PruneRequest{Now: at(100), Queues: queues, Max: 3})
			if err != nil || got != want {
				t.Errorf("call %d removed %+v, %v; want %+v", call, got, err, want)
			}
		}
	})
}

// Retire releases all jobs that a worker holds, however many in several queues, and returns
// each of them.
func TestSeveral_RetireEndsManyLeasesInSeveralQueues(t *testing.T) {
	t.Parallel()
	bothOrders(t, func(t *testing.T, b *Broker, queues []string) {
		register(t, b, "w", "much", "little")
		for i, queue := range []string{"much", "little"} {
			n := []int{2500, 3}[i]
			for part := range slices.Chunk(several(queue, n, nil), 1000) {
				enqueue(t, b, part...)
			}
			for held := 0; held < n; {
				got := claimAt(t, b, at(0), "w", 1000, queue)
				if held += len(got.Jobs); len(got.Jobs) == 0 {
					t.Fatalf("claimed %d of %d jobs", held, n)
				}
			}
		}
		got, err := b.Retire(t.Context(), broker.RetireRequest{Now: at(1), Worker: "w", Queues: queues})
		if err != nil {
			t.Fatal(err)
		}
		released := make(map[string]int)
		for _, ref := range got.Released {
			released[ref.Queue]++
		}
		if released["much"] != 2500 || released["little"] != 3 {
			t.Errorf("released %v, want 2500 and 3", released)
		}
		info, err := b.Queues(t.Context(), broker.QueuesRequest{Now: at(1), Names: append(queues, queues...)})
		if err != nil || len(info.Queues) != 2 {
			t.Fatalf("%d queues, %v; want each of two once", len(info.Queues), err)
		}
		for _, q := range info.Queues {
			if q.Counts[broker.StateActive] != 0 || q.Counts[broker.StatePending] != int64(released[q.Name]) {
				t.Errorf("%s has %v, want all pending", q.Name, q.Counts)
			}
		}
	})
}

// Prune reports that it left lapsed marks, as it does for jobs.
func TestSeveral_PruneTellsThatMarksAreLeft(t *testing.T) {
	t.Parallel()
	b := open(t, client(t))
	for i := range 20 * markSlots { // probably more than 5 in each slot
		req := broker.MarkRequest{Now: at(0), Action: broker.MarkTake, Name: fmt.Sprint("m", i), Owner: "o", TTL: time.Minute}
		if _, err := b.Mark(t.Context(), req); err != nil {
			t.Fatal(err)
		}
	}
	for call := range markSlots {
		got, err := b.Prune(t.Context(), broker.PruneRequest{Now: at(100), Queues: []string{"none"}, Max: 5})
		if want := (broker.Pruned{Other: 5, More: true}); err != nil || got != want {
			t.Errorf("call %d removed %+v, %v; want %+v", call, got, err, want)
		}
	}
}

// A job that was asked to cancel when its worker retires is kept for its own retention, in
// a queue that keeps nothing.
func TestSeveral_RetireKeepsCancelledJobsAsTheyAsked(t *testing.T) {
	t.Parallel()
	b := open(t, client(t))
	register(t, b, "w", "q")
	enqueue(t, b, several("q", 2, func(i int, j *broker.NewJob) { j.Body.Retention = time.Duration(i) * time.Minute })...)
	var refs []broker.Ref
	for _, j := range claimAt(t, b, at(0), "w", 2, "q").Jobs {
		refs = append(refs, broker.Ref{Queue: "q", ID: j.ID, Epoch: broker.AnyEpoch})
	}
	if _, err := b.Operate(t.Context(), broker.Operation{Kind: broker.OpCancel, Refs: refs, Now: at(0)}); err != nil {
		t.Fatal(err)
	}
	if got, err := b.Retire(t.Context(), broker.RetireRequest{Now: at(1), Worker: "w", Queues: []string{"q"}}); err != nil ||
		len(got.Released) != 0 {
		t.Errorf("released %v, %v; both jobs were to be cancelled", got.Released, err)
	}
	page, err := b.Find(t.Context(), broker.Query{Queue: "q", State: broker.StateCancelled, Limit: 5, Now: at(1)})
	if err != nil || len(page.Jobs) != 1 || page.Jobs[0].Retention != time.Minute {
		t.Errorf("cancelled are %+v, %v; want the job with a retention of its own alone", page.Jobs, err)
	}
}
