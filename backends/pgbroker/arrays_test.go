package pgbroker_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/seed81422ce9/jobs/broker"
)

// Arrays arrive unchanged, however a pool sends its arguments.
func TestArrays_TravelInEveryModeOfTheDriver(t *testing.T) {
	t.Parallel()
	for _, mode := range []pgx.QueryExecMode{pgx.QueryExecModeCacheStatement, pgx.QueryExecModeCacheDescribe,
		pgx.QueryExecModeDescribeExec, pgx.QueryExecModeExec, pgx.QueryExecModeSimpleProtocol} {
		t.Run(mode.String(), func(t *testing.T) {
			t.Parallel()
			f := newFixture(t, func(c *pgxpool.Config) { c.ConnConfig.DefaultQueryExecMode = mode })
			ids := []string{`"`, `{}`, `NULL`, `a,b`, `\`, "ü", "'"}
			var jobs []broker.NewJob
			for _, id := range ids {
				jobs = append(jobs, aJob(id, fresh, func(j *broker.NewJob) { j.Body.Payload = []byte("\x00\xff" + id) }))
			}
			f.store(f, jobs...)
			got := f.claim(len(ids), 0)
			for _, j := range got {
				if want := "\x00\xff" + j.ID; string(j.Body.Payload) != want {
					t.Errorf("the payload of %q is %q, want %q", j.ID, j.Body.Payload, want)
				}
			}
			if stored := names(got); !slices.Equal(stored, ids) {
				t.Errorf("the jobs are %q, want %q", stored, ids)
			}
			f.settle(got, broker.Retry(0, broker.Failure{Message: strings.Join(ids, "")}))
			for _, j := range f.claim(len(ids), 0) {
				if j.Head.Failures != 1 {
					t.Errorf("job %q has failed %d times, want once", j.ID, j.Head.Failures)
				}
			}
		})
	}
}
