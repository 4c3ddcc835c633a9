package dashboard

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"sync"
	"time"

	"github.com/seed81422ce9/jobs/broker"
	"github.com/seed81422ce9/jobs/inspect"
)

// bulkWork holds the bulk operations of the handler: decisions about all jobs that a
// filter selects. They run in the background, even if the page that began them is
// closed.
type bulkWork struct {
	mu  sync.Mutex
	all []*operation // oldest first
}

const (
	maxBulk  = 4  // running operations
	keptBulk = 50 // ended operations
	maxRate  = 10_000
)

// operation is one decision about many jobs. The fields above mu never change.
type operation struct {
	id    string
	verb  verb
	about string // the filter in words
	who   string
	rate  int
	begun time.Time
	most  int64 // number of jobs, by the counters; -1 if the filter selects less than the counters count
	stop  context.CancelCauseFunc

	mu     sync.Mutex
	report inspect.Report
	ended  time.Time
	err    error
	notice string // ID of the notice that can undo it, once it has ended
	beyond bool   // it cannot be undone: too many jobs were changed or refused
}

var errStopped = errors.New("it was stopped")

// running counts the operations that have not ended.
func (b *bulkWork) running() int { return running(b.list()) }

func running(all []*operation) (n int) {
	for _, o := range all {
		if o.Ended().IsZero() {
			n++
		}
	}
	return n
}

func (b *bulkWork) list() []*operation {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Clone(b.all)
}

func (b *bulkWork) add(o *operation) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if running(b.all) >= maxBulk {
		return false
	}
	if b.all = append(b.all, o); len(b.all) > keptBulk+maxBulk {
		if at := slices.IndexFunc(b.all, func(old *operation) bool { return !old.Ended().IsZero() }); at >= 0 {
			b.all = slices.Delete(b.all, at, at+1)
		}
	}
	return true
}

// startBulk begins a decision about all jobs that the filter in the URL selects,
// perhaps limited to a group of dead jobs.
func (h *Handler) startBulk(w http.ResponseWriter, r *http.Request) error {
	b, err := h.readBulk(r)
	if err != nil {
		return err
	}
	if b.narrow() { // the number that the user confirmed, if any
		if b.most, err = parseCount("Number", r.PostFormValue("number")); err != nil || b.most == 0 {
			b.most = -1
		}
	}
	ctx, stop := context.WithCancelCause(h.closing)
	o := &operation{id: rand.Text(), verb: b.verb, about: b.about, who: b.who, rate: int(b.rate),
		begun: time.Now(), most: b.most, stop: stop}
	if !h.bulk.add(o) {
		stop(nil)
		return &pageError{http.StatusConflict, fmt.Sprintf("%d operations are running already. Wait for one to end, or stop it.", maxBulk)}
	}
	if !h.goWhileOpen(func() { h.runBulk(ctx, o, b) }) {
		return errClosed
	}
	h.audit(b.who, b.verb.Name, nil, "operation", o.id, "filter", o.about, "rate", o.rate, "jobs", b.most)
	redirect(w, link("work", "notice", h.notices.add("It has begun. It continues when this page is closed.")), "")
	return nil
}

func (h *Handler) runBulk(ctx context.Context, o *operation, b bulkOf) {
	defer o.stop(nil)
	var total inspect.Report
	var err error
	back := remember(b.verb)
	for _, q := range b.queries {
		done := total
		s := b.selection(h.inspector, q, back.add).PerSecond(o.rate).OnProgress(func(r inspect.Report) {
			sum := done
			sum.Add(r)
			o.progress(sum)
		})
		var report inspect.Report
		report, err = o.verb.do(ctx, s, b.delay)
		back.drop(report)
		total.Add(report)
		o.progress(total)
		if err != nil {
			break
		}
	}
	switch {
	case h.closing.Err() != nil && err != nil:
		err = errClosed
	case errors.Is(context.Cause(ctx), errStopped) && err != nil:
		err = errStopped
	}
	notice := ""
	if back.jobs() > 0 && total.Done > 0 {
		notice = h.notices.way(&back.undo)
	}
	o.mu.Lock()
	o.ended, o.err, o.notice, o.beyond = time.Now(), err, notice, back.beyond
	o.mu.Unlock()
	h.poller.changed()
	h.log.Info("jobs dashboard: an operation ended", "who", o.who, "action", o.verb.Name, "operation", o.id, "filter", o.about,
		"done", total.Done, "refused", total.Refused, "newer", total.Newer, "error", err)
}

