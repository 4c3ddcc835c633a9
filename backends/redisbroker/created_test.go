package redisbroker

import (
	"fmt"
	"testing"
	"time"

	"github.com/seed81422ce9/jobs/broker"
)

// The broker writes its estimate of the store's time into a body. After a change of a
// clock the estimate is wrong, until it is too old to be used without a check.
func TestCreated_TheTimeOfCreationIsTheStoresOwn(t *testing.T) {
	t.Parallel()
	for _, n := range []int{1, 3} {
		for _, off := range []time.Duration{0, time.Hour, -time.Hour} {
			t.Run(fmt.Sprint(n, " jobs, ", off), func(t *testing.T) {
				t.Parallel()
				c := client(t)
				b := open(t, c)
				var jobs []broker.NewJob
				for i := range n {
					jobs = append(jobs, job("q", fmt.Sprint("j", i)))
				}
				first := job("q", "first") // its answer has the time, for estimates
				if _, err := b.Enqueue(t.Context(), broker.EnqueueRequest{Jobs: []broker.NewJob{first}}); err != nil {
					t.Fatal(err)
				}
				q := b.queue("q")
				if _, recent := q.time(); !recent {
					t.Fatal("no time is known after an answer")
				}
				q.ahead.Add(off.Microseconds())
				if off != 0 {
					q.heard.Add(-clockTrust.Microseconds())
				}
				before, err := c.Time(t.Context()).Result()
				if err != nil {
					t.Fatal(err)
				}
				if _, err := b.Enqueue(t.Context(), broker.EnqueueRequest{Jobs: jobs}); err != nil {
					t.Fatal(err)
				}
				after, err := c.Time(t.Context()).Result()
				if err != nil {
					t.Fatal(err)
				}
				page, err := b.Find(t.Context(), broker.Query{Queue: "q", State: broker.StatePending, Limit: 10})
				if err != nil || len(page.Jobs) != n+1 {
					t.Fatalf("Find: %d jobs, %v", len(page.Jobs), err)
				}
				for _, j := range page.Jobs {
					if j.ID == "first" {
						continue
					}
					if at := j.CreatedAt; at.Before(before.Add(-time.Minute)) || at.After(after) {
						t.Errorf("%s was created at %v, which is not between %v, less a minute for the way of an answer, and %v", j.ID, at, before, after)
					}
					if string(j.Body.Payload) != "payload of "+j.ID {
						t.Errorf("%s has the payload %q", j.ID, j.Body.Payload)
					}
				}
			})
		}
	}
}
