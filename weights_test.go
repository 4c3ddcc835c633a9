package jobs

import (
	"context"
	"fmt"
	"math"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed81422ce9/jobs/broker"
)

func TestServer_ServersHandleQueuesInProportionToTheirWeights(t *testing.T) {
	t.Parallel()
	weights := map[string]int{"critical": 6, "default": 3, "low": 1}
	for _, concurrency := range []int{1, 10, 100} {
		t.Run(fmt.Sprint(concurrency), func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				b := newStore()
				for queue := range weights {
					add(t, b, queue, "a", 4000)
				}
				var handled tally
				serve(t, b, Config{Concurrency: concurrency, Queues: weights}, func(_ context.Context, j *Job) error {
					time.Sleep(100 * time.Millisecond)
					handled.add(j.Queue(), 1)
					handled.add("all", 1)
					return nil
				})
				pass(time.Duration(2000/concurrency)*100*time.Millisecond + time.Millisecond)
				for queue, weight := range weights {
					share, ideal := float64(handled.get(queue))/float64(handled.get("all")), float64(weight)/10
					if math.Abs(share-ideal) > 0.05*ideal+0.005 {
						t.Errorf("%s got %.3f of %d runs, want %.2f", queue, share, handled.get("all"), ideal)
					}
				}
			})
		})
	}
}

func TestServer_StrictPriorityTakesALowerQueueOnlyWhenTheHigherAreEmpty(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b := newStore()
		for _, queue := range []string{"low", "default", "critical", "also-critical"} {
			add(t, b, queue, "a", 50)
		}
		var order []string
		cfg := Config{Concurrency: 1, Prefetch: NoPrefetch, StrictPriority: true,
			Queues: map[string]int{"critical": 6, "also-critical": 6, "default": 3, "low": 1}}
		serve(t, b, cfg, func(_ context.Context, j *Job) error {
			if len(order) == 120 { // a job that comes late goes first all the same
				add(t, b, "critical", "late", 1)
			}
			order = append(order, j.Queue())
			return nil
		})
		synctest.Wait()
		want := slices.Concat(slices.Repeat([]string{"also-critical"}, 50), slices.Repeat([]string{"critical"}, 50),
			slices.Repeat([]string{"default"}, 21), []string{"critical"}, slices.Repeat([]string{"default"}, 29), slices.Repeat([]string{"low"}, 50))
		if !slices.Equal(order, want) {
			t.Errorf("the order is %v", order)
		}
	})
}

func TestServer_AQueuesLocalConcurrencyIsKept(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b := newStore()
		add(t, b, "reports", "a", 20)
		add(t, b, "mail", "a", 20)
		var running tally
		cfg := Config{Concurrency: 10, Queues: map[string]int{"reports": 5, "mail": 1}, QueueConcurrency: map[string]int{"reports": 2}}
		serve(t, b, cfg, func(_ context.Context, j *Job) error {
			running.add(j.Queue(), 1)
			time.Sleep(time.Second)
			running.add(j.Queue(), -1)
			return nil
		})
		pass(9*time.Second + time.Millisecond)
		if r, m := running.peak("reports"), running.peak("mail"); r != 2 || m != 8 {
			t.Errorf("at most %d reports and %d mails ran at once, want 2 and 8", r, m)
		}
		if n := count(t, b, "reports", StateCompleted); n != 18 {
			t.Errorf("%d reports were done in 9 s by 2 at a time, want 18", n)
		}
		pass(time.Minute)
		// Idle, with both queues empty, a new report starts at once.
		began := time.Now()
		add(t, b, "reports", "new", 3)
		pass(time.Second + time.Millisecond)
		for i, want := range []State{StateCompleted, StateCompleted, StateActive} {
			j := expect(t, b, "reports", fmt.Sprintf("new-%d", i), want)
			if want == StateCompleted && !j.FinishedAt.Equal(began.Add(time.Second)) {
				t.Errorf("report %d was done %v after it came, want 1s", i, j.FinishedAt.Sub(began))
			}
		}
	})
}

func TestServer_AQueueThatWasFullLocallyIsWaitedForAgain(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b := newStore()
		cfg := Config{Concurrency: 10, Queues: map[string]int{"reports": 1, "mail": 1}, QueueConcurrency: map[string]int{"reports": 1},
			PollInterval: time.Minute}
		serve(t, b, cfg, func(_ context.Context, j *Job) error {
			time.Sleep(time.Second)
			return nil
		})
		synctest.Wait()
		add(t, b, "reports", "first", 1)
		pass(1500 * time.Millisecond) // the claim that waits was made while the queue was full
		began := time.Now()
		add(t, b, "reports", "second", 1)
		pass(2 * time.Second)
		if j := expect(t, b, "reports", "second-0", StateCompleted); j.FinishedAt.Sub(began) != time.Second {
			t.Errorf("it was done after %v, want 1s", j.FinishedAt.Sub(began))
		}
	})
}

var _ broker.Broker = (*tap)(nil)
