package inspect

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/seed81422ce9/jobs/broker"
)

func TestWhy_EveryLimitIsNamed(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	minute := broker.Rate{Jobs: 30, Per: time.Minute, Burst: 5}
	for _, c := range []struct {
		name   string
		policy Policy
		key    KeyInfo
		want   string // codes
		text   string
	}{
		{"the queue is full of running jobs", Policy{MaxActive: 7}, KeyInfo{}, "queue-active", "has 7 of 7 jobs running"},
		{"there is room", Policy{MaxActive: 8}, KeyInfo{}, "queued", "4 other jobs"},
		{"the queue has a rate", Policy{Rate: minute}, KeyInfo{}, "queue-rate queued", "starts 30 per 1m and 5 more at once"},
		{"the key is paused", Policy{}, KeyInfo{Block: broker.BlockPaused}, "key-paused", "the key acme is paused"},
		{"the key has all it may", Policy{KeyMaxActive: 5}, KeyInfo{Block: broker.BlockActive, Active: 5}, "key-active",
			"the key acme has 5 of 5 running; the oldest since 2026-01-02T03:00:05.000Z"},
		{"by its own policy", Policy{KeyMaxActive: 5}, KeyInfo{Block: broker.BlockActive, Active: 2, Policy: Policy{MaxActive: 2}}, "key-active",
			"2 of 2"},
		{"another job is before it", Policy{Ordered: broker.OrderStop}, KeyInfo{Block: broker.BlockOrder, Head: "first"}, "key-order",
			"the job first is before it"},
		{"the key has a rate", Policy{KeyRate: broker.Rate{Jobs: 1, Per: time.Second}},
			KeyInfo{Block: broker.BlockRate, Until: now.Add(90 * time.Second)},
			"key-rate", "1 per 1s; the next may start in 1m30s"},
	} {
		job := broker.Job{ID: "second", State: broker.StatePending, Body: broker.Body{Type: "mail:send", Key: "acme"}}
		c.key.Key = "acme"
		e := Evidence{Job: &job, Key: c.key, Queue: QueueInfo{Now: now, QueueInfo: broker.QueueInfo{Name: "q", Policy: c.policy,
			Workers: []WorkerInfo{{ID: "w", Concurrency: 9, Until: now.Add(time.Minute)}},
			Counts:  map[broker.State]int64{broker.StatePending: 5, broker.StateActive: 7}}},
			Peers: []broker.Running{{ID: "a", Since: now.Add(-time.Minute)}, {ID: "b", Since: now.Add(-4 * time.Minute)}}}
		var codes, texts []string
		for _, r := range Explain(e) {
			codes, texts = append(codes, r.Code), append(texts, r.Text)
		}
		if !slices.Equal(codes, strings.Fields(c.want)) || !strings.Contains(strings.Join(texts, "\n"), c.text) {
			t.Errorf("%s: %q says %q, want %q with %q", c.name, codes, texts, c.want, c.text)
		}
	}
}