func (o *operation) progress(r inspect.Report) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.report = r
}

// Ended returns when the operation ended, or the zero time.
func (o *operation) Ended() time.Time {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.ended
}

func (h *Handler) stopBulk(w http.ResponseWriter, r *http.Request) error {
	id := r.URL.Query().Get("operation")
	all := h.bulk.list()
	at := slices.IndexFunc(all, func(o *operation) bool { return o.id == id })
	if at < 0 {
		return notFound("There is no such operation here: it ended long ago, or another process runs it.")
	}
	stop := func(context.Context, string) (string, error) {
		all[at].stop(errStopped)
		return "It ends after the current step. What was done stays done.", nil
	}
	return h.carryOut(w, r, decision{action: all[at].verb.action, verb: "stop", about: []any{"operation", id}, do: stop, to: []string{"work"}})
}

// queries returns the filter's query for each queue, and the number of jobs by the
// counters. With suppressed set, both are of suppressed jobs alone.
func (f filter) queries(s *snapshot, suppressed bool) (all []inspect.Query, most int64, err error) {
	for _, q := range s.survey.of(f.Queue) {
		query, err := f.query(q.Now)
		if err != nil {
			return nil, 0, err
		}
		query.Queue = q.Name
		n := q.Listed(query.State)
		if query.Suppressed && query.State == broker.StateDead {
			n += q.Suppressed
		}
		if suppressed {
			n = q.Suppressed
		}
		if n > 0 || query.State == broker.StateNone {
			most += n
			all = append(all, query)
		}
	}
	if len(all) == 0 {
		return nil, 0, errNoneLeft
	}
	return all, most, nil
}

var errNoneLeft = &pageError{http.StatusConflict, "There are no such jobs any more."}

// groupOf returns the group of dead jobs that a URL names, or nil.
func groupOf(q url.Values) *inspect.Group {
	if !q.Has("like") {
		return nil
	}
	return &inspect.Group{Type: q.Get("of-type"), Fingerprint: q.Get("like")}
}

// operationRow is an operation as its page shows it.
type operationRow struct {
	ID, Verb, About, Who string
	Rate                 int
	Took                 time.Duration
	Running              bool
	Report               inspect.Report
	Refusals             []string
	Most                 int64
	Error                string
	MayStop              bool
	Undo                 string // URL; empty if it cannot be undone
	Beyond               bool   // it cannot be undone, see operation
}

// work lists the bulk operations.
func (h *Handler) work(w http.ResponseWriter, r *http.Request) error {
	v := h.view(r, "work", "Bulk operations")
	var rows []operationRow
	for _, o := range h.bulk.list() {
		o.mu.Lock()
		row := operationRow{ID: o.id, Verb: o.verb.Label, About: o.about, Who: o.who, Rate: o.rate, Report: o.report, Most: o.most,
			Running: o.ended.IsZero(), Took: o.ended.Sub(o.begun), MayStop: v.May(o.verb.action), Beyond: o.beyond}
		if row.Running {
			row.Took = time.Since(o.begun)
		}
		switch {
		case errors.Is(o.err, errStopped), errors.Is(o.err, errClosed):
			row.Error = "Stopped."
		case o.err != nil:
			_, row.Error = describe(o.err)
		}
		if n := h.notices.get(o.notice); n != nil && v.May(o.verb.action) {
			row.Undo = n.Undo()
		}
		for _, f := range o.report.Refusals[:min(5, len(o.report.Refusals))] {
			row.Refusals = append(row.Refusals, text(f.ID)+": "+why(f))
		}
		o.mu.Unlock()
		rows = append(rows, row)
	}
	slices.Reverse(rows) // the newest first
	return v.show(w, r, "work", rows)
}
