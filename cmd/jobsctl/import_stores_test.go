package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/seed81422ce9/jobs/broker"
	"github.com/seed81422ce9/jobs/inspect"
	"github.com/seed81422ce9/jobs/internal/mortal"
	"github.com/seed81422ce9/jobs/schedule"
)

// Imports into each store, complete ones and ones cut off at each call that writes.

// peers are sources for imports, each with a queue of more jobs than one call takes.
func peers(t *testing.T) map[string][]string {
	t.Helper()
	asynq, r := asynqRedis(t)
	ctx, p := t.Context(), r.Pipeline()
	message := r.HGet(ctx, "asynq:{bulk}:t:many-0000", "msg").Val()
	for n := range 110 {
		id := fmt.Sprintf("more-%04d", n)
		p.HSet(ctx, "asynq:{bulk}:t:"+id, "msg", strings.ReplaceAll(message, "many-0000", id), "state", "retry")
		p.ZAdd(ctx, "asynq:{bulk}:retry", redis.Z{Score: 2e9 + float64(n), Member: id})
	}
	if _, err := p.Exec(ctx); err != nil {
		t.Fatal(err)
	}
	river, exec := riverPostgres(t)
	exec(`insert into river_job (id, state, attempt, max_attempts, created_at, scheduled_at, priority, args, kind, metadata, queue)
		select n, 'scheduled', 0, 25, '2026-01-01', '2040-01-01', 2, '{}', 'more', '{}', 'critical' from generate_series(1001, 1110) n`)
	return map[string][]string{
		"asynq": {"import", "asynq", "--from", asynq, "--zone", "Europe/Berlin"},
		"river": {"import", "river", "--from", river},
	}
}

// imported returns all jobs of a store after an import, by queue and ID, without the
// times that the import sets.
func imported(t *testing.T, c *cli) map[string]string {
	t.Helper()
	b, err := c.open(t.Context(), c.url)
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	all, i := make(map[string]string), inspect.New(b)
	queues, err := i.Queues(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, q := range queues {
		counted := make(map[broker.State]int64)
		for _, state := range broker.States() {
			for j, err := range i.Select(inspect.Query{Queue: q.Name, State: state, Suppressed: true}).Jobs(t.Context()) {
				if err != nil {
					t.Fatal(err)
				}
				counted[state]++
				if j.Source == "asynq" { // asynq stores no creation time
					j.CreatedAt = time.Time{}
				}
				if state == broker.StatePending {
					j.RunAt = time.Time{}
				}
				text, err := json.Marshal(wholeView(j, true))
				if err != nil {
					t.Fatal(err)
				}
				name := q.Name + "/" + j.ID
				if all[name] != "" {
					t.Errorf("%s is there twice", name)
				}
				all[name] = string(text)
			}
			if counted[state] != q.Counts[state] {
				t.Errorf("%s has %d jobs that are %v, and counts %d", q.Name, counted[state], state, q.Counts[state])
			}
		}
	}
	schedules, err := schedule.New(b, "").List(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range schedules {
		all["schedule/"+s.ID] = fmt.Sprint(s.Owner, s.Spec, s.Zone, s.Queue, s.Type, string(s.Payload), s.Status, s.Misfire, s.Overlap)
	}
	return all
}

func sameJobs(t *testing.T, when string, got, want map[string]string) {
	t.Helper()
	for _, name := range slices.Sorted(maps.Keys(want)) {
		if got[name] != want[name] {
			t.Errorf("%s: %s is\n%s\nwant\n%s", when, name, got[name], want[name])
		}
	}
	if len(got) != len(want) {
		t.Errorf("%s: %d jobs and schedules are there, want %d", when, len(got), len(want))
	}
}

// cutOff runs the command as if its process died at the nth call that writes: before
// the store gets the call, or, with lost set, before its answer arrives.
func (c *cli) cutOff(n int64, lost bool, args ...string) (died bool) {
	c.t.Helper()
	ctx, die := context.WithCancel(c.t.Context())
	defer die()
	dead := false
	open := func(ctx context.Context, url string) (broker.Broker, error) {
		b, err := c.open(ctx, url)
		if err != nil {
			return nil, err
		}
		m := mortal.New(b, func(call *broker.Call) bool {
			r, marks := call.Request.(*broker.MarkRequest)
			return slices.Contains([]string{"Enqueue", "SetPolicy", "Operate"}, call.Method) || marks && r.Action != broker.MarkRead
		})
		m.Lost = lost
		m.After.Store(n)
		return broker.Wrap(m, func(ctx context.Context, _ *broker.Call, next func(context.Context) error) error {
			err := next(ctx)
			if m.Dead() {
				dead = true
				die()
			}
			return err
		}), nil
	}
	var out bytes.Buffer
	code := run(ctx, append([]string{"--broker", c.url}, args...), environment{in: strings.NewReader(""), out: &out, err: &out,
		getenv: func(string) string { return "" }, home: func() (string, error) { return c.t.TempDir(), nil }, open: open})
	if dead && code == 0 {
		c.t.Errorf("the import was cut off at call %d, and exits with 0\n%s", n, &out)
	}
	return dead
}

// An import stores the same jobs, counts and schedules in every store, whether it runs
// without a break or is cut off at each call that writes, before and after it. Jobs
// that ran meanwhile do not come back.
func TestImport_IsTheSameInEveryStoreWhereverItIsCutOff(t *testing.T) {
	t.Parallel()
	for from, args := range peers(t) {
		code, gone := 0, "river-1100"
		if from == "asynq" {
			code, gone = 4, "more-0010" // 4: of the periodic task that is refused
		}
		reference, _ := inMemory(t)
		reference.both(code, args...)
		want := imported(t, reference)
		if len(want) < 110 {
			t.Fatalf("from %s come %d jobs", from, len(want))
		}
		for _, lost := range []bool{false, true} {
			server := "redis" // each server meets both peers, and both ways to be cut off
			if (from == "asynq") == lost {
				server = "postgres"
			}
			for _, backend := range []string{"memory", server} {
				t.Run(fmt.Sprintf("%s to %s, lost=%v", from, backend, lost), func(t *testing.T) {
					t.Parallel()
					c := storeOf(t, backend)
					n := int64(1)
					for ; c.cutOff(n, lost, args...); n++ {
						if n > 100 {
							t.Fatal("the import does not end")
						}
					}
					if n < 6 {
						t.Errorf("the import was cut off %d times: too few to cross its queues", n-1)
					}
					c.both(code, args...)
					sameJobs(t, fmt.Sprintf("after %d cuts", n-1), imported(t, c), want)

					c.has(c.run(0, "delete", gone, "--yes"), "1 of 1")
					out, _ := c.both(code, args...)
					c.has(out, `found here: \d+ of \d+ jobs; 1 of them ran`)
					rest := maps.Clone(want)
					for key := range rest {
						if strings.HasSuffix(key, "/"+gone) {
							delete(rest, key)
						}
					}
					sameJobs(t, "after a job has run and another import", imported(t, c), rest)
				})
			}
		}
	}
}
