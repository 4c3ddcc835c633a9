package history

import (
	"fmt"
	"testing"
	"time"

	"github.com/seed81422ce9/jobs/broker"
)

// serve registers a server of a program, or renews it.
func serve(t *testing.T, s *counted, id, program string, queues ...string) {
	t.Helper()
	_, err := s.Renew(t.Context(), broker.RenewRequest{Worker: id, Queues: queues, Lease: 90 * time.Second, Register: true,
		Info: broker.WorkerInfo{ID: id, Program: program, Concurrency: 1, Queues: queues}})
	if err != nil {
		t.Fatal(err)
	}
}

func TestKeeper_NotesVersionsWhenTheyAppear(t *testing.T) {
	inStore(t, func(s *counted) {
		begin := time.Now()
		k := NewKeeper(s, "a")
		run := func(minutes int, programs ...string) {
			t.Helper()
			for range minutes {
				for n, program := range programs {
					queue := "q"
					if program == "mailer v1" {
						queue = "mail"
					}
					serve(t, s, fmt.Sprint(program, n), program, queue)
				}
				turn(t, k)
			}
		}
		enqueue(t, s, 1)
		run(5, "shop v1", "mailer v1")
		run(2, "shop v1", "shop v2", "mailer v1") // a rolling deploy
		run(5, "shop v2", "mailer v1")
		k = NewKeeper(s, "b") // and so does another server
		time.Sleep(3 * time.Minute)
		s.sets = 0
		run(5, "shop v2", "mailer v1")
		run(3, "shop v1", "mailer v1") // it was rolled back
		said := func(queue string, since time.Time) (all []string) {
			t.Helper()
			found, err := ReadDeploys(t.Context(), s, queue, since)
			if err != nil {
				t.Fatal(err)
			}
			for _, d := range found {
				all = append(all, fmt.Sprintf("%s at %d", d.Program, int(d.At.Sub(begin).Minutes())))
			}
			return all
		}
		if got, want := fmt.Sprint(said("", begin)), "[mailer v1 at 0 shop v1 at 0 shop v2 at 5 shop v1 at 20]"; got != want {
			t.Errorf("the deploys are %s, want %s", got, want)
		}
		if got, want := fmt.Sprint(said("q", begin.Add(time.Minute))), "[shop v2 at 5 shop v1 at 20]"; got != want {
			t.Errorf("those of the queue q after a minute are %s, want %s", got, want)
		}
		if got, want := fmt.Sprint(said("mail", begin)), "[mailer v1 at 0]"; got != want {
			t.Errorf("those of the queue mail are %s, want %s", got, want)
		}
	})
}

func TestKeeper_KeepsFewDeploys(t *testing.T) {
	inStore(t, func(s *counted) {
		k := NewKeeper(s, "a")
		enqueue(t, s, 1)
		for n := range 2 * maxDeploys {
			serve(t, s, fmt.Sprint(n), fmt.Sprintf("shop v%d", n), "q")
			turn(t, k)
			time.Sleep(time.Minute)
		}
		found, err := ReadDeploys(t.Context(), s, "", time.Time{})
		if err != nil || len(found) != maxDeploys || found[len(found)-1].Program != fmt.Sprintf("shop v%d", 2*maxDeploys-1) {
			t.Errorf("%d deploys are kept (error %v), want the newest %d", len(found), err, maxDeploys)
		}
	})
}

func TestRising_AQueueThatIsRemovedTakesNothingBack(t *testing.T) {
	t.Parallel()
	var points []Point
	for n, completed := range []int64{10, 30, 50, 20, 25, 5, 6} { // queues were removed before the fourth and the sixth
		points = append(points, Point{At: time.Unix(int64(60*n), 0), Totals: broker.Totals{Completed: completed, Enqueued: 2 * completed}})
	}
	var got []int64
	for _, p := range Rising(points) {
		got = append(got, p.Totals.Completed)
	}
	if want := "[10 30 50 50 55 55 56]"; fmt.Sprint(got) != want {
		t.Errorf("the totals are %v, want %s", got, want)
	}
}

func TestKeeper_KeepsTheSumOfAllQueues(t *testing.T) {
	inStore(t, func(s *counted) {
		k := NewKeeper(s, "a")
		for range 5 {
			enqueue(t, s, 3)
			turn(t, k)
		}
		points, err := Read(t.Context(), s, All, time.Now(), time.Hour)
		if err != nil || len(points) != 5 || points[4].Totals.Enqueued != 15 || points[4].Pending != 15 {
			t.Errorf("the points of all queues are %+v (error %v), want five, the last with 15 jobs", points, err)
		}
	})
}
