package shardbroker

import (
	"fmt"
	"testing"
	"time"

	"github.com/seed81422ce9/jobs/broker"
)

// Probes of other jobs, also those of processes that died, count for no key: they do not fill a depth of one.
func TestMove_ProbesFillNoKey(t *testing.T) {
	t.Parallel()
	for _, order := range []broker.Order{broker.OrderNone, broker.OrderStop} {
		t.Run(fmt.Sprintf("order %d", order), func(t *testing.T) {
			t.Parallel()
			m, now := newMoving(t), switchAt.Add(time.Second)
			b := m.both(nil)
			set := broker.PolicyRequest{Queue: "q", KeyMaxDepth: new(int64(1)), Ordered: &order}
			if _, err := b.Policy(t.Context(), set); err != nil {
				t.Fatal(err)
			}
			var moved []broker.NewJob // in turn jobs of a key, and with a unique key if the queue takes them
			for i := 0; len(moved) < 12; i++ {
				j := newJob(fmt.Sprint("j", i))
				if j.Body.Key = fmt.Sprint("k", i); order == broker.OrderNone && len(moved)%2 == 1 {
					j.Body.Key, j.Body.Unique.Key = "", fmt.Sprint("u", i)
				}
				if of := b.routes.of(label(j.ID, &j.Body)); len(of) == 2 && of[1].Name == "b" {
					moved = append(moved, j)
				}
			}
			died := len(moved) / 2
			for i := range moved[:died] {
				mv := &mover{b: b, sent: now, former: b.routes.of(label(moved[i].ID, &moved[i].Body))[1], job: &moved[i]}
				if r := mv.probe(t.Context()); r.Err != nil {
					t.Errorf("the probe of job %s: %v", moved[i].ID, r.Err)
				}
			}
			for _, j := range moved[died:] {
				if r := send(t, b, now, j); r.Err != nil {
					t.Errorf("job %s: %v, want it stored, as the depth of its key is 0", j.ID, r.Err)
				}
			}
			probes := func() int64 {
				info, err := m.stores["b"].Open().Queues(t.Context(), broker.QueuesRequest{Now: now})
				if err != nil {
					t.Fatal(err)
				}
				return total(info.Queues[0].Counts)
			}
			prune := broker.PruneRequest{Now: now.Add(probeTime), Queues: []string{"q"}, Max: 1000}
			if _, err := b.Prune(t.Context(), prune); err != nil || probes() != int64(died) {
				t.Errorf("after %v there are %d probes, %v; want %d", probeTime, probes(), err, died)
			}
			prune.Now = prune.Now.Add(time.Second)
			if _, err := b.Prune(t.Context(), prune); err != nil || probes() != 0 {
				t.Errorf("after more than %v there are %d probes, %v; want none", probeTime, probes(), err)
			}
		})
	}
}
