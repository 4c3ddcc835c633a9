package conformance

import (
	"fmt"
	"slices"
	"time"

	"github.com/seed81422ce9/jobs/broker"
)

// More moves of a sequence; the others are in rules_model.go.

func (s *sequence) passTime() {
	d := s.duration()
	if s.chance(10) {
		d = time.Duration(s.r.IntN(7200)) * time.Second
	}
	s.m.pass(d)
	s.now = s.m.now
}

func (s *sequence) renew() { s.renewOf(s.client(), s.chance(20)) }

// renewOf renews a worker. If it has ended in any queue, it retires in all of
// them, as a server does.
func (s *sequence) renewOf(w *modelClient, register bool) {
	s.tb.Helper()
	req := broker.RenewRequest{Now: s.m.now, Worker: w.id, Queues: s.names, Lease: lease, Register: register}
	got, err := s.b.Renew(s.ctx, req)
	s.ok("Renew", err)
	s.agree(s.m.renew(req, got))
	if got.Lost {
		s.retireOf(w)
	}
}

func (s *sequence) retire() { s.retireOf(s.client()) }

func (s *sequence) retireOf(w *modelClient) {
	req := broker.RetireRequest{Now: s.m.now, Worker: w.id, Queues: s.names}
	got, err := s.b.Retire(s.ctx, req)
	s.ok("Retire", err)
	s.agree(s.m.retire(req, got))
	s.workers = slices.DeleteFunc(s.workers, func(o *modelClient) bool { return o == w })
}

func (s *sequence) reclaim() {
	w := s.client()
	if s.chance(70) { // otherwise its own leases may have run out
		if s.renewOf(w, false); !slices.Contains(s.workers, w) {
			return
		}
	}
	req := broker.ReclaimRequest{Now: s.m.now, Worker: w.id, Queues: []string{s.name()}, Max: 1 + s.r.IntN(4), Bytes: s.bytes()}
	got, err := s.b.Reclaim(s.ctx, req)
	s.agree(s.m.reclaim(req, got, err))
	w.learn(got.Jobs)
}

func (s *sequence) operate() {
	kinds := []broker.OperationKind{broker.OpCancel, broker.OpCancel, broker.OpDelete, broker.OpRedrive, broker.OpRedrive,
		broker.OpReschedule, broker.OpReschedule, broker.OpSuppress, broker.OpUnsuppress}
	if !s.limits.NoMove {
		kinds = append(kinds, broker.OpHold, broker.OpHold, broker.OpUnhold, broker.OpEdit)
	}
	op := broker.Operation{Now: s.m.now, Kind: kinds[s.r.IntN(len(kinds))]}
	if op.Kind == broker.OpReschedule && s.chance(80) {
		if op.Delay = s.duration(); s.chance(40) {
			op.Delay, op.RunAt = 0, s.up(s.m.now.Add(s.duration()-20*time.Second))
		}
	}
	refs := 1 + s.r.IntN(3)
	switch op.Kind {
	case broker.OpEdit:
		op.Payload, refs = []byte(fmt.Sprint("edit ", s.r.IntN(1000))), 1
	case broker.OpHold:
		op.Holder = s.holder()
	case broker.OpUnhold, broker.OpDelete:
		if s.chance(50) && !s.limits.NoMove {
			op.Holder = s.holder()
		}
	}
	for range refs {
		ref := broker.Ref{Queue: s.name(), ID: fmt.Sprint("j", 1+s.r.IntN(s.ids)), Epoch: broker.AnyEpoch}
		if j := s.pick(s.m.queue(ref.Queue), op.Kind); j != nil && s.chance(80) {
			ref.ID = j.ID
			if s.chance(50) {
				ref.Epoch = j.Epoch - int64(s.r.IntN(4)/3) // sometimes an earlier one
			}
		}
		known := slices.ContainsFunc(op.Refs, func(r broker.Ref) bool { return r.ID == ref.ID && r.Queue == ref.Queue })
		if ref.Epoch >= broker.AnyEpoch && !known {
			op.Refs = append(op.Refs, ref)
		}
	}
	if len(op.Refs) == 0 {
		return
	}
	results, err := s.b.Operate(s.ctx, op)
	s.ok("Operate", err)
	s.same("number of results", len(results), len(op.Refs))
	s.agree(s.m.operate(op, results))
}

