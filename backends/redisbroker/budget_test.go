package redisbroker

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/seed81422ce9/jobs/broker"
)

// kept stores completed jobs whose records lapse after a minute.
func kept(t *testing.T, b *Broker, payload string, ids ...string) {
	t.Helper()
	var jobs []broker.NewJob
	for _, id := range ids {
		j := job("q", id)
		j.Body.Retention, j.Body.Payload = time.Minute, []byte(payload)
		jobs = append(jobs, j)
	}
	enqueue(t, b, jobs...)
	for done := 0; done < len(ids); {
		var items []broker.Settlement
		got := claimAt(t, b, at(0), "w", len(ids), "q")
		for i := range got.Jobs {
			items = append(items, broker.Settlement{Job: &got.Jobs[i], Outcome: broker.Complete(nil)})
		}
		if done += len(items); len(items) == 0 {
			t.Fatalf("%d of %d jobs were claimed", done, len(ids))
		}
		if _, err := b.Settle(t.Context(), broker.SettleRequest{Now: at(0), Worker: "w", Number: time.Now().UnixNano(),
			Items: items}); err != nil {
			t.Fatal(err)
		}
	}
}

func pruned(t *testing.T, b *Broker, most int) broker.Pruned {
	t.Helper()
	got, err := b.Prune(t.Context(), broker.PruneRequest{Now: at(3600), Queues: []string{"q"}, Max: most})
	if err != nil {
		t.Fatal(err)
	}
	return got
}

func names(prefix string, n int) (ids []string) {
	for i := range n {
		ids = append(ids, fmt.Sprintf("%s%04d", prefix, i))
	}
	return ids
}

// A call of prune is bounded by what it reads, and not by the largest job that
// the queue ever had.
func TestBudget_OneLargeJobDoesNotSlowPruning(t *testing.T) {
	t.Parallel()
	b := open(t, client(t))
	register(t, b, "w", "q")
	kept(t, b, strings.Repeat("x", 1<<20), "large")
	kept(t, b, "small", names("small", 500)...)
	if got := pruned(t, b, 1000); got.Completed != 501 {
		t.Errorf("one call removed %+v, want all 501 records", got)
	}
}

// Large records are removed a few at a time, whichever limit removes them.
func TestBudget_PruningReadsNoMoreThanItsBytes(t *testing.T) {
	t.Parallel()
	for name, limit := range map[string]broker.PolicyRequest{
		"age":   {},
		"count": {RetainCompleted: &broker.Retention{Count: 1, Age: 24 * time.Hour}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := open(t, client(t))
			register(t, b, "w", "q")
			if limit.Queue = "q"; limit.RetainCompleted != nil {
				if _, err := b.Policy(t.Context(), limit); err != nil {
					t.Fatal(err)
				}
			}
			kept(t, b, strings.Repeat("x", 1<<20), names("large", 12)...)
			got := pruned(t, b, 1000)
			if got.Completed < 1 || got.Completed > 9 || !got.More {
				t.Errorf("one call removed %+v, want 8 of 12 MiB, and that there is more", got)
			}
			for calls := 0; got.More && calls < 20; calls++ {
				got = pruned(t, b, 1000)
			}
			if got.More {
				t.Error("there is always more")
			}
		})
	}
}

// A claim of many queues makes few more due jobs pending than it leases, and in the end
// all due jobs are claimed, in order.
func TestBudget_AClaimOfManyQueuesMovesFewDueJobs(t *testing.T) {
	t.Parallel()
	b := open(t, client(t))
	var queues []string
	const each = 300
	for i := range 10 {
		queues = append(queues, fmt.Sprint("q", i))
		var jobs []broker.NewJob
		for n, id := range names("job", each) {
			j := job(queues[i], id)
			j.RunAt = at(1 + n)
			jobs = append(jobs, j)
		}
		enqueue(t, b, jobs...)
	}
	register(t, b, "w", queues...)
	pending := func() (n int64) {
		got, err := b.Queues(t.Context(), broker.QueuesRequest{Now: at(0), Names: queues})
		if err != nil {
			t.Fatal(err)
		}
		for _, q := range got.Queues {
			n += q.Counts[broker.StatePending]
		}
		return n
	}
	req := broker.ClaimRequest{Now: at(3600), Worker: "w", Max: 10} // one of each queue, so that all are asked
	for _, q := range queues {
		req.Queues = append(req.Queues, broker.Share{Queue: q, Max: 1})
	}
	got, err := b.Claim(t.Context(), req)
	if err != nil {
		t.Fatal(err)
	}
	if moved := pending() + int64(len(got.Jobs)); len(got.Jobs) != 10 || moved > 1100 || !got.More {
		t.Errorf("a claim of 10 leased %d and made %d due jobs pending, more %t; want about 1,010 at most", len(got.Jobs), moved, got.More)
	}
	order := make(map[string][]string)
	all := got.Jobs
	for len(got.Jobs) > 0 {
		got = claimAt(t, b, at(3600), "w", 700, queues...)
		all = append(all, got.Jobs...)
	}
	for _, j := range all {
		order[j.Queue] = append(order[j.Queue], j.ID)
	}
	for _, q := range queues {
		if !slices.Equal(order[q], names("job", each)) {
			t.Errorf("of %s came %d of %d due jobs, or not in the order of their times", q, len(order[q]), each)
		}
	}
}

