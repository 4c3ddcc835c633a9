package main

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"os/exec"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/seed81422ce9/jobs"
	"github.com/seed81422ce9/jobs/broker"
	"github.com/seed81422ce9/jobs/inspect"
	"github.com/seed81422ce9/jobs/internal/testenv"
)

// depot is the source or the destination of a move.
type depot struct {
	*cli
	b broker.Broker
	*inspect.Inspector
}

func newDepot(t *testing.T, c *cli) *depot {
	t.Helper()
	b, err := c.open(t.Context(), c.url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { b.Close() })
	return &depot{c, b, inspect.New(b)}
}

// fill stores n jobs that wait, and some with a history in other states.
func (d *depot) fill(t *testing.T, n int) {
	t.Helper()
	now, prefix := time.Now().UTC().Truncate(time.Microsecond), testenv.Name(t) // queues remember IDs, so each test has its own
	var batch []broker.NewJob
	for i := range n {
		j := broker.NewJob{Queue: "mail", ID: fmt.Sprintf("%s-%05d", prefix, i),
			Body: broker.Body{Type: "email", Priority: broker.PriorityNormal, MaxRetries: 3,
				Payload: []byte(fmt.Sprintf("\xff%d", i)), Headers: map[string]string{"n": fmt.Sprint(i), "raw": "\x00\xfe"}, Key: "acme"}}
		head := broker.Head{Epoch: 3, Deliveries: 2, Failures: 1,
			Errors: broker.ErrorLog{Entries: []broker.Failure{{At: now.Add(-time.Minute), Class: "retryable", Message: "again"}}}}
		switch i % 10 {
		case 0:
			j.RunAt = now.Add(time.Hour)
		case 1:
			j.RunAt, j.Restore = now.Add(time.Hour), &broker.Restored{State: broker.StateRetry, CreatedAt: now.Add(-time.Hour), Head: head}
		case 2:
			head.FinishedAt, head.Reason, head.Suppressed = now, broker.ReasonRetries, i%20 == 2
			j.Restore = &broker.Restored{State: broker.StateDead, CreatedAt: now.Add(-time.Hour), Head: head}
		}
		batch = append(batch, j)
	}
	receipts, err := d.b.Enqueue(t.Context(), broker.EnqueueRequest{Jobs: batch})
	for _, r := range receipts {
		if err == nil {
			err = r.Err
		}
	}
	if err != nil {
		t.Fatal(err)
	}
}

// all returns the jobs of the queue by ID, as the command show prints them.
func (d *depot) all(t *testing.T) map[string]string {
	t.Helper()
	all := make(map[string]string)
	for _, state := range broker.States() {
		for j, err := range d.Select(inspect.Query{Queue: "mail", State: state, Suppressed: true}).Jobs(t.Context()) {
			if err != nil {
				t.Fatal(err)
			}
			text, err := json.Marshal(wholeView(j, true))
			if err != nil {
				t.Fatal(err)
			}
			all[j.ID] = string(text)
		}
	}
	return all
}

// count returns the number of jobs in the queue.
func (d *depot) count(t *testing.T) (n int64) {
	t.Helper()
	infos, err := d.Queues(t.Context(), "mail")
	if err != nil {
		t.Fatal(err)
	}
	for _, q := range infos {
		for _, some := range q.Counts {
			n += some
		}
	}
	return n
}

// moveAndKill starts the command and kills it with SIGKILL once the destination has at
// jobs.
func moveAndKill(t *testing.T, from, to *depot, at int64) {
	t.Helper()
	cmd := moveCommand(t, from, to)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	testenv.Eventually(t, fmt.Sprintf("%d jobs are at the destination", at), func() bool { return to.count(t) >= at })
	if err := cmd.Process.Kill(); err != nil {
		t.Error(err)
	}
	if err := cmd.Wait(); err == nil {
		t.Error("the move was over before it was killed")
	}
}

func moveCommand(t *testing.T, from, to *depot, args ...string) *exec.Cmd {
	return command(t, []string{"JOBS_BROKER=" + from.url, "JOBS_TO=" + to.url},
		append([]string{"move", "--queue", "mail", "--yes", "--rate", "1500"}, args...)...)
}

// Pairs of a source and a destination that other processes can reach.
var (
	unlike = [][2]string{{"redis", "postgres"}, {"postgres", "redis"}}
	alike  = [][2]string{{"redis", "redis"}, {"postgres", "postgres"}}
)

func onMoves(t *testing.T, pairs [][2]string, test func(t *testing.T, from, to *depot)) {
	for _, p := range pairs {
		t.Run(p[0]+" to "+p[1], func(t *testing.T) { test(t, newDepot(t, storeOf(t, p[0])), newDepot(t, storeOf(t, p[1]))) })
	}
}

