package redisbroker

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/seed81422ce9/jobs/broker"
)

// A listing whose jobs are deleted page by page shows all of them, although the hashes
// that it reads shrink.
func TestFind_ShowsAllJobsWhileTheyAreDeleted(t *testing.T) {
	t.Parallel()
	const n = 1000
	for _, test := range []struct {
		name  string
		query broker.Query
	}{
		{"pending, of many keys", broker.Query{State: broker.StatePending}},
		{"pending, of one key", broker.Query{Key: "tenant"}},
		{"waiting", broker.Query{State: broker.StateWaiting}},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			b := open(t, client(t))
			all := names("job", n)
			var jobs []broker.NewJob
			var refs []broker.Ref
			for i, id := range all {
				j := job("q", id)
				if j.Body.Key = "tenant"; test.query.Key == "" {
					j.Body.Key = fmt.Sprint("tenant", i%400)
				}
				jobs, refs = append(jobs, j), append(refs, broker.Ref{Queue: "q", ID: id, Epoch: broker.AnyEpoch})
			}
			enqueue(t, b, jobs...)
			operate := func(kind broker.OperationKind, refs []broker.Ref) {
				t.Helper()
				if _, err := b.Operate(t.Context(), broker.Operation{Kind: kind, Holder: "h", Refs: refs, Now: at(0)}); err != nil {
					t.Fatal(err)
				}
			}
			if test.query.State == broker.StateWaiting {
				operate(broker.OpHold, refs)
			}
			query := test.query
			query.Queue, query.Now, query.Limit = "q", at(0), 150
			var got []string
			for more := true; more; {
				page, err := b.Find(t.Context(), query)
				if err != nil || len(got) > 2*n {
					t.Fatalf("after %d jobs: %v", len(got), err)
				}
				refs = refs[:0]
				for _, j := range page.Jobs {
					got, refs = append(got, j.ID), append(refs, broker.Ref{Queue: "q", ID: j.ID, Epoch: broker.AnyEpoch})
				}
				operate(broker.OpDelete, refs)
				query.Cursor, more = page.Cursor, page.Cursor != ""
			}
			if slices.Sort(got); !slices.Equal(got, all) {
				t.Errorf("the pages show %d jobs, want each of %d once", len(got), n)
			}
		})
	}
}

// Dead jobs of a rare type or reason are found among many others in one call, in either direction and within times: the
// server looks at no others.
func TestFind_LooksOnlyAtDeadJobsOfTheTypeOrReason(t *testing.T) {
	t.Parallel()
	const n = 2000
	b := open(t, client(t))
	var jobs []broker.NewJob
	for i := range n {
		j := dead(fmt.Sprintf("job %04d", i), "mail", broker.ReasonRetries, at(i))
		switch i % 500 {
		case 3:
			j.Body.Type = "rare"
		case 4:
			j.Restore.Head.Reason = broker.ReasonExpired
		}
		jobs = append(jobs, j)
	}
	for some := range slices.Chunk(jobs, 1000) {
		enqueue(t, b, some...)
	}
	for _, test := range []struct {
		name  string
		query broker.Query
		want  []string
	}{
		{"type", broker.Query{Type: "rare"}, []string{"job 0003", "job 0503", "job 1003", "job 1503"}},
		{"type, newest first", broker.Query{Type: "rare", Newest: true}, []string{"job 1503", "job 1003", "job 0503", "job 0003"}},
		{"reason", broker.Query{Reason: broker.ReasonExpired}, []string{"job 0004", "job 0504", "job 1004", "job 1504"}},
		{"between times", broker.Query{Reason: broker.ReasonExpired, After: at(504), Before: at(1504)}, []string{"job 0504", "job 1004"}},
		{"between times, newest first", broker.Query{Type: "rare", After: at(503), Before: at(1503), Newest: true},
			[]string{"job 1003", "job 0503"}},
		{"before a time of more digits", broker.Query{Type: "rare", Before: at(0).AddDate(400, 0, 0)},
			[]string{"job 0003", "job 0503", "job 1003", "job 1503"}},
		{"the rarer of both", broker.Query{Type: "mail", Reason: broker.ReasonExpired}, []string{"job 0004", "job 0504", "job 1004", "job 1504"}},
		{"the rarer of both, which is the type", broker.Query{Type: "rare", Reason: broker.ReasonRetries},
			[]string{"job 0003", "job 0503", "job 1003", "job 1503"}},
		{"the beginning of a type", broker.Query{Type: "rar"}, nil},
		{"a reason that nobody has", broker.Query{Reason: broker.ReasonCrashes}, nil},
	} {
		for _, limit := range []int{5, 2} {
			got, calls := listDead(t, b, test.query, limit)
			if !slices.Equal(got, test.want) || calls != len(test.want)/limit+1 {
				t.Errorf("%s, %d at a time: %q in %d calls, want %q in %d", test.name, limit, got, calls, test.want, len(test.want)/limit+1)
			}
		}
	}
}

