package redisbroker

import (
	"context"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/seed81422ce9/jobs/broker"
)

// Find returns a page of jobs, in one round trip. It pages through one index: that of
// the worker, the key or the state, the first that the query has. For dead jobs it uses
// the index of the type, the reason or the error text, if the query has one. The other
// fields filter the jobs of the page; the server filters by error text. A page ends early
// if its records would exceed 8 MB. A queue that does not exist has no jobs. §21.
func (b *Broker) Find(ctx context.Context, q broker.Query) (broker.Page, error) {
	err := q.Check()
	var page broker.Page
	if err == nil {
		if len(q.IDs) > 0 {
			q.IDs = slices.Compact(slices.Sorted(slices.Values(q.IDs))) // each job is shown once
			err = b.byID(ctx, &q, func(s *step) { page.Now, page.Jobs = moment(s.at), found(page.Jobs, &q, s) })
		} else {
			page, err = b.list(ctx, &q)
		}
	}
	return page, broker.About(err, "find", q.Queue, "")
}

// byID reads jobs by ID, in as many round trips as their size requires, and calls read for each answer.
func (b *Broker) byID(ctx context.Context, q *broker.Query, read func(*step)) error {
	for from := "0"; from != ""; {
		s := findStep(q, len(q.IDs), "ids", from)
		for _, id := range q.IDs {
			s.args = append(s.args, id)
		}
		if err := b.runOne(ctx, s); err != nil || s.code != codeDone {
			return err
		}
		read(s)
		from = text(first(s.reply))
	}
	return nil
}

// list reads a page of an index.
func (b *Broker) list(ctx context.Context, q *broker.Query) (broker.Page, error) {
	how, cursors := "", timedCursor
	var args []any
	switch {
	case q.Worker != "":
		how, cursors, args = "active", scanCursor, []any{q.Worker}
	case q.Key != "":
		how, cursors, args = "key", keyCursor, []any{q.Key}
	case q.State == broker.StatePending:
		how, cursors = "ready", readyCursor
	case q.State == broker.StateActive:
		how, cursors, args = "active", scanCursor, []any{""}
	case q.State == broker.StateWaiting:
		how, cursors = "waiting", scanCursor
	case q.State == broker.StateScheduled || q.State == broker.StateRetry || q.State.Final(): // find.lua reads a set of this name
		how, args = q.State.String(), []any{bound(q.After), bound(q.Before), q.Newest}
	default:
		return broker.Page{Now: q.Now}, b.usable(ctx) // no job is in this state
	}
	if q.Cursor != "" && !cursors.MatchString(q.Cursor) {
		return broker.Page{}, broker.Invalid("cursor", "%.64q belongs to no page of this query; start with an empty one", q.Cursor)
	}
	s := findStep(q, q.Limit, how, q.Cursor)
	s.args = append(s.args, args...)
	if err := b.runOne(ctx, s); err != nil || s.code != codeDone {
		return broker.Page{}, err
	}
	page := broker.Page{Now: moment(s.at), Cursor: text(first(s.reply))}
	for _, j := range found(nil, q, s) {
		if q.Matches(&j) {
			page.Jobs = append(page.Jobs, j)
		}
	}
	return page, nil
}

// The forms of cursors: scripts/lib/pages.lua.
var (
	readyCursor = regexp.MustCompile(`^([1-4]\d{1,15}$|5[1-5]:-?\d{1,15}:\d{1,3}:)`)
	scanCursor  = regexp.MustCompile(`^\d{1,20}:\d{0,20}:`)
	timedCursor = regexp.MustCompile(`^\d{1,16}:.`)
	keyCursor   = regexp.MustCompile(`^(L[1-5]:-?\d{1,15}:\d{1,3}:|I)`)
)

// bound writes a time of a query, or an empty text for none. The scripts compare times as texts of 16 digits.
func bound(t time.Time) any {
	if t.IsZero() {
		return ""
	}
	if t.After(broker.MaxTime) {
		t = broker.MaxTime
	}
	return broker.Micros(t)
}

func findStep(q *broker.Query, limit int, how, cursor string) *step {
	n := q.Needles()
	return &step{script: findScript, queues: []string{q.Queue}, now: nowArg(q.Now),
		args: []any{limit, q.NoPayload, n.TailBegins, n.Tail, n.Body, how, cursor}}
}

// found adds the jobs of an answer to jobs.
func found(jobs []broker.Job, q *broker.Query, s *step) []broker.Job {
	for list := s.reply[1:]; len(list) >= 7; list = list[7:] {
		state := broker.State(number(list[1]))
		j := record(q.Queue, text(list[0]), text(list[5]), text(list[6]), state)
		j.RunAt, j.CancelRequested = moment(number(list[2])), number(list[4]) == 1
		if state == broker.StateWaiting {
			j.HeldFrom, j.RunAt, j.Holder = placed(text(list[3]))
		} else {
			j.Worker = text(list[3])
		}
		if q.NoPayload {
			j.Payload, j.Result = nil, nil
		}
		jobs = append(jobs, j)
	}
	return jobs
}

// placed reads a state, a due time if there is one, a colon, and an ID: the value of a held job in the key o, or what enqueue_meet.lua
// answers about a job.
func placed(s string) (state broker.State, due time.Time, id string) {
	place, id, _ := strings.Cut(s, ":")
	if place != "" {
		state = broker.State(place[0] - '0')
		at, _ := strconv.ParseInt(place[1:], 10, 64) // empty for none
		due = broker.FromMicros(at)
	}
	return state, due, id
}

// runOne makes one call and returns its error, if any.
func (b *Broker) runOne(ctx context.Context, s *step) error {
	if err := b.run(ctx, nil, s); err != nil {
		return err
	}
	return s.err
}
