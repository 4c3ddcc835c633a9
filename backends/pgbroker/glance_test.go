package pgbroker_test

import (
	"testing"
	"time"

	"github.com/seed81422ce9/jobs/backends/pgbroker"
	"github.com/seed81422ce9/jobs/broker"
)

// A claim from queues that had nothing to take only looks whether that is still so. It also
// finds what another process has made claimable meanwhile without waking this one.
func TestFlow_AClaimThatOnlyLooksFindsWhateverCame(t *testing.T) {
	t.Parallel()
	start := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	for _, c := range []struct {
		name string
		come func(*fixture, []broker.Job) // makes "job" claimable; with the job that blocks it
	}{
		{"a job of the key", func(f *fixture, held []broker.Job) { f.settle(held, broker.Complete(nil)) }},
		{"a job of another key", func(f *fixture, _ []broker.Job) { f.store(f, aJob("other", ofKey("other"))) }},
		{"a job without a key", func(f *fixture, _ []broker.Job) { f.store(f, aJob("other")) }},
		{"a change of the policy", func(f *fixture, _ []broker.Job) { f.policy(broker.PolicyRequest{KeyMaxActive: new(int64(2))}) }},
		{"a change of the key's policy", func(f *fixture, _ []broker.Job) {
			f.policy(broker.PolicyRequest{Key: "k", MaxActive: new(int64(2))})
		}},
		{"a job that falls due", func(f *fixture, _ []broker.Job) {
			f.store(f, aJob("other", ofKey("other"), func(j *broker.NewJob) { j.RunAt = start.Add(time.Hour) }))
		}},
		{"a job without a key that falls due", func(f *fixture, _ []broker.Job) {
			f.store(f, aJob("other", func(j *broker.NewJob) { j.RunAt = start.Add(time.Hour) }))
		}},
		{"time for the key's rate", nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t)
			sent := new(statements)
			// Its claims do not wait, so it does not listen.
			deaf, err := pgbroker.New(t.Context(), testPool(t, 2, sent.hook), pgbroker.Config{Schema: f.schema})
			f.ok(err)
			defer deaf.Close()
			now := start
			claim := func() []broker.Job {
				t.Helper()
				got, err := deaf.Claim(t.Context(), broker.ClaimRequest{Now: now, Worker: testWorker, Max: 1,
					Queues: []broker.Share{{Queue: testQueue, Max: 1}}})
				f.ok(err)
				return got.Jobs
			}
			if c.come != nil {
				f.policy(broker.PolicyRequest{KeyMaxActive: new(int64(1))})
			} else {
				f.policy(broker.PolicyRequest{KeyRate: &broker.Rate{Jobs: 1, Per: time.Hour}})
			}
			f.store(f, aJob("first", ofKey("k")), aJob("job", ofKey("k")))
			held := claim()
			f.wants("at first", held, "first")
			f.wants("when nothing may be taken", claim())
			sent.sends(t, "a claim that only looks", 1, 3, func() { f.wants("when nothing may be taken still", claim()) })
			if c.come != nil {
				c.come(f, held)
			}
			now = now.Add(2 * time.Hour)
			if got := claim(); len(got) != 1 {
				t.Errorf("claimed %d jobs, want the one that came", len(got))
			}
		})
	}
}