// A search for a text reads errors alone: it passes jobs without one, and pages in either direction by the time of death.
func TestFind_SearchesTheErrorsOfDeadJobs(t *testing.T) {
	t.Parallel()
	b := open(t, client(t))
	const n = 30
	var jobs []broker.NewJob
	for i := range n {
		j := dead(fmt.Sprintf("job %02d", i), []string{"mail", "rare"}[i%15/14], broker.ReasonRetries, at(i/3)) // three die at once
		switch i % 3 {
		case 0:
			j.Restore.Head.Errors.Entries = []broker.Failure{{Message: "earlier: gone"}, {Message: fmt.Sprintf("busy\x00 %02d", i)}}
		case 1:
			j.Restore.Head.Errors.Entries = []broker.Failure{{Message: "host is gone"}}
		}
		jobs = append(jobs, j)
	}
	enqueue(t, b, jobs...)
	for _, test := range []struct {
		name  string
		query broker.Query
		calls int // with two jobs looked at in each
		want  []string
	}{
		{"some", broker.Query{ErrorText: "y\x00 2"}, 10, []string{"job 21", "job 24", "job 27"}},
		{"newest first", broker.Query{ErrorText: "y\x00 2", Newest: true}, 10, []string{"job 27", "job 24", "job 21"}},
		{"from a time", broker.Query{ErrorText: "y\x00 2", After: at(7), Before: at(9)}, 3, []string{"job 21", "job 24"}},
		{"the last error only", broker.Query{ErrorText: "gone", Before: at(2)}, 2, []string{"job 01", "job 04"}},
		{"of a type, whose index is not smaller", broker.Query{ErrorText: "busy", Type: "mail", Before: at(2)}, 2, []string{"job 00", "job 03"}},
		{"of a rare type", broker.Query{ErrorText: "9", Type: "rare"}, 2, nil},
		{"of a reason", broker.Query{ErrorText: "y\x00 2", Reason: broker.ReasonRetries}, 10, []string{"job 21", "job 24", "job 27"}},
		{"an ID", broker.Query{ErrorText: "job 0"}, 10, nil},
	} {
		got, calls := listDead(t, b, test.query, 2)
		if !slices.Equal(got, test.want) || calls != test.calls {
			t.Errorf("%s: %q in %d calls, want %q in %d", test.name, got, calls, test.want, test.calls)
		}
	}
}

// listDead returns the IDs that a listing of dead jobs shows, and how many calls of limit jobs it took: 1000 at most.
func listDead(t *testing.T, b *Broker, query broker.Query, limit int) (got []string, calls int) {
	t.Helper()
	query.Queue, query.State, query.Limit = "q", broker.StateDead, limit
	for more := true; more && calls < 1000; calls++ {
		page, err := b.Find(t.Context(), query)
		if err != nil {
			t.Fatal(err)
		}
		for _, j := range page.Jobs {
			got = append(got, j.ID)
		}
		query.Cursor, more = page.Cursor, page.Cursor != ""
	}
	return got, calls
}

