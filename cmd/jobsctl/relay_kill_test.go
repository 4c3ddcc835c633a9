package main

import (
	"fmt"
	"math/rand/v2"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/seed81422ce9/jobs/broker"
	"github.com/seed81422ce9/jobs/internal/handworker"
)

// Two relays from Postgres to Redis are killed with SIGKILL again and again while jobs
// are enqueued and handled. Each job is handled once, those of a key in order.
func TestRelayKill_NoJobIsLostDoubledOrOvertaken(t *testing.T) {
	from, to := newDepot(t, storeOf(t, "postgres")), newDepot(t, storeOf(t, "redis"))
	const keys, rounds, perRound = 7, 25, 100
	var arrived []string
	worker := handworker.New(t, to.b, "worker", "mail")
	handle := func(wait time.Duration) {
		for _, j := range worker.Complete(100, wait) {
			arrived = append(arrived, j.ID)
		}
	}

	start := func() *exec.Cmd {
		cmd := command(t, []string{"JOBS_BROKER=" + from.url, "JOBS_TO=" + to.url}, "relay", "--queue", "mail", "--lease", "500ms", "--batch",
			"100")
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		return cmd
	}
	relays := []*exec.Cmd{start(), start()}
	defer func() {
		for _, cmd := range relays {
			_ = cmd.Process.Kill()
			_ = cmd.Wait()
		}
	}()
	kills := 0
	for n := range rounds {
		var batch []broker.NewJob
		for i := range perRound {
			batch = append(batch, broker.NewJob{Queue: "mail", ID: fmt.Sprintf("%d-%06d", i%keys, n*perRound+i),
				Body: broker.Body{Type: "task", Priority: broker.PriorityNormal, Key: fmt.Sprint(i % keys)}})
		}
		receipts, err := from.b.Enqueue(t.Context(), broker.EnqueueRequest{Jobs: batch})
		for _, r := range receipts {
			if err == nil {
				err = r.Err
			}
		}
		if err != nil {
			t.Fatal(err)
		}
		if n%5 == 4 {
			time.Sleep(rand.N(300 * time.Millisecond))
			i := kills % len(relays)
			_ = relays[i].Process.Kill()
			_ = relays[i].Wait()
			relays[i] = start()
			kills++
		}
		handle(100 * time.Millisecond)
	}
	const want = rounds * perRound
	for late := time.Now().Add(soon); len(arrived) < want && time.Now().Before(late); {
		handle(100 * time.Millisecond)
	}
	handle(time.Second) // time for a duplicate to show up
	seen, last := make(map[string]bool), make(map[string]string)
	for _, id := range arrived {
		key, _, _ := strings.Cut(id, "-")
		if seen[id] {
			t.Errorf("after %d kills %s was handled twice", kills, id)
		} else if id < last[key] {
			t.Errorf("after %d kills %s was handled after %s", kills, id, last[key])
		}
		seen[id], last[key] = true, max(last[key], id)
	}
	if len(seen) != want {
		t.Errorf("after %d kills %d jobs were handled, want %d", kills, len(seen), want)
	}
}
