package redisbroker

import (
	"fmt"
	"slices"
	"testing"

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
