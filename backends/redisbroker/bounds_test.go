package redisbroker

import (
	"bytes"
	"fmt"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/seed81422ce9/jobs/broker"
)

func TestBounds_LargeBodiesComeInSeveralClaims(t *testing.T) {
	t.Parallel()
	b := open(t, client(t))
	register(t, b, "w", "q")
	var jobs []broker.NewJob
	for i := range 20 {
		j := job("q", fmt.Sprint("j", i))
		j.Body.Payload = bytes.Repeat([]byte{byte(i)}, broker.DefaultMaxPayload)
		jobs = append(jobs, j)
	}
	enqueue(t, b, jobs...)
	seen := 0
	for calls := 0; seen < len(jobs); calls++ {
		got := claimAt(t, b, at(0), "w", len(jobs), "q")
		if n := len(got.Jobs); n == 0 || n > 8 || calls > len(jobs) {
			t.Fatalf("claim %d: got %d jobs of 1 MiB, want some and not over 8 MiB", calls, n)
		}
		if more := seen+len(got.Jobs) < len(jobs); got.More != more {
			t.Errorf("claim %d: more is %v, want %v", calls, got.More, more)
		}
		for _, j := range got.Jobs {
			if j.ID != fmt.Sprint("j", seen) || !bytes.Equal(j.Payload, jobs[seen].Body.Payload) {
				t.Fatalf("job %d: got %s with %d bytes", seen, j.ID, len(j.Payload))
			}
			seen++
		}
	}
	page, err := b.Find(t.Context(), broker.Query{Queue: "q",
		IDs: []string{"j0", "j7", "j13", "j19", "none", "j1", "j2", "j3", "j4", "j5", "j6", "j8"}})
	if err != nil || len(page.Jobs) != 11 {
		t.Errorf("Find of 11 large jobs by ID: got %d, %v", len(page.Jobs), err)
	}
	listed := 0
	for q := (broker.Query{Queue: "q", State: broker.StateActive, NoPayload: true, Limit: 20}); ; {
		page, err := b.Find(t.Context(), q)
		if err != nil {
			t.Fatal(err)
		}
		for _, j := range page.Jobs {
			if j.Payload != nil || j.Type != "work" || j.Broken != nil {
				t.Errorf("%s without its payload: %d bytes, type %q, %v", j.ID, len(j.Payload), j.Type, j.Broken)
			}
		}
		listed += len(page.Jobs)
		if q.Cursor = page.Cursor; q.Cursor == "" {
			break
		}
	}
	if listed != 20 {
		t.Errorf("listed %d jobs, want 20", listed)
	}
}

// A claim of bodies of very different sizes ends with the one that reaches its byte
// limit, at any position among those whose sizes it reads together.
func TestBroker_ClaimEndsAtTheBodyThatFillsIt(t *testing.T) {
	t.Parallel()
	b := open(t, client(t))
	register(t, b, "w", "q")
	const room = 100_000
	sizes := []int{10, 10, 60_000, 10, 50_000, 10, 10, 200_000, 10, 99_000, 10}
	var jobs []broker.NewJob
	for i, size := range sizes {
		j := job("q", fmt.Sprintf("j%02d", i))
		j.Body.Payload = make([]byte, size)
		jobs = append(jobs, j)
	}
	enqueue(t, b, jobs...)
	for claim, want := range []int{5, 3, 3} { // the last body of each exceeds the room
		req := broker.ClaimRequest{Now: at(0), Worker: "w", Max: 99, Bytes: room, Queues: []broker.Share{{Queue: "q", Max: 99}}}
		got, err := b.Claim(t.Context(), req)
		if err != nil || len(got.Jobs) != want || got.More != (claim < 2) {
			t.Fatalf("claim %d: %d jobs, more is %t, %v; want %d", claim, len(got.Jobs), got.More, err, want)
		}
	}
}

