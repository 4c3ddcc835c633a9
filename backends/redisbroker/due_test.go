package redisbroker

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/seed81422ce9/jobs/broker"
)

const (
	dueProcesses = 20
	dueApart     = 40 * time.Millisecond
)

// dueFleet has processes claim most jobs at a time while jobs fall due one after the other.
// Each process ends when work returns false. It returns when every job fell due, by this
// process's clock, and a wait for the processes.
func dueFleet(t *testing.T, queue string, jobs, most int, work func(got broker.Claimed) bool) (due []time.Time, wait func()) {
	c := client(t)
	first := open(t, c)
	ctx, cancel := context.WithCancel(t.Context())
	var processes sync.WaitGroup
	var workers []*Broker
	for i := range dueProcesses {
		b := openAs(t, c, Config{Prefix: first.config.Prefix})
		registerNow(t, b, fmt.Sprint("w", i), queue)
		workers = append(workers, b)
	}
	var batch []broker.NewJob
	for i := range jobs {
		j := job(queue, fmt.Sprint("job", i))
		j.Delay = 300*time.Millisecond + time.Duration(i)*dueApart
		due = append(due, time.Now().Add(j.Delay))
		batch = append(batch, j)
	}
	enqueueNow(t, first, batch...)
	for i, b := range workers {
		processes.Go(func() {
			req := waitFor(fmt.Sprint("w", i), time.Minute, queue)
			req.Max, req.Queues[0].Max = most, most
			for {
				got, err := b.Claim(ctx, req)
				if err != nil && ctx.Err() == nil {
					t.Errorf("Claim: %v", err)
				}
				if err != nil || !work(got) {
					return
				}
			}
		})
	}
	return due, func() { cancel(); processes.Wait() }
}

// A job that falls due wakes a few of the processes that wait, however many there are.
func TestDue_AJobThatFallsDueWakesFewProcesses(t *testing.T) {
	t.Parallel()
	const jobs, settling = 60, 20
	var claims, came, before atomic.Int64
	done := make(chan struct{})
	_, wait := dueFleet(t, "q", jobs, 10, func(got broker.Claimed) bool {
		n, all := claims.Add(1), came.Add(int64(len(got.Jobs)))
		if all >= settling {
			before.CompareAndSwap(0, n)
		}
		if all == jobs && len(got.Jobs) > 0 {
			close(done)
		}
		return true
	})
	<-done
	n := claims.Load() - before.Load()
	wait()
	t.Logf("%d jobs that fell due took %d claims of %d processes", jobs-settling, n, dueProcesses)
	if most := int64(4 * (jobs - settling)); n > most {
		t.Errorf("want %d claims at most", most)
	}
}

// A process that has no room left has another one look when the next job falls due.
func TestDue_AFullProcessHandsTheNextDueTimeOn(t *testing.T) {
	t.Parallel()
	came := make(chan time.Time, dueProcesses)
	due, wait := dueFleet(t, "q", dueProcesses, 1, func(got broker.Claimed) bool {
		if len(got.Jobs) > 0 {
			came <- time.Now()
		}
		return len(got.Jobs) == 0
	})
	defer wait()
	for i := range due {
		if late := (<-came).Sub(due[i]); late > 10*time.Second {
			t.Fatalf("job %d was claimed %v after it fell due, though other processes wait", i, late)
		}
	}
}

// unblocks counts the commands that end a wait.
type unblocks struct{ n atomic.Int64 }

func (*unblocks) DialHook(next redis.DialHook) redis.DialHook { return next }

func (*unblocks) ProcessHook(next redis.ProcessHook) redis.ProcessHook { return next }

func (u *unblocks) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		for _, cmd := range cmds {
			if args := cmd.Args(); len(args) > 1 && args[0] == "client" && args[1] == "unblock" {
				u.n.Add(1)
			}
		}
		return next(ctx, cmds)
	}
}

// An idle server looks at the ends of waits ten times a second only, so the broker ends the wait
// for a due job itself.
func TestDue_AWaitForADueJobIsEndedOnTime(t *testing.T) {
	t.Parallel()
	b := open(t, client(t))
	registerNow(t, b, "w", "q")
	ends := new(unblocks)
	b.store.single.AddHook(ends)
	for round := range 20 { // now and then the server is as quick
		j := job("q", fmt.Sprint(round))
		j.Delay = 20 * time.Millisecond
		enqueueNow(t, b, j)
		for got := (broker.Claimed{}); len(got.Jobs) == 0; {
			var err error
			if got, err = b.Claim(t.Context(), waitFor("w", time.Minute, "q")); err != nil {
				t.Fatal(err)
			}
		}
		if ends.n.Load() > 0 {
			return
		}
	}
	t.Error("the broker left the end of each wait to the server")
}
