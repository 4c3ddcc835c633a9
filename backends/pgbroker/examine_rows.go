package pgbroker

import (
	"context"
	"strconv"

	"github.com/seed81422ce9/jobs/broker"
)

// rowCheck reads a row, and returns what is wrong with it.
type rowCheck func(r rows) (id string, o owner, wrong []noted, err error)

// rows examines a page of a table.
func (e *examiner) rows(ctx context.Context, part, after string, queue int64) (string, error) {
	var found []noted
	last := ""
	// read adds what is wrong with each row to found.
	read := func(scan rowCheck) func(rows) error {
		return each(func(r rows) error {
			id, o, wrong, err := scan(r)
			e.Records++
			last = writePlace(id, o.number)
			if !o.newer() {
				found = append(found, wrong...)
			}
			return err
		})
	}
	var s step
	switch part {
	case "dead", "history":
		s = e.b.step("examine_ended", read(e.ended), part == "dead", after, queue, e.req.Limit)
	case "marks":
		s = e.b.step("examine_marks", read(e.mark), after, e.req.Limit)
	case "verdicts":
		number, _ := strconv.ParseInt(after, 10, 64) // 0 at the beginning
		s = e.b.step("examine_verdicts", read(e.verdict), queue, number, e.req.Limit)
	case "unique keys":
		s = e.b.step("examine_keys", read(e.uniqueKey), after, queue, e.req.Limit)
	case "remembered":
		s = e.b.step("examine_remembered", read(e.kept("an ID is remembered", func(id string, o owner) step {
			return e.b.step("examine_forget", nil, id, o.number)
		})), after, queue, e.req.Limit)
	case "workers":
		s = e.b.step("examine_workers", read(e.kept("a worker is known", func(id string, o owner) step {
			return e.b.step("examine_end", nil, e.now.micros, id, o.number)
		})), after, queue, e.req.Limit)
	}
	if err := e.b.run(ctx, e.b.byIndex(true), s); err != nil {
		return "", err
	}
	if e.Records < e.req.Limit {
		last = ""
	}
	return last, e.note(ctx, found...)
}

// ended reads a row of examine_ended.sql.
func (e *examiner) ended(r rows) (id string, o owner, wrong []noted, err error) {
	var state, lane int16
	var both, first bool
	if err = r.Scan(&id, &o.number, &o.name, &o.layout, &state, &lane, &both, &first); err != nil {
		return id, o, nil, err
	}
	find := func(code, what string, repair func(context.Context) error) {
		wrong = []noted{{told(code, o.String(), id, "%s", what), repair}}
	}
	mend := e.run(e.b.step("examine_lanes", nil, id, o.number))
	switch {
	case o.name == nil && first:
		wrong = []noted{e.recover(o, id)}
	case o.name == nil:
	case both:
		// A dead job can still be redriven, so it stays.
		find("job-listed-twice", "it is dead, and has a record of another end",
			e.run(e.b.step("examine_drop", nil, id, o.number, false, false, true)))
	case lane < 2 || lane > 9:
		find("lane-unknown", "it is dead, and a redrive would put it into a lane that claims do not read", mend)
	case !broker.State(state).Final():
		find("state-unknown", "its record has a state that no version wrote", mend)
	}
	return id, o, wrong, nil
}

// uniqueKey reads a row of examine_keys.sql.
func (e *examiner) uniqueKey(r rows) (key string, o owner, wrong []noted, err error) {
	var holder string
	var mode int16
	var state *int16
	var its *string
	var ends, dead bool
	var ended int
	if err = r.Scan(&key, &o.number, &o.name, &o.layout, &holder, &mode, &ends, &state, &its, &ended, &dead); err != nil {
		return key, o, nil, err
	}
	find := func(code, about, what string, args ...any) {
		wrong = []noted{{told(code, o.String(), about, what, args...), e.run(e.b.step("examine_free", nil, key, o.number, holder))}}
	}
	window := broker.UniqueMode(mode) == broker.UniqueWindow
	switch {
	case o.name == nil:
		find("row-without-queue", key, "a unique key is held in queue number %d, which does not exist", o.number)
	case window && !ends:
		find("unique-window-never-lapses", key, "the window of the key has no end")
	case window:
	case state == nil && dead:
		find("unique-key-of-ended-job", holder, "it is dead and still holds the unique key %q", key)
	case state == nil:
		find("unique-key-of-missing-job", holder, "it holds the unique key %q and is not stored", key)
	case its == nil || *its != key || broker.UniqueMode(mode) == broker.UniqueUntilStarted && broker.State(*state) == broker.StateActive:
		find("unique-key-of-ended-job", holder, "it is %v and still holds the unique key %q", broker.State(*state), key)
	}
	return key, o, wrong, nil
}

// kept reads rows of examine_remembered.sql or examine_workers.sql.
func (e *examiner) kept(what string, repair func(id string, o owner) step) rowCheck {
	return func(r rows) (id string, o owner, wrong []noted, err error) {
		drained := false
		err = r.Scan(&id, &o.number, &o.name, &o.layout, &drained)
		switch mend := e.run(repair(id, o)); {
		case err != nil:
		case o.name == nil:
			wrong = []noted{{told("row-without-queue", "", id, "%s in queue number %d, which does not exist", what, o.number), mend}}
		case drained:
			wrong = []noted{{told("worker-alive-and-ended", o.String(), id, "it is alive, and counts as having no lease left"), mend}}
		}
		return id, o, wrong, err
	}
}

// turns checks that new jobs get higher seqs than all pending jobs have.
func (e *examiner) turns(ctx context.Context) error {
	var highest, last int64
	if err := e.b.run(ctx, e.b.byIndex(true), e.b.step("examine_turns", one(&highest, &last, &e.Records))); err != nil {
		return err
	}
	if highest <= last {
		return nil
	}
	return e.note(ctx, noted{told("turns-behind", "", "job_seq", "a job has seq %d, but the last one that was given is %d", highest, last),
		e.run(e.b.step("examine_sequences", nil, highest, nil))})
}

// mark reads a row of examine_marks.sql.
func (e *examiner) mark(r rows) (name string, _ owner, wrong []noted, err error) {
	var fence, given int64
	if err = r.Scan(&name, &fence, &given); err == nil && fence > given {
		wrong = []noted{{told("mark-fence-behind", "", name, "its fence is %d, the last one given out is %d", fence, given),
			e.run(e.b.step("examine_sequences", nil, nil, fence))}}
	}
	return name, owner{}, wrong, err
}

// verdict reads a row of examine_verdicts.sql.
func (e *examiner) verdict(r rows) (number string, o owner, wrong []noted, err error) {
	var n int64
	gone := false
	if err = r.Scan(&n, &o.number, &gone); gone {
		wrong = []noted{{told("verdicts-of-unknown-worker", "", itoa(o.number), "verdicts are kept for worker number %d, which is gone",
			o.number), e.run(e.b.step("examine_unsettle", nil, o.number))}}
	}
	return itoa(n), o, wrong, err
}