// pick returns a job on which an operation of this kind is likely to succeed.
func (s *sequence) pick(q *modelQueue, kind broker.OperationKind) *modelJob {
	states := []broker.State{broker.StateDead}
	switch kind {
	case broker.OpCancel, broker.OpDelete, broker.OpReschedule, broker.OpHold, broker.OpEdit:
		states = broker.States()
	case broker.OpUnhold:
		states = []broker.State{broker.StateWaiting}
	}
	var jobs []*modelJob
	for _, state := range states {
		jobs = append(jobs, q.list(state)...)
	}
	if len(jobs) == 0 {
		return nil
	}
	slices.SortFunc(jobs, func(a, b *modelJob) int { // so that a seed repeats the choice
		if a.ID < b.ID {
			return -1
		}
		return 1
	})
	return jobs[s.r.IntN(len(jobs))]
}

func (s *sequence) changePolicy() {
	q := s.m.queue(s.name())
	clear(q.flow.passed) // turns may start again (§34)
	q.flow.fresh = true
	req := broker.PolicyRequest{Queue: q.name}
	switch s.r.IntN(7) {
	case 0, 1:
		paused := !q.policy.Paused
		req.Paused, q.policy.Paused = &paused, paused
	case 2:
		depth := []int64{broker.NoLimit, broker.NoLimit, 1 + int64(s.r.IntN(30))}[s.r.IntN(3)]
		req.MaxDepth, q.policy.MaxDepth = &depth, max(0, depth)
	case 3:
		keep := []broker.Retention{{}, {Age: time.Minute}, {Age: time.Hour, Count: 3}}[s.r.IntN(3)]
		req.RetainCompleted, q.policy.RetainCompleted = &keep, keep
	case 4:
		keep := []broker.Retention{{}, {}, {Age: 10 * time.Minute}, {Count: 4}}[s.r.IntN(4)]
		req.RetainDead, q.policy.RetainDead = &keep, keep
	case 5:
		span := []time.Duration{0, 10 * time.Second, time.Minute}[s.r.IntN(3)]
		req.DuplicateSpan, q.policy.DuplicateSpan = &span, span
	case 6:
		if s.limits.NoPriority {
			return
		}
		round := []int64{0, 4, 5, 9}[s.r.IntN(4)]
		req.PriorityRound, q.policy.PriorityRound, q.flow.missed = &round, round, [broker.Priorities + 1]int64{}
	}
	got := s.policy(req)
	s.same("policy of "+q.name, got, q.policy)
}

func (s *sequence) mark() {
	if s.limits.NoMark {
		return
	}
	req := broker.MarkRequest{Now: s.m.now, Action: broker.MarkAction(s.r.IntN(5)), Name: fmt.Sprintf("m%d-%d", s.r.IntN(2), s.run0),
		Owner: fmt.Sprint("o", s.r.IntN(2)), TTL: s.duration() + s.tick, Value: []byte(fmt.Sprint(s.r.IntN(10)))}
	if m := s.m.marks[req.Name]; m != nil {
		req.Fence = m.Fence - int64(s.r.IntN(4)/3)
	}
	got, err := s.b.Mark(s.ctx, req)
	s.ok("Mark", err)
	s.agree(s.m.mark(req, got))
}

// pruneWhatLapsed prunes records as soon as their time is over. From then on the
// store may or may not have them, and the model would not know.
func (s *sequence) pruneWhatLapsed() {
	for _, name := range s.names {
		q := s.m.queue(name)
		if !s.m.lapsed(q) {
			continue
		}
		for more := true; more; {
			p, err := s.b.Prune(s.ctx, broker.PruneRequest{Now: s.m.now, Queues: []string{name}, Max: 50})
			s.ok("Prune", err)
			more = p.More
		}
		present := make(map[string]bool)
		for _, state := range []broker.State{broker.StateCompleted, broker.StateCancelled, broker.StateDead} {
			for _, j := range s.list(broker.Query{Queue: name, State: state, Suppressed: true, NoPayload: true}) {
				present[j.ID] = true
			}
		}
		s.agree(s.m.prune(q, func(id string) bool { return present[id] }))
	}
}

// look compares the whole store with the model.
func (s *sequence) look() {
	s.tb.Helper()
	for _, name := range s.names {
		listed := make(map[broker.State][]broker.Job)
		for _, state := range broker.States() {
			listed[state] = s.list(broker.Query{Queue: name, State: state, Suppressed: true, Limit: 1 + s.r.IntN(40)})
		}
		info := s.counted(name)
		s.agree(s.m.compare(s.m.queue(name), listed, info.Counts))
		s.agree(s.m.queue(name).totals.agree(name, info.Totals))
	}
	s.lookAtKeys()
}
