package pgbroker

import (
	"cmp"
	"context"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/seed81422ce9/jobs/broker"
)

// Rows are examined table by table, not queue by queue, since the fault of a row may be
// that its queue does not lead to it.
var (
	rowParts    = []string{"jobs", "dead", "history", "unique keys", "remembered", "workers", "counts"}
	examinePlan = broker.ExaminePlan{
		Store: append([]string{"server", "schema", "days", "turns", "marks", "verdicts"}, rowParts...),
		Queue: rowParts,
	}
)

// Examine makes one step. It reads in one snapshot, which shows other transactions completely
// or not at all. A repair is one transaction: it locks the rows, reads them again, and changes
// what is still wrong. §23.
func (b *Broker) Examine(ctx context.Context, req broker.ExamineRequest) (_ broker.Examined, err error) {
	defer about(&err, "examine", req.Queue)
	at, refused := examinePlan.Read(&req)
	if err := cmp.Or(b.usable(ctx), req.Check(), refused); err != nil {
		return broker.Examined{}, err
	}
	e := &examiner{b: b, req: &req, now: clockOf(req.Now), Examined: broker.Examined{Queue: at.Queue, Part: at.Part}}
	var now int64
	err = b.run(ctx, b.step("clock", one(&now), e.now.micros))
	e.Now = broker.FromMicros(now)
	pos := ""
	if err == nil {
		pos, err = e.part(ctx, at)
	}
	if err == nil {
		e.Cursor, err = examinePlan.Next(&req, at, pos, func(string) (string, error) { return "", nil })
	}
	return e.Examined, err
}

// examiner is one step of an examination.
type examiner struct {
	broker.Examined
	b   *Broker
	req *broker.ExamineRequest
	now clock
}

func (e *examiner) part(ctx context.Context, at broker.ExamineCursor) (pos string, err error) {
	after, number, err := readPlace(at)
	if err != nil {
		return "", err
	}
	switch at.Part {
	case "server":
		return "", e.server(ctx)
	case "schema":
		return "", e.schema(ctx)
	case "days":
		return "", e.days(ctx)
	case "turns":
		return "", e.turns(ctx)
	case "counts":
		return "", e.counts(ctx)
	case "jobs":
		return e.jobs(ctx, after, number)
	}
	return e.rows(ctx, at.Part, after, number)
}

// noted is a finding of this step, and how to repair it.
type noted struct {
	broker.Finding
	repair func(context.Context) error // nil: there is no repair
}

// note records the findings about the requested queue, and repairs them if the request asks
// for it.
func (e *examiner) note(ctx context.Context, found ...noted) error {
	for _, n := range found {
		if e.req.Queue != "" && n.Queue != e.req.Queue {
			continue
		}
		var err error
		switch {
		case !e.req.Fix:
			n.Left = ""
		case n.repair == nil:
			n.Left = cmp.Or(n.Left, "it cannot be repaired from here")
		default:
			if err = n.repair(ctx); err != nil {
				n.Left = "the repair failed"
			}
			n.Fixed = err == nil
		}
		e.Findings = append(e.Findings, n.Finding)
		if err != nil {
			return err
		}
	}
	return nil
}

func told(code, queue, id, what string, args ...any) broker.Finding {
	return broker.Finding{FindingKind: kinds.Of(code), Queue: queue, ID: id, What: fmt.Sprintf(what, args...)}
}

// run returns a repair that runs the steps.
func (e *examiner) run(steps ...step) func(context.Context) error {
	return func(ctx context.Context) error { return e.b.run(ctx, append([]step{e.b.byIndex(false)}, steps...)...) }
}

// readPlace returns the name, and the number of its queue, after which a page begins; for verdicts, their number and their worker's.
func readPlace(at broker.ExamineCursor) (name string, queue int64, err error) {
	if at.Pos == "" {
		return "", 0, nil
	}
	number, name, _ := strings.Cut(at.Pos, "/")
	bits := 32
	if at.Part == "verdicts" {
		bits = 64
	}
	queue, err = strconv.ParseInt(number, 10, bits)
	if err != nil || !utf8.ValidString(name) || strings.Contains(name, "\x00") {
		return "", 0, broker.Invalid("cursor", "%.64q is none that Examine gave; begin without one", at.Pos)
	}
	return name, queue, nil
}

func writePlace(name string, queue int64) string { return strconv.FormatInt(queue, 10) + "/" + name }

// owner is the queue of a row.
type owner struct {
	number int64
	name   *string // nil when there is no such queue
	layout int
}

func (o *owner) String() string {
	if o.name != nil {
		return *o.name
	}
	return ""
}

// newer reports whether the queue has a newer layout, which this program cannot examine.
func (o *owner) newer() bool { return o.layout > knownLayout }

// recover returns the finding that the queue of a row is gone. Its repair creates the queue
// again.
func (e *examiner) recover(o owner, id string) noted {
	return noted{told("queue-record-missing", "", id, "its row is of queue number %d, which does not exist", o.number),
		e.run(e.b.step("examine_recover", nil, o.number))}
}

// counts compares the stored counts of jobs with the jobs.
func (e *examiner) counts(ctx context.Context) error {
	var queue *string
	if e.req.Queue != "" {
		queue = &e.req.Queue
	}
	var found []noted
	newer := each(func(r rows) error {
		var name string
		var layout int
		err := r.Scan(&name, &layout)
		if layout > knownLayout {
			found = append(found, noted{Finding: told("layout-newer", name, "", "its layout is %d, this program knows up to %d", layout,
				knownLayout)})
		}
		return err
	})
	var differ []difference
	floor, read := e.b.deltas.look().floor, list(&differ, (*difference).columns)
	steps := []step{{sql: "select set_config('statement_timeout', '20000', true)"}, e.b.step("examine_layouts", newer, queue)}
	if e.req.Fix {
		steps = append(steps, e.b.step("examine_alone", nil, lockNumber("counts", e.b.config.Schema)),
			e.b.step("examine_recount", read, queue, floor))
	} else {
		steps = append(steps, e.b.step("examine_counts", read, queue, floor))
	}
	err := e.b.run(ctx, steps...)
	if sqlState(err) == queryCanceled {
		return e.note(ctx, noted{Finding: told("counts-not-compared", e.req.Queue, "",
			"counting the jobs would have taken more than 20 s")})
	}
	if err != nil {
		return err
	}
	e.Records = len(differ)
	for _, d := range differ {
		for i, by := range d.by {
			if by != 0 {
				f := told("count-differs", d.name, differing[i], "there are %d more %v jobs than are counted", by, differing[i])
				if differing[i] == "bytes" {
					f = told("count-differs", d.name, differing[i], "there are %d more bytes than are counted", by)
				}
				f.Fixed = e.req.Fix
				e.Findings = append(e.Findings, f)
			}
		}
	}
	return e.note(ctx, found...)
}

// differing has the names of the compared counts, in the order of the columns.
var differing = func() (names []string) {
	for _, s := range counted {
		names = append(names, s.String())
	}
	return append(names, "suppressed", "bytes")
}()

// difference says by how much the counts of a queue are too low.
type difference struct {
	name string
	by   [len(counted) + 2]int64 // as differing names them
}

func (d *difference) columns() []any {
	all := []any{nil, &d.name}
	for i := range d.by {
		all = append(all, &d.by[i])
	}
	return all
}
