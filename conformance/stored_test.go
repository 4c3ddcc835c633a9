package conformance_test

import (
	"context"
	"errors"
	"slices"
	"sync"

	"github.com/seed81422ce9/jobs/backends/membroker"
	"github.com/seed81422ce9/jobs/broker"
	"github.com/seed81422ce9/jobs/conformance"
	"github.com/seed81422ce9/jobs/conformance/faulty"
)

// stored is a memory store that behaves as if it had a stored form and a network:
// queues of a newer layout, bodies that cannot be read, connections that are severed.
type stored struct {
	inner *membroker.Store

	mu     sync.Mutex
	newer  map[string]bool   // queues
	bodies map[string][]byte // by queue/ID
	links  []*faulty.Broker
}

// memory returns a function that makes stores. It calls mutate once for each store and
// the result for each of its handles, so that handles can share what mutate made.
func memory(mutate func() func(*patched)) func(conformance.TB) *conformance.Store {
	return func(tb conformance.TB) *conformance.Store {
		s := &stored{inner: membroker.NewStore(), newer: map[string]bool{}, bodies: map[string][]byte{}}
		changes := mutate()
		return &conformance.Store{
			Open: func(conformance.TB) broker.Broker {
				p := patch(s.open())
				changes(p)
				return p
			},
			Bounce:      func(conformance.TB) { s.bounce() },
			Dump:        func() string { return "a memory store" },
			PlantLayout: func(_ conformance.TB, queue string) { s.set(func() { s.newer[queue] = true }) },
			PlantBody: func(_ conformance.TB, queue, id string, body []byte) {
				s.set(func() { s.bodies[queue+"/"+id] = body })
			},
		}
	}
}

func (s *stored) set(f func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f()
}

// bounce makes the next two calls of each handle fail.
func (s *stored) bounce() {
	s.set(func() {
		for _, l := range s.links {
			l.Set(faulty.Plan{{Call: 1, Fault: faulty.Unavailable}, {Call: 2, Fault: faulty.Unavailable}})
		}
	})
}

func (s *stored) open() broker.Broker {
	link := faulty.Wrap(s.inner.Open(), nil)
	s.set(func() { s.links = append(s.links, link) })
	p := patch(link)
	p.jobsIn(func(j *broker.Job) {
		s.set(func() {
			if body, planted := s.bodies[j.Queue+"/"+j.ID]; planted {
				j.Body, j.Broken = broker.ParseBody(body)
			}
		})
	})
	refuse(s, &p.renew, func(r broker.RenewRequest) []string { return r.Queues })
	refuse(s, &p.retire, func(r broker.RetireRequest) []string { return r.Queues })
	refuse(s, &p.reclaim, func(r broker.ReclaimRequest) []string { return r.Queues })
	refuse(s, &p.prune, func(r broker.PruneRequest) []string { return r.Queues })
	refuse(s, &p.find, func(q broker.Query) []string { return []string{q.Queue} })
	refuse(s, &p.policy, func(r broker.PolicyRequest) []string { return []string{r.Queue} })
	refuse(s, &p.keys, func(r broker.KeysRequest) []string { return []string{r.Queue} })
	refuse(s, &p.operate, func(o broker.Operation) []string { return []string{o.Refs[0].Queue} })
	operate := p.operate
	p.operate = func(ctx context.Context, o broker.Operation) ([]broker.OperationResult, error) {
		at := ""
		if len(o.Refs) == 1 && o.Kind == broker.OpEdit {
			at = o.Refs[0].Queue + "/" + o.Refs[0].ID
		}
		var body []byte
		var err error
		s.set(func() {
			if planted, ok := s.bodies[at]; ok {
				if body, err = broker.ReplacePayload(planted, o.Payload); err == nil {
					s.bodies[at] = body
				}
			}
		})
		if err != nil {
			return []broker.OperationResult{{Ref: o.Refs[0], Err: err}}, nil
		}
		return operate(ctx, o)
	}
	enqueue, claim, settle := p.enqueue, p.claim, p.settle
	p.settle = func(ctx context.Context, r broker.SettleRequest) ([]broker.Verdict, error) {
		if r.Check() != nil {
			return settle(ctx, r)
		}
		all := r.Items
		r.Items = slices.DeleteFunc(slices.Clone(all), func(i broker.Settlement) bool { return s.isNewer(i.Job.Queue) })
		rest, err := settle(ctx, r)
		if err != nil || len(rest) == len(all) {
			return rest, err
		}
		verdicts := make([]broker.Verdict, len(all))
		for i, item := range all {
			if s.isNewer(item.Job.Queue) {
				verdicts[i] = broker.Verdict{Queue: item.Job.Queue, ID: item.Job.ID, Err: broker.ErrNewerForm}
				continue
			}
			verdicts[i], rest = rest[0], rest[1:]
		}
		return verdicts, nil
	}
	change(&enqueue, nil, func(r *broker.EnqueueRequest, a *[]broker.Receipt) {
		for i, got := range *a {
			s.set(func() {
				at := got.Queue + "/" + got.ID
				if planted, ok := s.bodies[at]; ok && got.Replaced {
					body, err := broker.ReplaceContent(planted, &r.Jobs[i].Body)
					if s.bodies[at] = body; err != nil {
						s.bodies[at] = planted
						(*a)[i] = broker.Receipt{Queue: got.Queue, ID: r.Jobs[i].ID, Holder: got.ID, Err: err}
					}
				}
			})
		}
	})
	p.enqueue = func(ctx context.Context, r broker.EnqueueRequest) ([]broker.Receipt, error) {
		if len(r.Jobs) == 0 || !s.isNewer(r.Jobs[0].Queue) {
			return enqueue(ctx, r)
		}
		receipts := []broker.Receipt{{Queue: r.Jobs[0].Queue, ID: r.Jobs[0].ID, Err: broker.ErrNewerForm}}
		r.Jobs = r.Jobs[1:]
		rest, err := enqueue(ctx, r)
		return append(receipts, rest...), err
	}
	p.claim = func(ctx context.Context, r broker.ClaimRequest) (broker.Claimed, error) {
		known := slices.DeleteFunc(slices.Clone(r.Queues), func(q broker.Share) bool { return s.isNewer(q.Queue) })
		left := len(r.Queues) - len(known)
		r.Queues = known
		got, err := claim(ctx, r)
		if left > 0 {
			err = errors.Join(err, broker.ErrNewerForm)
		}
		return got, err
	}
	return p
}

func (s *stored) isNewer(queue string) (newer bool) {
	s.set(func() { newer = s.newer[queue] })
	return newer
}

// refuse makes a method refuse queues of a newer layout.
func refuse[Q, A any](s *stored, method *func(context.Context, Q) (A, error), queues func(Q) []string) {
	next := *method
	*method = func(ctx context.Context, q Q) (A, error) {
		var none A
		if ctx.Err() == nil && slices.ContainsFunc(safely(queues, q), s.isNewer) {
			return none, broker.ErrNewerForm
		}
		return next(ctx, q)
	}
}

// safely returns the queues of a request, or none if it has no items: such requests are
// left to the backend's own checks.
func safely[Q any](queues func(Q) []string, q Q) (names []string) {
	defer func() { _ = recover() }()
	return queues(q)
}