// A page is as long as requested unless its jobs are large, whatever the queue once
// held. A shorter page leaves out no job and shows none twice.
func TestBudget_PagesAreBoundedByWhatTheyRead(t *testing.T) {
	t.Parallel()
	const large, small = 20, 300
	for _, test := range []struct {
		name  string
		delay time.Duration
		claim bool
		die   bool
		hold  bool
		keys  bool
		query broker.Query
	}{
		{name: "pending", query: broker.Query{State: broker.StatePending}},
		{name: "pending, of many keys", keys: true, query: broker.Query{State: broker.StatePending}},
		{name: "scheduled", delay: time.Hour, query: broker.Query{State: broker.StateScheduled}},
		{name: "active", claim: true, query: broker.Query{State: broker.StateActive}},
		{name: "of a worker", claim: true, query: broker.Query{Worker: "w"}},
		{name: "dead, by error and reason", claim: true, die: true, query: broker.Query{State: broker.StateDead, Newest: true,
			ErrorText: "no route", Reason: broker.ReasonSkipRetry}},
		{name: "waiting", hold: true, query: broker.Query{State: broker.StateWaiting}},
		{name: "of a key", query: broker.Query{Key: "tenant"}},
		{name: "by ID", query: broker.Query{IDs: append(names("large", large), names("small", small)...)}},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			b := open(t, client(t))
			all := append(names("large", large), names("small", small)...)
			for part := range slices.Chunk(all, 10) {
				var jobs []broker.NewJob
				for _, id := range part {
					j := job("q", id)
					j.Delay, j.Body.Key = test.delay, "tenant"
					if test.keys {
						j.Body.Key = id[len(id)-2:]
					}
					if id < "small" {
						j.Body.Payload = make([]byte, 1<<20)
					}
					jobs = append(jobs, j)
				}
				enqueue(t, b, jobs...)
			}
			if test.claim {
				register(t, b, "w", "q")
				for claimed, n := 0, len(all); claimed < n; {
					got := claimAt(t, b, at(0), "w", n, "q").Jobs
					if claimed += len(got); len(got) == 0 {
						t.Fatalf("%d of %d jobs were claimed", claimed, n)
					}
					if !test.die {
						continue
					}
					end := broker.SettleRequest{Worker: "w", Number: int64(claimed), Now: at(0)}
					for i := range got {
						f := broker.Failure{Message: "dial 10.0.0.1: no route"}
						if got[i].ID[len(got[i].ID)-1]%2 == 0 {
							f.Message = "timeout"
							all = slices.DeleteFunc(all, func(id string) bool { return id == got[i].ID })
						}
						end.Items = append(end.Items, broker.Settlement{Job: &got[i], Outcome: broker.Die(broker.ReasonSkipRetry, f)})
					}
					if _, err := b.Settle(t.Context(), end); err != nil {
						t.Fatal(err)
					}
				}
			}
			if test.hold {
				var refs []broker.Ref
				for _, id := range all {
					refs = append(refs, broker.Ref{Queue: "q", ID: id, Epoch: broker.AnyEpoch})
				}
				if _, err := b.Operate(t.Context(), broker.Operation{Kind: broker.OpHold, Holder: "h", Refs: refs, Now: at(0)}); err != nil {
					t.Fatal(err)
				}
			}
			query := test.query
			query.Queue, query.Now, query.Limit = "q", at(0), 300
			var got []string
			pages := 0
			for more := true; more; pages++ {
				page, err := b.Find(t.Context(), query)
				if err != nil || pages > 20 {
					t.Fatalf("page %d: %v", pages, err)
				}
				size := 0
				for _, j := range page.Jobs {
					got = append(got, j.ID)
					size += len(j.Payload)
				}
				if size > 9<<20 && len(query.IDs) == 0 {
					t.Errorf("a page holds %d bytes, want little more than 8 MiB", size)
				}
				query.Cursor, more = page.Cursor, page.Cursor != ""
				query.Limit = 1000 // pages of one listing may differ in length
			}
			if slices.Sort(got); !slices.Equal(got, all) {
				t.Errorf("the pages show %d jobs, want each of %d once", len(got), len(all))
			}
			if pages > 6 {
				t.Errorf("20 MiB and many small jobs make %d pages, want about 4", pages)
			}
		})
	}
}

