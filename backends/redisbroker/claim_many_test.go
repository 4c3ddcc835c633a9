package redisbroker

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/seed81422ce9/jobs/broker"
)

// words counts the words of all commands sent: command names, keys and arguments.
type words struct{ n atomic.Int64 }

func (w *words) DialHook(next redis.DialHook) redis.DialHook {
	return func(ctx context.Context, network, addr string) (net.Conn, error) { return next(ctx, network, addr) }
}

func (w *words) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		w.n.Add(int64(len(cmd.Args())))
		return next(ctx, cmd)
	}
}

func (w *words) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		for _, cmd := range cmds {
			w.n.Add(int64(len(cmd.Args())))
		}
		return next(ctx, cmds)
	}
}

func TestClaim_OfManyQueues(t *testing.T) {
	t.Parallel()
	c := client(t)
	b := open(t, c)
	sent := new(words)
	b.store.single.AddHook(sent)
	queues := names("q", 200)
	register(t, b, "w", queues...)
	claim := func(when string, now time.Time, most int, want ...string) broker.Claimed {
		t.Helper()
		sent.n.Store(0)
		got := claimAt(t, b, now, "w", most, queues...)
		var ids []string
		for _, j := range got.Jobs {
			ids = append(ids, j.ID)
		}
		if fmt.Sprint(ids) != fmt.Sprint(want) {
			t.Errorf("%s: got %v, want %v", when, ids, want)
		}
		return got
	}
	cheap := func(when string, most int64) {
		t.Helper()
		if n := sent.n.Load(); n > most {
			t.Errorf("%s: the claim sent %d words, want %d at most: a look at 200 queues, and a claim of a few", when, n, most)
		}
	}
	look := int64(2*len(queues) + len(queues)/tokensAsked + 10 + 150)

	claim("nothing is known", at(0), 10)
	claim("all had to be asked", at(0), 10)
	got := claim("all are empty", at(0), 10)
	cheap("all are empty", look)
	if got.More || !got.NextDue.IsZero() {
		t.Errorf("a claim of empty queues: more %t, next due %v, want neither", got.More, got.NextDue)
	}
	later := job("q0077", "later")
	later.Delay = 5 * time.Second
	enqueue(t, b, job("q0150", "now"), later)
	got = claim("one has a job", at(0), 10, "now")
	cheap("one has a job", look+2*150)
	if got.More || !got.NextDue.Equal(at(5)) {
		t.Errorf("a claim of all there was: more %t, next due %v, want no more, and %v", got.More, got.NextDue, at(5))
	}
	if got = claim("the next is not due", at(3), 10); !got.NextDue.Equal(at(5)) {
		t.Errorf("next due %v, want %v", got.NextDue, at(5))
	}
	cheap("the next is not due", look)
	claim("the next is due", at(5), 10, "later")

	var all []string
	for _, q := range queues {
		all = append(all, "of-"+q)
		enqueue(t, b, job(q, "of-"+q))
	}
	for from := 0; from < len(all); from += 10 {
		got = claim("all have a job", at(5), 10, all[from:from+10]...)
		if got.More != (from+10 < len(all)) && from+10 < len(all) {
			t.Errorf("after %d jobs of %d the claim says more: %t", from+10, len(all), got.More)
		}
	}
	claim("all are empty again", at(5), 10)

	if _, err := b.Retire(t.Context(), broker.RetireRequest{Now: at(5), Worker: "w", Queues: queues}); err != nil {
		t.Fatal(err)
	}
	_, err := b.Claim(t.Context(), broker.ClaimRequest{Now: at(5), Worker: "w", Max: 1, Queues: shares(queues...)})
	if !errors.Is(err, broker.ErrWorkerGone) {
		t.Errorf("Claim of a worker that retired: got %v, want %v", err, broker.ErrWorkerGone)
	}
}

func shares(queues ...string) (all []broker.Share) {
	for _, q := range queues {
		all = append(all, broker.Share{Queue: q, Max: 1})
	}
	return all
}

// A hint that a queue has nothing is believed for some seconds only. So a token lost with
// a claim that died delays jobs by no more than that.
func TestClaim_NotesOfQuietQueuesLapse(t *testing.T) {
	t.Parallel()
	c := client(t)
	b := open(t, c)
	queues := names("q", 20)
	register(t, b, "w", queues...)
	claimAt(t, b, at(0), "w", 1, queues...)
	enqueue(t, b, job("q0011", "lost"))
	if err := c.Del(t.Context(), b.queue("q0011").key("t")).Err(); err != nil {
		t.Fatal(err)
	}
	if got := claimAt(t, b, at(1), "w", 1, queues...); len(got.Jobs) != 0 {
		t.Errorf("a claim soon after: got %v, want it to believe what is noted", got.Jobs)
	}
	if got := claimAt(t, b, at(12), "w", 1, queues...); len(got.Jobs) != 1 {
		t.Errorf("a claim 12 s later: got %d jobs, want the one whose token was lost", len(got.Jobs))
	}
}

