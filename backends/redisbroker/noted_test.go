package redisbroker

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/seed81422ce9/jobs/broker"
)

// Claims take as many jobs at once as would fit if all were as large as the largest. So
// every call that makes a body or a head larger must record the size.
func TestBounds_WhateverMakesAJobLargeIsNoted(t *testing.T) {
	t.Parallel()
	large := bytes.Repeat([]byte("x"), 100_000)
	withPayload := func(change func(*broker.NewJob)) func(*testing.T, *Broker) {
		return func(t *testing.T, b *Broker) {
			enqueue(t, b, several("q", 10, func(i int, j *broker.NewJob) {
				if i < 9 { // not the last one
					j.Body.Payload = large
				}
				change(j)
			})...)
		}
	}
	for name, fill := range map[string]func(*testing.T, *Broker){
		"enqueued":              withPayload(func(*broker.NewJob) {}),
		"enqueued with options": withPayload(func(j *broker.NewJob) { j.Body.Key = "k" }),
		"restored":              withPayload(func(j *broker.NewJob) { j.Restore = &broker.Restored{State: broker.StatePending} }),
		"edited": func(t *testing.T, b *Broker) {
			enqueue(t, b, several("q", 10, nil)...)
			l := &life{t: t, b: b, queue: "q"}
			for _, id := range names("q", 10) {
				l.operate(broker.Operation{Kind: broker.OpEdit, Payload: large}, id)
			}
		},
		"failed": func(t *testing.T, b *Broker) {
			enqueue(t, b, several("q", 10, nil)...)
			for n := range 12 {
				jobs := claimAt(t, b, at(2*n), "w", 10, "q").Jobs
				req := broker.SettleRequest{Now: at(2 * n), Worker: "w", Number: int64(n + 1), History: 12}
				for i := range jobs {
					f := broker.Failure{Message: fmt.Sprint(n, strings.Repeat("x", 4000)), Stack: strings.Repeat("y", 4000)}
					req.Items = append(req.Items, broker.Settlement{Job: &jobs[i], Outcome: broker.Retry(time.Second, f)})
				}
				if v, err := b.Settle(t.Context(), req); err != nil || len(v) != 10 {
					t.Fatal(v, err)
				}
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := open(t, client(t))
			register(t, b, "w", "q")
			fill(t, b)
			page, err := b.Find(t.Context(), broker.Query{Queue: "q", IDs: names("q", 10)})
			if err != nil || len(page.Jobs) != 10 {
				t.Fatal(len(page.Jobs), err)
			}
			size := len(large)
			if name == "failed" {
				size = len(restOf(page.Jobs[0].Head))
			}
			if size < 8192 {
				t.Fatalf("jobs of %d bytes show nothing: smaller ones than 4 KiB are not noted", size)
			}
			got, err := b.Claim(t.Context(), broker.ClaimRequest{Now: at(50), Worker: "w", Max: 10, Bytes: 2 * size,
				Queues: []broker.Share{{Queue: "q", Max: 10}}})
			if n := len(got.Jobs); err != nil || n == 0 || n > 3 || !got.More {
				t.Errorf("a claim of %d bytes got %d jobs of %d and says there are more: %t, %v; want 1 to 3, and more", 2*size, n, size, got.More, err)
			}
		})
	}
}

// The second part of a long settle is refused if the first has not arrived: otherwise the
// store would later take the first part for one that it has already answered.
func TestBounds_APartOfALongSettleWaitsForThoseBefore(t *testing.T) {
	t.Parallel()
	b := open(t, client(t))
	register(t, b, "w", "q")
	enqueue(t, b, several("q", callJobs+1, nil)...)
	req := broker.SettleRequest{Now: at(0), Worker: "w", Number: 1}
	for len(req.Items) <= callJobs {
		jobs := claimAt(t, b, at(0), "w", callJobs, "q").Jobs
		for i := range jobs {
			req.Items = append(req.Items, broker.Settlement{Job: &jobs[i], Outcome: broker.Complete(nil)})
		}
	}
	parts := b.settleBatches(&req)
	if len(parts) != 2 {
		t.Fatalf("%d items go in %d parts, want 2", len(req.Items), len(parts))
	}
	if err := b.run(t.Context(), nil, parts[1].step); err != nil || !errors.Is(parts[1].step.err, broker.ErrUnavailable) {
		t.Errorf("the second part alone: %v, %v; want ErrUnavailable", err, parts[1].step.err)
	}
	verdicts, err := b.Settle(t.Context(), req)
	if err != nil {
		t.Fatal(err)
	}
	for _, v := range verdicts {
		if v.Err != nil {
			t.Fatalf("then the whole: %s: %v", v.ID, v.Err)
		}
	}
}
