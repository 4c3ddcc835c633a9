package conformance

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/seed81422ce9/jobs/broker"
)

// form is a variation of the calls that a rule makes. A store may have several
// paths for one thing: other statements for jobs with options, for a settle of one
// kind, for a queue that it knows. So the rules of some groups run again in forms.
// A formedBroker between the rule and the store changes the calls, removes the
// change from the answers, and checks at the end that the store kept it.
type form struct {
	name      string
	options   bool // jobs have headers, a timeout and a tenant's key
	retention bool // jobs have a retention
	unique    bool // jobs hold a unique key
	given     bool // jobs have an ID that the caller chose
	due       bool // jobs are scheduled, and fall due just before the next call, instead of pending
	settles   []broker.Outcome
	queues    bool // claims also name other queues, before and after the rule's
	known     bool // each handle has used the rule's queues before
	rotate    bool // calls alternate between several handles
}

var forms = []*form{
	{name: "jobs with options and unique keys, mixed settles, a handle that knows the queue", options: true, unique: true, known: true,
		settles: []broker.Outcome{broker.Die(broker.ReasonSkipRetry, failure("a companion")), broker.Complete(nil)}},
	{name: "due jobs with a retention, settles with jobs completed, claims over several queues", due: true, retention: true, queues: true,
		settles: []broker.Outcome{broker.Complete([]byte("r")), broker.Complete(nil)}},
	{name: "given IDs, settles with retries, claims over several queues, several handles", given: true, queues: true, rotate: true,
		settles: []broker.Outcome{broker.Retry(time.Hour, failure("a companion")), broker.Retry(time.Minute, failure("a companion"))}},
}

// formed are the groups whose rules run in every form.
var formed = []string{"Enqueue", "Claim", "Lease", "Settle", "Outcome", "Keep", "Order"}

// formsOf returns the forms in which r runs after it ran as written.
func formsOf(r Rule, l broker.Limits) []*form {
	if !slices.Contains(formed, r.Group()) || slices.Contains(asWritten, r.ID) || r.declined(l) != nil {
		return nil
	}
	var all []*form
	for _, f := range forms {
		one := *f
		if one.unique = one.unique && !l.NoUnique; l.NoPriority {
			one.settles = nil // companions have a priority of their own
		}
		if leave := unfit[r.ID]; leave != nil {
			leave(&one)
		}
		all = append(all, &one)
	}
	return all
}

// The values that forms use.
const (
	formRetention = 3 * time.Hour
	formTimeout   = 7 * time.Second
	formTenant    = "a tenant"
	beside        = "beside"  // prefix of the names of a form's own queues
	headStart     = time.Hour // how much earlier a due job is enqueued
)

// made is what a form added to a job that was accepted.
type made struct {
	queue, id string
	at        time.Time // Now of the rule
	options   bool
	retention bool
	unique    bool
	given     bool
	shifted   bool        // it was enqueued a headStart earlier
	due       time.Time   // when it falls due, if the rule wants it pending
	body      broker.Body // as the store last returned it
	sent      broker.Body // the body with which it was enqueued
	ended     broker.State
	endedAt   time.Time
}

func (m *made) key() string { return "form " + m.id }

// companions are the form's own jobs that a settle carried beside the rule's.
type companions struct {
	number       int64
	first, after []broker.Settlement
}

// formState is shared by the handles of a rule.
type formState struct {
	*form
	c  *check
	mu sync.Mutex

	jobs    map[string]*made       // by queue and ID
	settled map[string]*companions // of the last settle, by worker and queue
	n       int
	ring    []broker.Broker
	turn    int
	ready   bool // the form's own queues exist
}

// formedBroker is a handle through which a rule runs in a form.
type formedBroker struct {
	broker.Broker
	s *formState
}

// Unwrap lets an audit ask what the store can do beyond the contract.
func (b *formedBroker) Unwrap() broker.Broker { return b.Broker }