// A claim that waits for many queues asks the one whose token woke it, and still knows
// when jobs of the others are due.
func TestWait_OfManyQueuesAsksTheOneThatCalled(t *testing.T) {
	t.Parallel()
	c := client(t)
	b := open(t, c)
	sent := new(words)
	queues := names("q", 50)
	if _, err := b.Renew(t.Context(), broker.RenewRequest{Worker: "w", Queues: queues, Lease: time.Hour, Register: true}); err != nil {
		t.Fatal(err)
	}
	later := job("q0007", "later")
	later.Delay = time.Hour
	enqueueNow(t, b, later)
	req := waitFor("w", time.Minute, queues...)
	req.Wait = 0
	first, err := b.Claim(t.Context(), req)
	if err != nil || first.NextDue.IsZero() {
		t.Fatalf("Claim: next due %v, %v", first.NextDue, err)
	}
	b.store.single.AddHook(sent)
	for _, q := range []string{"q0033", "q0001"} {
		done := make(chan broker.Claimed, 1)
		go func() {
			got, err := b.Claim(t.Context(), waitFor("w", time.Minute, queues...))
			if err != nil {
				t.Errorf("Claim: %v", err)
			}
			done <- got
		}()
		waiting(t, b, q, 1)
		enqueueNow(t, b, job(q, "in-"+q))
		sent.n.Store(0)
		got := <-done
		if len(got.Jobs) != 1 || got.Jobs[0].ID != "in-"+q || !got.NextDue.Equal(first.NextDue) {
			t.Errorf("a claim that waited: got %+v, next due %v; want the job of %s, and %v; more %t", got.Jobs, got.NextDue, q, first.NextDue,
				got.More)
		}
		if n := sent.n.Load(); n > 400 {
			t.Errorf("a claim that was woken by %s sent %d words, want the keys of one queue", q, n)
		}
	}
}

// servesMany returns a broker with a worker in n queues, and a counter of its calls.
func servesMany(t *testing.T, n int) (*Broker, []string, *sent) {
	t.Helper()
	b := open(t, client(t))
	queues, count := names("q", n), &sent{}
	registerNow(t, b, "w", queues...)
	count.take()
	b.store.single.AddHook(count)
	return b, queues, count
}

// claimNow claims up to most jobs, from any of the queues.
func claimNow(t *testing.T, b *Broker, most int, queues ...string) broker.Claimed {
	t.Helper()
	req := waitFor("w", 0, queues...)
	req.Max = most
	for i := range req.Queues {
		req.Queues[i].Max = most
	}
	got, err := b.Claim(t.Context(), req)
	if err != nil {
		t.Fatalf("Claim: %v", err)
	}
	return got
}

// While nothing is known of queues, each round asks more of them; while most of them have
// jobs, claims skip the look.
func TestClaim_OfManyQueuesTakesFewRounds(t *testing.T) {
	t.Parallel()
	b, queues, count := servesMany(t, 120)
	claimNow(t, b, 10, queues...)
	if calls := count.take()["claim"]; len(calls) > 6 {
		t.Errorf("a claim of 120 queues of which nothing is known called %d scripts, want 4, 8, 16, 32 and 64 queues", len(calls))
	}
	var all []broker.NewJob
	for _, q := range queues[:100] {
		all = append(all, job(q, "of-"+q))
	}
	enqueueNow(t, b, all...)
	claimNow(t, b, 1, queues...) // looks, and finds that most have something
	round := new(trips)
	b.store.single.AddHook(round)
	for n := int64(1); n <= 2; n++ {
		claimNow(t, b, 1, queues...)
		if got := round.n.Load(); got != n {
			t.Errorf("%d claims, after one that found jobs in most queues, took %d round trips, want no look before", n, got)
		}
	}
}

// However many jobs a claim asks for, one call asks mostAsked queues at most.
func TestClaim_OfManyQueuesAsksSomeAtATime(t *testing.T) {
	t.Parallel()
	b, queues, count := servesMany(t, 2*mostAsked)
	var all []broker.NewJob
	req := broker.ClaimRequest{Worker: "w", Max: 10 * mostAsked}
	for _, q := range queues {
		all = append(all, job(q, "of-"+q))
		req.Queues = append(req.Queues, broker.Share{Queue: q, Max: 1})
	}
	enqueueNow(t, b, all...)
	count.take()
	got, err := b.Claim(t.Context(), req)
	if err != nil || len(got.Jobs) != len(queues) {
		t.Fatalf("claimed %d jobs of %d, %v", len(got.Jobs), len(queues), err)
	}
	if calls := count.take()["claim"]; len(calls) < 2 {
		t.Errorf("a claim of %d queues called scripts with so many keys: %v; want two at least, of %d queues each at most",
			len(queues), calls, mostAsked)
	}
}

