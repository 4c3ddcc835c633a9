package pgbroker

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/seed81422ce9/jobs/broker"
)

// Settle ends leases with one statement per queue, all in one round trip and
// transaction. §10.
func (b *Broker) Settle(ctx context.Context, req broker.SettleRequest) ([]broker.Verdict, error) {
	if err := cmp.Or(b.usable(ctx), req.Check()); err != nil {
		return nil, broker.About(err, "settle", "", "")
	}
	s := newSettling(b, &req)
	var err error
	if steps := s.steps(); len(steps) > 0 {
		err = b.run(ctx, append([]step{b.byIndex(false)}, steps...)...)
	}
	return s.verdicts(ctx, err)
}

// settling is a settle request that is under way. Each queue has a statement of its own, since
// numbers are compared queue by queue.
type settling struct {
	b     *Broker
	req   *broker.SettleRequest
	now   clock
	turns []*settleTurn
}

// settleTurn is a request's part for one queue.
type settleTurn struct {
	queue string
	items []int    // the positions of its items in the request, in order
	alive []string // jobs whose outcome does not end them
	later []int    // for each item with Keep: the later item for the same lease, or -1; nil if all are -1
	wake  *wakeUp

	// The answer.
	served   bool
	watched  bool
	opens    bool   // the ended leases may make room for other jobs
	last     *int64 // the worker's last number before this request
	known    []int32
	verdicts []int32
	repeat   bool // the same request was applied meanwhile, by another sending
}

func newSettling(b *Broker, req *broker.SettleRequest) *settling {
	s := &settling{b: b, req: req, now: clockOf(req.Now)}
	byQueue := make(map[string]*settleTurn, 1)
	for i := range req.Items {
		queue := req.Items[i].Job.Queue
		t := byQueue[queue]
		if t == nil {
			t = &settleTurn{queue: queue}
			if broker.CheckQueue(queue) != nil { // the server may not even take such a name
				t.queue = ""
			}
			byQueue[queue] = t
			s.turns = append(s.turns, t)
		}
		t.items = append(t.items, i)
	}
	// All requests lock the jobs of several queues in the same order.
	slices.SortFunc(s.turns, func(a, b *settleTurn) int { return strings.Compare(a.queue, b.queue) })
	return s
}

func (s *settling) steps() []step {
	var steps []step
	for _, t := range s.turns {
		steps = append(steps, s.turn(t))
		if len(t.alive) > 0 {
			steps = append(steps, s.b.step("cancelled", nil, s.now.micros, t.queue, t.alive))
		}
	}
	return steps
}

// turn returns the statement for one queue. The stored head is the one that Outcome.Apply
// returns. For a job that was asked to cancel, the statement leaves out the charge; the rest of
// the outcome is the same, see TestLife_CancelledOutcomeDiffersInItsChargeOnly. An item with Keep
// is not sent if a later item is for the same lease: then the later item stores what was kept. A
// release does not change the stored tail, since a retire does not know about keeps that came
// after it listed the jobs.
func (s *settling) turn(t *settleTurn) step {
	n := len(t.items)
	var (
		ids            = make([]string, 0, n)
		epochs, delays = make([]int64, 0, n), make([]int64, 0, n)
		states         = make([]int16, 0, n)
		fronts         = make([]bool, 0, n)
		heads          = newHeadColumns(n)
		charges        = make([]int16, 0, n)
		waited, ran    = make([]int64, 0, n), make([]int64, 0, n)
		times          [4]int64                      // how many waited, how long, how many ran, how long
		seen           = make(map[broker.Ref]int, n) // the last item so far for each lease
		done           = true
	)
	for at, i := range t.items {
		item := &s.req.Items[i]
		ref := item.Job.Ref()
		if broker.CheckName("id", ref.ID) != nil { // the server may not even take such an ID
			ref.ID, ref.Epoch = "", noEpoch
		}
		o := item.Outcome
		switch before, ok := seen[ref]; {
		case !ok:
			seen[ref] = at
		case s.req.Items[t.items[before]].Outcome.Kind() != broker.OutcomeKeep:
			ref.Epoch = noEpoch // the earlier item ends the lease, so this one must find no lease
		default:
			seen[ref] = at
			o = t.replace(before, at, o, s.req.Items)
			epochs[before] = noEpoch
		}
		head := o.Apply(item.Job.Head, time.Time{}, s.req.History)
		if !o.State().Final() && o.Kind() != broker.OutcomeKeep {
			t.alive = append(t.alive, ref.ID)
		}
		done = done && (o.State() == broker.StateCompleted || o.State() == broker.StateCancelled)
		ids, epochs, states = append(ids, ref.ID), append(epochs, ref.Epoch), append(states, int16(o.State()))
		delays, fronts = append(delays, s.now.after(o.Delay())), append(fronts, o.Front())
		if heads.add(&head); o.Kind() == broker.OutcomeRelease && o.Kept() == nil {
			heads.tails[at] = nil // leaves the stored one
		}
		charges = append(charges, chargeOf(o))
		waited, ran = append(waited, broker.DurationMicros(item.Waited)), append(ran, broker.DurationMicros(item.Ran))
		for i, us := range []int64{waited[at], ran[at]} {
			if us > 0 {
				times[2*i], times[2*i+1] = times[2*i]+1, min(times[2*i+1]+us, maxTimes)
			}
		}
	}
	var number *int64
	if s.req.Number > 0 {
		number = &s.req.Number
	}
	if number != nil && done {
		return s.b.step("settle_done", t.read(),
			s.now.micros, t.queue, s.req.Worker, number, ids, epochs, states, heads.deliveries, heads.failures, heads.crashes,
			heads.snoozes, heads.tails, waited, ran, times[:])
	}
	if len(t.alive) > 0 {
		t.wake = s.b.waker.announce(t.queue, false, len(t.alive))
	}
	self, payload := t.wake.args(t.queue)
	return s.b.step("settle", t.read(nil), s.now.micros, t.queue, s.req.Worker, number, ids, epochs, states, delays, fronts,
		heads.deliveries, heads.failures, heads.crashes, heads.snoozes, heads.tails, charges, waited, ran, self, payload)
}