func nameOf(queue, id string) string { return queue + "\x00" + id }

// next returns the handle for a call.
func (b *formedBroker) next() broker.Broker {
	b.s.mu.Lock()
	defer b.s.mu.Unlock()
	if !b.s.rotate || len(b.s.ring) == 0 || b.Broker != b.s.ring[0] {
		return b.Broker
	}
	b.s.turn++
	return b.s.ring[b.s.turn%len(b.s.ring)]
}

// through puts the form in front of a new handle.
func (s *formState) through(b broker.Broker) broker.Broker {
	s.c.tb.Helper()
	ctx, now := s.c.ctx, s.c.now
	enqueue := func(queue, id string) {
		r, err := b.Enqueue(ctx, broker.EnqueueRequest{Now: now, Jobs: []broker.NewJob{
			{Queue: queue, ID: id, Body: broker.Body{Type: "work", Priority: broker.PriorityNormal}}}})
		s.c.ok("Enqueue of a form's job", err)
		s.c.ok("Enqueue of a form's job", r[0].Err)
	}
	if s.known {
		for _, q := range []string{s.c.q, "other"} {
			enqueue(q, "known")
			refs := []broker.Ref{{Queue: q, ID: "known", Epoch: broker.AnyEpoch}}
			_, err := b.Operate(ctx, broker.Operation{Now: now, Kind: broker.OpDelete, Refs: refs})
			s.c.ok("Operate", err)
		}
	}
	if s.queues && !s.ready {
		s.ready = true
		paused := true
		enqueue(beside+" paused", "not to be claimed")
		_, err := b.Policy(ctx, broker.PolicyRequest{Queue: beside + " paused", Paused: &paused})
		s.c.ok("Policy", err)
	}
	if s.rotate && len(s.ring) == 0 {
		s.ring = []broker.Broker{b}
	}
	return &formedBroker{Broker: b, s: s}
}

func (b *formedBroker) Enqueue(ctx context.Context, req broker.EnqueueRequest) ([]broker.Receipt, error) {
	s, now := b.s, req.Now
	shift := s.due && !now.IsZero() && !slices.ContainsFunc(req.Jobs, func(j broker.NewJob) bool {
		return j.Body.Unique.TTL > 0 || j.Restore != nil || j.Delay > broker.MaxDelay-headStart
	})
	if shift {
		req.Now = now.Add(-headStart)
	}
	req.Jobs = slices.Clone(req.Jobs)
	marks := make([]*made, len(req.Jobs))
	for i := range req.Jobs {
		marks[i] = s.dress(&req.Jobs[i], req.Now, now, shift)
	}
	receipts, err := b.next().Enqueue(ctx, req)
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range receipts {
		r, m := &receipts[i], marks[i]
		if r.Err != nil || i >= len(marks) {
			continue
		}
		if !m.due.IsZero() {
			if r.State != broker.StateScheduled || !r.RunAt.Equal(m.due) {
				return receipts, fmt.Errorf("the receipt of %s/%s says %v at %v, want scheduled at %v", r.Queue, r.ID, r.State, r.RunAt,
					m.due)
			}
			r.State, r.RunAt = broker.StatePending, time.Time{}
		}
		s.jobs[nameOf(m.queue, m.id)] = m
	}
	return receipts, err
}

