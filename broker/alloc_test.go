package broker_test

import (
	"testing"

	"github.com/seed81422ce9/jobs/broker"
)

// These run for every job, so what they may allocate is fixed here. The tests
// are not parallel: AllocsPerRun counts everybody's allocations.

func TestAlloc_CheckingAValidJobAllocatesNothing(t *testing.T) {
	job := broker.NewJob{Queue: "q", ID: "id", Body: fullBody()}
	if got := testing.AllocsPerRun(100, func() {
		if err := job.Check(broker.Limits{}); err != nil {
			t.Fatal(err)
		}
	}); got > 0 {
		t.Errorf("checking a valid job took %v allocations", got)
	}
}

func TestAlloc_CheckingValidRequestsAllocatesNothing(t *testing.T) {
	j := &broker.Job{Queue: "q", ID: "id"}
	settle := broker.SettleRequest{Worker: "w", Number: 1, Items: []broker.Settlement{{Job: j, Outcome: broker.Release()}}}
	claim := broker.ClaimRequest{Worker: "w", Queues: []broker.Share{{Queue: "q", Max: 1}}, Max: 1, Settle: settle}
	if got := testing.AllocsPerRun(100, func() {
		if claim.Check() != nil || settle.Check() != nil {
			t.Fatal(claim.Check(), settle.Check())
		}
	}); got > 0 {
		t.Errorf("checking a valid claim and settle took %v allocations", got)
	}
}

func TestAlloc_TheStoredFormsCostFewAllocations(t *testing.T) {
	minimal := broker.Body{Type: "email:send", Priority: broker.PriorityNormal, Payload: make([]byte, 200)}
	full, head, fresh := fullBody(), fullHead(), broker.Head{}
	buffer := make([]byte, 0, 4096)
	minimalForm, fullForm := broker.AppendBody(nil, &minimal), broker.AppendBody(nil, &full)
	for _, c := range []struct {
		name string
		most float64
		run  func()
	}{
		{"writing a body without headers", 0, func() { broker.AppendBody(buffer, &minimal) }},
		{"writing a body with three headers", 4, func() { broker.AppendBody(buffer, &full) }},
		{"reading a body without headers", 1, func() { broker.ParseBody(minimalForm) }},
		{"reading a full body", 14, func() { broker.ParseBody(fullForm) }},
		{"writing a fresh head", 0, func() { broker.AppendHead(buffer, broker.StatePending, &fresh) }},
		{"writing a head with two failures", 1, func() { broker.AppendHead(buffer, broker.StatePending, &head) }},
	} {
		got := testing.AllocsPerRun(100, c.run)
		if got > c.most {
			t.Errorf("%s took %v allocations, the limit is %v", c.name, got, c.most)
		}
		t.Logf("%s: %v", c.name, got)
	}
}