// chargeOf returns what an outcome adds to the totals, besides its state, as settle.sql reads
// it.
func chargeOf(o broker.Outcome) (charge int16) {
	var t broker.Totals
	t.Ended(&broker.Settlement{}, o)
	return int16(t.Failed + 2*t.Crashed + 4*t.Retried + 8*t.Expired)
}

// replace records that an item replaces an earlier Keep for the same lease. It returns the item's
// outcome. If that keeps nothing itself, it gets what the earlier Keep kept.
func (t *settleTurn) replace(before, at int, o broker.Outcome, items []broker.Settlement) broker.Outcome {
	if t.later == nil {
		t.later = slices.Repeat([]int{-1}, len(t.items))
	}
	t.later[before] = at
	if kept := items[t.items[before]].Outcome.Kept(); o.Kept() == nil {
		o = o.With(*kept)
	}
	return o
}

func (t *settleTurn) read(more ...any) func(rows) error {
	return func(r rows) error {
		if t.served = r.Next(); !t.served {
			return nil
		}
		return r.Scan(append([]any{&t.watched, &t.last, &t.known, &t.verdicts, &t.repeat, &t.opens}, more...)...)
	}
}

// verdicts reads the answers of the round trip that ended with err.
func (s *settling) verdicts(ctx context.Context, err error) ([]broker.Verdict, error) {
	for _, t := range s.turns {
		if len(t.alive) > 0 {
			s.b.waker.announced(t.queue, false, len(t.alive), t.wake, err)
		}
	}
	if len(s.turns) == 0 {
		return nil, nil
	}
	if err != nil {
		return nil, broker.About(err, "settle", "", "")
	}
	verdicts := make([]broker.Verdict, len(s.req.Items))
	for _, t := range s.turns {
		if err := s.judge(ctx, t, verdicts); err != nil {
			return nil, broker.About(err, "settle", t.queue, "")
		}
		if t.watched && len(t.verdicts) > 0 {
			s.tell(ctx, t, verdicts)
		}
		if t.opens && len(t.verdicts) > 0 {
			s.b.wakeOthers(t.queue)
		}
	}
	return verdicts, nil
}

func (s *settling) judge(ctx context.Context, t *settleTurn, verdicts []broker.Verdict) error {
	fault := broker.ErrLeaseLost
	applied := t.verdicts
	switch {
	case !t.served:
		err := s.b.run(ctx, s.b.notNewer(t.queue))
		if err != nil && !errors.Is(err, broker.ErrNewerForm) {
			return err
		}
		fault = cmp.Or(err, fault)
	case t.last != nil && s.req.Number == *t.last:
		applied = t.known
	case t.last != nil && s.req.Number < *t.last:
		applied = nil
	case t.repeat: // the other sending committed while this one waited for the rows
		if err := s.b.run(ctx, s.b.step("settle_verdicts", one(&applied), t.queue, s.req.Worker, s.req.Number)); err != nil {
			return err
		}
	}
	states := make([]broker.State, len(t.items))
	for _, v := range applied {
		if ord := int(v / 16); ord <= len(states) {
			states[ord-1] = broker.State(v % 16)
		}
	}
	for n, at := range slices.Backward(t.later) { // if the later item was applied, it stored what this one kept
		if at >= 0 && states[at] != broker.StateNone {
			states[n] = broker.StateActive
		}
	}
	for n, i := range t.items {
		job := s.req.Items[i].Job
		verdicts[i] = broker.Verdict{Queue: job.Queue, ID: job.ID, State: states[n]}
		if states[n] == broker.StateNone {
			verdicts[i].Err = broker.About(fault, "settle", job.Queue, job.ID)
		}
	}
	return nil
}

// tell publishes what was settled.
func (s *settling) tell(ctx context.Context, t *settleTurn, verdicts []broker.Verdict) {
	events := newEvents(settledKind, t.queue)
	for _, i := range t.items {
		if v := verdicts[i]; v.Err == nil && v.State != broker.StateActive {
			events.add(v.State, v.ID)
		}
	}
	s.b.tell(ctx, t.queue, events, false)
}

// maxTimes is the highest sum of times that is sent, far below the highest bigint.
const maxTimes = 4e18

// noEpoch is an epoch that no job has.
const noEpoch = -1