// A claim that reaches a bound of a call, such as that of void entries, does not go on with
// queues behind the one that has more.
func TestClaim_OfManyQueuesKeepsToTheirOrder(t *testing.T) {
	t.Parallel()
	b, queues, _ := servesMany(t, 30)
	claimNow(t, b, 10, queues...) // leaves hints that all are empty
	var jobs []broker.NewJob
	var refs []broker.Ref
	for i := range 1200 {
		jobs = append(jobs, job(queues[1], fmt.Sprint("j", i)))
		if i < 1199 {
			refs = append(refs, broker.Ref{Queue: queues[1], ID: jobs[i].ID, Epoch: broker.AnyEpoch})
		}
	}
	enqueueNow(t, b, jobs...)
	for part := range slices.Chunk(refs, 400) {
		if _, err := b.Operate(t.Context(), broker.Operation{Kind: broker.OpDelete, Refs: part}); err != nil {
			t.Fatal(err)
		}
	}
	for _, q := range queues[10:20] {
		enqueueNow(t, b, job(q, "behind"))
	}
	var order []string
	for calls := 0; calls < 20 && len(order) < 11; calls++ {
		for _, j := range claimNow(t, b, 1, queues...).Jobs {
			order = append(order, j.ID)
		}
	}
	if len(order) != 11 || order[0] != "j1199" {
		t.Errorf("claimed %v, want first the job of the first queue that has one, behind 1199 that were deleted", order)
	}
}

// A claim ends with the first call that fails: it asks a store that does not answer once.
func TestClaim_OfManyQueuesEndsWithACallThatFails(t *testing.T) {
	t.Parallel()
	b, queues, count := servesMany(t, 20)
	if err := b.store.single.Del(t.Context(), b.queue(queues[0]).key("m")).Err(); err != nil {
		t.Fatal(err)
	}
	if err := b.store.single.Set(t.Context(), b.queue(queues[0]).key("m"), "damaged", 0).Err(); err != nil {
		t.Fatal(err)
	}
	count.take()
	_, err := b.Claim(t.Context(), waitFor("w", 0, queues...))
	if calls := count.take()["claim"]; err == nil || len(calls) != 1 {
		t.Errorf("Claim from a queue whose record is damaged: %v, and %d calls, want an error and one", err, len(calls))
	}
}

// A claim of a worker that has ended fails, even if all its queues are known to have nothing.
func TestClaim_OfManyQuietQueuesTellsThatTheWorkerIsOver(t *testing.T) {
	t.Parallel()
	b, queues, _ := servesMany(t, 20)
	claimNow(t, b, 1, queues...)
	claimNow(t, b, 1, queues...)
	if _, err := b.Retire(t.Context(), broker.RetireRequest{Worker: "w", Queues: queues}); err != nil {
		t.Fatal(err)
	}
	if _, err := b.Claim(t.Context(), waitFor("w", 0, queues...)); !errors.Is(err, broker.ErrWorkerGone) {
		t.Errorf("Claim of a worker that retired: got %v, want %v", err, broker.ErrWorkerGone)
	}
}

// In a Cluster a claim ends after maxRounds rounds, whatever they returned.
func TestCluster_AClaimOfManyQueuesIsBounded(t *testing.T) {
	t.Parallel()
	b := open(t, clusterClient(t))
	queues := names("q", 30)
	registerNow(t, b, "w", queues...)
	for _, q := range queues {
		enqueueNow(t, b, job(q, "of-"+q))
	}
	if got := claimNow(t, b, 20, queues...); len(got.Jobs) == 0 || len(got.Jobs) > maxRounds || !got.More {
		t.Errorf("claimed %d jobs, more %t; want one of each round, %d at most, and more", len(got.Jobs), got.More, maxRounds)
	}
}

// A hint that a queue has nothing was written before the clock was set back. It would hide the jobs of a queue whose token is lost.
func TestClaimMany_AHintFromBeforeTheClockWasSetBackIsIgnored(t *testing.T) {
	t.Parallel()
	c := client(t)
	b := open(t, c)
	queues := names("q", 3*fewQueues)
	register(t, b, "w", queues...)
	for range 2 {
		claimAt(t, b, at(3600), "w", 5, queues...)
	}
	last := b.queue(queues[len(queues)-1])
	if hint := c.Get(t.Context(), last.key("tq")).Val(); hint == "" {
		t.Fatal("no hint was left; the test shows nothing then")
	}
	enqueue(t, b, job(last.name, "a"))
	c.Del(t.Context(), last.key("t"))
	if got := claimAt(t, b, at(20), "w", 5, queues...); len(got.Jobs) != 1 {
		t.Errorf("claimed %d jobs, want the one whose token was lost", len(got.Jobs))
	}
}