// An invalid item of a settle gets an error, and harms no other item.
func TestBounds_ASettleOfNonsenseHarmsNoOther(t *testing.T) {
	t.Parallel()
	b := open(t, client(t))
	register(t, b, "w", "q")
	enqueue(t, b, job("q", "a"), job("q", "b"))
	got := claimAt(t, b, at(0), "w", 2, "q")
	odd := got.Jobs[0]
	odd.Epoch, odd.Deliveries, odd.Failures, odd.Retention = -5, -1, -7, -time.Hour
	verdicts, err := b.Settle(t.Context(), broker.SettleRequest{Now: at(0), Worker: "w", Number: 1, Items: []broker.Settlement{
		{Job: &odd, Outcome: broker.Retry(time.Second, broker.Failure{Message: "no"})},
		{Job: &broker.Job{Queue: "q", ID: "\x00\n"}, Outcome: broker.Complete(nil)},
		{Job: &got.Jobs[1], Outcome: broker.Complete(nil)},
	}})
	if err != nil || len(verdicts) != 3 || verdicts[0].Err == nil || verdicts[1].Err == nil || verdicts[2].Err != nil {
		t.Errorf("Settle: %+v, %v, want the last one alone to apply", verdicts, err)
	}
	odd.Epoch = 0 // now the lease is right, the rest is not
	verdicts, err = b.Settle(t.Context(), broker.SettleRequest{Now: at(0), Worker: "w", Number: 2,
		Items: []broker.Settlement{{Job: &odd, Outcome: broker.Complete(nil)}}})
	if err != nil || verdicts[0].Err != nil {
		t.Errorf("Settle of the right lease: %+v, %v", verdicts, err)
	}
}

// manyJobs is more than one call of any script can handle.
const manyJobs = 2600

func many(t *testing.T, b *Broker, change func(i int, j *broker.NewJob)) {
	t.Helper()
	jobs := make([]broker.NewJob, manyJobs)
	for i := range jobs {
		jobs[i] = job("q", fmt.Sprintf("j%05d", i))
		if change != nil {
			change(i, &jobs[i])
		}
	}
	enqueue(t, b, jobs...)
}

// claimMany claims until nothing is left, and checks that the n-th job is id(n).
func claimMany(t *testing.T, b *Broker, now time.Time, worker string, id func(n int) string) []broker.Job {
	t.Helper()
	var all []broker.Job
	for range 20 {
		got := claimAt(t, b, now, worker, broker.MaxClaim, "q")
		for _, j := range got.Jobs {
			if want := id(len(all)); want != "" && j.ID != want {
				t.Fatalf("job %d in turn: got %s, want %s", len(all), j.ID, want)
			}
			all = append(all, j)
		}
		if !got.More {
			return all
		}
	}
	t.Fatal("claims do not end")
	return nil
}

func inTurn(n int) string { return fmt.Sprintf("j%05d", n) }

func TestBounds_LongSettlesAreAnsweredAgainTheSame(t *testing.T) {
	t.Parallel()
	eachKind(t, func(t *testing.T, client redis.UniversalClient) {
		b := open(t, client)
		register(t, b, "w", "q")
		many(t, b, nil)
		all := claimMany(t, b, at(0), "w", inTurn)
		if len(all) != manyJobs {
			t.Fatalf("claimed %d jobs, want %d", len(all), manyJobs)
		}
		req := broker.SettleRequest{Now: at(1), Worker: "w", Number: 1}
		for i := range all {
			o := broker.Complete(nil)
			if i%3 == 0 {
				o = broker.Retry(time.Second, broker.Failure{Message: "no"})
			}
			if i%5 == 0 {
				all[i].Epoch = 7 // not the epoch of its lease
			}
			req.Items = append(req.Items, broker.Settlement{Job: &all[i], Outcome: o})
		}
		first, err := b.Settle(t.Context(), req)
		if err != nil {
			t.Fatal(err)
		}
		for i, v := range first {
			want := broker.StateCompleted
			if i%3 == 0 {
				want = broker.StateRetry
			}
			if i%5 == 0 {
				want = broker.StateNone
			}
			if v.State != want || (v.Err != nil) != (want == broker.StateNone) || v.ID != inTurn(i) {
				t.Fatalf("verdict %d: got %+v, want %v", i, v, want)
			}
		}
		again, err := b.Settle(t.Context(), req)
		if err != nil || !reflect.DeepEqual(first, again) {
			t.Errorf("the same settle again: %v, and other verdicts", err)
		}
		req.Number = 0
	})
}

