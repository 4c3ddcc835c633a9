package storedtest

import (
	"slices"
	"testing"
	"time"

	"github.com/seed81422ce9/jobs/broker"
)

// step makes calls to a store, each of which must succeed for each of its jobs.
type step struct {
	tb      testing.TB
	b       broker.Broker
	now     time.Time
	leased  map[string]*broker.Job // by ID
	numbers map[string]int64       // number of the last settle, by worker
}

func (s *step) policy(req broker.PolicyRequest) {
	s.tb.Helper()
	if _, err := s.b.Policy(s.tb.Context(), req); err != nil {
		s.tb.Fatalf("Policy: %v", err)
	}
}

func (s *step) register(worker string, lease time.Duration) {
	s.tb.Helper()
	got, err := s.b.Renew(s.tb.Context(), broker.RenewRequest{Now: s.now, Worker: worker, Queues: Queues, Lease: lease, Register: true,
		Info: broker.WorkerInfo{Host: "host", PID: 4711, Program: "mailer v0", Concurrency: 10, Queues: Queues, Types: []string{"email:*"},
			StartedAt: Start, Longest: []broker.Running{{Queue: mail, ID: "active", Since: Start}}}})
	if err != nil || got.Lost {
		s.tb.Fatalf("Renew of %s: lost %v, %v", worker, got.Lost, err)
	}
}

// enqueue stores one job, later than the one before.
func (s *step) enqueue(id string, change func(*broker.NewJob)) {
	s.tb.Helper()
	if r := s.try(id, change); r.Err != nil {
		s.tb.Fatalf("Enqueue of %q: %v", id, r.Err)
	}
}

func (s *step) try(id string, change func(*broker.NewJob)) broker.Receipt {
	s.tb.Helper()
	s.now = s.now.Add(time.Millisecond)
	j := broker.NewJob{Queue: mail, ID: id, Body: broker.Body{Type: "email:welcome", Payload: []byte(`{"user":1}`),
		Priority: broker.PriorityNormal, MaxRetries: 5}}
	if change != nil {
		change(&j)
	}
	receipts, err := s.b.Enqueue(s.tb.Context(), broker.EnqueueRequest{Now: s.now, Jobs: []broker.NewJob{j}})
	if err != nil {
		s.tb.Fatalf("Enqueue of %q: %v", id, err)
	}
	return receipts[0]
}

// claim leases jobs and returns their IDs, sorted.
func (s *step) claim(worker, queue string, most int) []string {
	s.tb.Helper()
	got, err := s.b.Claim(s.tb.Context(), broker.ClaimRequest{Now: s.now, Worker: worker, Max: most,
		Queues: []broker.Share{{Queue: queue, Max: most}}})
	if err != nil {
		s.tb.Fatalf("Claim: %v", err)
	}
	return s.hold(got.Jobs)
}

func (s *step) hold(jobs []broker.Job) (ids []string) {
	for i := range jobs {
		if jobs[i].Broken != nil {
			s.tb.Errorf("job %q came broken: %v", jobs[i].ID, jobs[i].Broken)
		}
		s.leased[jobs[i].ID] = &jobs[i]
		ids = append(ids, jobs[i].ID)
	}
	slices.Sort(ids)
	return ids
}

func (s *step) settle(worker string, outcomes map[string]broker.Outcome) {
	s.tb.Helper()
	s.numbers[worker]++
	req := broker.SettleRequest{Now: s.now, Worker: worker, Number: s.numbers[worker]}
	ids := make([]string, 0, len(outcomes))
	for id := range outcomes {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	for _, id := range ids {
		if s.leased[id] == nil {
			s.tb.Fatalf("job %q was not claimed by %s", id, worker)
		}
		req.Items = append(req.Items, broker.Settlement{Job: s.leased[id], Outcome: outcomes[id]})
	}
	verdicts, err := s.b.Settle(s.tb.Context(), req)
	if err != nil {
		s.tb.Fatalf("Settle: %v", err)
	}
	for _, v := range verdicts {
		if v.Err != nil {
			s.tb.Errorf("Settle of %q by %s: %v", v.ID, worker, v.Err)
		}
	}
}

func (s *step) operate(op broker.Operation, queue string, ids ...string) {
	s.tb.Helper()
	op.Now = s.now
	for _, id := range ids {
		op.Refs = append(op.Refs, broker.Ref{Queue: queue, ID: id, Epoch: broker.AnyEpoch})
	}
	results, err := s.b.Operate(s.tb.Context(), op)
	if err != nil {
		s.tb.Fatalf("Operate: %v", err)
	}
	for _, r := range results {
		if r.Err != nil {
			s.tb.Errorf("%v of %q: %v", op.Kind, r.Ref.ID, r.Err)
		}
	}
}

func (s *step) mark(req broker.MarkRequest) broker.Marked {
	s.tb.Helper()
	got, err := s.b.Mark(s.tb.Context(), req)
	if err != nil {
		s.tb.Fatalf("Mark %q: %v", req.Name, err)
	}
	return got
}
