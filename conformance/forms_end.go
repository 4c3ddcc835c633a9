package conformance

import (
	"cmp"
	"slices"
	"strings"

	"github.com/seed81422ce9/jobs/broker"
)

// asWritten are rules of formed groups about workers, queues, and requests that are refused: no form affects what they prove.
var asWritten = strings.Fields("Claim/RefusesWhatIsInvalid Claim/VirtualTimeNeverWaits Enqueue/NothingIsNothing " +
	"Enqueue/RegistersItsQueue Enqueue/TooManyAreRefused Keep/IsBounded Lease/RegistersItsQueue Lease/RenewNeedsRegistration " +
	"Lease/UnknownWorkerRetires Lease/WorkersAreDescribed Lease/WorkersDescribeThemselvesAnew Outcome/DeadSaysWhy " +
	"Outcome/HistoryHasADefault Outcome/HistoryIsCapped Settle/NumbersOutliveRenewals Settle/RefusesWhatIsInvalid")

// unfit switches off, for a rule, the parts of a form that contradict it.
var unfit = map[string]func(*form){
	// This rule needs IDs that become free again when their jobs are gone.
	"Enqueue/GeneratedIDIsForgotten": func(f *form) { f.given, f.retention = false, false },
	// These test when remembered IDs lapse: their jobs must leave no record, and
	// must be enqueued at the rule's time.
	"Enqueue/GivenIDIsRemembered":     func(f *form) { f.given, f.retention, f.due = false, false, false },
	"Enqueue/GivenIDsFollowThePolicy": func(f *form) { f.given, f.retention, f.due = false, false, false },
	// This rule prunes only its own queue.
	"Lease/EndedIDIsRememberedForADay": func(f *form) { f.queues = false },
	// Due jobs have no position in the queue until a claim sees them.
	"Order/RescheduledGoToTheBack": func(f *form) { f.due = false },
	// Each handle may count priority rounds for itself.
	"Order/RoundsReachEachPriority": func(f *form) { f.rotate = false },
}

// probed bounds the jobs that finish checks.
const probed = 20

// finish checks at the end of a rule that the store kept what the form added to
// its jobs. b is the store without the form.
func (s *formState) finish(b broker.Broker) {
	c := s.c
	c.tb.Helper()
	if c.now.IsZero() {
		return // the rule used the store's clock, so what has lapsed is not known
	}
	s.mu.Lock()
	all := make([]*made, 0, len(s.jobs))
	for _, m := range s.jobs {
		all = append(all, m)
	}
	s.mu.Unlock()
	slices.SortFunc(all, func(a, b *made) int { return cmp.Or(cmp.Compare(a.queue, b.queue), cmp.Compare(a.id, b.id)) })
	unbounded, opened := int64(broker.NoLimit), ""
	for _, m := range all[:min(len(all), probed)] {
		page := ask(c, "Find", b.Find, broker.Query{Now: c.now, Queue: m.queue, IDs: []string{m.id}})
		state := broker.StateNone
		if len(page.Jobs) > 0 {
			state = page.Jobs[0].State
		}
		if m.retention && m.ended != broker.StateNone && c.now.Sub(m.endedAt) < formRetention {
			c.same("state of "+m.id+", which has a retention", state, m.ended)
		}
		again := broker.NewJob{Queue: m.queue, ID: m.id, Body: broker.Body{Type: "work", Priority: broker.PriorityNormal,
			Key: m.sent.Key}} // leads to the same shard as that job
		var want error
		switch {
		case m.given && c.now.Sub(m.at) < broker.DefaultDuplicateSpan:
			again.Body.GivenID, again.Body.Unique, want = true, m.sent.Unique, broker.ErrDuplicate
		case m.unique:
			again.ID += " again"
			again.Body.Unique = broker.Unique{Key: m.key(), Mode: broker.UniqueUntilDone}
			switch state {
			case broker.StatePending, broker.StateScheduled, broker.StateActive, broker.StateRetry, broker.StateWaiting:
				want = broker.ErrDuplicate
			}
		default:
			continue
		}
		if opened != m.queue { // the rule may have set a depth limit
			ask(c, "Policy", b.Policy, broker.PolicyRequest{Queue: m.queue, MaxDepth: &unbounded})
			opened = m.queue
		}
		receipts, err := b.Enqueue(c.ctx, broker.EnqueueRequest{Now: c.now, Jobs: []broker.NewJob{again}})
		c.ok("Enqueue", err)
		switch r := receipts[0]; {
		case want == nil:
			c.ok("Enqueue with the unique key of "+m.id+", which is "+state.String(), r.Err)
		default:
			c.is("Enqueue with the ID or the unique key of "+m.id+", which is "+state.String(), r.Err, want)
			c.same("holder", r.Holder, m.id)
		}
	}
	if s.queues {
		page := ask(c, "Find", b.Find, broker.Query{Now: c.now, Queue: beside + " paused", IDs: []string{"not to be claimed"}})
		c.that(len(page.Jobs) == 1 && page.Jobs[0].State == broker.StatePending,
			"the job of a paused queue beside the rule's\ngot  %s\nwant it pending", jobList(page.Jobs))
	}
}

// keeps reports whether j has ended and has a record only because of a retention
// that the form added.
func (c *check) keeps(j *broker.Job) bool {
	if c.form == nil || j.FinishedAt.IsZero() || j.State != broker.StateCompleted && j.State != broker.StateCancelled {
		return false
	}
	c.form.mu.Lock()
	defer c.form.mu.Unlock()
	m := c.form.jobs[nameOf(j.Queue, j.ID)]
	return m != nil && m.retention
}

// inForm applies a form to the rule from here on.
func (c *check) inForm(f *form) {
	if f == nil {
		return
	}
	c.form = &formState{form: f, c: c, jobs: make(map[string]*made), settled: make(map[string]*companions)}
	c.b = c.form.through(c.b)
	if f.rotate {
		for range 2 {
			c.form.ring = append(c.form.ring, c.opened())
		}
	}
}

// plainly removes the form, if there is one, and checks what it added.
func (c *check) plainly() {
	if c.form == nil {
		return
	}
	f, b := c.form, c.b.(*formedBroker).Broker
	c.b = b
	f.finish(b)
}
