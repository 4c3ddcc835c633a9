package dashboard

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"slices"

	"github.com/seed81422ce9/jobs/broker"
	"github.com/seed81422ce9/jobs/inspect"
)

// undo holds what is needed to undo a decision about named jobs. A redrive can be
// undone for jobs that no worker has claimed since; suppressing and unsuppressing, for
// all.
type undo struct {
	verb verb
	was  map[string][]broker.Job // by queue, before the decision
}

func (u *undo) jobs() (n int) {
	for _, was := range u.was {
		n += len(was)
	}
	return n
}

// remembered holds the jobs of a bulk operation as they were before it. It holds nothing if there are
// too many.
type remembered struct {
	undo
	size   int
	beyond bool
}

const (
	maxUndo      = 10_000   // jobs that one undo can restore in a few seconds
	maxUndoBytes = 16 << 20 // total size of their errors, which are the largest part
)

// add records a job that is about to be changed.
func (b *remembered) add(j *broker.Job) {
	if _, ok := undoable[b.verb.Name]; !ok || b.beyond {
		return
	}
	for _, f := range j.Errors.Entries {
		b.size += len(f.Message) + len(f.Stack)
	}
	if b.jobs() >= maxUndo || b.size > maxUndoBytes {
		b.was, b.beyond = nil, true
		return
	}
	b.was[j.Queue] = append(b.was[j.Queue], *j)
}

// undoable has the verbs that can be undone, each with the verb that undoes it; a redrive is undone
// differently.
var undoable = map[string]string{"redrive": "", "suppress": "unsuppress", "unsuppress": "suppress"}

// before reads the jobs of a decision as they are before it. If that fails, the
// decision is still carried out, but cannot be undone.
func (h *Handler) before(ctx context.Context, v verb, queue string, ids []string) []broker.Job {
	if _, ok := undoable[v.Name]; !ok {
		return nil
	}
	var was []broker.Job
	for part := range slices.Chunk(ids, pageRecords) {
		page, err := h.inspector.List(ctx, inspect.Query{Queue: queue, IDs: part, Suppressed: true, NoPayload: true})
		if err != nil {
			return nil
		}
		was = append(was, slices.DeleteFunc(page.Jobs, func(j broker.Job) bool { return !v.Possible(j.State) })...)
	}
	return was
}

// undo undoes the decision of a notice. It finishes even if the client is gone.
func (h *Handler) undo(w http.ResponseWriter, r *http.Request) error {
	id := r.URL.Query().Get("of")
	n := h.notices.get(id)
	if n == nil || n.undo == nil {
		return &pageError{http.StatusConflict,
			"This can no longer be undone: it was undone already, or other decisions followed, or another process made it."}
	}
	who, err := h.authorize(r, n.undo.verb.action)
	if err != nil {
		return err
	}
	u := h.notices.take(id)
	if u == nil {
		return &pageError{http.StatusConflict, "This was undone already."}
	}
	var total inspect.Report
	for _, queue := range slices.Sorted(maps.Keys(u.was)) {
		was := u.was[queue]
		var report inspect.Report
		if back, ok := verbNamed(undoable[u.verb.Name]); ok {
			ids := make([]string, 0, len(was))
			for i := range was {
				ids = append(ids, was[i].ID)
			}
			for part := range slices.Chunk(ids, pageRecords) {
				var one inspect.Report
				one, err = back.do(h.closing, h.inspector.Select(inspect.Query{Queue: queue, IDs: part, Suppressed: true}), 0)
				if report.Add(one); err != nil {
					break
				}
			}
		} else {
			report, err = h.inspector.UndoRedrive(h.closing, queue, was)
		}
		total.Add(report)
		if report.Refused > 0 { // the notice says so
			err = nil
		}
		h.audit(who, "undo "+u.verb.Name, err, "queue", queue, "jobs", len(was), "done", report.Done, "refused", report.Refused)
		if err != nil {
			break
		}
	}
	h.poller.changed()
	if err != nil {
		return err
	}
	said := fmt.Sprintf("Undone for %s of %s jobs.", num(int64(total.Done)), num(int64(total.Done+total.Refused)))
	if total.Refused > 0 {
		said += " The others were claimed or changed meanwhile."
	}
	query := "state=dead&notice=" + h.notices.put(notice{Text: said, Wrong: total.Refused > 0})
	redirect(w, "jobs", query)
	return nil
}