// Prune sweeps the entries of deleted jobs out of the ready lists, also if nobody claims;
// the other jobs are claimed in order.
func TestBudget_TurnsOfDeletedJobsAreSwept(t *testing.T) {
	t.Parallel()
	b := open(t, client(t))
	all := names("job", 4000)
	for part := range slices.Chunk(all, 1000) {
		var jobs []broker.NewJob
		for _, id := range part {
			jobs = append(jobs, job("q", id))
		}
		enqueue(t, b, jobs...)
	}
	paused := true
	if _, err := b.Policy(t.Context(), broker.PolicyRequest{Queue: "q", Paused: &paused}); err != nil {
		t.Fatal(err)
	}
	var left []string
	var refs []broker.Ref
	for i, id := range all {
		if i%20 == 0 {
			left = append(left, id)
		} else {
			refs = append(refs, broker.Ref{Queue: "q", ID: id, Epoch: broker.AnyEpoch})
		}
	}
	for part := range slices.Chunk(refs, 500) {
		if _, err := b.Operate(t.Context(), broker.Operation{Kind: broker.OpDelete, Refs: part, Now: at(0)}); err != nil {
			t.Fatal(err)
		}
	}
	enqueue(t, b, job("q", all[1])) // has the ID of a deleted job, so the ready list has its entry twice
	left = append(left, all[1])
	for calls, more := 0, true; more; calls++ {
		if more = pruned(t, b, 500).More; calls > 100 {
			t.Fatal("100 calls, and there is always more")
		}
	}
	q := b.queue("q")
	turns := b.store.single.LLen(t.Context(), q.keys("r*")[1]).Val()
	void, _ := b.store.single.HGet(t.Context(), q.key("m"), "void").Int64()
	if marks := b.store.single.HLen(t.Context(), q.key("v")).Val(); turns-void != int64(len(left)) || void != marks || turns > 1500 {
		t.Errorf("%d turns are left, %d noted as void, %d marks; want these to be %d valid ones, and few void ones", turns, void, marks,
			len(left))
	}
	paused = false
	if _, err := b.Policy(t.Context(), broker.PolicyRequest{Queue: "q", Paused: &paused}); err != nil {
		t.Fatal(err)
	}
	register(t, b, "w", "q")
	var got []string
	for _, j := range claimAt(t, b, at(0), "w", 1000, "q").Jobs {
		got = append(got, j.ID)
	}
	slices.Sort(got)
	slices.Sort(left)
	if !slices.Equal(got, left) {
		t.Errorf("%d jobs came out, want the %d that are left", len(got), len(left))
	}
}

// A claim drops a bounded number of entries whose jobs are gone, as after an eviction, and says that there is more.
func TestClaim_DropsABoundedNumberOfJobsThatDoNotExist(t *testing.T) {
	t.Parallel()
	c := client(t)
	b := open(t, c)
	register(t, b, "w", "q")
	enqueue(t, b, job("q", "first"))
	entries := make([]any, 2500)
	for i := range entries {
		entries[i] = fmt.Sprintf("gone%04d", i)
	}
	if err := c.LPush(t.Context(), b.queue("q").key("r2"), entries...).Err(); err != nil {
		t.Fatal(err)
	}
	enqueue(t, b, job("q", "last"))
	var got []string
	calls := 0
	for more := true; more && calls < 10; calls++ {
		claimed := claimAt(t, b, at(0), "w", 1, "q")
		for _, j := range claimed.Jobs {
			got = append(got, j.ID)
		}
		more = claimed.More
	}
	if fmt.Sprint(got) != "[first last]" || calls < 4 {
		t.Errorf("claims over 2500 missing jobs\ngot  %v in %d calls\nwant first and last, in 4 calls or more", got, calls)
	}
}
