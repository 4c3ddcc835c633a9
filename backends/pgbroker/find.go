package pgbroker

import (
	"cmp"
	"context"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5/pgtype/zeronull"

	"github.com/seed81422ce9/jobs/broker"
)

// Find reads one page of an index: that of the worker, the key or the state, the first that the
// query has. For dead jobs it uses the index of the type or the reason, if the query has one. The
// other fields filter the page; for dead jobs the server does that. §21.
func (b *Broker) Find(ctx context.Context, q broker.Query) (page broker.Page, err error) {
	defer about(&err, "find", q.Queue)
	if err := cmp.Or(b.usable(ctx), q.Check()); err != nil {
		return page, err
	}
	f := &finding{query: &q}
	if f.from, err = parseCursor(q.Cursor); err != nil {
		return page, err
	}
	var at int64
	err = b.run(ctx, b.byIndex(true), b.step("clock", one(&at), clockOf(q.Now).micros), b.notNewer(q.Queue), f.step(b))
	if err != nil {
		return page, err
	}
	page.Now, page.Jobs = broker.FromMicros(at), f.jobs
	if len(q.IDs) > 0 {
		slices.SortStableFunc(page.Jobs, func(a, b broker.Job) int { return slices.Index(q.IDs, a.ID) - slices.Index(q.IDs, b.ID) })
	} else if f.full {
		page.Cursor = f.last.String()
	}
	return page, nil
}

// finding is one page being read.
type finding struct {
	query *broker.Query
	from  cursor
	jobs  []broker.Job
	last  cursor
	full  bool // more records may follow the last one
}

// step returns the statement for the index that the query selects.
func (f *finding) step(b *Broker) step {
	q, from := f.query, f.from
	first, before := int64(math.MinInt64), int64(math.MaxInt64)
	if !q.After.IsZero() {
		first = broker.Micros(q.After) - 1 // the page begins after this time and the highest ID
	}
	if !q.Before.IsZero() {
		before = broker.Micros(q.Before)
	}
	switch {
	case len(q.IDs) > 0:
		return b.step("find_ids", f.read(), q.Queue, q.IDs)
	case q.Worker != "":
		return b.step("find_active", f.read(), q.Queue, &q.Worker, from.a, from.id, q.Limit)
	case q.Key != "":
		return b.step("find_key", f.read(), q.Queue, q.Key, from.a, from.b, from.id, q.Limit)
	}
	start, end := cursor{a: first, b: math.MaxInt64, id: lastID}, before
	switch {
	case q.Newest:
		start, end = cursor{a: before}, first+1 // the empty ID is before all others
	case q.State == broker.StatePending, q.State == broker.StateActive:
		start = cursor{}
	case q.State == broker.StateWaiting:
		start.a, end = math.MinInt64, math.MaxInt64
	}
	if q.Cursor == "" {
		from = start
	}
	switch q.State {
	case broker.StatePending:
		return b.step("find_pending", f.read(), q.Queue, from.a, from.b, q.Limit)
	case broker.StateScheduled, broker.StateRetry, broker.StateWaiting:
		return b.step("find_due", f.read(), q.Queue, int16(q.State), from.a, from.b, end, q.Limit)
	case broker.StateActive:
		return b.step("find_active", f.read(), q.Queue, nil, from.a, from.id, q.Limit)
	case broker.StateDead:
		return f.dead(b, from, end)
	case broker.StateCompleted, broker.StateCancelled:
		if q.Newest {
			return b.step("find_history_newest", f.read(), q.Queue, int16(q.State), from.a, from.id, end, q.Limit)
		}
		return b.step("find_history", f.read(), q.Queue, int16(q.State), from.a, from.id, end, q.Limit)
	}
	return b.step("find_ids", f.read(), q.Queue, []string{}) // no job is in such a state
}