// dead is a job that died.
func dead(id, typ string, reason broker.DeadReason, end time.Time) broker.NewJob {
	j := job("q", id)
	j.Body.Type = typ
	j.Restore = &broker.Restored{State: broker.StateDead, CreatedAt: at(0), Head: broker.Head{Reason: reason, FinishedAt: end}}
	return j
}

// Whatever happens to a dead job, its place in the index by type, reason and error goes with it.
func TestFind_TheIndexOfDeadJobsKeepsNoneThatLeft(t *testing.T) {
	t.Parallel()
	c := client(t)
	b := open(t, c)
	left := func() []string { return c.ZRange(t.Context(), b.queue("q").key("dc"), 0, -1).Val() }
	operate := func(kind broker.OperationKind) func() {
		return func() {
			r, err := b.Operate(t.Context(), broker.Operation{Kind: kind, Now: at(10),
				Refs: []broker.Ref{{Queue: "q", ID: "dead", Epoch: broker.AnyEpoch}}})
			if err != nil || r[0].Err != nil {
				t.Fatal(err, r)
			}
		}
	}
	for name, leave := range map[string]func(){
		"redrive": operate(broker.OpRedrive),
		"delete":  operate(broker.OpDelete),
		"suppress, then delete": func() {
			operate(broker.OpSuppress)()
			operate(broker.OpDelete)()
		},
		"prune": func() {
			if _, err := b.Policy(t.Context(), broker.PolicyRequest{Queue: "q",
				RetainDead: &broker.Retention{Age: time.Second}}); err != nil {
				t.Fatal(err)
			}
			if _, err := b.Prune(t.Context(), broker.PruneRequest{Queues: []string{"q"}, Max: 10, Now: at(20)}); err != nil {
				t.Fatal(err)
			}
		},
	} {
		j := dead("dead", "t", broker.ReasonRetries, at(1))
		j.Restore.Head.Errors.Entries = []broker.Failure{{Message: "no route"}}
		enqueue(t, b, j)
		if n := len(left()); n != 3 {
			t.Errorf("before %s the index has %d members, want 3", name, n)
		}
		leave()
		if members := left(); len(members) > 0 {
			t.Errorf("after %s the index has %q", name, members)
		}
		_, _ = b.Operate(t.Context(), broker.Operation{Kind: broker.OpDelete, Now: at(30),
			Refs: []broker.Ref{{Queue: "q", ID: "dead", Epoch: broker.AnyEpoch}}}) // not there after most of them
	}
}

// A page that ends within an answer of the server, since it has few jobs or large ones, goes on where it stopped, although jobs that
// it has shown leave meanwhile: then the server's next answer reaches further.
func TestFind_SmallPagesShowAllJobsThatStay(t *testing.T) {
	t.Parallel()
	b := open(t, client(t))
	const n = 60
	for round := range 12 { // the server's order is random
		queue := fmt.Sprint("q", round)
		register(t, b, "w", queue)
		enqueue(t, b, several(queue, n, nil)...)
		claimAt(t, b, at(0), "w", n, queue)
		query, left := broker.Query{Queue: queue, State: broker.StateActive, Now: at(0), Limit: 3}, map[string]bool{}
		for _, id := range names(queue, n) {
			left[id] = true
		}
		var number int64
		for more := true; more; {
			page, err := b.Find(t.Context(), query)
			if err != nil || len(page.Jobs) > query.Limit {
				t.Fatalf("a page of %d jobs, %v", len(page.Jobs), err)
			}
			settle := broker.SettleRequest{Now: at(0), Worker: "w", Number: number + 1}
			for i := range page.Jobs {
				delete(left, page.Jobs[i].ID)
				settle.Items = append(settle.Items, broker.Settlement{Job: &page.Jobs[i], Outcome: broker.Complete(nil)})
			}
			if len(settle.Items) > 0 {
				number++
				if _, err := b.Settle(t.Context(), settle); err != nil {
					t.Fatal(err)
				}
			}
			query.Cursor, more = page.Cursor, page.Cursor != ""
		}
		if len(left) > 0 {
			t.Fatalf("no page shows %d of %d jobs, which were active all the while", len(left), n)
		}
	}
}