func TestMoveKill_AMoveThatIsKilledIsFinishedByAnother(t *testing.T) {
	onMoves(t, slices.Concat(unlike, alike), func(t *testing.T, from, to *depot) {
		const n = 1500
		from.fill(t, n)
		want := from.all(t)
		for _, at := range []int64{100, 500, 900} {
			moveAndKill(t, from, to, at)
		}
		if out, err := moveCommand(t, from, to).CombinedOutput(); err != nil {
			t.Errorf("the last move: %v\n%s", err, out)
		}
		got := to.all(t)
		for id := range want {
			if got[id] != want[id] {
				t.Errorf("%s is\n%s\nwant\n%s", id, got[id], want[id])
			}
		}
		if here := from.all(t); len(got) != n || len(here) != 0 {
			t.Errorf("%d jobs are at the destination and %d at the source, want %d and none", len(got), len(here), n)
		}
	})
}

// runs counts how often each job was handled, in either store.
type runs struct {
	mu    sync.Mutex
	byID  map[string]int
	now   map[string]bool
	sides map[string]int
	twice []string      // handled by two at the same time
	moved chan struct{} // closed when the moves have ended
	begun chan struct{} // receives when a job began
}

// await waits until a job begins that makes done true. It reports false if ended is closed before.
func (r *runs) await(t *testing.T, ended <-chan struct{}, done func() bool) bool {
	t.Helper()
	late := time.After(soon)
	for {
		r.mu.Lock()
		is := done()
		r.mu.Unlock()
		if is {
			return true
		}
		select {
		case <-r.begun:
		case <-ended:
			return false
		case <-late:
			t.Errorf("after %v the jobs that the test waits for have not begun", soon)
			return false
		}
	}
}

// serve handles jobs of a depot. When it has handled some, it waits until the moves have ended, so that jobs are left to move.
func (r *runs) serve(t *testing.T, side string, d *depot, some int) {
	t.Helper()
	server, err := jobs.NewServer(d.b, jobs.Config{Queues: map[string]int{"mail": 1}, Concurrency: 2, Prefetch: jobs.NoPrefetch,
		Logger: slog.New(slog.DiscardHandler)})
	if err == nil {
		err = server.Start(context.Background(), jobs.HandlerFunc(func(_ context.Context, j *jobs.Job) error {
			r.mu.Lock()
			if r.now[j.ID()] {
				r.twice = append(r.twice, j.ID())
			}
			r.byID[j.ID()]++
			r.now[j.ID()] = true
			r.sides[side]++
			enough := r.sides[side] > some
			r.mu.Unlock()
			select {
			case r.begun <- struct{}{}:
			default: // nobody waits, or is about to look anyway
			}
			if enough {
				<-r.moved
			}
			time.Sleep(2 * time.Millisecond)
			r.mu.Lock()
			defer r.mu.Unlock()
			delete(r.now, j.ID())
			return nil
		}))
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := server.Shutdown(context.Background()); err != nil {
			t.Error(err)
		}
	})
}

func TestMoveKill_JobsRunOnceWhileAMoveIsKilled(t *testing.T) {
	onMoves(t, unlike, func(t *testing.T, from, to *depot) {
		const n = 1000
		from.fill(t, n)
		want := 0
		for i := range n {
			if i%10 > 2 {
				want++
			}
		}
		r := &runs{byID: map[string]int{}, now: map[string]bool{}, sides: map[string]int{},
			moved: make(chan struct{}), begun: make(chan struct{}, 1)}
		r.serve(t, "here", from, n/4)
		r.serve(t, "there", to, n)
		for i := range 3 {
			cmd := moveCommand(t, from, to, "--state", "pending")
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			ended := make(chan struct{})
			go func() {
				_ = cmd.Wait()
				close(ended)
			}()
			r.await(t, ended, func() bool { return r.sides["there"] > 40*i })
			_ = cmd.Process.Kill() // it may have ended already
			<-ended
		}
		if out, err := moveCommand(t, from, to, "--state", "pending").CombinedOutput(); err != nil {
			t.Errorf("the last move: %v\n%s", err, out)
		}
		close(r.moved)
		r.await(t, nil, func() bool { return len(r.byID) == want })
		r.mu.Lock()
		defer r.mu.Unlock()
		if len(r.byID) != want || len(r.twice) > 0 || r.sides["there"] == 0 || r.sides["here"] == 0 {
			t.Errorf("%d jobs ran, want %d; %v ran twice at once; sides: %v", len(r.byID), want, r.twice, r.sides)
		}
		for id, times := range r.byID {
			if times != 1 {
				t.Errorf("%s ran %d times", id, times)
			}
		}
	})
}