// dead returns the statement that reads dead jobs from a position up to a time. It uses the index of the type or of
// the reason, if the query has one. If the query has both, it uses the index of the reason, unless the reason is
// ReasonRetries, which most dead jobs have.
func (f *finding) dead(b *Broker, from cursor, until int64) step {
	q := f.query
	args := []any{q.Queue, from.a, from.id, until, q.Limit}
	n := q.Needles() // bytes for which the server searches the records
	for _, needle := range [][]byte{n.TailBegins, n.Tail, n.Body} {
		args = append(args, append([]byte{}, needle...)) // a nil one would be null
	}
	byReason := q.Reason != broker.ReasonNone && (q.Type == "" || q.Reason != broker.ReasonRetries)
	switch {
	case byReason && q.Newest:
		return b.step("find_dead_reason_newest", f.read(&f.full), args...)
	case byReason:
		return b.step("find_dead_reason", f.read(&f.full), args...)
	case q.Type != "" && q.Newest:
		return b.step("find_dead_type_newest", f.read(&f.full), args...)
	case q.Type != "":
		return b.step("find_dead_type", f.read(&f.full), args...)
	case q.Newest:
		return b.step("find_dead_newest", f.read(&f.full), args...)
	}
	return b.step("find_dead", f.read(&f.full), args...)
}

// lastID is greater than every ID: it consists of the highest code point.
const lastID = "\U0010ffff\U0010ffff"

// foundRow receives a job that a statement of Find shows.
type foundRow struct {
	a, b       int64 // with the ID: its position in the listing
	state      int16
	runAt      zeronull.Int8
	finishedAt zeronull.Int8
	cancel     *bool
	worker     zeronull.Text // for a held job: the column held
	jobRow
}

// read reads the rows of a page and keeps those that match. A statement that leaves out rows has one more column,
// which says whether the page is full.
func (f *finding) read(full ...any) func(rows) error {
	return func(r rows) error {
		n := 0
		for r.Next() {
			var row foundRow
			if err := r.Scan(slices.Concat([]any{&row.a, &row.b, &row.state, &row.runAt, &row.finishedAt, &row.cancel, &row.worker},
				row.columns(), full)...); err != nil {
				return err
			}
			n++
			f.keep(&row)
		}
		if len(full) == 0 {
			f.full = n == f.query.Limit
		}
		return nil
	}
}

// keep keeps the job of a row, if it matches.
func (f *finding) keep(row *foundRow) {
	f.last = cursor{row.a, row.b, row.id}
	j := row.job(f.query.Queue, broker.State(row.state))
	j.FinishedAt = broker.FromMicros(int64(row.finishedAt))
	if j.State == broker.StateWaiting {
		j.HeldFrom, j.Holder = heldOf(string(row.worker))
	} else {
		j.Worker = string(row.worker)
	}
	j.RunAt = broker.FromMicros(int64(row.runAt))
	j.CancelRequested = row.cancel != nil && *row.cancel
	if !f.query.Matches(&j) {
		return
	}
	if f.query.NoPayload {
		j.Payload, j.Result = nil, nil
	}
	f.jobs = append(f.jobs, j)
}

// heldOf splits the column held into the state and the holder.
func heldOf(held string) (from broker.State, by string) {
	was, by, _ := strings.Cut(held, ":")
	n, _ := strconv.Atoi(was)
	return broker.State(n), by
}

// cursor is the position in a listing after which a page begins.
type cursor struct {
	a, b int64
	id   string
}

func (c cursor) String() string {
	return strconv.FormatInt(c.a, 10) + "," + strconv.FormatInt(c.b, 10) + "," + c.id
}

func parseCursor(s string) (c cursor, err error) {
	if s == "" {
		return c, nil
	}
	parts := strings.SplitN(s, ",", 3)
	if len(parts) == 3 {
		var err1, err2 error
		c.a, err1 = strconv.ParseInt(parts[0], 10, 64)
		c.b, err2 = strconv.ParseInt(parts[1], 10, 64)
		if c.id = parts[2]; err1 == nil && err2 == nil && (c.id == lastID || broker.CheckName("cursor", c.id) == nil) {
			return c, nil
		}
	}
	return c, broker.Invalid("cursor", "is none that Find gave; begin without one")
}
