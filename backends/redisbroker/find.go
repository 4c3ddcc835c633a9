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
			page, err = b.byID(ctx, &q)
		} else {
			page, err = b.list(ctx, &q)
		}
	}
	return page, broker.About(err, "find", q.Queue, "")
}

// byID reads jobs by ID, in as many round trips as their size requires.
func (b *Broker) byID(ctx context.Context, q *broker.Query) (broker.Page, error) {
	var page broker.Page
	for from := "0"; from != ""; {
		s := findStep(q, len(q.IDs), "ids", from)
		for _, id := range q.IDs {
			s.args = append(s.args, id)
		}
		if err := b.runOne(ctx, s); err != nil || s.code != codeDone {
			return page, err
		}
		page.Now = moment(s.at)
		page.Jobs = found(page.Jobs, q, s)
		from = text(first(s.reply))
	}
	return page, nil
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
	default:
		if how = timedIndex[q.State]; how == "" {
			return broker.Page{Now: q.Now}, b.usable(ctx) // no job is in this state
		}
		args = []any{bound(q.After), bound(q.Before), newest(q)}
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

// timedIndex names, for find.lua, the sorted sets that order the jobs of a state by time.
var timedIndex = map[broker.State]string{
	broker.StateScheduled: "scheduled", broker.StateRetry: "retry",
	broker.StateCompleted: "completed", broker.StateCancelled: "cancelled", broker.StateDead: "dead",
}

// The forms of cursors: scripts/lib/pages.lua.
var (
	readyCursor = regexp.MustCompile(`^([1-4]\d{1,15}$|5[1-5]:-?\d{1,15}:\d{1,3}:)`)
	scanCursor  = regexp.MustCompile(`^\d{1,20}:`)
	timedCursor = regexp.MustCompile(`^\d{1,16}:.`)
	keyCursor   = regexp.MustCompile(`^(L[1-5]:-?\d{1,15}:\d{1,3}:|I)`)
)

// newest returns the direction of a page, for find.lua.
func newest(q *broker.Query) int {
	if q.Newest {
		return 1
	}
	return 0
}

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
	trimmed := 0
	if q.NoPayload {
		trimmed = 1
	}
	n := q.Needles()
	return &step{script: findScript, queues: []string{q.Queue}, now: nowArg(q.Now),
		args: []any{limit, trimmed, n.TailBegins, n.Tail, n.Body, how, cursor}}
}

// found adds the jobs of an answer to jobs.
func found(jobs []broker.Job, q *broker.Query, s *step) []broker.Job {
	for list := s.reply[1:]; len(list) >= 7; list = list[7:] {
		state := broker.State(number(list[1]))
		j := record(q.Queue, text(list[0]), text(list[5]), text(list[6]), state)
		j.RunAt, j.CancelRequested = moment(number(list[2])), number(list[4]) == 1
		if state == broker.StateWaiting {
			j.HeldFrom, j.RunAt, j.Holder = heldOf(text(list[3]))
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

// heldOf reads the value of a held job in the key o.
func heldOf(text string) (from broker.State, due time.Time, by string) {
	was, by, _ := strings.Cut(text, ":")
	if was != "" {
		from = broker.State(was[0] - '0')
		us, _ := strconv.ParseInt(was[1:], 10, 64) // empty for a job that was pending
		due = broker.FromMicros(us)
	}
	return from, due, by
}

// runOne makes one call and returns its error, if any.
func (b *Broker) runOne(ctx context.Context, s *step) error {
	if err := b.run(ctx, nil, s); err != nil {
		return err
	}
	return s.err
}
