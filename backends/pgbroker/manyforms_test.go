package pgbroker_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/seed81422ce9/jobs/broker"
)

// Calls that work in parts handle more than fits into one part.
func TestForms_MoreThanAThousand(t *testing.T) {
	t.Parallel()
	const n = 2300
	store := func(f *fixture, now time.Time) {
		jobs := series("j", n)
		for len(jobs) > 0 {
			part := jobs[:min(len(jobs), 1000)]
			receipts, err := f.Enqueue(t.Context(), broker.EnqueueRequest{Now: now, Jobs: part})
			f.ok(err)
			for _, r := range receipts {
				f.ok(r.Err)
			}
			jobs = jobs[len(part):]
		}
	}
	claimAll := func(f *fixture) {
		for left := n; left > 0; {
			got := f.claim(1000, 0)
			if left -= len(got); len(got) == 0 {
				t.Fatalf("%d jobs were not handed out", left)
			}
		}
	}
	for name, do := range map[string]func(t *testing.T, f *fixture){
		"retire": func(t *testing.T, f *fixture) {
			store(f, time.Time{})
			claimAll(f)
			got, err := f.Retire(t.Context(), broker.RetireRequest{Worker: testWorker, Queues: []string{testQueue}})
			f.ok(err)
			if len(got.Released) != n {
				t.Errorf("%d jobs were released, want %d", len(got.Released), n)
			}
			if c := f.counts()[broker.StatePending]; c != n {
				t.Errorf("%d jobs are pending, want %d", c, n)
			}
		},
		"reclaim": func(t *testing.T, f *fixture) {
			store(f, time.Time{})
			claimAll(f)
			later := time.Now().Add(2 * time.Hour)
			_, err := f.Renew(t.Context(), broker.RenewRequest{Now: later, Worker: "w2", Queues: []string{testQueue}, Lease: time.Hour,
				Register: true})
			f.ok(err)
			seen := make(map[string]bool)
			for more := true; more; {
				got, err := f.Reclaim(t.Context(), broker.ReclaimRequest{Now: later, Worker: "w2", Queues: []string{testQueue}, Max: 1000})
				f.ok(err)
				if more = got.More; len(got.Jobs) == 0 && more {
					t.Fatalf("Reclaim gave nothing and says that there is more, after %d of %d jobs", len(seen), n)
				}
				for _, j := range got.Jobs {
					if seen[j.ID] || j.Epoch == 0 {
						t.Fatalf("job %s was reclaimed under epoch %d, seen before: %v", j.ID, j.Epoch, seen[j.ID])
					}
					seen[j.ID] = true
				}
			}
			if len(seen) != n {
				t.Errorf("Reclaim says that nothing is left after %d of %d jobs", len(seen), n)
			}
		},
		"due": func(t *testing.T, f *fixture) {
			now := time.Now()
			jobs := series("j", n, func(j *broker.NewJob) { j.Delay = time.Minute })
			for from := 0; from < n; from += 1000 {
				_, err := f.Enqueue(t.Context(), broker.EnqueueRequest{Now: now, Jobs: jobs[from:min(from+1000, n)]})
				f.ok(err)
			}
			var got []string
			for more := true; more; {
				c, err := f.Claim(t.Context(), broker.ClaimRequest{Now: now.Add(time.Hour), Worker: testWorker, Max: 700,
					Queues: []broker.Share{{Queue: testQueue, Max: 700}}})
				f.ok(err)
				got, more = append(got, names(c.Jobs)...), c.More
			}
			if len(got) != n || !slices.IsSorted(got) {
				t.Errorf("claims said that nothing is left after %d of %d due jobs, or broke their order", len(got), n)
			}
		},
		"prune": func(t *testing.T, f *fixture) {
			_, err := f.Policy(t.Context(), broker.PolicyRequest{Queue: testQueue, RetainCompleted: &broker.Retention{Age: time.Minute}})
			f.ok(err)
			f.churn("j", n)
			pruned := 0
			for more := true; more; {
				got, err := f.Prune(t.Context(), broker.PruneRequest{Now: time.Now().Add(time.Hour), Queues: []string{testQueue}, Max: 1000})
				f.ok(err)
				pruned, more = pruned+got.Completed, got.More
			}
			if pruned != n {
				t.Errorf("Prune says that nothing is left after %d of %d records", pruned, n)
			}
		},
		"examine": func(t *testing.T, f *fixture) {
			store(f, time.Time{})
			f.exec(fmt.Sprintf("update jobs.job set run_at = 1 where id > 'j%07d'", n-4))
			found := 0
			for cursor := ""; ; {
				got, err := f.Examine(t.Context(), broker.ExamineRequest{Cursor: cursor, Limit: 1000})
				f.ok(err)
				for _, n := range got.Findings {
					if n.Code == "state-differs" {
						found++
					}
				}
				if cursor = got.Cursor; cursor == "" {
					break
				}
			}
			if found != 3 {
				t.Errorf("%d findings among %d jobs, want those of the last 3", found, n)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			do(t, newFixture(t))
		})
	}
}