func TestBounds_ManyVoidEntriesAreDroppedInSeveralClaims(t *testing.T) {
	t.Parallel()
	b := open(t, client(t))
	register(t, b, "w", "q")
	many(t, b, nil)
	for from := 0; from < manyJobs-1; from += 1000 {
		op := broker.Operation{Kind: broker.OpDelete, Now: at(0)}
		for i := from; i < min(from+1000, manyJobs-1); i++ {
			op.Refs = append(op.Refs, broker.Ref{Queue: "q", ID: inTurn(i), Epoch: broker.AnyEpoch})
		}
		results, err := b.Operate(t.Context(), op)
		if err != nil || results[0].Err != nil {
			t.Fatalf("Operate: %v, %v", results[0].Err, err)
		}
	}
	// The same IDs again: their new entries look like the void ones.
	enqueue(t, b, job("q", inTurn(5)), job("q", inTurn(6)))
	info, err := b.Queues(t.Context(), broker.QueuesRequest{Names: []string{"q"}})
	if err != nil || info.Queues[0].Counts[broker.StatePending] != 3 {
		t.Errorf("counts beside void entries: %v, %v, want 3 pending", info.Queues[0].Counts, err)
	}
	void := func() int {
		n, err := client(t).HGet(t.Context(), b.queue("q").key("m"), "void").Int()
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	before := void()
	got := claimAt(t, b, at(0), "w", 1, "q")
	if n := before - void(); n != 1000 || len(got.Jobs) != 0 || !got.More {
		t.Errorf("one claim dropped %d of %d void entries, gave %d jobs and says there are more: %t; want 1000, none, and more",
			n, before, len(got.Jobs), got.More)
	}
	left := []string{inTurn(manyJobs - 1), inTurn(5), inTurn(6)}
	if got := claimMany(t, b, at(0), "w", func(n int) string { return left[n] }); len(got) != len(left) {
		t.Errorf("claimed %d jobs, want %d", len(got), len(left))
	}
	n, err := client(t).HLen(t.Context(), b.queue("q").key("v")).Result()
	if err != nil || n != 0 {
		t.Errorf("void entries still noted: %d, %v", n, err)
	}
}

// The ready entry of a fresh job is its ID. A void one must not be mistaken for the
// entry of a job with the same ID in another list, whichever list is read first.
func TestBounds_AVoidTurnIsNoneOfAnotherPriority(t *testing.T) {
	t.Parallel()
	for _, priorities := range [][2]broker.Priority{{1, 3}, {3, 1}} {
		b := open(t, client(t))
		register(t, b, "w", "q")
		for i, p := range priorities {
			j := job("q", "again")
			j.Body.Priority = p
			enqueue(t, b, j)
			if i == 0 {
				op := broker.Operation{Kind: broker.OpDelete, Now: at(0), Refs: []broker.Ref{{Queue: "q", ID: "again", Epoch: broker.AnyEpoch}}}
				if done, err := b.Operate(t.Context(), op); err != nil || done[0].Err != nil {
					t.Fatalf("Operate: %v, %v", done, err)
				}
			}
		}
		got := claimAt(t, b, at(0), "w", 2, "q").Jobs
		if len(got) != 1 || got[0].Priority != priorities[1] {
			t.Errorf("deleted with priority %d and enqueued anew with %d: claimed %d jobs", priorities[0], priorities[1], len(got))
		}
	}
}

// If more jobs are due than a claim takes, the rest go to the ready list, before jobs
// that become pending later.
func TestBounds_DueJobsThatAClaimSawKeepTheirTurn(t *testing.T) {
	t.Parallel()
	b := open(t, client(t))
	register(t, b, "w", "q")
	for i, id := range []string{"a", "b", "c", "low"} {
		j := job("q", id)
		j.RunAt = at(1).Add(time.Duration(i) * time.Second)
		if id == "low" {
			j.Body.Priority = 4
		}
		enqueue(t, b, j)
	}
	var order []string
	take := func() {
		for _, j := range claimAt(t, b, at(10), "w", 1, "q").Jobs {
			order = append(order, j.ID)
		}
	}
	take()
	enqueue(t, b, job("q", "new"))
	for range 5 {
		take()
	}
	if want := []string{"a", "b", "c", "new", "low"}; !slices.Equal(order, want) {
		t.Errorf("claimed in the order %v, want %v", order, want)
	}
}

func TestBounds_ManyDueJobsComeInTheOrderOfTheirTimes(t *testing.T) {
	t.Parallel()
	b := open(t, client(t))
	register(t, b, "w", "q")
	many(t, b, func(i int, j *broker.NewJob) { j.RunAt = at(10).Add(-time.Duration(i) * time.Microsecond) })
	if got := claimMany(t, b, at(11), "w", func(n int) string { return inTurn(manyJobs - 1 - n) }); len(got) != manyJobs {
		t.Errorf("claimed %d jobs, want %d", len(got), manyJobs)
	}
}

func TestBounds_ManyLeasesAreReclaimedAndRetiredInSteps(t *testing.T) {
	t.Parallel()
	eachKind(t, func(t *testing.T, client redis.UniversalClient) {
		b := open(t, client)
		register(t, b, "dead", "q")
		register(t, b, "dying", "q")
		register(t, b, "w", "q")
		many(t, b, nil)
		claimAt(t, b, at(0), "dying", 900, "q")
		claimMany(t, b, at(0), "dead", func(int) string { return "" })
		renew := func(worker string, now time.Time) {
			t.Helper()
			got, err := b.Renew(t.Context(), broker.RenewRequest{Now: now, Worker: worker, Queues: []string{"q"}, Lease: time.Minute})
			if err != nil || got.Lost {
				t.Fatalf("Renew of %s: %+v, %v", worker, got, err)
			}
		}
		renew("dying", at(50))
		renew("w", at(100))
		seen := make(map[string]bool)
		// The second worker's leases run out while Reclaim searches for those of the first.
		for calls, now := 0, at(100); ; calls, now = calls+1, at(120) {
			got, err := b.Reclaim(t.Context(), broker.ReclaimRequest{Now: now, Worker: "w", Queues: []string{"q"}, Max: 700})
			if err != nil || len(got.Jobs) > 700 || calls > 20 {
				t.Fatalf("Reclaim %d: %d jobs, %v", calls, len(got.Jobs), err)
			}
			for _, j := range got.Jobs {
				if seen[j.ID] || j.Epoch != 1 || j.Worker != "w" {
					t.Fatalf("reclaimed %s twice, or not: epoch %d of %s", j.ID, j.Epoch, j.Worker)
				}
				seen[j.ID] = true
			}
			if !got.More {
				break
			}
		}
		if len(seen) != manyJobs {
			t.Errorf("reclaimed %d jobs, want %d", len(seen), manyJobs)
		}
		retired, err := b.Retire(t.Context(), broker.RetireRequest{Now: at(121), Worker: "w", Queues: []string{"q"}})
		if err != nil || len(retired.Released) != manyJobs {
			t.Errorf("Retire: %d jobs, %v, want %d", len(retired.Released), err, manyJobs)
		}
	})
}
