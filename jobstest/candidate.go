package jobstest

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/seed81422ce9/jobs"
	"github.com/seed81422ce9/jobs/broker"
	"github.com/seed81422ce9/jobs/internal/guard"
)

// candidate is a job that was enqueued: its record or, if that is gone, the job as it
// was enqueued.
type candidate struct {
	job     broker.Job
	asked   *entry // nil unless the broker is a *Broker
	gone    bool   // no record is left, job is as it was enqueued
	refused bool   // it was refused and never became a job
}

// candidates returns the jobs of all queues and states, in the order in which they
// were enqueued, and the refused ones.
func candidates(t testing.TB, b broker.Broker) (stored, refused []*candidate) {
	t.Helper()
	if guard.IsNil(b) {
		t.Fatal("jobstest: the broker is nil; use the one that New returned, or the one of the code under test")
	}
	var log *enqueueLog
	own, isOwn := b.(*Broker)
	if isOwn {
		b, log = own.plain, own.log
	}
	found, err := everything(t, b)
	if err != nil {
		t.Fatalf("jobstest: the jobs of the broker cannot be listed: %v", err)
	}
	byName := make(map[name]*candidate)
	ids := make(map[string]bool)
	for i := range found {
		byName[name{found[i].Queue, found[i].ID}] = &candidate{job: found[i]}
		ids[found[i].ID] = true
	}
	listed := make(map[*candidate]bool)
	if log != nil {
		for _, e := range log.all() {
			if broker.Reserved(e.job.Queue) {
				continue
			}
			at := name{e.job.Queue, e.job.ID}
			c := byName[at]
			switch {
			case e.refused != nil:
				refused = append(refused, &candidate{job: e.record(), asked: e, refused: true})
				continue
			case c == nil && ids[e.job.ID]: // it was moved to another queue
				continue
			case c == nil:
				c = &candidate{job: e.record(), gone: true}
				c.job.State = log.fate(at.queue, at.id)
			case listed[c]:
				continue
			}
			c.asked = e
			listed[c] = true
			stored = append(stored, c)
		}
	}
	if isOwn {
		refused = append(refused, own.uncommitted()...)
	}
	var others []*candidate
	for _, c := range byName {
		if !listed[c] {
			others = append(others, c)
		}
	}
	slices.SortFunc(others, func(x, y *candidate) int {
		return cmp.Or(x.job.CreatedAt.Compare(y.job.CreatedAt), cmp.Compare(x.job.ID, y.job.ID))
	})
	return append(stored, others...), refused
}

// record returns the job as it was enqueued.
func (e *entry) record() broker.Job {
	j := broker.Job{Queue: e.job.Queue, ID: e.job.ID, Body: e.job.Body, CreatedAt: e.at, RunAt: e.job.RunAt}
	if e.job.Delay > 0 && j.RunAt.IsZero() {
		j.RunAt = e.at.Add(e.job.Delay)
	}
	return j
}

// everything lists the jobs of all queues but the reserved ones.
func everything(t testing.TB, b broker.Broker) (all []broker.Job, err error) {
	ctx := lasting(t)
	reply, err := b.Queues(ctx, broker.QueuesRequest{})
	if err != nil {
		return nil, err
	}
	seen := make(map[name]bool)
	for _, q := range reply.Queues {
		if broker.Reserved(q.Name) {
			continue
		}
		for _, state := range broker.States() {
			query := broker.Query{Queue: q.Name, State: state, Suppressed: true, Limit: 1000}
			for {
				page, err := b.Find(ctx, query)
				if err != nil {
					return nil, err
				}
				for i := range page.Jobs {
					if at := (name{page.Jobs[i].Queue, page.Jobs[i].ID}); !seen[at] { // its state may have changed between the queries
						seen[at] = true
						all = append(all, page.Jobs[i])
					}
				}
				if query.Cursor = page.Cursor; page.Cursor == "" {
					break
				}
			}
		}
	}
	return all, nil
}

// due returns when the job was to run, as the enqueue gave it: a delay or a time. Both are zero for a
// job without them, and both are set for a job that was debounced.
func (c *candidate) due() (delay time.Duration, at time.Time) {
	if c.asked != nil {
		return c.asked.job.Delay, c.asked.job.RunAt
	}
	return 0, c.job.RunAt
}

