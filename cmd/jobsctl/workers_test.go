package main

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/seed81422ce9/jobs"
	"github.com/seed81422ce9/jobs/backends/membroker"
	"github.com/seed81422ce9/jobs/broker"
)

func TestWorkers_SayForHowLongTheyRunWhat(t *testing.T) {
	t.Parallel()
	store := membroker.NewStore()
	b := store.Open()
	client := jobs.NewClient(b, jobs.ClientConfig{})
	for id, queue := range map[string]string{"slow": "mail", "quick": "mail", "thumb": "images"} {
		if _, err := client.Enqueue(t.Context(), jobs.NewTask("report", nil), jobs.WithQueue(queue), jobs.WithID(id)); err != nil {
			t.Fatal(err)
		}
	}
	info := broker.WorkerInfo{Host: "h", Concurrency: 2, Queues: []string{"mail", "images"},
		Longest: []broker.Running{{Queue: "mail", ID: "slow", Since: time.Now().Add(-2*time.Hour - 30*time.Second)}}}
	if _, err := b.Renew(t.Context(), broker.RenewRequest{Worker: "w", Queues: []string{"mail", "images"}, Lease: time.Minute, Register: true,
		Info: info}); err != nil {
		t.Fatal(err)
	}
	shares := []broker.Share{{Queue: "mail", Max: 2}, {Queue: "images", Max: 1}}
	if _, err := b.Claim(t.Context(), broker.ClaimRequest{Worker: "w", Max: 3, Queues: shares}); err != nil {
		t.Fatal(err)
	}
	c := &cli{t: t, url: "memory://", open: func(context.Context, string) (broker.Broker, error) { return store.Open(), nil }}
	c.has(c.run(0, "workers", "--running"), `(?m)^  slow  for 2h.*$`, `(?m)^  quick +[^0-9]+ attempt 0$`, `(?m)^  thumb `)
	if out := c.run(0, "workers", "mail", "--running"); strings.Contains(out, "thumb") || !strings.Contains(out, "quick") {
		t.Errorf("the jobs of a worker in the queue mail: %s", out)
	}
	c.has(c.run(0, "workers", "-o", "wide"), `LEASE +LEFT +QUEUES`, `(?m)^w .* holds +(1m|5\d(\.\d)?s) +mail`)
	var v workerView
	if out := c.run(0, "workers", "--json"); json.Unmarshal([]byte(out), &v) != nil || len(v.Longest) != 1 || v.Longest[0].ID != "slow" {
		t.Errorf("as JSON: %s", out)
	}
}