// dress adds the form's options to a new job. now is the rule's time, sent is the
// time in the request.
func (s *formState) dress(j *broker.NewJob, sent, now time.Time, shift bool) *made {
	m := &made{queue: j.Queue, id: j.ID, at: now, shifted: shift}
	if j.Restore != nil {
		return m
	}
	b := &j.Body
	if m.options = s.options && b.Headers == nil && b.Timeout == 0 && b.Key == ""; m.options {
		b.Headers, b.Timeout, b.Key = map[string]string{"form": j.ID, "bytes": "\xff\x00"}, formTimeout, formTenant
	}
	if m.retention = s.retention && b.Retention == 0; m.retention {
		b.Retention = formRetention
	}
	if m.unique = s.unique && b.Unique == (broker.Unique{}) && len(j.ID) < 200; m.unique {
		b.Unique = broker.Unique{Key: m.key(), Mode: broker.UniqueUntilDone}
	}
	if m.given = s.given && !b.GivenID; m.given {
		b.GivenID, j.FirstSend = true, false
	}
	switch {
	case !shift:
	case j.Delay > 0:
		j.Delay += headStart
	case !j.RunAt.After(now):
		s.mu.Lock()
		s.n++
		m.due = s.c.up(sent.Add(time.Duration(s.n) * max(s.c.tick, time.Microsecond)))
		s.mu.Unlock()
		j.RunAt = m.due
	}
	m.sent = *b
	return m
}

// undress removes from the jobs of an answer what the form added, and fails if
// that is not there.
func (s *formState) undress(jobs []broker.Job, now time.Time) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range jobs {
		j := &jobs[i]
		m := s.jobs[nameOf(j.Queue, j.ID)]
		if m == nil || j.Broken != nil {
			continue
		}
		lacks := func(has bool, what string, got any) error {
			if has {
				return nil
			}
			return fmt.Errorf("job %s/%s came with %s %v, which is not what it was enqueued with", j.Queue, j.ID, what, got)
		}
		m.body = j.Body
		if m.options {
			same := len(j.Headers) == 2 && j.Headers["form"] == j.ID && j.Headers["bytes"] == "\xff\x00" &&
				j.Timeout == formTimeout && j.Key == formTenant
			if err := lacks(same, "headers, a timeout and a key of", []any{j.Headers, j.Timeout, j.Key}); err != nil {
				return err
			}
			j.Headers, j.Timeout, j.Key = nil, 0, ""
		}
		if m.retention {
			if err := lacks(j.Retention == formRetention, "a retention of", j.Retention); err != nil {
				return err
			}
			j.Retention = 0
		}
		if m.unique {
			if err := lacks(j.Unique.Key == m.key(), "the unique key", j.Unique.Key); err != nil {
				return err
			}
			j.Unique = broker.Unique{}
		}
		if m.given {
			if err := lacks(j.GivenID, "a given ID:", j.GivenID); err != nil {
				return err
			}
			j.GivenID = false
		}
		if m.shifted {
			j.CreatedAt = j.CreatedAt.Add(headStart)
		}
		if j.State == broker.StateScheduled && j.RunAt.Equal(m.due) && !m.due.After(now) {
			j.State, j.RunAt = broker.StatePending, time.Time{} // as the rule enqueued it
		}
	}
	return nil
}

// redress gives settled jobs the bodies with which they were claimed.
func (s *formState) redress(items []broker.Settlement) []broker.Settlement {
	s.mu.Lock()
	defer s.mu.Unlock()
	items = slices.Clone(items)
	for i, item := range items {
		if item.Job == nil {
			continue
		}
		if m := s.jobs[nameOf(item.Job.Queue, item.Job.ID)]; m != nil && m.body.Type != "" {
			job := *item.Job
			job.Body = m.body
			items[i].Job = &job
		}
	}
	return items
}

func (b *formedBroker) Find(ctx context.Context, q broker.Query) (broker.Page, error) {
	page, err := b.Broker.Find(ctx, q)
	if err == nil {
		err = b.s.undress(page.Jobs, page.Now)
	}
	return page, err
}

func (b *formedBroker) Queues(ctx context.Context, req broker.QueuesRequest) (broker.QueuesReply, error) {
	reply, err := b.Broker.Queues(ctx, req)
	reply.Queues = slices.DeleteFunc(reply.Queues, func(q broker.QueueInfo) bool { return strings.HasPrefix(q.Name, beside) })
	return reply, err
}