// where describes the queue and the state of a job, such as
// `in queue "mail", scheduled, due in 1h0m0s`.
func (c *candidate) where(now time.Time) string {
	j := &c.job
	words := []string{fmt.Sprintf("in queue %q", j.Queue)}
	if c.gone {
		fate := "no record of it is left"
		if j.State != broker.StateNone {
			fate = j.State.String() + "; " + fate
		}
		return strings.Join(append(words, fate), ", ")
	}
	words = append(words, j.State.String())
	switch j.State {
	case jobs.StateScheduled, jobs.StateRetry:
		wait := j.RunAt.Sub(now)
		if wait > time.Second {
			wait = wait.Round(time.Second)
		}
		due := "due in " + wait.String()
		if !j.RunAt.After(now) {
			due = "due"
		}
		words = append(words, due)
	case jobs.StateDead:
		words = append(words, j.Reason.String())
	case jobs.StateWaiting:
		words = append(words, fmt.Sprintf("held by %q", j.Holder))
	}
	if j.Failures > 0 {
		words = append(words, plural(j.Failures, "failure"))
	}
	text := strings.Join(words, ", ")
	if last := j.Errors.Last().Message; last != "" {
		text += ": " + shorten(last, 200)
	}
	return text
}

func plural(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// shorten cuts a text that has more than max bytes.
func shorten(s string, max int) string {
	if len(s) <= max {
		return s
	}
	return strings.ToValidUTF8(s[:max], "") + "…"
}

// enqueueLog remembers every job that a broker was asked to store, and how it ended.
// A completed job leaves no record by default, but tests still look for it.
type enqueueLog struct {
	mu      sync.Mutex
	entries []*entry
	fates   map[name]broker.State
}

type name struct{ queue, id string }

// entry is a job that was enqueued, or refused.
type entry struct {
	job     broker.NewJob
	at      time.Time // by the store's clock
	refused error
	holder  string // ID of the holder, if it was refused as a duplicate
}

func newEnqueueLog() *enqueueLog { return &enqueueLog{fates: make(map[name]broker.State)} }

// around returns b with each enqueue and each settle logged.
func (l *enqueueLog) around(b broker.Broker) broker.Broker {
	return broker.Wrap(b, func(ctx context.Context, c *broker.Call, next func(context.Context) error) error {
		err := next(ctx)
		switch reply := c.Reply.(type) {
		case *[]broker.Receipt:
			now, _ := b.Ping(context.WithoutCancel(ctx))
			l.enqueued(c.Request.(*broker.EnqueueRequest).Jobs, *reply, now)
		case *[]broker.Verdict:
			l.settled(*reply)
		case *broker.Claimed:
			l.settled(reply.Verdicts)
		case *[]broker.OperationResult:
			if op := c.Request.(*broker.Operation); op.Kind == broker.OpCancel {
				l.cancelled(*reply)
			}
		}
		return err
	})
}

func (l *enqueueLog) enqueued(jobs []broker.NewJob, receipts []broker.Receipt, now time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for i, r := range receipts {
		if errors.Is(r.Err, broker.ErrDuplicate) && r.Holder == jobs[i].ID && !jobs[i].Body.GivenID {
			continue // the client sent it again because an answer was lost
		}
		if r.Replaced {
			l.replaced(&jobs[i], r)
			continue
		}
		e := &entry{job: jobs[i], at: now, refused: r.Err, holder: r.Holder}
		e.job.Body.Payload = bytes.Clone(e.job.Body.Payload)
		l.entries = append(l.entries, e)
	}
}

// replaced gives the content of a job that was not stored to the job that has it now.
func (l *enqueueLog) replaced(by *broker.NewJob, r broker.Receipt) {
	for i := len(l.entries) - 1; i >= 0; i-- {
		if e := l.entries[i]; e.refused == nil && e.job.Queue == r.Queue && e.job.ID == r.ID {
			changed := *e // a copy: helpers may read the entry at this moment
			changed.job.Body.CopyContent(&by.Body)
			changed.job.Body.Payload = bytes.Clone(changed.job.Body.Payload)
			if by.Body.Unique.Conflict == broker.ConflictDebounce && r.State == broker.StateScheduled {
				changed.job.RunAt = r.RunAt
			}
			l.entries[i] = &changed
			return
		}
	}
}

func (l *enqueueLog) settled(verdicts []broker.Verdict) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, v := range verdicts {
		if v.Err == nil {
			l.fates[name{v.Queue, v.ID}] = v.State
		}
	}
}

func (l *enqueueLog) cancelled(results []broker.OperationResult) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, r := range results {
		if r.Err == nil && r.State != broker.StateActive { // the handler of an active job can still decide otherwise
			l.fates[name{r.Ref.Queue, r.Ref.ID}] = broker.StateCancelled
		}
	}
}

// all returns the entries so far.
func (l *enqueueLog) all() []*entry {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.entries)
}

// fate returns the state in which a job was last settled.
func (l *enqueueLog) fate(queue, id string) broker.State {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.fates[name{queue, id}]
}
